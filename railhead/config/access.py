"""Checks of who may do what, and of what stands around training namespaces."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.sections import Problem, taken
from railhead.model.cluster import Cluster
from railhead.model.pod_security import beyond_baseline


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message) about access; none of a consistent cluster."""
    yield from taken(
        cluster.access.image_pull_secrets, "access.image_pull_secrets", lambda row: (row.name,)
    )
    yield from _level(cluster)


def _level(cluster: Cluster) -> Iterator[Problem]:
    level, beyond = cluster.access.pod_security, beyond_baseline(cluster.fabric)
    if level == "restricted":
        yield (
            "access.pod_security",
            "'restricted' refuses the stack's own pods, whose images run as root; leave it out, or "
            "say 'baseline'",
        )
    elif level == "baseline" and beyond:
        yield (
            "access.pod_security",
            f"'baseline' refuses the stack's own pods: the fabric needs {', '.join(beyond)}; leave "
            "it out: the guard railhead-node-reach holds pods to the baseline and that alone",
        )
