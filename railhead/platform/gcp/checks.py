"""Mistakes in a stack on GCP that span several fields, found before anything is registered.

Like :mod:`railhead.config.checks`, they read the raw mapping and skip what is malformed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from railhead.base.errors import did_you_mean
from railhead.base.raw import Problem, Raw, integer, mapping, rows
from railhead.catalog.machine import GkeMachine
from railhead.catalog.machines import GKE_MACHINES, MACHINES
from railhead.platform.gcp.facts import NodeNetwork, node_networks

# The name of the node pool for controllers, in every cluster.
SYSTEM_POOL = "system"
# GKE documentation: the alias range of a node with the default of 110 pods.
_POD_PREFIX = 24
# VPC documentation: the first two and the last two addresses of a subnet's primary range.
_RESERVED_ADDRESSES = 4
# GKE documentation, Allocate network resources by using GKE managed DRANET.
_DRANET_VERSION = (1, 34, 1)
# Filestore documentation, service tiers: GiB of the smallest, the largest, and between sizes.
_FILESTORE = {"zonal": (1024, 102400, 256), "regional": (100, 102400, 1)}
# Managed Lustre documentation, performance tiers: MB/s a TiB -> GiB of the smallest and the
# largest, and steps up to a size.
_LUSTRE = {
    1000: (9000, 10008000, ((1530000, 9000), (10008000, 72000))),
    500: (18000, 20016000, ((3060000, 18000), (20016000, 144000))),
    250: (36000, 40032000, ((6120000, 36000), (40032000, 288000))),
    125: (72000, 12240000, ((12240000, 72000),)),
}
# What a network of the cluster's own has addresses for.
_FIELDS = ("nodes", "pods", "services", "google_services")
# VPC documentation, private services access: the least that a service of Google's takes.
_SERVICES_PREFIX = 24
# Fabric modes whose pods name the networks of the nodes' interfaces.
_GKE_MODES = ("gcp-rdma", "tcpxo", "tcpx")
# Storage classes that GKE's Filestore driver brings.
_GKE_CLASSES = ("standard-rwx", "premium-rwx", "zonal-rwx", "enterprise-rwx")
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_UNITS |= {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}


def _pools(raw: Raw) -> Iterator[tuple[str, Raw, GkeMachine]]:
    for path, pool in rows(raw.get("pools"), "pools"):
        if machine := GKE_MACHINES.get(str(pool.get("instance_type"))):
            yield path, pool, machine


def _interfaces(pool: Raw) -> tuple[NodeNetwork, ...]:
    """The further networks of a pool's nodes; none while its machine type is not known."""
    machine = MACHINES.get(str(pool.get("instance_type")))
    return node_networks(machine) if machine else ()


def _nodes(raw: Raw) -> int:
    return sum(max(integer(p.get("nodes")) or 0, 0) for _, p in rows(raw.get("pools"), ""))


def _places(raw: Raw) -> Iterator[Problem]:
    platform = mapping(raw.get("platform"))
    region, zone = platform.get("region"), platform.get("zone")
    if isinstance(region, str) and isinstance(zone, str) and zone.rpartition("-")[0] != region:
        yield "platform.zone", f"{zone!r} is not in region {region!r}"
    system = mapping(platform.get("system_pool"))
    zones = system.get("zones")
    for index, other in enumerate(zones if isinstance(zones, list) else []):
        inside = str(other).rpartition("-")[0] == region
        if not inside and isinstance(other, str) and isinstance(region, str):
            path = f"platform.system_pool.zones[{index}]"
            yield path, f"{other!r} is not in region {region!r}"
    least, most = integer(system.get("min_nodes")), integer(system.get("max_nodes"))
    if least is not None and most is not None and least > most:
        yield "platform.system_pool.max_nodes", f"{most} is less than min_nodes, {least}"


def _endpoint(raw: Raw) -> Iterator[Problem]:
    endpoint = mapping(mapping(raw.get("platform")).get("endpoint"))
    networks = endpoint.get("authorized_networks")
    for index, text in enumerate(networks if isinstance(networks, list) else []):
        found = _network(text)
        if found is not None and found.prefixlen == 0:
            yield (
                f"platform.endpoint.authorized_networks[{index}]",
                f"{text!r} is the whole internet; name networks, or take the endpoint 'dns', "
                "which IAM guards",
            )


