"""Facts of a cluster before anything runs: its contract, its nodes, its idle quota."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from railhead.accept.site import Facts
from railhead.base.errors import InputError, PrerequisiteError, choices
from railhead.contract import ClusterContract, NodePool, Queue, Runtime
from railhead.kube import client as kube
from railhead.kube import nodes as live_nodes
from railhead.kube.published import read_contract
from railhead.kube.queues import quota

Object = Mapping[str, Any]

#: KWOK's own mark of a node that it plays (site/content/en/docs/user/configuration.md, v0.8.0).
SIMULATED = "kwok.x-k8s.io/node"
#: What its nodes carry where only labels were set.
_SIMULATED_TYPE = ("type", "kwok")
_FRAMEWORK = "torch"
_HARDWARE_LABELS = {
    "nvidia.com/gpu.product": "GPU",
    "nvidia.com/cuda.driver-version.full": "GPU driver",
    "node.kubernetes.io/instance-type": "instance type",
}
_SYSTEM = {
    "kernelVersion": "kernel",
    "osImage": "operating system",
    "kubeletVersion": "kubelet",
    "containerRuntimeVersion": "container runtime",
}


def facts(
    cluster: kube.Cluster,
    *,
    runtime: str | None = None,
    queue: str | None = None,
    namespace: str | None = None,
    nodes: str | None = None,
    quick: bool = False,
    may_lose: Sequence[str] = (),
    lose_with: str | None = None,
) -> Facts:
    """Read the contract and the live nodes.

    Args:
        cluster: the connection.
        runtime: with which the checks train; the first of torch's when absent.
        queue: in which they wait; the first over the runtime's pool when absent.
        namespace: of a queue whose name several have.
        nodes: how many, or their names with commas between them; all that are ready when absent.
        quick: fewer repeats and smaller sizes.
        may_lose: nodes that may be taken away.
        lose_with: the command that takes one away, as in a shell; the node's name is appended.

    Raises:
        InputError: what was named is not there.
        PrerequisiteError: no contract, no runtime, no queue, or no node that is ready.
    """
    contract = read_contract(cluster)
    chosen = _runtime(contract, runtime)
    pool = contract.pool(chosen)
    try:
        live = live_nodes.live(cluster)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        raise PrerequisiteError(
            f"nodes may not be listed: {error.message}",
            remedy="acceptance is for who runs the cluster: use an administrator's kubeconfig",
        ) from None
    mine = ready(contract, pool, live)
    names = _named(tuple(mine), nodes, pool)
    _check_losing(names, may_lose, lose_with, pool)
    return Facts(
        contract=contract,
        runtime=chosen,
        pool=pool,
        queue=_queue(contract, chosen, queue, namespace),
        nodes=names,
        simulated=tuple(name for name in names if simulated(mine[name])),
        labels={name: dict(_labels(mine[name])) for name in names},
        quick=quick,
        priority=min(contract.priorities, key=contract.priorities.__getitem__, default=None),
        may_lose=tuple(may_lose),
        lose_with=tuple(shlex.split(lose_with or "")),
    )


def ready(contract: ClusterContract, pool: NodePool, live: Sequence[Object]) -> dict[str, Object]:
    """Return the pool's nodes that are ready and not cordoned, by name."""
    promises = [item for item in live_nodes.promised(contract) if item.pool == pool.name]
    (result,) = live_nodes.verify(promises, live)
    up = {name for name in result.nodes if name not in result.down}
    named = {str(node["metadata"]["name"]): node for node in live}
    return {name: named[name] for name in sorted(up, key=_natural)}


def simulated(node: Object) -> bool:
    """Return whether no process ever runs on a node, because KWOK plays it."""
    metadata, spec = node.get("metadata") or {}, node.get("spec") or {}
    key, value = _SIMULATED_TYPE
    return (
        SIMULATED in (metadata.get("annotations") or {})
        or _labels(node).get(key) == value
        or any(taint.get("key") == SIMULATED for taint in spec.get("taints") or ())
    )


def hardware(cluster: kube.Cluster, known: Facts) -> dict[str, str]:
    """Return what the nodes report of themselves; all values where they differ."""
    results: dict[str, set[str]] = {}
    for node in live_nodes.live(cluster):
        if node["metadata"]["name"] not in known.nodes:
            continue
        for label, name in _HARDWARE_LABELS.items():
            if value := _labels(node).get(label):
                results.setdefault(name, set()).add(value)
        info = (node.get("status") or {}).get("nodeInfo") or {}
        for key, name in _SYSTEM.items():
            if value := info.get(key):
                results.setdefault(name, set()).add(str(value))
    pool, fabric = known.pool, known.contract.fabric
    texts = {
        "pool": f"{pool.name}: {pool.nodes} x {pool.instance_type}",
        "GPUs a node": str(pool.gpus_per_node),
        "accelerator": pool.accelerator or "",
        "fabric": f"{fabric.kind}, {fabric.mode}",
        "NICs a node": f"{pool.nics}, {pool.line_rate_gbps} Gbit/s together" if pool.nics else "",
    }
    texts |= {name: ", ".join(sorted(values)) for name, values in results.items()}
    return {name: value for name, value in texts.items() if value}


