"""Queues of a stack whose gangs Kueue admits."""

from __future__ import annotations

from railhead.resolve.cluster import Resolved
from railhead.resolve.queues import Queues


def kueues(resolved: Resolved) -> Queues:
    assert isinstance(resolved.queues, Queues)
    return resolved.queues
