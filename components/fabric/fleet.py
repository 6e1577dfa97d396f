"""What operators must know of a stack's nodes: which, how many, what they are tainted with."""

from __future__ import annotations

from typing import Any

from railhead.model.cluster import Cluster, Pool

# Image pulls and a driver's compilation on the first nodes, and then so much for each of the rest:
# 300 s failed again and again, and 3600 s were enough for 180 nodes (METR/hawk #1363, #1367).
BASE_SECONDS = 1200
SECONDS_PER_NODE = 15
LABEL_MOFED_WAIT = "network.nvidia.com/operator.mofed.wait"


def nodes(cluster: Cluster) -> int:
    """Nodes of all pools."""
    return sum(pool.nodes for pool in cluster.pools)


def patience(cluster: Cluster) -> int:
    """Seconds to wait for something to be on every node."""
    return BASE_SECONDS + SECONDS_PER_NODE * nodes(cluster)


def tolerations(cluster: Cluster) -> list[dict[str, Any]]:
    """What pods on every node of every pool must tolerate."""
    found: list[dict[str, Any]] = [
        # What NVIDIA's and the clouds' GPU pools are commonly tainted with.
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    for pool in cluster.pools:
        for toleration in pool.tolerations:
            given = {k: v for k, v in toleration.model_dump().items() if v is not None}
            if given not in found:
                found.append(given)
    return found


def affinity(cluster: Cluster) -> dict[str, Any]:
    """Required node affinity: nodes of any of the pools."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": node_selector(cluster)}


def node_selector(cluster: Cluster) -> dict[str, Any]:
    """A NodeSelector of the nodes of any of the pools."""
    return {
        "nodeSelectorTerms": [{"matchExpressions": _expressions(pool)} for pool in cluster.pools]
    }


def _expressions(pool: Pool) -> list[dict[str, Any]]:
    return [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in pool.node_selector.items()
    ]
