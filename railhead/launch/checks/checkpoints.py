"""Does the checkpoint claim that the runtime mounts exist?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.launch.asked import Asked, existing

ORDER = 50


def check(asked: Asked) -> list[Finding]:
    """Nothing where the job has no claim."""
    plan = asked.plan
    if plan.checkpoint_claim is None:
        return []
    path = kube.core(plan.namespace, "persistentvolumeclaims", plan.checkpoint_claim)
    what = f"checkpoint claim {plan.namespace}/{plan.checkpoint_claim}"
    return [existing(asked, "checkpoints", path, what)[0]]
