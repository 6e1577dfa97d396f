"""The player of nv-ipam: which of its pools are valid, and each node's block of addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from railhead.twin.world import Body, Look, World

API = "nv-ipam.nvidia.com/v1alpha1"
#: Of the network operator and of nv-ipam, which looks for pools in its own alone.
OPERATOR_SPACE = "nvidia-network-operator"
_Range = tuple[int, int]
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def nv_ipam(world: World, look: Look) -> None:
    """Cut a block of each pool for every node that its selector selects."""
    if not look.of("nv-ipam"):
        return
    for kind, allocated in (("IPPool", _blocks), ("CIDRPool", _prefixes)):
        for pool in world.list(API, kind):
            if pool["metadata"]["namespace"] != OPERATOR_SPACE:
                continue
            had = list((pool.get("status") or {}).get("allocations") or ())
            nodes = [n for n in sorted(look.nodes) if _selects(pool["spec"], look.nodes[n])]
            rows = allocated(pool["spec"], nodes, had)
            if rows != had:
                world.patch(pool, {"status": {"allocations": rows}}, status=True)


def _blocks(spec: Mapping[str, Any], nodes: Iterable[str], had: Iterable[Body]) -> list[Body]:
    if not is_valid(spec):
        return []
    blocks = cut(spec, nodes, {a["nodeName"]: (a["startIP"], a["endIP"]) for a in had})
    return [{"nodeName": n, "startIP": s, "endIP": e} for n, (s, e) in blocks.items()]


def _prefixes(spec: Mapping[str, Any], nodes: Iterable[str], had: Iterable[Body]) -> list[Body]:
    return list(prefixes(spec, nodes, had)) if has_parts(spec) else []


def has_parts(spec: Mapping[str, Any]) -> bool:
    """Return whether nv-ipam takes a pool of prefixes."""
    try:
        network = ipaddress.ip_network(spec["cidr"])
        length = int(spec["perNodeNetworkPrefix"])
        first: Any = next(network.subnets(new_prefix=length))
    except (KeyError, ValueError):
        return False
    index = spec.get("gatewayIndex")
    if index is None:
        return not (spec.get("routes") or spec.get("defaultGateway"))
    return bool(_gateway(first, int(index)))


def prefixes(
    spec: Mapping[str, Any], nodes: Iterable[str], had: Iterable[Mapping[str, str]]
) -> Iterator[dict[str, str]]:
    """Yield each node's prefix with its gateway: what it had, its own, or the next that is free."""
    length, index = int(spec["perNodeNetworkPrefix"]), spec.get("gatewayIndex")
    network = ipaddress.ip_network(spec["cidr"])

    def row(node: str, prefix: str, gateway: str = "") -> dict[str, str]:
        if not gateway and index is not None:
            gateway = _gateway(ipaddress.ip_network(prefix), int(index))
        return {"nodeName": node, "prefix": prefix} | ({"gateway": gateway} if gateway else {})

    kept = {a["nodeName"]: dict(a) for a in had if _is_part(network, length, a["prefix"])}
    fixed = spec.get("staticAllocations") or ()
    own = {a["nodeName"]: row(a["nodeName"], a["prefix"], a.get("gateway", "")) for a in fixed}
    wanted = list(nodes)
    taken = {a["prefix"] for a in own.values()}
    taken |= {a["prefix"] for name, a in kept.items() if name in wanted}
    free = (part for part in network.subnets(new_prefix=length) if str(part) not in taken)
    for node in wanted:
        if node in kept or node in own:
            yield kept.get(node) or own[node]
        elif part := next(free, None):
            yield row(node, str(part))


def _is_part(network: _Network, length: int, prefix: str) -> bool:
    part = ipaddress.ip_network(prefix)
    return part.prefixlen == length and part.subnet_of(network)  # type: ignore[arg-type]


def _gateway(part: _Network, index: int) -> str:
    """Return the address of that index in a prefix; nothing where it has none."""
    single = part.prefixlen >= part.max_prefixlen - 1
    most = part.num_addresses - (1 if single else 2)
    return str(part[index]) if (0 if single else 1) <= index <= most else ""


