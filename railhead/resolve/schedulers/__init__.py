"""Schedulers that admit gangs: one file each, by the name in a stack's ``queueing``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.model.cluster import Cluster
from railhead.resolve.schedulers import kueue, volcano
from railhead.resolve.schedulers.base import Scheduler

SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {scheduler.name: scheduler for scheduler in (kueue.SCHEDULER, volcano.SCHEDULER)}
)


def scheduler_of(cluster: Cluster) -> Scheduler:
    """Return the scheduler of a stack."""
    return SCHEDULERS[cluster.queueing.scheduler]
