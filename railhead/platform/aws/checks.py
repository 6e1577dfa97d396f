"""Mistakes on AWS that span several fields, found before anything is registered.

Like :mod:`railhead.config.checks` it reads the raw mapping and skips what is malformed.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from railhead.base.errors import did_you_mean
from railhead.base.raw import Problem, Raw, integer, mapping, rows, texts
from railhead.catalog.machines import MACHINES
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.rows import MODES
from railhead.platform.aws import facts as aws

Check = Callable[[Raw, Raw], Iterator[Problem]]

SYSTEM = "system"

# Kubernetes and the cloud put labels of these domains on nodes themselves, and refuse others'.
_RESERVED_LABELS = (
    "kubernetes.io",
    "k8s.io",
    "eks.amazonaws.com",
    "topology.k8s.aws",
    "karpenter.sh",
)


def problems(raw: Any) -> Iterator[Problem]:
    """Every (path, message) of a cluster on AWS; nothing for any other."""
    cluster = mapping(raw)
    platform = mapping(cluster.get("platform"))
    if platform.get("kind") != "aws":
        return
    for check in _CHECKS:
        yield from check(cluster, platform)


def reserved_label(key: str) -> bool:
    """Whether nodes get a label by themselves, so that no pool may set it.

    >>> reserved_label("node.kubernetes.io/instance-type"), reserved_label("acme.com/team")
    (True, False)
    """
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == d or domain.endswith(f".{d}") for d in _RESERVED_LABELS)


def lustre_efa_types() -> list[str]:
    """Instance types that mount an EFA-enabled Lustre file system over EFA."""
    return sorted(
        machine.name
        for machine in MACHINES.values()
        if "efa" in machine.fabrics and machine.name not in aws.LUSTRE_WITHOUT_EFA
    )


def _zones(platform: Raw) -> list[str]:
    """The zones in which nodes can live; empty where that cannot be told."""
    network = mapping(platform.get("network"))
    if network.get("kind") == "new":
        return texts(network.get("availability_zones"))
    return [str(zone) for zone in mapping(network.get("private_subnets"))]


def _named_zones(cluster: Raw, platform: Raw) -> Iterator[tuple[str, str]]:
    network = mapping(platform.get("network"))
    for index, zone in enumerate(texts(network.get("availability_zones"))):
        yield f"platform.network.availability_zones[{index}]", zone
    for key in mapping(network.get("private_subnets")):
        yield f"platform.network.private_subnets.{key}", str(key)
    for path, row in (
        *rows(cluster.get("pools"), "pools"),
        *rows(platform.get("storage"), "platform.storage"),
    ):
        if isinstance(named := row.get("availability_zone"), str):
            yield f"{path}.availability_zone", named
    for path, row in rows(cluster.get("pools"), "pools"):
        if isinstance(named := mapping(row.get("purchase")).get("availability_zone"), str):
            yield f"{path}.purchase.availability_zone", named


def _regions(cluster: Raw, platform: Raw) -> Iterator[Problem]:
    region, zones = platform.get("region"), _zones(platform)
    for path, zone in _named_zones(cluster, platform):
        if isinstance(region, str) and not _within(zone, region):
            yield path, f"{zone!r} is not a zone of region {region!r}"
        elif zones and zone not in zones and not path.endswith("purchase.availability_zone"):
            yield path, f"{zone!r} has no subnet; platform.network has: {', '.join(zones)}"
    for index, zone in enumerate(zones):
        if zone in zones[:index]:
            yield f"platform.network.availability_zones[{index}]", f"{zone!r} is there twice"


def _within(zone: str, region: str) -> bool:
    return zone[:-1] == region or zone.startswith(f"{region}-")


def _control_plane(_: Raw, platform: Raw) -> Iterator[Problem]:
    network = mapping(platform.get("network"))
    subnets = mapping(network.get("private_subnets"))
    regional = [zone for zone in subnets if not aws.is_local_zone(str(zone))]
    if len(subnets) >= 2 > len(regional):
        yield (
            "platform.network.private_subnets",
            "EKS' control plane needs two zones that are not Local Zones",
        )


def _network(_: Raw, platform: Raw) -> Iterator[Problem]:
    network = mapping(platform.get("network"))
    try:
        block = ipaddress.ip_network(str(network.get("cidr")))
    except ValueError:
        return
    # Room for a private subnet in each of eight parts, and a public one that AWS still takes.
    narrowest = aws.VPC_NARROWEST - 6
    if block.version != 4 or not aws.VPC_WIDEST <= block.prefixlen <= narrowest:
        yield (
            "platform.network.cidr",
            f"{str(block)!r} is not an IPv4 block from /{aws.VPC_WIDEST} to /{narrowest}",
        )
        return
    behind = mapping(network.get("transit_gateway")).get("cidrs")
    for index, text in enumerate(texts(behind)):
        try:
            other = ipaddress.ip_network(text)
        except ValueError:
            continue
        if other.version == 4 and other.overlaps(block):
            yield (
                f"platform.network.transit_gateway.cidrs[{index}]",
                f"{text!r} overlaps the VPC's own {str(block)!r}; it could not be reached",
            )


def _access(cluster: Raw, platform: Raw) -> Iterator[Problem]:
    endpoint = mapping(platform.get("endpoint"))
    for index, text in enumerate(texts(endpoint.get("from_cidrs"))):
        if text in ("0.0.0.0/0", "::/0"):
            yield (
                f"platform.endpoint.from_cidrs[{index}]",
                f"{text!r} is the whole internet; name the networks that may reach the API server",
            )
    seen: dict[str, str] = {}
    for key in ("administrators", "researchers"):
        for index, principal in enumerate(texts(platform.get(key))):
            path = f"platform.{key}[{index}]"
            if principal in seen:
                yield path, f"{principal!r} is {seen[principal]} already; EKS takes it once"
            seen.setdefault(principal, path)
    group = cluster.get("researchers")
    if isinstance(group, str) and texts(platform.get("researchers")):
        for prefix in aws.RESERVED_GROUPS:
            if group.startswith(prefix):
                yield "researchers", f"{group!r}: EKS gives nobody a group that starts {prefix!r}"


def _versions(cluster: Raw, platform: Raw) -> Iterator[Problem]:
    minor, combination = platform.get("kubernetes"), COMBINATIONS.get(str(cluster.get("versions")))
    if combination and isinstance(minor, str) and minor.startswith("1."):
        oldest, newest = combination.kubernetes
        try:
            inside = _minor(oldest) <= _minor(minor) <= _minor(newest)
        except ValueError:
            return
        if not inside:
            yield (
                "platform.kubernetes",
                f"{minor!r} is not served by versions {combination.name!r}: {oldest} to {newest}",
            )
    for name in mapping(platform.get("addon_versions")):
        if name not in aws.ADDONS:
            listed = did_you_mean(str(name), aws.ADDONS) or f"; there are: {', '.join(aws.ADDONS)}"
            yield f"platform.addon_versions.{name}", f"{name!r} is not an add-on here{listed}"
    days = integer(platform.get("log_retention_days"))
    if days is not None and days > 0 and days not in aws.LOG_RETENTION_DAYS:
        allowed = ", ".join(map(str, aws.LOG_RETENTION_DAYS))
        yield "platform.log_retention_days", f"{days} is not allowed; allowed: {allowed}"


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def _tags(_: Raw, platform: Raw) -> Iterator[Problem]:
    tags = mapping(platform.get("tags"))
    # The stack adds a few of its own to each resource.
    most = aws.TAGS - 10
    if len(tags) > most:
        yield "platform.tags", f"{len(tags)} are more than {most}"
    for key, value in tags.items():
        path = f"platform.tags.{key}"
        if str(key).lower().startswith("aws:"):
            yield path, "keys that start 'aws:' are Amazon's own"
        if len(str(key)) > aws.TAG_KEY or len(str(value)) > aws.TAG_VALUE:
            yield path, f"longer than {aws.TAG_KEY} characters, or its value than {aws.TAG_VALUE}"


def _pools(cluster: Raw, _: Raw) -> Iterator[Problem]:
    for path, pool in rows(cluster.get("pools"), "pools"):
        if pool.get("name") == SYSTEM:
            yield f"{path}.name", f"{SYSTEM!r} is the pool of the controllers"
        yield from _purchase(path, pool, mapping(pool.get("purchase")))
        yield from _sizes(path, pool)
        yield from _labels(path, pool)


def _purchase(path: str, pool: Raw, purchase: Raw) -> Iterator[Problem]:
    kind, instance_type = purchase.get("kind"), pool.get("instance_type")
    zone, reserved = pool.get("availability_zone"), purchase.get("availability_zone")
    if isinstance(zone, str) and isinstance(reserved, str) and zone != reserved:
        yield (
            f"{path}.availability_zone",
            f"{zone!r} is not where {purchase.get('id')!r} has its capacity, which is {reserved!r}",
        )
    if kind == "capacity-block":
        yield from _block(path, pool, purchase)
    elif isinstance(kind, str) and instance_type in aws.CAPACITY_BLOCK_ONLY:
        yield f"{path}.purchase.kind", f"{instance_type!r} comes by 'capacity-block' only"
    group = mapping(pool.get("placement_group"))
    if kind == "reservation" and group.get("kind") == "new":
        # eksctl, issue 7949 (11 of 16 reserved instances came) and terraform-aws-eks, issue 3730;
        # a future-dated reservation takes none at all (EC2 API, CreateCapacityReservation).
        yield (
            f"{path}.placement_group.kind",
            "'new' asks for reserved machines in one cluster, where EC2 may find too few of them: "
            "remove placement_group, or name the one that the reservation was made in: 'existing'",
        )
    if kind == "on-demand" and group.get("kind") == "existing":
        yield (
            f"{path}.placement_group.kind",
            "an on-demand pool makes its own group: 'new'; 'existing' is a reservation's",
        )


def _block(path: str, pool: Raw, block: Raw) -> Iterator[Problem]:
    if pool.get("placement_group") is not None:
        yield (
            f"{path}.placement_group",
            "a capacity block is placed by EC2, and a group of ours finds no capacity in it; "
            "remove it",
        )
    nodes = integer(pool.get("nodes"))
    if nodes is not None and nodes > aws.CAPACITY_BLOCK_NODES:
        yield f"{path}.nodes", f"{nodes} is more than the {aws.CAPACITY_BLOCK_NODES} of a block"
    starts, ends = _time(block.get("starts")), _time(block.get("ends"))
    if starts is None or ends is None:
        return
    if ends <= starts:
        yield f"{path}.purchase.ends", "is not after starts"
    elif ends - starts > timedelta(days=aws.CAPACITY_BLOCK_DAYS):
        yield (
            f"{path}.purchase.ends",
            f"is more than {aws.CAPACITY_BLOCK_DAYS} days after starts, the longest block there is",
        )


def _time(value: Any) -> datetime | None:
    """A moment with its zone; YAML reads one as such, JSON gives text."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def _sizes(path: str, pool: Raw) -> Iterator[Problem]:
    nodes = integer(pool.get("nodes"))
    if nodes is None:
        return
    for key in ("initial_nodes", "min_nodes"):
        value = integer(pool.get(key))
        if value is not None and value > nodes:
            yield f"{path}.{key}", f"{value} is more than nodes, {nodes}"
    block = mapping(pool.get("purchase")).get("kind") == "capacity-block"
    first = integer(pool.get("initial_nodes"))
    first = (0 if block else nodes) if first is None else first
    least = integer(pool.get("min_nodes")) or 0
    if least > first:
        yield f"{path}.min_nodes", f"{least} is more than the {first} that the group starts with"


