"""What the fabric's section must agree on with the pools, the platform and the catalogue.

Reads the raw mapping and skips whatever is malformed, as :mod:`railhead.config.checks` does.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from railhead.base.raw import Problem, Raw, mapping, positive
from railhead.catalog.machines import MACHINES, Machine
from railhead.catalog.versions import ADDONS
from railhead.fabric.rows import (
    FABRICS,
    MODES,
    Mode,
    environment_of,
    modes_of,
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# A switch that somebody left behind after debugging, and TCP or half the speed for everybody.
_NEVER = ("NCCL_IB_DISABLE", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE")
# Under macvlan its right value differs from pod to pod.
_PER_POD = "NCCL_IB_GID_INDEX"


def _rows(value: Any) -> list[tuple[int, Raw]]:
    rows = value if isinstance(value, list) else []
    return [(index, row) for index, row in enumerate(rows) if isinstance(row, Mapping)]


def _network(value: Any) -> Network | None:
    if not isinstance(value, str) or "/" not in value:
        return None
    try:
        return ipaddress.ip_network(value)
    except ValueError:
        return None


def _address(value: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _mode(raw: Raw) -> Mode | None:
    mode = mapping(raw.get("fabric")).get("mode")
    return MODES.get(mode) if isinstance(mode, str) else None


def _platform(raw: Raw) -> str | None:
    kind = mapping(raw.get("platform")).get("kind")
    return kind if isinstance(kind, str) else None


def _machines(raw: Raw) -> Iterator[tuple[int, Machine, int]]:
    """Index, machine and node count of every pool whose instance type is known."""
    for index, pool in _rows(raw.get("pools")):
        machine = MACHINES.get(str(pool.get("instance_type")))
        if machine is not None:
            yield index, machine, positive(pool.get("nodes"))


def _choice(raw: Raw) -> Iterator[Problem]:
    """The mode brings this fabric, on this platform, into pods on these machines."""
    mode, platform = _mode(raw), _platform(raw)
    kind = mapping(raw.get("fabric")).get("kind")
    fabric = FABRICS.get(kind) if isinstance(kind, str) else None
    if mode is None:
        return
    name = mode.name.value
    if fabric is not None and fabric.name not in mode.fabrics:
        yield (
            "fabric.mode",
            f"{name!r} does not bring fabric {fabric.name!r} into pods; these do: "
            f"{', '.join(m for m in MODES if m in fabric.modes)}",
        )
    every = frozenset(FABRICS)
    if platform in ("lab", "existing", "aws", "gcp") and platform not in mode.platforms:
        yield (
            "fabric.mode",
            f"{name!r} cannot be on platform {platform!r}; these can: "
            f"{', '.join(modes_of(every, platform))}",
        )
        return
    for index, machine, _ in _machines(raw):
        can = modes_of(machine.fabrics | {"ethernet"}, platform or "existing")
        if platform in machine.platforms and name not in can:
            yield (
                "fabric.mode",
                f"{name!r} cannot be on {machine.name!r} of pools[{index}] on platform "
                f"{platform!r}; it can: {', '.join(can)}",
            )


def _pods_per_node(raw: Raw, mode: Mode) -> int:
    """Training pods that a node may run at once, the largest of the pools."""
    fabric = mapping(raw.get("fabric"))
    most = max((machine.gpus for _, machine, _ in _machines(raw)), default=1)
    if "sriov" in mode.operators:
        most = min(most, positive(mapping(fabric.get("sriov")).get("vfs")) or 1)
    if mode.name == "host-device":
        most = 1
    return positive(fabric.get("pods_per_node")) or most


def _span(raw: Raw, rail: Raw, network: Network) -> tuple[int, int]:
    """First and last address that pods may get, as integers; empty where last is before first."""
    blocks = mapping(mapping(raw.get("fabric")).get("ipam")).get("kind") == "nv-ipam"
    first = _address(rail.get("range_start"))
    last = _address(rail.get("range_end"))
    # host-local keeps the first address for a gateway; blocks begin right after the network's own.
    start = int(network.network_address) + (1 if blocks else 2)
    low = int(first) if first else start
    high = int(last) if last else int(network.broadcast_address) - 1
    return low, high


def _room(raw: Raw, rail: Raw, network: Network, pods: int) -> tuple[int, int]:
    """Addresses that pods may get, and how many of them one node takes."""
    ipam = mapping(mapping(raw.get("fabric")).get("ipam"))
    each = positive(ipam.get("per_node")) or pods
    if ipam.get("kind") == "nv-ipam" and ipam.get("pool") == "prefix":
        # A power of two, with the part's own network address, gateway and broadcast address.
        return network.num_addresses, 1 << (each + 2).bit_length()
    low, high = _span(raw, rail, network)
    have = max(high - low + 1, 0)
    if ipam.get("kind") == "nv-ipam":
        return have, each + (1 if rail.get("gateway") else 0)
    return have, pods


def _blocks(raw: Raw) -> Iterator[Problem]:
    """What nv-ipam cannot do with a rail's range."""
    ipam = mapping(mapping(raw.get("fabric")).get("ipam"))
    if ipam.get("kind") != "nv-ipam":
        return
    for index, rail in _rows(mapping(raw.get("fabric")).get("rails")):
        path = f"fabric.rails[{index}]"
        if rail.get("range_start") is not None:
            yield (
                f"{path}.range_start",
                "cannot be with nv-ipam, which cuts the nodes' blocks from the subnet's start: a "
                "block before it would be empty; keep the nodes' own addresses at the end, after "
                "range_end",
            )
        if ipam.get("pool") == "prefix" and rail.get("range_end") is not None:
            yield f"{path}.range_end", "cannot be with pool 'prefix': every node gets a whole part"
        if ipam.get("pool") == "prefix" and rail.get("gateway") is not None:
            yield (
                f"{path}.gateway",
                "cannot be with pool 'prefix': each part has its own, its first",
            )


