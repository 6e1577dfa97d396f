"""Is the runtime that the contract promises in the cluster?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.launch.asked import Asked, existing

ORDER = 5


def check(asked: Asked) -> list[Finding]:
    """Check that the runtime exists, by name alone; its contents are the stack's business."""
    name = asked.plan.runtime
    what = f"ClusterTrainingRuntime {name}"
    return [existing(asked, "runtime", kube.training_runtime(name), what)[0]]