def _labels(path: str, pool: Raw) -> Iterator[Problem]:
    selector, labels = mapping(pool.get("node_selector")), mapping(pool.get("labels"))
    for key, value in labels.items():
        if reserved_label(str(key)):
            yield f"{path}.labels.{key}", "nodes get it by themselves, or not at all; remove it"
        if key in selector and selector[key] != value:
            yield (
                f"{path}.labels.{key}",
                f"{value!r} is not the {selector[key]!r} of node_selector",
            )
    tolerations = [row for _, row in rows(pool.get("tolerations"), "tolerations")]
    for taint_path, taint in rows(pool.get("taints"), f"{path}.taints"):
        effect = taint.get("effect")
        if effect == "PreferNoSchedule" or not isinstance(taint.get("key"), str):
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            yield (
                taint_path,
                f"no toleration of the pool bears {taint['key']!r} {effect}; its jobs would never "
                "start: add it to tolerations",
            )


def _tolerates(toleration: Raw, taint: Raw) -> bool:
    operator = toleration.get("operator", "Exists")
    if toleration.get("effect") not in (None, taint.get("effect")):
        return False
    if toleration.get("key") is None:
        return bool(operator == "Exists")
    if toleration.get("key") != taint.get("key"):
        return False
    return bool(operator == "Exists" or toleration.get("value", "") == taint.get("value", ""))


