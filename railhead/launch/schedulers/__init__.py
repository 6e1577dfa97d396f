"""Who admits the jobs of a cluster: one file each, by the name that its contract gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.launch.schedulers import kueue, volcano
from railhead.launch.schedulers.base import Scheduler

SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {one.name: one for one in (kueue.SCHEDULER, volcano.SCHEDULER)}
)