def part_room(spec: Mapping[str, Any], prefix: str, gateway: str) -> int:
    """Return how many addresses of a node's prefix pods get."""
    part = ipaddress.ip_network(prefix)
    first, last = _ends(part)
    if part.prefixlen >= part.max_prefixlen - 1:
        first, last = first - 1, last + 1
    return _room({"exclusions": spec.get("exclusions"), "gateway": gateway}, first, last)


def is_valid(spec: Mapping[str, Any]) -> bool:
    """Return whether nv-ipam takes a pool; of one that it does not take no node has a block."""
    try:
        network = ipaddress.ip_network(spec["subnet"], strict=False)
        gateway = ipaddress.ip_address(spec["gateway"]) if spec.get("gateway") else None
        excluded = list(_exclusions(spec))
    except (KeyError, ValueError):
        return False
    first, last = _ends(network)
    inside = (int(network.network_address), int(network.broadcast_address))
    return (
        1 <= int(spec.get("perNodeBlockSize", 0)) <= last - first + 1
        and (gateway is None or gateway in network)
        and all(inside[0] <= start <= end <= inside[1] for start, end in excluded)
        and (gateway is not None or not (spec.get("routes") or spec.get("defaultGateway")))
    )


def cut(
    spec: Mapping[str, Any], nodes: Iterable[str], had: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return node -> its first and last address: old blocks that still fit stay, others are cut.

    Args:
        spec: the pool's.
        nodes: the nodes that get one, in the order of their names.
        had: the blocks that nodes have.
    """
    network, size = (
        ipaddress.ip_network(spec["subnet"], strict=False),
        int(spec["perNodeBlockSize"]),
    )
    first, last = _ends(network)

    def fits(start: int) -> bool:
        return start + size - 1 <= last and _room(spec, start, start + size - 1) > 0

    blocks: dict[str, tuple[str, str]] = {}
    for node in nodes:
        if node not in had:
            continue
        start, end = (int(ipaddress.ip_address(a)) for a in had[node])
        right = end - start + 1 == size and (start - first) % size == 0
        if right and first <= start and fits(start):
            blocks[node] = had[node]
    taken = {start for start, _ in blocks.values()}
    free = (
        (str(ipaddress.ip_address(start)), str(ipaddress.ip_address(start + size - 1)))
        for start in range(first, last - size + 2, size)
        if fits(start)
    )
    for node in nodes:
        if node in blocks:
            continue
        block = next((b for b in free if b[0] not in taken), None)
        if block is None:
            break
        blocks[node] = block
    return {node: blocks[node] for node in sorted(blocks)}


def room(spec: Mapping[str, Any], start: str, end: str) -> int:
    """Return how many addresses of a block pods get: all but excluded ones and the gateway."""
    return _room(spec, int(ipaddress.ip_address(start)), int(ipaddress.ip_address(end)))


def _room(spec: Mapping[str, Any], start: int, end: int) -> int:
    ranges = list(_exclusions(spec))
    if gateway := spec.get("gateway"):
        ranges.append((int(ipaddress.ip_address(gateway)),) * 2)
    count = 0
    for low, high in sorted(ranges):
        if low > start:
            count += min(low - 1, end) - start + 1
        start = max(start, high + 1)
        if start > end:
            return count
    return count + end - start + 1


def _ends(network: _Network) -> _Range:
    """Return the first and the last address that a block may have."""
    return int(network.network_address) + 1, int(network.broadcast_address) - 1


def _exclusions(spec: Mapping[str, Any]) -> Iterator[_Range]:
    for row in spec.get("exclusions") or ():
        yield int(ipaddress.ip_address(row["startIP"])), int(ipaddress.ip_address(row["endIP"]))


def _selects(spec: Mapping[str, Any], node: Body) -> bool:
    selector = spec.get("nodeSelector")
    if selector is None:
        return True
    labels = node["metadata"].get("labels") or {}
    return any(selects(term, labels) for term in selector.get("nodeSelectorTerms") or ())


def selects(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a term of a node selector selects a node with these labels."""
    expressions = term.get("matchExpressions") or ()
    return bool(expressions) and all(
        _holds(e["operator"], labels.get(e["key"]), e.get("values") or ()) for e in expressions
    )


def _holds(operator: str, value: str | None, values: Sequence[str]) -> bool:
    if operator in ("In", "NotIn"):
        return (value in values) == (operator == "In")
    return (value is not None) == (operator == "Exists")