def _storage(cluster: Raw, platform: Raw) -> Iterator[Problem]:
    names: dict[str, str] = {}
    capacity: dict[str, int] = {}
    for path, row in rows(platform.get("storage"), "platform.storage"):
        name = row.get("name")
        if isinstance(name, str) and names.setdefault(name, path) != path:
            yield f"{path}.name", f"{name!r} is taken by {names[name]}"
        if row.get("kind") == "lustre":
            yield from _lustre(path, row, cluster)
            size = integer(row.get("capacity_gib"))
            if size is not None:
                capacity[str(name)] = size
    for path, claim in rows(cluster.get("checkpoints"), "checkpoints"):
        wanted = claim.get("storage_class")
        if isinstance(wanted, str) and wanted not in names:
            listed = did_you_mean(wanted, names) or f"; there are: {', '.join(names) or 'none'}"
            yield f"{path}.storage_class", f"{wanted!r} is no name of platform.storage{listed}"
        asked, most = _gib(claim.get("size")), capacity.get(str(wanted))
        if asked is not None and most is not None and asked > most:
            yield (
                f"{path}.size",
                f"{claim['size']!r} is more than the {most} GiB of the file system",
            )


def _gib(quantity: Any) -> float | None:
    units = {"Gi": 1.0, "Ti": 1024.0, "Pi": 1024.0**2, "Mi": 1 / 1024}
    text = str(quantity)
    if text[-2:] not in units:
        return None
    try:
        return float(text[:-2]) * units[text[-2:]]
    except ValueError:
        return None


