"""KueueQueues of a stack whose gangs Kueue admits."""

from __future__ import annotations

from railhead.resolve.cluster import Resolved
from railhead.resolve.queues import KueueQueues


def kueues(resolved: Resolved) -> KueueQueues:
    assert isinstance(resolved.queues, KueueQueues)
    return resolved.queues
