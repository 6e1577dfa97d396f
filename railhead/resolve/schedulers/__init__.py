"""Who admits gangs: one file each, by the name that a stack gives under ``queueing``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.model.cluster import Cluster
from railhead.resolve.schedulers import kueue, volcano
from railhead.resolve.schedulers.base import Scheduler

SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {one.name: one for one in (kueue.SCHEDULER, volcano.SCHEDULER)}
)


def scheduler_of(cluster: Cluster) -> Scheduler:
    """The stack's."""
    return SCHEDULERS[cluster.queueing.scheduler]
