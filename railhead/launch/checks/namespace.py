"""Does the queue's namespace exist?"""

from __future__ import annotations

from dataclasses import replace

from railhead.base.finding import Finding
from railhead.launch.asked import Asked, existing
from railhead.launch.schedulers import SCHEDULERS

ORDER = 30


def check(asked: Asked) -> list[Finding]:
    """Who may not read the namespace and sees the queue in it has seen it."""
    name, queue = asked.plan.namespace, asked.plan.queue
    found, _ = existing(asked, "namespace", f"/api/v1/namespaces/{name}", f"namespace {name}")
    scheduler = SCHEDULERS[asked.plan.scheduler]
    if found.passed is None and scheduler.local:
        path = scheduler.path(asked.plan)
        inside, _ = existing(asked, "namespace", path, f"queue {name}/{queue}")
        if inside.passed:
            found = replace(found, passed=True, text=f"namespace {name} is there: {inside.text}")
    return [found]