def _capacity(raw: Raw) -> Iterator[Problem]:
    for path, pool in rows(raw.get("pools"), "pools"):
        if pool.get("name") == SYSTEM_POOL:
            yield f"{path}.name", f"{SYSTEM_POOL!r} is the pool of the controllers"
        capacity = mapping(pool.get("capacity"))
        least, nodes = integer(pool.get("min_nodes")), integer(pool.get("nodes"))
        if capacity.get("subblock") is not None and capacity.get("block") is None:
            yield f"{path}.capacity.subblock", "names a part of a block; name its block as well"
        if capacity.get("kind") == "flex-start" and least:
            yield (
                f"{path}.min_nodes",
                f"{least}: flex-start gives nodes to waiting jobs only; leave it out or set 0",
            )
        elif least is not None and nodes is not None and least > nodes:
            yield f"{path}.min_nodes", f"{least} is more than nodes, {nodes}"


def _placement(raw: Raw) -> Iterator[Problem]:
    for path, pool, machine in _pools(raw):
        placement = mapping(pool.get("placement"))
        name = pool.get("instance_type")
        kind = placement.get("kind")
        if kind == "compact":
            yield from _compact(path, pool, placement, machine)
        topology = placement.get("accelerator_topology")
        for field in ("max_distance", "max_topology_distance", "accelerator_topology"):
            if placement.get("policy") is not None and placement.get(field) is not None:
                yield f"{path}.placement.{field}", "is the policy's own; leave it or policy out"
        named = kind == "workload-policy" and placement.get("policy") is not None
        wanted = kind == "workload-policy" and topology == machine.accelerator_topology
        if machine.accelerator_topology and not (named or wanted):
            yield (
                f"{path}.placement",
                f"{name!r} needs a workload-policy with accelerator_topology "
                f"{machine.accelerator_topology!r}, which makes its NVLink domain one",
            )
        elif kind == "workload-policy" and topology and not machine.accelerator_topology:
            yield (
                f"{path}.placement.accelerator_topology",
                f"{topology!r}: {name!r} has no accelerator topology; leave it out",
            )


def _compact(path: str, pool: Raw, placement: Raw, machine: GkeMachine) -> Iterator[Problem]:
    name = pool.get("instance_type")
    distance = integer(placement.get("max_distance"))
    if not machine.compact and not machine.accelerator_topology:
        yield f"{path}.placement.kind", f"'compact' is not to be had for {name!r}"
    if distance is not None and 1 <= distance < machine.least_max_distance:
        yield (
            f"{path}.placement.max_distance",
            f"{distance} fails on {name!r} ({machine.sources['least_max_distance']}); "
            f"the least is {machine.least_max_distance}",
        )
    capacity = mapping(pool.get("capacity"))
    if capacity.get("kind") != "flex-start":
        return
    if capacity.get("queued", True):
        yield (
            f"{path}.placement.kind",
            "'compact' does not go with queued flex-start; set capacity.queued to false, or "
            "placement to none",
        )
    elif not machine.flex_start_compact:
        can = ", ".join(sorted(m for m, row in GKE_MACHINES.items() if row.flex_start_compact))
        yield (
            f"{path}.placement.kind",
            f"'compact' does not go with flex-start on {name!r}; it does on: {can}",
        )


def _networking(raw: Raw) -> Iterator[Problem]:
    platform = mapping(raw.get("platform"))
    layout: list[str] = []
    for path, pool, machine in _pools(raw):
        if pool.get("networking") == "dranet":
            yield from _dranet(path, pool, machine, platform.get("kubernetes"))
            continue
        names = [network.name for network in _interfaces(pool)]
        layout = layout or names
        if layout != names:
            yield (
                f"{path}.instance_type",
                f"{pool.get('instance_type')!r} has other network interfaces than the pools "
                "before it; give it a cluster of its own",
            )
        elif "gpu_networks" not in platform:
            yield (
                "platform.gpu_networks",
                f"is missing; nodes of {path} have {len(names)} further interfaces: "
                f"{', '.join(names)}",
            )
        have = mapping(platform.get("gpu_networks")).get("networks")
        if isinstance(have, list) and len(have) != len(names):
            yield (
                "platform.gpu_networks.networks",
                f"{len(have)} networks for the {len(names)} further interfaces of a "
                f"{pool.get('instance_type')!r}: {', '.join(names)}",
            )
    if "gpu_networks" in platform and not layout and list(_pools(raw)):
        yield "platform.gpu_networks", "no pool uses it: with dranet GKE makes the networks itself"


