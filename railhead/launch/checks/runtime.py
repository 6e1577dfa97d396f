"""Is the runtime that the contract promises in the cluster?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.launch.asked import Asked, existing

ORDER = 5


def check(asked: Asked) -> list[Finding]:
    """By its name alone: what it says is the stack's."""
    name = asked.plan.runtime
    what = f"ClusterTrainingRuntime {name}"
    return [existing(asked, "runtime", kube.training_runtime(name), what)[0]]
