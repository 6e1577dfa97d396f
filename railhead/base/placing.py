"""Annotations by which Kueue places a pod that is no part of a gang."""

from __future__ import annotations

from collections.abc import Collection

from railhead.base.names import UNCONSTRAINED_TOPOLOGY


def unplaced(pools: Collection[str], queued: Collection[str]) -> dict[str, str]:
    """Return the annotations that a pod needs that may run on any node of its queue's pools.

    Kueue gives a place to a pod that asks for none where every flavor of the queue has a topology.
    If a queue has some without one, those of queued pools, flavors with one refuse such a pod
    (v0.16.2, pkg/cache/scheduler/clusterqueue.go, isTASOnly, and tas_flavorassigner.go,
    checkPodSetAndFlavorMatchForTAS), and it waits for nodes that come for gangs alone.

    Args:
        pools: those of the queue.
        queued: those whose nodes come for one gang at a time.
    """
    waits = set(pools) & set(queued)
    return {UNCONSTRAINED_TOPOLOGY: "true"} if waits and waits < set(pools) else {}
