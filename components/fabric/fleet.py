"""The nodes of a stack's pools as operators take them: labels, number, taints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from railhead.model.cluster import Pool

# Image pulls and a driver's compilation on the first nodes, and then so much for each of the rest:
# 300 s failed again and again, and 3600 s were enough for 180 nodes (METR/hawk #1363, #1367).
BASE_SECONDS = 1200
SECONDS_PER_NODE = 15
LABEL_MOFED_WAIT = "network.nvidia.com/operator.mofed.wait"


def nodes(pools: Sequence[Pool]) -> int:
    """Return the number of nodes of all pools."""
    return sum(pool.nodes for pool in pools)


def patience(pools: Sequence[Pool]) -> int:
    """Return the seconds to wait for something to be on every node."""
    return BASE_SECONDS + SECONDS_PER_NODE * nodes(pools)


def tolerations(pools: Sequence[Pool]) -> list[dict[str, Any]]:
    """Return the tolerations of pods that run on every node of every pool."""
    results: list[dict[str, Any]] = [
        # What NVIDIA's and the clouds' GPU pools are commonly tainted with.
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    for pool in pools:
        for toleration in pool.tolerations:
            given = {k: v for k, v in toleration.model_dump().items() if v is not None}
            if given not in results:
                results.append(given)
    return results


def affinity(pools: Sequence[Pool]) -> dict[str, Any]:
    """Return the required node affinity: nodes of any of the pools."""
    return {"requiredDuringSchedulingIgnoredDuringExecution": node_selector(pools)}


def node_selector(pools: Sequence[Pool]) -> dict[str, Any]:
    """Return a NodeSelector of the nodes of any of the pools."""
    return {"nodeSelectorTerms": [{"matchExpressions": _expressions(pool)} for pool in pools]}


def _expressions(pool: Pool) -> list[dict[str, Any]]:
    return [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in pool.node_selector.items()
    ]