def _lustre(path: str, row: Raw, cluster: Raw) -> Iterator[Problem]:
    size, throughput = integer(row.get("capacity_gib")), integer(row.get("throughput"))
    efa = row.get("efa") is True
    if size is not None:
        step = aws.LUSTRE_EFA_STEP_GIB.get(throughput or 0) if efa else None
        if step is not None and (size <= 0 or size % step):
            yield (
                f"{path}.capacity_gib",
                f"{size} is not a multiple of {step}, the step of an EFA-enabled file system at "
                f"{throughput} MB/s for each TiB",
            )
        elif not efa and size != aws.LUSTRE_SMALLEST_GIB and (size % aws.LUSTRE_STEP_GIB):
            yield (
                f"{path}.capacity_gib",
                f"{size} is neither {aws.LUSTRE_SMALLEST_GIB} nor a multiple of "
                f"{aws.LUSTRE_STEP_GIB}",
            )
    iops = integer(mapping(row.get("metadata")).get("iops"))
    if iops is not None and not _metadata_iops(iops):
        allowed = ", ".join(map(str, aws.LUSTRE_METADATA_IOPS))
        yield (
            f"{path}.metadata.iops",
            f"{iops} is not allowed; allowed: {allowed}, or a multiple of "
            f"{aws.LUSTRE_METADATA_STEP} up to {aws.LUSTRE_METADATA_MOST}",
        )
    if efa:
        yield from _efa_clients(path, row, cluster)


def _metadata_iops(iops: int) -> bool:
    return iops in aws.LUSTRE_METADATA_IOPS or (
        0 < iops <= aws.LUSTRE_METADATA_MOST and iops % aws.LUSTRE_METADATA_STEP == 0
    )