def identity(cluster: kube.Cluster) -> str:
    """Return an identity that no other cluster has; the server's address where it is unreadable."""
    return live_nodes.uid(cluster) or str(cluster.server)


def idle(cluster: kube.Cluster, known: Facts) -> int | None:
    """Nodes of the pool that the queue has to give now; None where that may not be read."""
    try:
        behind = cluster.find(kube.kueue("", "clusterqueues", known.queue.cluster_queue))
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return None
    if behind is None:
        return None
    amounts = quota(behind, _flavor(known))
    if known.pool.gpu_resource not in amounts or not known.gpus:
        return None
    nominal, reserved = amounts[known.pool.gpu_resource]
    return int(max(nominal - reserved, Decimal(0)) // known.gpus)


def _flavor(known: Facts) -> str | None:
    """Return the pool's ResourceFlavor; None where an older stack did not say the queue's pools."""
    flavors = dict(zip(known.queue.pools, known.queue.flavors, strict=False))
    return flavors.get(known.pool.name)


def _runtime(contract: ClusterContract, name: str | None) -> Runtime:
    able = [r for r in contract.runtimes if r.pool is not None]
    if name is not None:
        for check in able:
            if check.name == name:
                return check
        raise InputError(
            f"--runtime {name!r} is not published by cluster {contract.cluster!r}"
            f"{choices(name, [r.name for r in able])}",
            remedy="name one of them",
        )
    if not able:
        raise PrerequisiteError(
            f"cluster {contract.cluster!r} publishes no runtime that says its pool",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    return next((r for r in able if r.framework == _FRAMEWORK), able[0])


def _queue(
    contract: ClusterContract, runtime: Runtime, name: str | None, namespace: str | None
) -> Queue:
    over = [
        q
        for q in contract.queues
        if (not q.pools or runtime.pool in q.pools) and namespace in (None, q.namespace)
    ]
    where = f" in namespace {namespace!r}" if namespace else ""
    if name is not None:
        for item in over:
            if item.name == name:
                return item
        raise InputError(
            f"--queue {name!r} is no queue over pool {runtime.pool!r}{where}"
            f"{choices(name, [q.name for q in over])}",
            remedy="name one of them",
        )
    if not over:
        raise PrerequisiteError(
            f"cluster {contract.cluster!r} has no queue over pool {runtime.pool!r}{where}",
            remedy="add one under `queues` in the cluster's stack",
        )
    return over[0]


def _named(up: tuple[str, ...], asked: str | None, pool: NodePool) -> tuple[str, ...]:
    if not up:
        raise PrerequisiteError(
            f"no node of pool {pool.name!r} is ready",
            remedy="`railhead config verify` says what each of them lacks",
        )
    if asked is None:
        return up
    if asked.isdigit():
        count = int(asked)
        if not 1 <= count <= len(up):
            raise InputError(
                f"--nodes {asked}: pool {pool.name!r} has {len(up)} nodes that are ready; "
                f"allowed: 1 to {len(up)}",
                remedy=f"--nodes {len(up)}, or leave it out",
            )
        return up[:count]
    names = tuple(dict.fromkeys(name.strip() for name in asked.split(",")))
    for name in names:
        if name not in up:
            raise InputError(
                f"--nodes {name!r}: no node of pool {pool.name!r} that is ready{choices(name, up)}",
                remedy="name nodes that are ready, with commas between them, or how many",
            )
    return names


def _check_losing(
    up: Sequence[str], may_lose: Sequence[str], lose_with: str | None, pool: NodePool
) -> None:
    if bool(may_lose) != bool(lose_with):
        raise InputError(
            "--may-lose and --lose-with go together: which nodes, and the command that takes one "
            "of them away",
            remedy="--may-lose NODE --lose-with 'COMMAND', to which the node's name is appended",
        )
    for name in may_lose:
        if name not in up:
            raise InputError(
                f"--may-lose {name!r}: no node of pool {pool.name!r} that takes part"
                f"{choices(name, up)}",
                remedy="name nodes that are ready",
            )


def _labels(node: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(p), "") if p.isdigit() else (-1, p) for p in re.split(r"(\d+)", name)]