def _dranet(path: str, pool: Raw, machine: GkeMachine, version: Any) -> Iterator[Problem]:
    if not machine.dranet:
        can = ", ".join(sorted(m for m, row in GKE_MACHINES.items() if row.dranet))
        yield (
            f"{path}.networking",
            f"'dranet' is not to be had for {pool.get('instance_type')!r}; it is for: {can}",
        )
    if not isinstance(version, str):
        return
    given = tuple(int(n) for n in re.findall(r"[0-9]+", version.partition("-")[0]))
    if given < _DRANET_VERSION[: len(given)]:
        wanted = ".".join(str(n) for n in _DRANET_VERSION)
        yield (
            "platform.kubernetes",
            f"{version!r} is too old for the dranet of {path}; it needs {wanted}",
        )


def _fabric(raw: Raw) -> Iterator[Problem]:
    fabric = mapping(raw.get("fabric"))
    mode = fabric.get("mode")
    for path, pool, _ in _pools(raw):
        dranet = pool.get("networking") == "dranet"
        if mode == "dranet" and not dranet:
            yield f"{path}.networking", "must be 'dranet' for fabric.mode 'dranet'"
        elif mode in _GKE_MODES and dranet:
            yield (
                f"{path}.networking",
                f"'dranet' gives pods no networks by name, which fabric.mode {mode!r} asks for; "
                "set it to 'additional-networks', or fabric.mode to 'dranet'",
            )
        elif mode in _GKE_MODES:
            names = [network.name for network in _interfaces(pool)]
            for where, rail in rows(fabric.get("rails"), "fabric.rails"):
                name = rail.get("network")
                if isinstance(name, str) and name not in names:
                    listed = did_you_mean(name, names) or f"; there are: {', '.join(names)}"
                    what = f"{name!r} is no network of a {pool.get('instance_type')!r}"
                    yield f"{where}.network", f"{what}{listed}"


def _network(value: Any) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.ip_network(str(value))
    except ValueError:
        return None
    return network if isinstance(network, ipaddress.IPv4Network) else None


def _ranges(raw: Raw) -> Iterator[tuple[str, ipaddress.IPv4Network]]:
    platform = mapping(raw.get("platform"))
    network = mapping(platform.get("network"))
    for field in _FIELDS:
        if found := _network(network.get(field)):
            yield f"platform.network.{field}", found
    if found := _network(mapping(platform.get("gpu_networks")).get("cidr")):
        yield "platform.gpu_networks.cidr", found


def _addresses(raw: Raw) -> Iterator[Problem]:
    seen: list[tuple[str, ipaddress.IPv4Network]] = []
    for path, network in _ranges(raw):
        for other_path, other in seen:
            if network.overlaps(other):
                yield path, f"{str(network)!r} overlaps {str(other)!r} of {other_path}"
        seen.append((path, network))
    for field in _FIELDS:
        value = mapping(mapping(raw.get("platform")).get("network")).get(field)
        if isinstance(value, str) and ":" in value:
            yield f"platform.network.{field}", f"{value!r} is IPv6; GKE takes IPv4 here"


def _sizes(raw: Raw) -> Iterator[Problem]:
    platform = mapping(raw.get("platform"))
    gpu = _nodes(raw)
    system = integer(mapping(platform.get("system_pool")).get("max_nodes"))
    # A surge upgrade of the system pool adds one; 6 is the model's default.
    nodes = gpu + (6 if system is None else system) + 1
    ranges = dict(_ranges(raw))
    if network := ranges.get("platform.network.nodes"):
        have = network.num_addresses - _RESERVED_ADDRESSES
        if have < nodes:
            yield "platform.network.nodes", f"{max(have, 0)} addresses for {nodes} nodes; widen it"
    if network := ranges.get("platform.network.pods"):
        have = network.num_addresses >> (32 - _POD_PREFIX)
        if have < nodes:
            yield (
                "platform.network.pods",
                f"room for {have} nodes of a /{_POD_PREFIX} each, but there may be {nodes}; "
                "widen it",
            )
    if network := ranges.get("platform.gpu_networks.cidr"):
        for path, pool, _ in _pools(raw):
            if pool.get("networking") != "dranet":
                yield from _subnets(path, network, len(_interfaces(pool)), gpu)