def _addresses(raw: Raw) -> Iterator[Problem]:
    """Each rail's range is inside its subnet and large enough for every pod."""
    mode = _mode(raw)
    if mode is None:
        return
    nodes = sum(count for _, _, count in _machines(raw))
    pods = _pods_per_node(raw, mode)
    for index, rail in _rows(mapping(raw.get("fabric")).get("rails")):
        path = f"fabric.rails[{index}]"
        network = _network(rail.get("subnet"))
        if network is None:
            continue
        outside = False
        for field in ("range_start", "range_end", "gateway"):
            address = _address(rail.get(field))
            if address is not None and address not in network:
                outside = True
                yield f"{path}.{field}", f"{rail[field]!r} is not in subnet {rail['subnet']!r}"
        low, high = _span(raw, rail, network)
        if outside or not nodes:
            continue
        have, each = _room(raw, rail, network, pods)
        if high < low and rail.get("range_end"):
            yield f"{path}.range_end", f"{rail['range_end']!r} comes before the range's start"
        elif have < nodes * each:
            yield (
                f"{path}.subnet",
                f"{have} addresses for pods on {nodes} nodes, which need {nodes * each}: {each} a "
                "node; widen it or its range, or lower fabric.pods_per_node",
            )


def _found(value: Any, path: str) -> Iterator[tuple[str, Network]]:
    """Every network written anywhere below ``value``, with its path."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _found(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _found(inner, f"{path}[{index}]")
    # What is open to everybody is a rule of access, not a range that anything lives in.
    elif (network := _network(value)) is not None and network.prefixlen:
        yield path, network


def _cluster_ranges(raw: Raw) -> Iterator[tuple[str, Network]]:
    """The cluster's own networks: what the platform says, what the stack says, the lab's."""
    yield from _found(raw.get("platform"), "platform")
    yield from _found(mapping(raw.get("fabric")).get("cluster_ranges"), "fabric.cluster_ranges")
    if _platform(raw) == "lab":
        from railhead.lab import spec

        for what, text in (
            ("the lab's nodes", spec.NODE_NETWORK),
            ("the lab's pods", spec.POD_NETWORK),
            ("the lab's services", spec.SERVICE_NETWORK),
        ):
            yield what, ipaddress.ip_network(text)


def _overlaps(raw: Raw) -> Iterator[Problem]:
    fabric = mapping(raw.get("fabric"))
    taken = list(_cluster_ranges(raw))
    railed = False
    for index, rail in _rows(fabric.get("rails")):
        path = f"fabric.rails[{index}]"
        network = _network(rail.get("subnet"))
        if network is None:
            continue
        railed = True
        for other_path, other in taken:
            if network.version == other.version and network.overlaps(other):
                yield (
                    f"{path}.subnet",
                    f"{str(network)!r} overlaps {str(other)!r} of {other_path}; packets for one "
                    "would leave by the other",
                )
        taken.append((path, network))
    if railed and _platform(raw) == "existing" and not fabric.get("cluster_ranges"):
        yield (
            "fabric.cluster_ranges",
            "is missing: list the networks of the cluster's nodes, pods and services, so that no "
            "rail is given an address of theirs",
        )


def _rails(raw: Raw) -> Iterator[Problem]:
    """Rails are there where the mode has them, and each is a NIC of its own."""
    fabric, mode = mapping(raw.get("fabric")), _mode(raw)
    rails = _rows(fabric.get("rails"))
    for field in ("name", "master", "network", "interface"):
        seen: dict[str, int] = {}
        for index, rail in rails:
            value = rail.get(field)
            if isinstance(value, str) and seen.setdefault(value, index) != index:
                yield f"fabric.rails[{index}].{field}", f"{value!r} is there twice"
    interfaces: dict[str, int] = {}
    for index, rail in rails:
        names = rail.get("pf_names")
        for name in names if isinstance(names, list) else ():
            if isinstance(name, str) and interfaces.setdefault(name, index) != index:
                yield (
                    f"fabric.rails[{index}].pf_names",
                    f"{name!r} is of fabric.rails[{interfaces[name]}] already",
                )
    if mode is None:
        return
    if mode.name == "rdma-shared" and fabric.get("kind") == "roce" and not rails:
        yield (
            "fabric.rails",
            "is empty; RoCE in mode 'rdma-shared' needs one for each NIC: without an interface of "
            "its own a pod has no address, and so no GID, on the fabric",
        )
    if mode.name == "rdma-shared" and fabric.get("kind") == "infiniband" and rails:
        yield (
            "fabric.rails",
            "macvlan cannot be put on InfiniBand; leave rails out (verbs need no address), or use "
            "mode 'ipoib'",
        )
    if mode.attachment in ("multus", "gke") and rails and _platform(raw) != "lab":
        for pool, machine, _ in _machines(raw):
            if len(machine.nics) != len(rails):
                yield (
                    "fabric.rails",
                    f"{len(rails)} rails for the {len(machine.nics)} NICs of {machine.name!r} "
                    f"(pools[{pool}]); there is one rail a NIC",
                )
    addressed = [index for index, rail in rails if rail.get("subnet") is not None]
    if mode.attachment == "multus" and addressed and fabric.get("ipam") is None:
        yield "fabric.ipam", "is missing: the rails have subnets, and nothing hands them out"


def _bootstrap(raw: Raw) -> Iterator[Problem]:
    fabric = mapping(raw.get("fabric"))
    if fabric.get("bootstrap") != "rails":
        return
    for index, rail in _rows(fabric.get("rails")):
        if rail.get("gateway") is not None:
            yield (
                "fabric.bootstrap",
                f"'rails' cannot be with fabric.rails[{index}].gateway: NCCL's sockets are not "
                "bound to an address, and on a routed rail only those find their way; use 'pod'",
            )
            return
        if rail.get("subnet") is None:
            yield (
                "fabric.bootstrap",
                f"'rails' needs addresses, and fabric.rails[{index}] has no subnet; use 'pod'",
            )
            return


def _hcas(raw: Raw) -> Iterator[Problem]:
    fabric, mode = mapping(raw.get("fabric")), _mode(raw)
    if mode is None or not mode.hcas:
        return
    given = fabric.get("hcas")
    if isinstance(given, list):
        names = [name for name in given if isinstance(name, str)]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield f"fabric.hcas[{index}]", f"{name!r} is there twice"
        for pool, machine, _ in _machines(raw):
            if len(given) != len(machine.nics):
                yield (
                    "fabric.hcas",
                    f"{len(given)} HCAs for the {len(machine.nics)} NICs of {machine.name!r} "
                    f"(pools[{pool}]); list each NIC of the training fabric, and no other",
                )
        return
    for pool, machine, _ in _machines(raw):
        # A lab's bridge has no rate and no device.
        if any(nic.rate_gbps for nic in machine.nics) and not machine.hcas:
            yield (
                "fabric.hcas",
                f"is missing: pods see every RDMA device of the node, and the catalogue has no "
                f"names for {machine.name!r} (pools[{pool}]); list its {len(machine.nics)}, as "
                "`ibv_devices` prints them on a node",
            )


def _environment(raw: Raw) -> Iterator[Problem]:
    fabric, mode = mapping(raw.get("fabric")), _mode(raw)
    kind, own = fabric.get("kind"), mapping(fabric.get("environment"))
    if not isinstance(kind, str) or kind not in FABRICS:
        return
    machines = [machine.name for _, machine, _ in _machines(raw)] or [""]
    pinned = {v.name: v for machine in machines for v in environment_of(kind, machine)}
    for name in own:
        path = f"fabric.environment.{name}"
        if name in pinned:
            yield path, f"is the catalogue's on fabric {kind!r}: {pinned[name].reason}"
        elif name in _NEVER or (name == _PER_POD and mode and mode.name == "rdma-shared"):
            yield path, f"must not be set: {FABRICS['roce'].not_set[name]}"


def _capacity(raw: Raw) -> Iterator[Problem]:
    """A node does not promise more pods than its mode has devices for."""
    fabric, mode = mapping(raw.get("fabric")), _mode(raw)
    pods = positive(fabric.get("pods_per_node"))
    if mode is None or not pods:
        return
    if "sriov" in mode.operators:
        vfs = positive(mapping(fabric.get("sriov")).get("vfs")) or 1
        if pods > vfs:
            yield (
                "fabric.pods_per_node",
                f"{pods} is more than the {vfs} virtual functions a NIC of fabric.sriov.vfs",
            )
    if mode.name == "host-device" and pods > 1:
        yield "fabric.pods_per_node", f"{pods}: a whole NIC is in one pod at a time"
    if mode.name in ("rdma-shared", "ipoib"):
        shares = positive(fabric.get("shares")) or mode.devices[0].per_node
        if pods > shares:
            yield "fabric.pods_per_node", f"{pods} is more than the {shares} of fabric.shares"
    if mode.name == "host-device" and _platform(raw) == "lab" and fabric.get("resources", True):
        yield "fabric.resources", "must be false in the lab: it has no device plugin for NICs"


def _whole_nodes(raw: Raw) -> Iterator[Problem]:
    """Where a pod takes every NIC of its node, it takes every GPU as well."""
    mode = _mode(raw)
    if mode is None or not (mode.attachment == "gke" or mode.name == "host-device"):
        return
    pools = {str(pool.get("name")): pool for _, pool in _rows(raw.get("pools"))}
    for index, runtime in _rows(raw.get("runtimes")):
        pool = mapping(pools.get(str(runtime.get("pool"))))
        machine = MACHINES.get(str(pool.get("instance_type")))
        gpus = positive(runtime.get("gpus_per_node"))
        if machine is not None and gpus and gpus < machine.gpus:
            yield (
                f"runtimes[{index}].gpus_per_node",
                f"{gpus} of the {machine.gpus} GPUs of {machine.name!r}, but in mode "
                f"{mode.name.value!r} a pod takes every NIC of its node; leave it out",
            )


def _dra(raw: Raw) -> Iterator[Problem]:
    """DRA for EFA needs a Kubernetes that its driver serves."""
    version = mapping(raw.get("platform")).get("kubernetes")
    served = ADDONS["aws-dranet"].kubernetes
    if mapping(raw.get("fabric")).get("allocation") != "dra" or served is None:
        return
    if not isinstance(version, str) or not re.fullmatch(r"\d+\.\d+", version):
        return
    if not served.holds(version):
        yield (
            "fabric.allocation",
            f"'dra' needs Kubernetes {served.oldest} or newer, and platform.kubernetes is "
            f"{version!r}; use 'device-plugin'",
        )


_CHECKS = (
    _choice,
    _rails,
    _addresses,
    _blocks,
    _overlaps,
    _bootstrap,
    _hcas,
    _environment,
    _capacity,
    _whole_nodes,
    _dra,
)


def problems(raw: Raw) -> Iterator[Problem]:
    """Every (path, message) of the fabric's section that spans several fields."""
    for check in _CHECKS:
        yield from check(raw)
