"""Checks of a cluster's nodes against what its stack promises of them.

On an existing cluster only its owner creates nodes: the stack describes a pool (labels, instance
type, count), and these checks name everything that the description promises and a node lacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from railhead.base.errors import RefusedError
from railhead.base.finding import Finding
from railhead.base.quantity import parse, show
from railhead.contract import ClusterContract, Toleration
from railhead.kube import client as kube
from railhead.kube.conditions import condition, holds
from railhead.machines import MACHINES

Object = Mapping[str, Any]

INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
ARCHITECTURE_LABEL = "kubernetes.io/arch"
NODES = "/api/v1/nodes"
_MEMORY = frozenset({"memory", "ephemeral-storage"})
_KEEPS_PODS_OUT = frozenset({"NoSchedule", "NoExecute"})
_FEW = 0.01
# The node controller's own taints; conditions report the same in words.
_TAINTS_OF_CONDITIONS = "node.kubernetes.io/"


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The promise of a pool's nodes.

    Args:
        pool: its name.
        nodes: how many nodes there must be.
        selector: labels that each node carries.
        capacity: what pods can request on each, as quantities by resource.
        labels: keys that each must carry with any value, such as those of the topology.
        tolerations: taints that the pool's pods tolerate.
        architecture: of the CPU.
        instance_type: the cloud's name of the machine, None where nodes carry no such label.
    """

    pool: str
    nodes: int
    selector: Mapping[str, str]
    capacity: Mapping[str, str]
    labels: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    architecture: str = "amd64"
    instance_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class PoolFindings:
    """The findings on a pool's nodes.

    Args:
        pool: the finding on the pool as a whole, such as too few nodes.
        nodes: node name -> whether it has all that was promised; the evidence lists what it lacks.
        down: names of the nodes that are not ready, or cordoned.
    """

    promise: Promise
    pool: Finding
    nodes: Mapping[str, Finding]
    down: frozenset[str] = frozenset()

    @property
    def few_away(self) -> bool:
        """True if some of the promised nodes are not in the cluster, at most one in a hundred.

        If the pool's description were wrong, more would be missing.
        """
        away = self.promise.nodes - len(self.nodes)
        return 0 < away <= self.promise.nodes * _FEW

    @property
    def good(self) -> tuple[str, ...]:
        """The names of the nodes that have all that was promised."""
        return tuple(name for name, finding in self.nodes.items() if finding.passed)

    def bars(self) -> list[str]:
        """Return the lines that must stop a change of the cluster.

        A node that is down stops nothing while others of its pool are up: in a thousand nodes one
        is always down, and its gate keeps jobs off it. Nor do a few missing nodes, which may be
        in repair.
        """
        down = self.down if set(self.nodes) - self.down else frozenset()
        findings = (f for name, f in self.nodes.items() if name not in down)
        pool = () if self.few_away else (self.pool,)
        return [f"{f.name}: {f.text}" for f in (*pool, *findings) if not f.passed]

    def lines(self) -> list[str]:
        """Return one line for the pool as a whole and for each node that lacks something."""
        return [f"{f.name}: {f.text}" for f in (self.pool, *self.nodes.values()) if not f.passed]


def promised(contract: ClusterContract) -> tuple[Promise, ...]:
    """Return what the contract promises of the nodes, including device resources."""
    return tuple(
        Promise(
            pool=pool.name,
            nodes=pool.nodes,
            selector=pool.node_selector,
            capacity=pool.capacity,
            labels=() if pool.queued else contract.topology_levels,
            tolerations=pool.tolerations,
            architecture=pool.architecture,
            instance_type=cloud_name(pool.instance_type),
        )
        for pool in contract.node_pools
    )


def cloud_name(instance_type: str) -> str | None:
    """Return the value of the label that a cloud sets by itself; None on metal."""
    machine = MACHINES.get(instance_type)
    if machine is None or machine.provider in ("lab", "metal"):
        return None
    return machine.name


def verify(promises: Iterable[Promise], nodes: Sequence[Object]) -> tuple[PoolFindings, ...]:
    """Check the live nodes, objects of the Kubernetes API, for what was promised."""
    return tuple(_pool(promise, nodes) for promise in promises)


def _pool(promise: Promise, nodes: Sequence[Object]) -> PoolFindings:
    mine = [node for node in nodes if promise.selector.items() <= _labels(node).items()]
    short = len(mine) < promise.nodes
    return PoolFindings(
        promise=promise,
        pool=Finding(
            name=f"pool {promise.pool!r}",
            passed=not short,
            text=_too_few(promise, mine, nodes) if short else f"has {len(mine)} nodes",
        ),
        nodes={_name(node): _node(promise, node) for node in mine},
        down=frozenset(_name(node) for node in mine if any(down(node))),
    )


def _node(promise: Promise, node: Object) -> Finding:
    lacks = tuple(_lacks(promise, node))
    text = "; ".join(lacks) or "has all that was promised"
    return Finding(name=f"node {_name(node)}", passed=not lacks, text=text, evidence=lacks)


