"""The quota of a team's queues, what jobs hold of it, and the places of those that wait."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from railhead.base.quantity import show
from railhead.contract import ClusterContract, NodePool
from railhead.kube import client as kube
from railhead.kube import jobs, nodes
from railhead.kube.jobs import JobState, Phase
from railhead.kube.queues import quota
from railhead.launch import waiting
from railhead.launch.reasons import meanings

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Room:
    """The quota that a cluster queue has of one pool.

    Attributes:
        queue: the ClusterQueue's name.
        pool: the pool's name.
        gpus: its GPUs; ``used`` are those that jobs hold, more than that if some are borrowed.
        nodes: the same in nodes, of which one that is used in part counts as used.
        down: nodes of the whole pool that are absent, cordoned or otherwise not as promised; None
            where that is not known.
    """

    queue: str
    pool: str
    gpus: Decimal
    used: Decimal
    nodes: int
    nodes_used: int
    down: int | None

    @property
    def free(self) -> Decimal:
        """The GPUs of its own that no job holds."""
        return max(self.gpus - self.used, Decimal(0))

    def to_json(self) -> Object:
        """Return the row that ``--json`` prints."""
        return {
            "queue": self.queue,
            "pool": self.pool,
            "gpus": int(self.gpus),
            "gpus_used": int(self.used),
            "gpus_free": int(self.free),
            "nodes": self.nodes,
            "nodes_used": self.nodes_used,
            "nodes_down": self.down,
        }

    def row(self) -> tuple[str, ...]:
        """Return the row of the table."""
        return (
            self.queue,
            self.pool,
            f"{show(self.used)} of {show(self.gpus)}",
            show(self.free),
            f"{self.nodes_used} of {self.nodes}",
            "?" if self.down is None else str(self.down),
        )


def rooms(
    cluster: kube.Cluster,
    contract: ClusterContract,
    namespaces: Collection[str],
    down: Mapping[str, int],
) -> list[Room]:
    """Return what the queues of these namespaces have, those that this user may submit to.

    ``down`` is the result of :func:`nodes_down`.
    """
    pools = {pool.name: pool for pool in contract.node_pools}
    queues = {
        queue.cluster_queue: queue
        for queue in contract.queues
        if queue.namespace in namespaces
        and jobs.readable(cluster, kube.kueue(queue.namespace, "localqueues", queue.name))
    }
    rows: list[Room] = []
    for name, queue in queues.items():
        behind = jobs.readable(cluster, kube.kueue("", "clusterqueues", name))
        for flavor, pool in zip(queue.flavors, queue.pools, strict=False):
            amounts = quota(behind, flavor) if behind else {}
            if (gpu := pools[pool].gpu_resource) in amounts:
                rows.append(_room(name, pools[pool], *amounts[gpu], down.get(pool)))
    return rows


def _room(queue: str, pool: NodePool, gpus: Decimal, used: Decimal, down: int | None) -> Room:
    def in_nodes(amount: Decimal) -> int:
        return int((amount / (pool.gpus_per_node or 1)).to_integral_value(ROUND_CEILING))

    return Room(
        queue=queue,
        pool=pool.name,
        gpus=gpus,
        used=used,
        nodes=in_nodes(gpus),
        nodes_used=in_nodes(used),
        down=down,
    )


def nodes_down(cluster: kube.Cluster, contract: ClusterContract) -> dict[str, int]:
    """Return pool -> nodes that are not as promised; empty where they come and go, or unseen."""
    if not contract.standing:
        return {}
    try:
        live = nodes.live(cluster)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return {}
    checked = nodes.verify(nodes.promised(contract), live)
    return {item.promise.pool: max(item.promise.nodes - len(item.good), 0) for item in checked}


def waiting_of(cluster: kube.Cluster, states: Iterable[JobState]) -> list[Object]:
    """Return the jobs that do not run, by their places, as ``--json`` prints them."""
    waits = [state for state in states if state.phase is not Phase.RUNNING]
    places = _places(cluster, waits)
    rows = [
        {
            "place": places.get(state.uid),
            "name": state.name,
            "user": state.user,
            "queue": state.queue,
            "phase": state.phase.value,
            "nodes": state.wanted,
            "gpus": state.gpus,
            "age_seconds": state.age(),
            "why": "; ".join(item.text for item in meanings(state.detail)) or state.detail,
        }
        for state in waits
    ]
    return sorted(rows, key=lambda row: (row["place"] or 0, row["name"]))


def _places(cluster: kube.Cluster, states: Iterable[JobState]) -> dict[str, int]:
    """Return uid -> place of each job in its ClusterQueue, from 1, as Kueue gives it."""
    queues = {(state.namespace, state.queue) for state in states if state.phase is Phase.QUEUED}
    return {
        str(owner["uid"]): item["positionInClusterQueue"] + 1
        for namespace, queue in sorted(queues)
        for item in waiting.visible(cluster, namespace, queue)
        for owner in item["metadata"].get("ownerReferences") or []
    }
