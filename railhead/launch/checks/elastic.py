"""Can the run go on with fewer nodes, as its file says?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.launch.asked import Asked

ORDER = 16


def check(asked: Asked) -> list[Finding]:
    """Refuse ``min_nodes`` of a TrainJob (docs/decisions/0013-one-size.md)."""
    fewest = asked.plan.min_nodes
    if fewest is None or asked.api is not None:
        return []
    return [
        Finding(
            name="min_nodes",
            passed=False,
            text=f"min_nodes: {fewest} is not possible with a TrainJob, whose gang has one size",
            remedy="leave it out: a gang that loses a node is recreated from its last checkpoint; "
            "or have the job written as one that can, --api pytorchjob",
        )
    ]