def _efa_clients(path: str, row: Raw, cluster: Raw) -> Iterator[Problem]:
    pools = [pool for _, pool in rows(cluster.get("pools"), "pools")]
    can = [p for p in pools if p.get("instance_type") in lustre_efa_types()]
    if not can:
        types = ", ".join(lustre_efa_types())
        yield (
            f"{path}.efa",
            f"no pool's instance type mounts Lustre over EFA; those that do: {types}",
        )
    elif row.get("availability_zone") not in [p.get("availability_zone") for p in can]:
        zones = ", ".join(sorted({str(p.get("availability_zone")) for p in can}))
        yield (
            f"{path}.availability_zone",
            f"EFA does not leave a zone, and the pools that mount over it are in: {zones}",
        )
    taken = [
        (integer(p.get("nodes")) or 0, _lustre_devices(p))
        for p in can
        if p.get("availability_zone") == row.get("availability_zone")
    ]
    connections = sum(nodes * devices for nodes, devices in taken)
    if connections > aws.LUSTRE_EFA_CONNECTIONS:
        nodes = sum(nodes for nodes, _ in taken)
        most = aws.LUSTRE_EFA_CONNECTIONS // nodes
        yield (
            f"{path}.efa",
            f"{connections} EFA devices of {nodes} nodes would connect, and FSx takes "
            f"{aws.LUSTRE_EFA_CONNECTIONS}: "
            + (
                f"write `lustre_efa_devices: {most}` in the pools"
                if most
                else "split the pools over file systems, or write `efa: false`"
            ),
        )


def _lustre_devices(pool: Raw) -> int:
    default = aws.LUSTRE_EFA_DEVICES.get(
        str(pool.get("instance_type")), aws.LUSTRE_EFA_DEVICES_OTHER
    )
    return integer(pool.get("lustre_efa_devices")) or default


def _gpu_operator(cluster: Raw, _: Raw) -> Iterator[Problem]:
    operator = cluster.get("gpu_operator")
    if operator is None:
        yield (
            "gpu_operator",
            "is missing: EKS' images have driver and toolkit, and nothing that tells Kubernetes of "
            "the GPUs; write `gpu_operator: {driver: host, toolkit: host}`",
        )
    for part in ("driver", "toolkit"):
        if isinstance(operator, Mapping) and operator.get(part, "operator") == "operator":
            yield (
                f"gpu_operator.{part}",
                "'operator' is a second one beside that of EKS' image; write 'host'",
            )
    if mapping(operator).get("gdrcopy") is True:
        # gpu-operator v26.7.0: its installer is a container of the driver's DaemonSet alone.
        yield (
            "gpu_operator.gdrcopy",
            "EKS' image has no gdrdrv, and the operator brings it with its own driver only; "
            "remove it",
        )


def _hugepages(cluster: Raw, _: Raw) -> Iterator[Problem]:
    mode = MODES.get(str(mapping(cluster.get("fabric")).get("mode")))
    for path, pool in rows(cluster.get("pools"), "pools"):
        pages = integer(pool.get("hugepages_2mib"))
        machine = MACHINES.get(str(pool.get("instance_type")))
        if pages is None or mode is None or machine is None:
            continue
        asked = mode.hugepages_mib * len(machine.nics)
        if 2 * pages < asked:
            yield (
                f"{path}.hugepages_2mib",
                f"{pages} are {2 * pages} MiB, and a pod with all of a node's NICs asks for "
                f"{asked}: it would never start",
            )


def _system_pool(_: Raw, platform: Raw) -> Iterator[Problem]:
    pool = mapping(platform.get("system_pool"))
    nodes, most = integer(pool.get("nodes")), integer(pool.get("max_nodes"))
    if nodes is not None and most is not None and nodes > most:
        yield "platform.system_pool.nodes", f"{nodes} is more than max_nodes, {most}"


_CHECKS: tuple[Check, ...] = (
    _regions,
    _control_plane,
    _network,
    _access,
    _versions,
    _tags,
    _pools,
    _system_pool,
    _gpu_operator,
    _hugepages,
    _storage,
)
