"""Does the queue's namespace exist?"""

from __future__ import annotations

from dataclasses import replace

from railhead.base.finding import Finding
from railhead.launch.asked import Asked, existing
from railhead.launch.schedulers import SCHEDULERS

ORDER = 30


def check(asked: Asked) -> list[Finding]:
    """Check that the namespace exists; seeing its queue is enough for users who may not read it."""
    name, queue = asked.plan.namespace, asked.plan.queue
    result, _ = existing(asked, "namespace", f"/api/v1/namespaces/{name}", f"namespace {name}")
    scheduler = SCHEDULERS[asked.plan.scheduler]
    if result.passed is None and scheduler.local:
        path = scheduler.path(asked.plan)
        inside, _ = existing(asked, "namespace", path, f"queue {name}/{queue}")
        if inside.passed:
            result = replace(result, passed=True, text=f"namespace {name} is there: {inside.text}")
    return [result]