def _too_few(promise: Promise, mine: Sequence[Object], nodes: Sequence[Object]) -> str:
    selector = ",".join(f"{key}={value}" for key, value in promise.selector.items())
    names = ", ".join(_name(node) for node in mine) or "none"
    text = f"{promise.nodes} nodes promised, {len(mine)} carry {selector}: {names}"
    near = [
        f"{_name(node)} has {key}={_labels(node)[key]}"
        for node in nodes
        if node not in mine
        for key in promise.selector
        if key in _labels(node) and _labels(node)[key] != promise.selector[key]
    ]
    return f"{text} ({'; '.join(near[:5])})" if near else text


def down(node: Object) -> Iterator[str]:
    """Yield why a node takes no pods at all, in words; nothing for a node that is up."""
    spec = node.get("spec") or {}
    if not holds(node, "Ready"):
        ready = condition(node, "Ready")
        why = ready.get("message") or ready.get("reason")
        yield "is not ready" + (f": {why}" if why else "")
    if spec.get("unschedulable"):
        yield "is cordoned"


def _lacks(promise: Promise, node: Object) -> Iterable[str]:
    status, spec = node.get("status") or {}, node.get("spec") or {}
    yield from down(node)
    for taint in spec.get("taints") or ():
        if _keeps_out(taint, promise.tolerations):
            yield (
                f"has the taint {_taint(taint)}, which no toleration of pool {promise.pool!r} takes"
            )
    labels = _labels(node)
    yield from (f"has no label {key}" for key in promise.labels if key not in labels)
    architecture = labels.get(ARCHITECTURE_LABEL)
    if architecture not in (None, promise.architecture):
        yield f"is {architecture}, the pool is {promise.architecture}"
    kind = labels.get(INSTANCE_TYPE_LABEL)
    if promise.instance_type is not None and kind not in (None, promise.instance_type):
        yield f"is a {kind}, the pool is of {promise.instance_type}"
    yield from _short_of(promise.capacity, status.get("allocatable") or {})


def _short_of(capacity: Mapping[str, str], allocatable: Mapping[str, Any]) -> Iterable[str]:
    for resource, wanted in capacity.items():
        has = allocatable.get(resource)
        if has is None:
            yield f"has no {resource}, {wanted} promised"
        elif _number(has) < _number(wanted):
            yield f"{resource} is {_shown(resource, has)}, {wanted} promised"


def _number(quantity: Any) -> Decimal:
    try:
        return parse(quantity)
    except ValueError:
        return Decimal(0)


def _shown(resource: str, quantity: Any) -> str:
    """Return a quantity in readable units: nodes report memory in Ki."""
    if resource not in _MEMORY:
        return str(quantity)
    return f"{show(round(_number(quantity) / Decimal(1024) ** 3, 1))}Gi"


def _keeps_out(taint: Object, tolerations: Sequence[Toleration]) -> bool:
    if taint.get("effect") not in _KEEPS_PODS_OUT:
        return False
    if str(taint.get("key", "")).startswith(_TAINTS_OF_CONDITIONS):
        return False
    return not any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Object) -> bool:
    if toleration.effect not in (None, "", taint.get("effect")):
        return False
    if toleration.key in (None, ""):
        return toleration.operator == "Exists"
    if toleration.key != taint.get("key"):
        return False
    return toleration.operator == "Exists" or (toleration.value or "") == (taint.get("value") or "")


def _taint(taint: Object) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _labels(node: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return labels


def _name(node: Object) -> str:
    return str((node.get("metadata") or {}).get("name"))


def live(client: kube.Cluster) -> list[Object]:
    """Return every node of a cluster."""
    return list(client.list(NODES))


def live_minor(client: kube.Cluster) -> str:
    """Return the Kubernetes minor that the API server runs, such as ``"1.35"``."""
    version = client.get("/version")
    # Clouds write `35+`.
    minor = re.sub(r"\D.*", "", str(version.get("minor", "")))
    return f"{version.get('major')}.{minor}"


def uid(client: kube.Cluster) -> str:
    """Return the UID of `kube-system`, unique to a cluster; empty if it may not be read."""
    try:
        namespace = client.get("/api/v1/namespaces/kube-system")
    except kube.ApiError as error:
        if error.status not in (403, 404):
            raise
        return ""
    return str(namespace["metadata"]["uid"])


def require(
    cluster: str, checked: Sequence[PoolFindings], *, also: str = "", down_bars: bool = True
) -> None:
    """Raise unless every pool has all that was promised, and ``also`` names nothing wrong.

    Args:
        cluster: its name.
        checked: its pools.
        also: another problem, in one line.
        down_bars: whether a node that is down counts while others of its pool are up.

    Raises:
        RefusedError: names each pool that is short of nodes, and each node with what it lacks.
    """
    lines = [also] if also else []
    lines += [line for pool in checked for line in (pool.lines() if down_bars else pool.bars())]
    if not checked:
        lines.append("no pool is promised, so the nodes were not checked")
    if lines:
        raise RefusedError(
            "\n".join([f"cluster {cluster!r} lacks what its stack promises:", *lines]),
            remedy="repair or relabel the nodes, or correct `pools` and `versions` of the stack",
        )
