"""Does the queue exist, is it open, and could it ever hold this job?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked
from railhead.launch.schedulers import SCHEDULERS

ORDER = 40


def check(asked: Asked) -> list[Finding]:
    """Check the queue with the cluster's scheduler."""
    return SCHEDULERS[asked.plan.scheduler].check(asked)