def _subnets(
    path: str, network: ipaddress.IPv4Network, subnets: int, nodes: int
) -> Iterator[Problem]:
    each = network.num_addresses >> (max(subnets, 1) - 1).bit_length()
    have = each - _RESERVED_ADDRESSES
    if have < nodes:
        yield (
            "platform.gpu_networks.cidr",
            f"{str(network)!r} in {subnets} subnets leaves {max(have, 0)} addresses in each for "
            f"{nodes} GPU nodes ({path}); widen it",
        )


def _storage(raw: Raw) -> Iterator[Problem]:
    platform = mapping(raw.get("platform"))
    seen: dict[str, str] = {}
    for path, row in rows(platform.get("storage"), "platform.storage"):
        name, kind = row.get("name"), row.get("kind")
        if isinstance(name, str) and seen.setdefault(name, path) != path:
            yield f"{path}.name", f"{name!r} is taken by {seen[name]}"
        elif name in _GKE_CLASSES:
            yield f"{path}.name", f"{name!r} is a storage class of GKE's own; choose another"
        if kind == "bucket" and "project_number" not in platform:
            yield (
                "platform.project_number",
                f"is missing; the rights on the bucket of {path} name it "
                "(`gcloud projects describe` shows it)",
            )
        elif kind == "filestore":
            yield from _filestore(path, row)
        elif kind == "lustre":
            yield from _lustre(path, row)
            yield from _service_access(path, mapping(platform.get("network")))


def _service_access(path: str, network: Raw) -> Iterator[Problem]:
    kind = network.get("kind")
    if kind == "existing" and network.get("service_connection") is not True:
        yield (
            "platform.network.service_connection",
            f"is not true, but {path} is reached through the network's private services access; "
            "set that up (docs/gcp.md), then say so here",
        )
    if kind != "new":
        return
    if network.get("google_services") is None:
        yield (
            "platform.network.google_services",
            f"is missing; {path} gets its addresses from it, such as '10.8.0.0/20'",
        )
    found = _network(network.get("google_services"))
    if found and found.prefixlen > _SERVICES_PREFIX:
        yield (
            "platform.network.google_services",
            f"{str(found)!r} is less than the /{_SERVICES_PREFIX} that Google takes; widen it",
        )


def _filestore(path: str, row: Raw) -> Iterator[Problem]:
    capacity = integer(row.get("capacity_gib"))
    limits = _FILESTORE.get(str(row.get("tier", "zonal")))
    if capacity is None or limits is None:
        return
    least, most, step = limits
    if not least <= capacity <= most or capacity % step:
        steps = f", in steps of {step}" if step > 1 else ""
        yield f"{path}.capacity_gib", f"{capacity} is not from {least} to {most} GiB{steps}"


def _lustre(path: str, row: Raw) -> Iterator[Problem]:
    capacity = integer(row.get("capacity_gib"))
    throughput = integer(row.get("throughput"))
    if capacity is None or throughput not in _LUSTRE:
        return
    least, most, steps = _LUSTRE[throughput]
    step = next((step for limit, step in steps if capacity <= limit), least)
    if not least <= capacity <= most or capacity % step:
        yield (
            f"{path}.capacity_gib",
            f"{capacity} is not to be had at {throughput} MB/s a TiB: from {least} to {most} GiB, "
            f"in steps of {step}",
        )


def _bytes(quantity: Any) -> float | None:
    found = re.match(r"^([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)$", str(quantity))
    if not found or found[2] not in _UNITS:
        return None
    return float(found[1]) * _UNITS[found[2]]


def _claims(raw: Raw) -> Iterator[Problem]:
    platform = mapping(raw.get("platform"))
    known = {str(r.get("name")): r for _, r in rows(platform.get("storage"), "")}
    for path, claim in rows(raw.get("checkpoints"), "checkpoints"):
        name = claim.get("storage_class")
        if not isinstance(name, str) or name in _GKE_CLASSES:
            continue
        if name not in known:
            names = [*known, *_GKE_CLASSES]
            listed = did_you_mean(name, names) or f"; there are: {', '.join(names)}"
            yield f"{path}.storage_class", f"{name!r} is not one of platform.storage{listed}"
            continue
        capacity, size = integer(known[name].get("capacity_gib")), _bytes(claim.get("size"))
        if capacity is not None and size is not None and size > capacity << 30:
            yield (
                f"{path}.size",
                f"{claim.get('size')!r} is more than the {capacity} GiB of storage {name!r}",
            )


