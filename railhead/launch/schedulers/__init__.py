"""Schedulers that admit the jobs of a cluster: one file each, by the name in the contract."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.launch.schedulers import kueue, volcano
from railhead.launch.schedulers.base import Scheduler

SCHEDULERS: Mapping[str, Scheduler] = MappingProxyType(
    {item.name: item for item in (kueue.SCHEDULER, volcano.SCHEDULER)}
)