def _labels(raw: Raw) -> Iterator[Problem]:
    zone = mapping(raw.get("platform")).get("zone")
    region = mapping(raw.get("platform")).get("region")
    for path, pool, machine in _pools(raw):
        given = {
            "cloud.google.com/gke-nodepool": pool.get("name"),
            "cloud.google.com/gke-accelerator": machine.accelerator,
            "node.kubernetes.io/instance-type": pool.get("instance_type"),
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": region,
        }
        for key, value in mapping(pool.get("node_selector")).items():
            if not given_by_gke(str(key)):
                continue
            if key not in given:
                yield (
                    f"{path}.node_selector.{key}",
                    f"is in a domain where GKE gives labels, and it gives none that can be told "
                    f"beforehand but: {', '.join(given)}; use a label of your own",
                )
            elif given[key] != value:
                yield (
                    f"{path}.node_selector.{key}",
                    f"{value!r}: GKE gives the pool's nodes {given[key]!r}",
                )
        for key in mapping(pool.get("labels")):
            if given_by_gke(str(key)):
                yield f"{path}.labels.{key}", "is in a domain where only GKE gives labels"


def given_by_gke(key: str) -> bool:
    """Whether a node label is in a domain that GKE keeps for itself."""
    domain, slash, _ = key.rpartition("/")
    own = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")
    return bool(slash) and any(domain == d or domain.endswith(f".{d}") for d in own)


def _taints(raw: Raw) -> Iterator[Problem]:
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    for path, pool in rows(raw.get("pools"), "pools"):
        tolerations = [row for _, row in rows(pool.get("tolerations"), "")]
        taints = [*rows(pool.get("taints"), f"{path}.taints"), (f"{path}.tolerations", gpu)]
        for where, taint in taints:
            if taint.get("effect") == "PreferNoSchedule":
                continue
            if not any(_tolerates(t, taint) for t in tolerations):
                yield (
                    where,
                    f"nothing in {path}.tolerations tolerates {taint.get('key')!r}="
                    f"{taint.get('value', '')!r}:{taint.get('effect')}, so no job would ever run "
                    f"there; add {{key: {taint.get('key')}, operator: Exists}}",
                )


def _tolerates(toleration: Raw, taint: Raw) -> bool:
    if toleration.get("effect") not in (None, taint.get("effect")):
        return False
    exists = toleration.get("operator", "Exists") == "Exists"
    key = toleration.get("key")
    if key is None or key != taint.get("key"):
        return key is None and exists
    return exists or str(toleration.get("value") or "") == str(taint.get("value", ""))


def _people(raw: Raw) -> Iterator[Problem]:
    researchers = raw.get("researchers")
    groups = mapping(raw.get("platform")).get("groups")
    if isinstance(researchers, str) and "@" in researchers and groups is None:
        yield (
            "platform.groups",
            f"is missing; GKE knows the group {researchers!r} of researchers only through Google "
            "Groups for RBAC, a 'gke-security-groups@your-domain.com' that it is a member of",
        )


def _maintenance(raw: Raw) -> Iterator[Problem]:
    window = mapping(mapping(raw.get("platform")).get("maintenance"))
    start, end = _time(window.get("start")), _time(window.get("end"))
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
        return
    if end - start < timedelta(hours=4):
        yield "platform.maintenance.end", "is less than 4 hours after start, GKE's least window"


def _time(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None


_CHECKS: tuple[Callable[[Raw], Iterator[Problem]], ...] = (
    _places,
    _endpoint,
    _capacity,
    _placement,
    _networking,
    _fabric,
    _addresses,
    _sizes,
    _storage,
    _claims,
    _labels,
    _taints,
    _people,
    _maintenance,
)


def problems(raw: Raw) -> Iterator[Problem]:
    """Every (path, message) of a cluster on GCP; nothing for one on another platform."""
    if mapping(raw.get("platform")).get("kind") == "gcp":
        for check in _CHECKS:
            yield from check(raw)
