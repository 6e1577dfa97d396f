"""Mistakes on AWS that span several fields, found before anything is registered.

Like :mod:`railhead.config.checks` it reads the cluster as far as it is well-formed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from railhead.base import quantity
from railhead.base.errors import choices
from railhead.base.sections import Problem, each, knowing, taken, told, told_each, twice
from railhead.catalog import fsx
from railhead.machines import MACHINES
from railhead.machines.machine import Machine
from railhead.model.gpu import GpuOperatorConfig
from railhead.platform.aws import facts as aws
from railhead.platform.aws import rights
from railhead.platform.aws.model import (
    AwsCluster,
    AwsPool,
    CapacityBlock,
    ExistingNetwork,
    ExistingPlacementGroup,
    LustreFileSystem,
    NewNetwork,
    NewPlacementGroup,
    OnDemand,
    PrivateEndpoint,
    ProvisionedMetadata,
    Reservation,
    ReservationGroup,
    Spot,
)

SYSTEM = "system"
# Sizes of at most 4 GiB (EC2, general purpose instance types).
_SMALL = ("nano", "micro", "small", "medium")
_AHEAD = timedelta(days=aws.CAPACITY_BLOCK_AHEAD_DAYS)
# How long before its support ends a minor is doubted: long enough to plan an upgrade of P5 nodes.
_SOON = timedelta(days=60)
# EC2, Instance type naming conventions: after the generation, `g` is Graviton.
_GRAVITON = re.compile(r"(a1|[a-z]+[0-9]+g[a-z]*)\..*")

# Kubernetes and the cloud put labels of these domains on nodes themselves, and refuse others'.
_RESERVED_LABELS = (
    "kubernetes.io",
    "k8s.io",
    "eks.amazonaws.com",
    "topology.k8s.aws",
    "karpenter.sh",
)


def problems(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield every (path, message) of a cluster on AWS, as far as it is well-formed."""
    for check in _CHECKS:
        yield from told(check, cluster)


def doubts(cluster: AwsCluster, now: datetime) -> Iterator[Problem]:
    """Yield every (path, message) of what was right once; ``now`` has a time zone."""
    for path, pool in each(cluster.pools, "pools"):
        if isinstance(pool.purchase, CapacityBlock) and pool.purchase.ends <= now:
            yield (
                f"{path}.purchase.ends",
                f"the capacity block was over at {pool.purchase.ends.isoformat()}: the pool has no "
                "node and gets none; name a block that is to come, or take the pool away",
            )
        elif isinstance(pool.purchase, CapacityBlock) and pool.purchase.starts > now + _AHEAD:
            yield (
                f"{path}.purchase.starts",
                f"{pool.purchase.starts.isoformat()}: no block is sold that begins in more than "
                f"{aws.CAPACITY_BLOCK_AHEAD_DAYS} days",
            )
        elif (
            isinstance(pool.purchase, CapacityBlock)
            and pool.first_nodes
            and pool.purchase.starts > now
        ):
            yield (
                f"{path}.initial_nodes",
                f"{pool.initial_nodes}: EC2 starts none before the block does, at "
                f"{pool.purchase.starts.isoformat()}, and EKS calls a group failed that gets none",
            )
    yield from _bought_once(cluster)
    yield from _strangers(cluster)
    yield from _closest_layer(cluster)
    yield from _supported(cluster, now)
    yield from _quotas(cluster)
    yield from _rules(cluster)
    yield from _lustre_offered(cluster)
    yield from _lustre_metadata(cluster)
    yield from _part_of_an_ultraserver(cluster)
    yield from _host_engines(cluster)
    yield from _services(cluster)
    yield from _way_in(cluster)
    yield from _far_from_efs(cluster)
    yield from _graces(cluster)
    yield from _panics(cluster)
    if (region := cluster.platform.region) not in aws.REGIONS:
        yield (
            "platform.region",
            f"{region!r} is no region that is known{choices(region, aws.REGIONS)}",
        )
    if (kind := cluster.platform.system_pool.instance_type).rpartition(".")[2] in _SMALL:
        yield (
            "platform.system_pool.instance_type",
            f"{kind!r} is too small for the controllers and what watches them",
        )


def _supported(cluster: AwsCluster, now: datetime) -> Iterator[Problem]:
    """Yield a minor whose standard support ends soon, or has ended (EKS API, UpgradePolicy)."""
    minor = cluster.platform.kubernetes
    ends = aws.STANDARD_SUPPORT_ENDS.get(minor)
    if ends is None or now.date() < ends - _SOON:
        return
    when = f"standard support of {minor!r} ends on {ends.isoformat()}"
    if cluster.platform.support == "standard":
        tells = (
            f"{when}: EKS then upgrades the control plane by itself, nodes and add-ons stay, and "
            "this file asks for a downgrade, which EKS refuses: write a newer minor before, or "
            "`support: extended`"
        )
    else:
        tells = f"{when}: from then on EKS charges more by the hour, for a year at most"
    yield "platform.kubernetes", tells


def _quotas(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield what an account refuses whose quotas nobody raised."""
    for path, pool in each(cluster.pools, "pools"):
        if pool.nodes > aws.GROUP_NODES:
            yield (
                f"{path}.nodes",
                f"{pool.nodes}: a node group has {aws.GROUP_NODES} at most, unless the account's "
                "quota `Nodes per managed node group` was raised",
            )
    if len(cluster.pools) >= aws.GROUPS:
        yield (
            "pools",
            f"{len(cluster.pools)} pools and that of the controllers are more node groups than the "
            f"{aws.GROUPS} of a cluster, unless the account's quota `Managed node groups per "
            "cluster` was raised",
        )
    if (gib := volumes_gib(cluster)) > aws.VOLUMES_TIB * 1024:
        yield (
            "pools",
            f"root volumes of all nodes have {gib} GiB, and a region gives an account "
            f"{aws.VOLUMES_TIB} TiB of gp3, unless its quota `Storage for General Purpose SSD "
            "(gp3) volumes, in TiB` was raised: a smaller root_volume_gib will do where "
            "local_storage is raid0, which has the containers' data",
        )
    for zone, count in interfaces(cluster).items():
        if count > aws.INTERFACES:
            yield (
                "pools",
                f"nodes in {zone} have {count} network interfaces, and a zone gives an account "
                f"{aws.INTERFACES}, unless its quota `Network interfaces per Region` was raised",
            )
    gib = sum(row.capacity_gib for _, row in _lustres(cluster))
    if gib > aws.LUSTRE_ACCOUNT_GIB:
        yield (
            "platform.storage",
            f"file systems of Lustre have {gib} GiB together, and a region gives an account "
            f"{aws.LUSTRE_ACCOUNT_GIB}, unless its quota `Lustre Persistent 2 file storage "
            "capacity` was raised",
        )


def volumes_gib(cluster: AwsCluster) -> int:
    """Return the GiB of the root volumes of all nodes that there may be."""
    system = cluster.platform.system_pool
    pools = sum(pool.nodes * pool.root_volume_gib for pool in cluster.pools)
    return pools + system.max_nodes * system.root_volume_gib


def interfaces(cluster: AwsCluster) -> dict[str, int]:
    """Return zone -> the network interfaces of all nodes with GPUs there."""
    counts: dict[str, int] = {}
    for pool in cluster.pools:
        row = MACHINES[pool.instance_type]
        own = pool.nodes * (len(row.host_nics) + len(row.nics))
        counts[pool.availability_zone] = counts.get(pool.availability_zone, 0) + own
    return counts


def _rules(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield more networks than the cluster's security group has rules for.

    EKS' own rule is one of them, and each Lustre file system has one a range of ports.
    """
    endpoint = cluster.platform.endpoint
    if not isinstance(endpoint, PrivateEndpoint):
        return
    others = 1 + len(aws.LUSTRE_PORTS) * sum(1 for _ in _lustres(cluster))
    if (count := len(endpoint.from_cidrs)) + others > aws.GROUP_RULES:
        yield (
            "platform.endpoint.from_cidrs",
            f"{count} networks and {others} rules more are in the cluster's security group, which "
            f"takes {aws.GROUP_RULES}, unless the account's quota `Inbound or outbound rules per "
            "security group` was raised: put neighbours together",
        )


def _lustre_offered(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield file systems that FSx does not offer where they are to be, as far as its guide says."""
    for path, row in _lustres(cluster):
        zone = row.availability_zone
        local = aws.is_local_zone(zone)
        place = zone.rpartition("-")[0] if local else cluster.platform.region
        plain = row.throughput <= aws.LUSTRE_PLAIN_THROUGHPUT and not row.efa
        if place in aws.LUSTRE_NOWHERE or (local and place not in aws.LUSTRE_PLAIN):
            yield (
                f"{path}.availability_zone",
                f"FSx' guide lists no file system of this kind (Persistent 2) in {place!r}: `up` "
                "would end there, unless FSx has it by now; otherwise take `kind: efs`",
            )
        elif place in aws.LUSTRE_PLAIN and not plain:
            yield (
                path,
                f"FSx' guide lists for {place!r} no EFA and at most {aws.LUSTRE_PLAIN_THROUGHPUT} "
                "MB/s for each TiB: `up` would end there, unless FSx has more by now",
            )


def _lustre_metadata(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield fewer metadata IOPS than a size brings: FSx refuses to grow into it, or beyond.

    Whether it makes such a file system is not known (terraform-provider-aws, issue 44432, is of
    growth; the FSx API's own text names no least value of a size).
    """
    for path, row in _lustres(cluster):
        included = fsx.metadata_iops(row.capacity_gib)
        if isinstance(row.metadata, ProvisionedMetadata) and row.metadata.iops < included:
            yield (
                f"{path}.metadata.iops",
                f"{row.metadata.iops} is less than the {included} that {row.capacity_gib} GiB "
                "bring by themselves in automatic mode: FSx lets no file system grow to this size "
                f"beside so few, and may make none; write {included} or more, or `kind: automatic`",
            )


def _graces(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield runtimes whose pods have less time to save than they say, where EC2 ends a node."""
    spot = {pool.name for pool in cluster.pools if isinstance(pool.purchase, Spot)}
    for path, runtime in each(cluster.runtimes, "runtimes"):
        seconds = runtime.grace_seconds
        if runtime.pool in spot and seconds >= aws.SHUTDOWN_SECONDS:
            yield (
                f"{path}.grace_seconds",
                f"{seconds}: EC2 takes a spot machine two minutes after it says so, some of which "
                "pass before pods are to end: write 90, and save in that time",
            )
        elif seconds > aws.SHUTDOWN_SECONDS:
            yield (
                f"{path}.grace_seconds",
                f"{seconds}: where EC2 ends a node that nobody drained, EKS' image gives pods "
                f"{aws.SHUTDOWN_SECONDS}, and none on 1.33; what needs longer to save is lost",
            )


def _panics(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield images that are written and reboot by themselves."""
    for path, pool in each(cluster.pools, "pools"):
        if pool.ami_release is not None and aws.panics(pool.ami_release):
            yield (
                f"{path}.ami_release",
                f"{pool.ami_release!r}: its kernel panics where it reclaims memory, and nodes "
                f"reboot under their jobs: write {aws.MENDED} or a later release",
            )


def _host_engines(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a second host engine of DCGM beside that of EKS' node monitoring agent.

    The agent's cannot be left out (eks-node-monitoring-agent v1.6.7, dcgm-daemonset.yaml; its pull
    request 205, for one that is there already, came later), and runs on amd64 alone. NVIDIA
    supports one on a node (DCGM, issue 108); with two, users' nodes were called broken
    (containers-roadmap, issue 2763).
    """
    operator = cluster.gpu_operator
    watched = any(MACHINES[pool.instance_type].architecture == "amd64" for pool in cluster.pools)
    if operator is not None and operator.dcgm_exporter and watched:
        yield (
            "gpu_operator.dcgm_exporter",
            "true, so that a node has a second host engine of DCGM beside that of EKS' node "
            "monitoring agent: NVIDIA supports one, two may block each other in the driver, and "
            "the agent may call the node broken, which EKS then replaces; write false unless "
            "you need its metrics: Xids are conditions of the node anyway",
        )


def _services(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield networks behind the gateway whose addresses are those of the cluster's services."""
    network = cluster.platform.network
    gateway = network.transit_gateway if isinstance(network, NewNetwork) else None
    for path, cidr in each(
        gateway.cidrs if gateway else (), "platform.network.transit_gateway.cidrs"
    ):
        for services in aws.SERVICE_CIDRS:
            if ipaddress.ip_network(cidr).overlaps(ipaddress.ip_network(services)):
                yield (
                    path,
                    f"{cidr!r} overlaps {services!r}, which EKS may give to the cluster's "
                    "services: pods then reach nothing of that network there",
                )


def _way_in(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a private API server that neither people nor `pulumi up` reach.

    EKS' security group lets in nodes alone, also from within the VPC (EKS user guide, cluster-
    endpoint: an instance of the VPC needs a rule for port 443; sec-group-reqs), and what is beside
    a VPC of the stack's own is routed by its transit gateway alone.
    """
    network, endpoint = cluster.platform.network, cluster.platform.endpoint
    if not isinstance(endpoint, PrivateEndpoint):
        return
    if not endpoint.from_cidrs:
        yield (
            "platform.endpoint.from_cidrs",
            "is empty: only nodes reach the API server, nothing else in the VPC does, and `up` "
            "ends at the first object of Kubernetes: name the networks that it and people come "
            "from, also where they are the VPC's own",
        )
    if not isinstance(network, NewNetwork):
        return
    if network.transit_gateway is None:
        yield (
            "platform.endpoint.kind",
            "'private', in a new VPC without transit_gateway: nothing outside reaches the API "
            "server, and `up` ends at the first object of Kubernetes, unless you make another way "
            "in: write platform.network.transit_gateway, or `kind: public`",
        )
        return
    near = [ipaddress.ip_network(c) for c in (network.cidr, *network.transit_gateway.cidrs)]
    for path, cidr in each(endpoint.from_cidrs, "platform.endpoint.from_cidrs"):
        if not any(ipaddress.ip_network(cidr).overlaps(other) for other in near):
            yield (
                path,
                f"{cidr!r} is not behind platform.network.transit_gateway: no answer of the API "
                "server comes there unless you route it; add it to the gateway's cidrs",
            )


def _far_from_efs(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield file systems that a pool's nodes do not find: a Local Zone has no mount target.

    EFS' name is only resolved in a zone with one (EFS user guide, mounting-fs-mount-cmd-dns-name),
    and its driver's way by the API needs rights that no node has (efs-utils, dns_resolver.py).
    """
    for path, row in each(cluster.platform.storage, "platform.storage"):
        for pool in cluster.pools:
            if row.kind == "efs" and aws.is_local_zone(pool.availability_zone):
                yield (
                    path,
                    f"EFS has no mount target in a Local Zone, as {pool.availability_zone!r} of "
                    f"pool {pool.name!r} is, and is not found there: pods with a claim on it would "
                    "never start; let that pool's jobs use `kind: lustre`",
                )


def _part_of_an_ultraserver(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield pools that leave machines of their UltraServer, which are paid for, without a use."""
    for path, pool in each(cluster.pools, "pools"):
        sizes = aws.ULTRASERVER_NODES.get(pool.instance_type, ())
        whole = next((size for size in sizes if size >= pool.nodes), pool.nodes)
        if whole > pool.nodes:
            yield (
                f"{path}.nodes",
                f"{pool.nodes} are part of an UltraServer, which is sold whole, as "
                f"{' or '.join(map(str, sizes))} of {pool.instance_type!r}: {whole - pool.nodes} "
                "stay out of the pool",
            )


def _bought_once(cluster: AwsCluster) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for path, pool in each(cluster.pools, "pools"):
        bought = getattr(pool.purchase, "id", None)
        if bought and seen.setdefault(bought, path) != path:
            yield (
                f"{path}.purchase.id",
                f"{bought!r} is that of {seen[bought]} as well: it must hold the nodes of both",
            )


def _strangers(cluster: AwsCluster) -> Iterator[Problem]:
    platform = cluster.platform
    listed = {"administrators": platform.administrators, "researchers": platform.researchers}
    listed |= {f"members.{group}": arns for group, arns in platform.members.items()}
    for key, principals in listed.items():
        for path, arn in each(principals, f"platform.{key}"):
            account = arn.split(":")[4]
            if account != platform.account:
                yield path, f"is of account {account}, not of {platform.account}"


def reserved_label(key: str) -> bool:
    """Return whether nodes get a label by themselves, so that no pool may set it.

    >>> reserved_label("node.kubernetes.io/instance-type"), reserved_label("acme.com/team")
    (True, False)
    """
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == d or domain.endswith(f".{d}") for d in _RESERVED_LABELS)


def lustre_efa_types() -> list[str]:
    """Return the instance types that mount an EFA-enabled Lustre file system over EFA."""
    return sorted(
        machine.name
        for machine in MACHINES.values()
        if "efa" in machine.fabrics and machine.name not in aws.LUSTRE_WITHOUT_EFA
    )


def _name(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a name that security groups may not begin with (EC2 API, CreateSecurityGroup)."""
    if cluster.name.startswith("sg-"):
        yield (
            "name",
            f"{cluster.name!r} starts with 'sg-', and so would names of security groups, which EC2 "
            "refuses",
        )


def _isolated(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a region of a partition of which no ARN, registry or endpoint is right here."""
    region = cluster.platform.region
    if "-iso" in region:
        yield (
            "platform.region",
            f"{region!r} is of an isolated partition, whose ARNs, registries and endpoints have "
            "names that are not known here",
        )


def _own_zones(cluster: AwsCluster) -> Iterator[Problem]:
    network, path = cluster.platform.network, "platform.network"
    if isinstance(network, NewNetwork):
        zones = f"{path}.availability_zones"
        for where, _, zone in knowing(network.availability_zones, zones, str):
            yield from told(_region, where, zone, cluster)
        yield from twice(network.availability_zones, zones)
    else:
        for zone in network.private_subnets:
            yield from _region(f"{path}.private_subnets.{zone}", zone, cluster)


def _pool_zones(cluster: AwsCluster) -> Iterator[Problem]:
    for path, _, zone in knowing(cluster.pools, "pools", lambda pool: pool.availability_zone):
        yield from _zone(f"{path}.availability_zone", zone, cluster)


def _storage_zones(cluster: AwsCluster) -> Iterator[Problem]:
    for path, row in _lustres(cluster):
        yield from told(_storage_zone, path, row, cluster)


def _storage_zone(path: str, row: LustreFileSystem, cluster: AwsCluster) -> Iterator[Problem]:
    yield from _zone(f"{path}.availability_zone", row.availability_zone, cluster)


def _purchase_zones(cluster: AwsCluster) -> Iterator[Problem]:
    for path, _, zone in knowing(cluster.pools, "pools", _reserved_zone):
        if zone is not None:
            yield from _region(f"{path}.purchase.availability_zone", zone, cluster)


def _reserved_zone(pool: AwsPool) -> str | None:
    """Return the zone of a pool's reserved capacity; None if it is not bound to a zone."""
    return None if isinstance(pool.purchase, OnDemand | Spot) else pool.purchase.availability_zone


def _region(path: str, zone: str, cluster: AwsCluster) -> Iterator[Problem]:
    region = cluster.platform.region
    if not (zone[:-1] == region or zone.startswith(f"{region}-")):
        yield path, f"{zone!r} is not a zone of region {region!r}"


def _zone(path: str, zone: str, cluster: AwsCluster) -> Iterator[Problem]:
    elsewhere = list(told(_region, path, zone, cluster))
    yield from elsewhere or told(_subnet, path, zone, cluster)


def _subnet(path: str, zone: str, cluster: AwsCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    if isinstance(network, NewNetwork):
        zones = list(network.availability_zones)
    else:
        zones = list(network.private_subnets)
    if zones and zone not in zones:
        yield path, f"{zone!r} has no subnet; platform.network has: {', '.join(zones)}"


def _control_plane(cluster: AwsCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    subnets = network.private_subnets if isinstance(network, ExistingNetwork) else {}
    if len(subnets) >= 2 > sum(not aws.is_local_zone(zone) for zone in subnets):
        yield (
            "platform.network.private_subnets",
            "EKS' control plane needs two zones that are not Local Zones",
        )


def _subnets_differ(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield subnets of two zones: a subnet is in one zone (EC2 user guide)."""
    network = cluster.platform.network
    seen: dict[str, str] = {}
    for zone, subnet in (
        network.private_subnets.items() if isinstance(network, ExistingNetwork) else ()
    ):
        if seen.setdefault(subnet, zone) != zone:
            yield (
                f"platform.network.private_subnets.{zone}",
                f"{subnet!r} is the subnet of {seen[subnet]} already; a subnet is in one zone",
            )


def _network(cluster: AwsCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    if not isinstance(network, NewNetwork):
        return
    block = ipaddress.ip_network(network.cidr)
    # Room for a private subnet in each of eight parts, and a public one that AWS still takes.
    narrowest = aws.VPC_NARROWEST - 6
    if block.version != 4 or not aws.VPC_WIDEST <= block.prefixlen <= narrowest:
        yield (
            "platform.network.cidr",
            f"{str(block)!r} is not an IPv4 block from /{aws.VPC_WIDEST} to /{narrowest}",
        )
        return
    behind = network.transit_gateway.cidrs if network.transit_gateway else ()
    for path, _, text in knowing(behind, "platform.network.transit_gateway.cidrs", str):
        other = ipaddress.ip_network(text)
        if other.version != 4:
            yield path, _not_ipv4(text)
        elif other.overlaps(block):
            yield (
                path,
                f"{text!r} overlaps the VPC's own {str(block)!r}; it could not be reached",
            )


def _not_ipv4(text: str) -> str:
    return f"{text!r} is no IPv4 block, and cluster and VPC have no other addresses"


def _addresses(cluster: AwsCluster) -> Iterator[Problem]:
    network = cluster.platform.network
    if not isinstance(network, NewNetwork):
        return
    block = ipaddress.ip_network(network.cidr)
    if block.version != 4:
        return
    # An eighth of the network is each zone's.
    room = (block.num_addresses // 8 - aws.ADDRESSES_RESERVED) // aws.ADDRESSES_A_NODE
    for zone in network.availability_zones:
        nodes = sum(pool.nodes for pool in cluster.pools if pool.availability_zone == zone)
        # The controllers' nodes may all be in one zone while another is down.
        if nodes and nodes + cluster.platform.system_pool.max_nodes > room:
            yield (
                "platform.network.cidr",
                f"the subnet of {zone}, an eighth of {network.cidr}, has addresses for {room} "
                f"nodes, and {nodes} of the pools and {cluster.platform.system_pool.max_nodes} of "
                "the system pool may be there: take a wider block, up to /16, or a network of your "
                "own",
            )


def _endpoint(cluster: AwsCluster) -> Iterator[Problem]:
    open_to = cluster.platform.endpoint.from_cidrs
    public = cluster.platform.endpoint.kind == "public"
    for path, _, text in knowing(open_to, "platform.endpoint.from_cidrs", str):
        if text in ("0.0.0.0/0", "::/0"):
            yield (
                path,
                f"{text!r} is the whole internet; name the networks that may reach the API server",
            )
        elif ipaddress.ip_network(text).version != 4:
            yield path, _not_ipv4(text)
        elif public and any(map(ipaddress.ip_network(text).overlaps, aws.RESERVED_NETWORKS)):
            yield (
                path,
                f"{text!r} has private or other reserved addresses, which EKS refuses to let in to "
                "a public one: name the public addresses that callers have, or `kind: private`",
            )
    if public and len(open_to) > aws.ENDPOINT_CIDRS:
        yield (
            "platform.endpoint.from_cidrs",
            f"{len(open_to)} networks; EKS takes {aws.ENDPOINT_CIDRS}: put neighbours together",
        )


def _principals(cluster: AwsCluster) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for key in ("administrators", "researchers"):
        for path, _, principal in knowing(getattr(cluster.platform, key), f"platform.{key}", str):
            if principal in seen:
                yield path, f"{principal!r} is {seen[principal]} already; EKS takes it once"
            seen.setdefault(principal, path)
            yield from _access_entry(path, principal, cluster)
    for group, principals in cluster.platform.members.items():
        for path, _, principal in knowing(principals, f"platform.members.{group}", str):
            if principal in cluster.platform.administrators:
                yield path, f"{principal!r} is an administrator already; EKS takes it once"
            yield from _access_entry(path, principal, cluster)


def _access_entry(path: str, principal: str, cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a principal that EKS takes into no entry, which is made after the cluster."""
    own = aws.partition(cluster.platform.region)
    if (there := principal.split(":")[1]) != own:
        yield path, f"{principal!r} is of partition {there!r}, and the region of {own!r}"
    if aws.SSO_ROLE in principal:
        yield (
            path,
            f"{principal!r} is a role of IAM Identity Center without its path, and EKS takes no "
            "ARN without: write the one that `aws iam get-role` tells, "
            "'...:role/aws-reserved/sso.amazonaws.com/...'",
        )


def _group(cluster: AwsCluster) -> Iterator[Problem]:
    entered = [("researchers", cluster.researchers)] if cluster.platform.researchers else []
    entered += [(f"platform.members.{group}", group) for group in cluster.platform.members]
    known = [group for _, group in cluster.groups]
    for path, group in entered:
        for prefix in aws.RESERVED_GROUPS:
            if group.startswith(prefix):
                yield path, f"{group!r}: EKS gives nobody a group that starts {prefix!r}"
        if group not in known:
            yield path, f"{group!r} is no group of the stack{choices(group, known)}"


def _issued(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield groups without members: in no entry, and without the prefix of tokens' groups."""
    platform, oidc = cluster.platform, cluster.platform.oidc
    for path, group in cluster.groups:
        if path == "researchers" and (platform.researchers or oidc is None):
            continue
        if group in platform.members:
            continue
        if oidc is None:
            yield (
                path,
                f"EKS puts nobody in {group!r}: list its IAM roles or users under "
                "platform.members, or say by platform.oidc whose tokens name it",
            )
        elif not group.startswith(oidc.groups_prefix):
            yield (
                path,
                f"{group!r} does not start with {oidc.groups_prefix!r}, which platform.oidc puts "
                f"before every group of a token, so nobody is in it; say "
                f"{oidc.groups_prefix + group!r}",
            )


def _addons(cluster: AwsCluster) -> Iterator[Problem]:
    for name in cluster.platform.addon_versions:
        if name not in aws.ADDONS:
            listed = choices(name, aws.ADDONS)
            yield f"platform.addon_versions.{name}", f"{name!r} is not an add-on here{listed}"


def _logs(cluster: AwsCluster) -> Iterator[Problem]:
    days = cluster.platform.log_retention_days
    if days not in aws.LOG_RETENTION_DAYS:
        allowed = ", ".join(map(str, aws.LOG_RETENTION_DAYS))
        yield "platform.log_retention_days", f"{days} is not allowed; allowed: {allowed}"


def _tags(cluster: AwsCluster) -> Iterator[Problem]:
    tags = cluster.platform.tags
    # The stack adds a few of its own to each resource.
    most = aws.TAGS - 10
    if len(tags) > most:
        yield "platform.tags", f"{len(tags)} are more than {most}"
    # A role's keys have no case, and CreateRole takes none twice (IAM user guide, id_tags;
    # terraform-aws-github-runner, pull request 1346).
    seen = {key.lower(): f"{key!r} of the stack's own" for key in aws.OWN_TAGS}
    for key in tags:
        yield from told(_tag, key, cluster)
        first = seen.setdefault(key.lower(), f"{key!r}")
        if first != f"{key!r}":
            yield (
                f"platform.tags.{key}",
                f"is the key {first} to IAM, which heeds no case: leave one of them out",
            )


def _tag(key: str, cluster: AwsCluster) -> Iterator[Problem]:
    path = f"platform.tags.{key}"
    if key.lower().startswith("aws:"):
        yield path, "keys that start 'aws:' are Amazon's own"
    if len(key) > aws.TAG_KEY or len(cluster.platform.tags[key]) > aws.TAG_VALUE:
        yield path, f"longer than {aws.TAG_KEY} characters, or its value than {aws.TAG_VALUE}"
    for text in (key, cluster.platform.tags[key]):
        if odd := aws.TAG.sub("", text):
            yield (
                path,
                f"{text!r} has {odd[0]!r} in it; tags have letters, digits, spaces, ._:/=+-@",
            )


def _system_pool(cluster: AwsCluster) -> Iterator[Problem]:
    pool = cluster.platform.system_pool
    if pool.nodes > pool.max_nodes:
        yield "platform.system_pool.nodes", f"{pool.nodes} is more than max_nodes, {pool.max_nodes}"
    path, kind = "platform.system_pool.instance_type", pool.instance_type
    if kind in MACHINES:
        yield path, f"{kind!r} has GPUs, and is for a pool; the controllers need none"
    is_ = "arm64" if _GRAVITON.fullmatch(kind) else "amd64"
    if pool.architecture != is_:
        yield (
            "platform.system_pool.architecture",
            f"{pool.architecture!r} is not that of {kind!r}, which is {is_!r}",
        )


def _pools(cluster: AwsCluster) -> Iterator[Problem]:
    yield from told_each(_POOL_CHECKS, cluster.pools, "pools")


def _pool_name(path: str, pool: AwsPool) -> Iterator[Problem]:
    if pool.name == SYSTEM:
        yield f"{path}.name", f"{SYSTEM!r} is the pool of the controllers"


def _pool_place(path: str, pool: AwsPool) -> Iterator[Problem]:
    zone, purchase = pool.availability_zone, pool.purchase
    reserved = _reserved_zone(pool)
    if reserved is None or reserved == zone or isinstance(purchase, OnDemand | Spot):
        return
    what = purchase.arn if isinstance(purchase, ReservationGroup) else purchase.id
    yield (
        f"{path}.availability_zone",
        f"{zone!r} is not where {what!r} has its capacity, which is {reserved!r}",
    )


def _purchase(path: str, pool: AwsPool) -> Iterator[Problem]:
    block = isinstance(pool.purchase, CapacityBlock)
    if not block and pool.instance_type in aws.CAPACITY_BLOCK_ONLY:
        yield f"{path}.purchase.kind", f"{pool.instance_type!r} comes by 'capacity-block' only"


def _placement(path: str, pool: AwsPool) -> Iterator[Problem]:
    group = pool.placement_group
    reserved = isinstance(pool.purchase, Reservation | ReservationGroup)
    if reserved and isinstance(group, NewPlacementGroup):
        # eksctl, issue 7949 (11 of 16 reserved instances came) and terraform-aws-eks, issue 3730;
        # a future-dated reservation takes none at all (EC2 API, CreateCapacityReservation).
        yield (
            f"{path}.placement_group.kind",
            "'new' asks for reserved machines in one cluster, where EC2 may find too few of them: "
            "remove placement_group, or name the one that the reservation was made in: 'existing'",
        )
    free = isinstance(pool.purchase, OnDemand | Spot)
    if free and isinstance(group, ExistingPlacementGroup):
        yield (
            f"{path}.placement_group.kind",
            f"a pool of kind {pool.purchase.kind!r} makes its own group: 'new'; 'existing' is a "
            "reservation's",
        )
    if isinstance(pool.purchase, CapacityBlock) and group is not None:
        yield (
            f"{path}.placement_group",
            "a capacity block is placed by EC2, and a group of ours finds no capacity in it; "
            "remove it",
        )


def _block_nodes(path: str, pool: AwsPool) -> Iterator[Problem]:
    if isinstance(pool.purchase, CapacityBlock) and pool.nodes > aws.CAPACITY_BLOCK_NODES:
        yield (
            f"{path}.nodes",
            f"{pool.nodes} is more than the {aws.CAPACITY_BLOCK_NODES} of a block",
        )


def _ultraserver(path: str, pool: AwsPool) -> Iterator[Problem]:
    # EC2 starts as many machines of a block as are asked for (EC2 user guide,
    # capacity-blocks-launch), and none beyond it.
    sizes = aws.ULTRASERVER_NODES.get(pool.instance_type)
    if sizes and pool.nodes > max(sizes):
        yield (
            f"{path}.nodes",
            f"{pool.nodes} is more than an UltraServer, which is {' or '.join(map(str, sizes))} of "
            f"{pool.instance_type!r}, and a block of its own: write a pool for each",
        )


def _block_days(path: str, pool: AwsPool) -> Iterator[Problem]:
    block = pool.purchase
    if not isinstance(block, CapacityBlock):
        return
    if block.ends <= block.starts:
        yield f"{path}.purchase.ends", "is not after starts"
    elif block.ends - block.starts > timedelta(days=aws.CAPACITY_BLOCK_DAYS):
        yield (
            f"{path}.purchase.ends",
            f"is more than {aws.CAPACITY_BLOCK_DAYS} days after starts, the longest block there is",
        )


def _images(cluster: AwsCluster) -> Iterator[Problem]:
    minor = cluster.platform.kubernetes
    for path, _, release in knowing(cluster.pools, "pools", lambda pool: pool.ami_release):
        if release is not None and not release.startswith(f"{minor}."):
            yield (
                f"{path}.ami_release",
                f"{release!r} is not an image of Kubernetes {minor!r}, which platform.kubernetes "
                "says and the pool's nodes get",
            )


def _group_of_the_region(path: str, pool: AwsPool) -> Iterator[Problem]:
    if isinstance(pool.purchase, ReservationGroup):
        region, zone = pool.purchase.arn.split(":")[3], pool.purchase.availability_zone
        if not zone.startswith(region):
            yield f"{path}.purchase.arn", f"is of region {region!r}, and {zone!r} is not in it"


def _initial_nodes(path: str, pool: AwsPool) -> Iterator[Problem]:
    if pool.initial_nodes is not None and pool.initial_nodes > pool.nodes:
        yield f"{path}.initial_nodes", f"{pool.initial_nodes} is more than nodes, {pool.nodes}"


def _min_nodes(path: str, pool: AwsPool) -> Iterator[Problem]:
    least = pool.min_nodes
    if least > pool.nodes:
        yield f"{path}.min_nodes", f"{least} is more than nodes, {pool.nodes}"
    if least > pool.first_nodes:
        yield (
            f"{path}.min_nodes",
            f"{least} is more than the {pool.first_nodes} that the group starts with",
        )


def _repair(path: str, pool: AwsPool) -> Iterator[Problem]:
    if not pool.repair:
        for key in ("repair_at_once", "repair_overrides"):
            if getattr(pool, key):
                yield f"{path}.{key}", "has no effect with `repair: false`; remove one of the two"
    seen: dict[tuple[str, str], str] = {}
    for where, row in each(pool.repair_overrides, f"{path}.repair_overrides"):
        if (first := seen.setdefault((row.condition, row.reason), where)) != where:
            yield where, f"{row.condition} {row.reason} has its repair at {first} already"


def _labels(path: str, pool: AwsPool) -> Iterator[Problem]:
    for key in pool.labels:
        if reserved_label(key):
            yield f"{path}.labels.{key}", "nodes get it by themselves, or not at all; remove it"
        yield from told(_label, path, key, pool)


def _label(path: str, key: str, pool: AwsPool) -> Iterator[Problem]:
    value, selected = pool.labels[key], pool.node_selector.get(key)
    if selected is not None and value != selected:
        yield f"{path}.labels.{key}", f"{value!r} is not the {selected!r} of node_selector"


def _label_texts(path: str, pool: AwsPool) -> Iterator[Problem]:
    """Yield labels that Kubernetes takes and EKS does not: `up` ends once the cluster is there.

    EKS API reference, CreateNodegroup (labels); containers-roadmap, issue 2447, open.
    """
    for where in ("node_selector", "labels"):
        for key, value in getattr(pool, where).items():
            if reserved_label(key):
                continue
            if not value:
                yield (
                    f"{path}.{where}.{key}",
                    "is empty, and EKS gives nodes no label without a value: write 'true'",
                )
            if len(key) > aws.NODE_LABEL_KEY:
                yield (
                    f"{path}.{where}.{key}",
                    f"has {len(key)} characters, and EKS takes {aws.NODE_LABEL_KEY}, the prefix "
                    "among them",
                )


def _selector(path: str, pool: AwsPool) -> Iterator[Problem]:
    """Yield labels that differ from those that EKS gives nodes."""
    given = {
        "node.kubernetes.io/instance-type": pool.instance_type,
        "topology.kubernetes.io/zone": pool.availability_zone,
    }
    for key, value in pool.node_selector.items():
        if value != given.get(key, value):
            yield f"{path}.node_selector.{key}", f"{value!r}: the pool's nodes have {given[key]!r}"


def _taints(path: str, pool: AwsPool) -> Iterator[Problem]:
    for where, taint, effect in knowing(pool.taints, f"{path}.taints", lambda t: t.effect):
        if effect == "PreferNoSchedule":
            continue
        if not any(t.tolerates(taint.key, taint.value, effect) for t in pool.tolerations):
            yield (
                where,
                f"no toleration of the pool bears {taint.key!r} {effect}; its jobs would never "
                "start: add it to tolerations",
            )


def _network_layers(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield layers of the network that a pool's nodes have no label of: no job would be placed."""
    region = cluster.platform.region
    asked = [
        (path, level)
        for path, _, level in knowing(cluster.topology, "topology", str)
        if level.startswith(aws.NETWORK_LAYER)
    ]
    if region in aws.REGIONS - aws.NETWORK_LAYER_REGIONS:
        for path, level in asked:
            yield path, f"{level!r}: EC2 tells of no network layers in {region!r}; remove it"
        return
    for _, pool, kind in knowing(cluster.pools, "pools", lambda pool: pool.instance_type):
        most = aws.NETWORK_LAYERS.get(kind)
        for path, level in asked:
            if most is not None and level not in layers_of(most):
                has = f"the {most} wider ones" if most else "none"
                yield (
                    path,
                    f"{level!r}: nodes of {kind!r} (pool {pool.name!r}) have no such label, of the "
                    f"network layers {has}; no job would be placed on them: remove it",
                )


def layers_of(most: int) -> list[str]:
    """Return the labels of so many layers of the network, the widest first.

    >>> layers_of(2)[-1]
    'topology.k8s.aws/network-node-layer-2'
    """
    return [f"{aws.NETWORK_LAYER}{number}" for number in range(1, most + 1)]


def _closest_layer(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield a layer that all nodes have and no level names: gangs are packed one too wide."""
    least = min(
        (aws.NETWORK_LAYERS.get(pool.instance_type, 0) for pool in cluster.pools), default=0
    )
    layers = [level for level in cluster.topology if level.startswith(aws.NETWORK_LAYER)]
    closest = f"{aws.NETWORK_LAYER}{least}"
    if layers and least and closest not in layers:
        yield (
            "topology",
            f"{closest!r} is the closest layer that these machines have, and is not in it: gangs "
            f"are packed by {layers[-1]!r}, which is wider",
        )


def _storage(cluster: AwsCluster) -> Iterator[Problem]:
    yield from taken(cluster.platform.storage, "platform.storage", lambda row: (row.name,))
    for path, row in _lustres(cluster):
        yield from told(_capacity, path, row)
        yield from told(_metadata, path, row)
        yield from told(_efa_clients, path, row, cluster)


def _lustres(cluster: AwsCluster) -> Iterator[tuple[str, LustreFileSystem]]:
    rows = knowing(cluster.platform.storage, "platform.storage", lambda row: row.kind)
    return ((path, row) for path, row, _ in rows if isinstance(row, LustreFileSystem))


def _claims(cluster: AwsCluster) -> Iterator[Problem]:
    names = [row.name for row in cluster.platform.storage]
    for path, _, wanted in knowing(cluster.checkpoints, "checkpoints", lambda c: c.storage_class):
        if wanted not in names:
            listed = choices(wanted, names)
            yield f"{path}.storage_class", f"{wanted!r} is no name of platform.storage{listed}"


def _claim_paths(cluster: AwsCluster) -> Iterator[Problem]:
    """Yield claims on EFS whose directory would have a longer path than its driver takes."""
    kinds = knowing(cluster.platform.storage, "", lambda row: (row.name, row.kind))
    elastic = {name for _, _, (name, kind) in kinds if kind == "efs"}
    claims = knowing(
        cluster.checkpoints, "checkpoints", lambda c: (c.storage_class, c.namespace, c.claim_name)
    )
    for path, _, (wanted, namespace, claim) in claims:
        length = len(f"{aws.EFS_BASE}/{namespace}/{claim}-") + aws.UUID
        if wanted in elastic and length > aws.EFS_PATH:
            yield (
                f"{path}.name",
                f"{claim!r} in {namespace!r} would have a directory on EFS of {length} characters, "
                f"and EFS' driver takes {aws.EFS_PATH}: shorten one of the two names",
            )


def _claim_sizes(cluster: AwsCluster) -> Iterator[Problem]:
    systems = knowing(
        [row for _, row in _lustres(cluster)], "", lambda row: (row.name, row.capacity_gib)
    )
    capacity = dict(known for _, _, known in systems)
    claims = knowing(cluster.checkpoints, "checkpoints", lambda c: (c.storage_class, c.size))
    for path, _, (wanted, size) in claims:
        most = capacity.get(wanted)
        if most is not None and quantity.parse(size) > most << 30:
            yield f"{path}.size", f"{size!r} is more than the {most} GiB of the file system"


def _capacity(path: str, row: LustreFileSystem) -> Iterator[Problem]:
    size, step = row.capacity_gib, aws.LUSTRE_EFA_STEP_GIB.get(row.throughput)
    if row.efa and step is not None and size % step:
        yield (
            f"{path}.capacity_gib",
            f"{size} is not a multiple of {step}, the step of an EFA-enabled file system at "
            f"{row.throughput} MB/s for each TiB",
        )
    elif not row.efa and size != aws.LUSTRE_SMALLEST_GIB and size % aws.LUSTRE_STEP_GIB:
        yield (
            f"{path}.capacity_gib",
            f"{size} is neither {aws.LUSTRE_SMALLEST_GIB} nor a multiple of {aws.LUSTRE_STEP_GIB}",
        )


def _metadata(path: str, row: LustreFileSystem) -> Iterator[Problem]:
    if not isinstance(row.metadata, ProvisionedMetadata):
        return
    iops, step, most = row.metadata.iops, fsx.METADATA_STEP, fsx.METADATA_MOST
    if iops not in fsx.METADATA_IOPS and (iops > most or iops % step):
        allowed = ", ".join(map(str, fsx.METADATA_IOPS))
        yield (
            f"{path}.metadata.iops",
            f"{iops} is not allowed; allowed: {allowed}, or a multiple of {step} up to {most}",
        )


def _efa_clients(path: str, row: LustreFileSystem, cluster: AwsCluster) -> Iterator[Problem]:
    can = [pool for pool in cluster.pools if row.efa and pool.instance_type in lustre_efa_types()]
    zones = {pool.availability_zone for pool in can}
    if row.efa and not can:
        types = ", ".join(lustre_efa_types())
        yield (
            f"{path}.efa",
            f"no pool's instance type mounts Lustre over EFA; those that do: {types}",
        )
    elif row.efa and row.availability_zone not in zones:
        yield (
            f"{path}.availability_zone",
            "EFA does not leave a zone, and the pools that mount over it are in: "
            f"{', '.join(sorted(zones))}",
        )
    near = [pool for pool in can if pool.availability_zone == row.availability_zone]
    connections = sum(pool.nodes * pool.lustre_devices for pool in near)
    if connections > aws.LUSTRE_EFA_CONNECTIONS:
        nodes = sum(pool.nodes for pool in near)
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


def _image_caches(cluster: AwsCluster) -> Iterator[Problem]:
    rows = cluster.platform.image_caches
    account, region = cluster.platform.account, cluster.platform.region
    # "Sync an upstream registry with an Amazon ECR private registry", considerations: the regions
    # without, and where the secret must be.
    partition = aws.partition(region)
    if rows and partition != "aws":
        yield "platform.image_caches", f"ECR pulls through no registry in {region}; remove it"
    home = f"arn:{partition}:secretsmanager:{region}:{account}:"
    yield from taken(rows, "platform.image_caches", lambda row: (row.prefix,))
    for path, row, registry in knowing(rows, "platform.image_caches", lambda row: row.registry):
        _, asks = aws.UPSTREAMS[registry]
        if asks != (row.secret_arn is not None):
            text = "is missing: ECR asks" if asks else "is set, and ECR does not ask"
            yield f"{path}.secret_arn", f"{text} {registry!r} for credentials"
        elif row.secret_arn is not None and not row.secret_arn.startswith(home):
            yield f"{path}.secret_arn", f"is not of the rule's own account and region: {home}…"
        wanted = f"{aws.ecr(account, region)}/{row.prefix}"
        if cluster.registry_mirrors.get(registry) != wanted:
            yield (
                f"{path}.registry",
                f"nothing is pulled through it: registry_mirrors must have '{registry}: {wanted}'",
            )


def _s3_access(cluster: AwsCluster) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    rows = cluster.platform.s3_access
    for path, _, name in knowing(rows, "platform.s3_access", lambda row: row.namespace):
        if name not in cluster.training_namespaces:
            listed = choices(name, cluster.training_namespaces)
            yield f"{path}.namespace", f"{name!r} is not one of namespaces{listed}"
        if seen.setdefault(name, path) != path:
            yield f"{path}.namespace", f"{name!r} is at {seen[name]} already; put its buckets there"


def _s3_twice(cluster: AwsCluster) -> Iterator[Problem]:
    for path, row in each(cluster.platform.s3_access, "platform.s3_access"):
        yield from taken(row.buckets, f"{path}.buckets", lambda b: (f"{b.name}/{b.prefix}",))


def _s3_size(cluster: AwsCluster) -> Iterator[Problem]:
    partition = aws.partition(cluster.platform.region)
    rows = cluster.platform.s3_access
    sizes = knowing(rows, "platform.s3_access", lambda row: rights.size(row, partition))
    for path, row, size in sizes:
        if size > aws.ROLE_POLICIES:
            yield (
                f"{path}.buckets",
                f"{len(row.buckets)} of them make a policy of {size} characters, and IAM takes "
                f"{aws.ROLE_POLICIES} of a role: name fewer buckets, or part them among namespaces",
            )


def _s3_reached(cluster: AwsCluster) -> Iterator[Problem]:
    if not cluster.platform.s3_access or not cluster.network_policy.enabled:
        return
    for way in cluster.network_policy.egress:
        # One of both is there, or the model says so.
        known = way.cidr is not None or way.namespace is not None
        tls = way.protocol == "TCP" and (not way.ports or 443 in way.ports)
        if not known or (way.cidr is not None and tls):
            return
    # A NetworkPolicy knows no prefix list, which is how a route table names S3's addresses.
    yield (
        "network_policy.egress",
        "lets no job out to S3, whose addresses are Amazon's public ones; write `- {cidr: "
        "0.0.0.0/0, ports: [443]}`, or Amazon's published ranges of the region",
    )


def _gpu_operator(cluster: AwsCluster) -> Iterator[Problem]:
    operator = cluster.gpu_operator
    if operator is None:
        yield (
            "gpu_operator",
            "is missing: EKS' images have driver and toolkit, and nothing that tells Kubernetes of "
            "the GPUs; write `gpu_operator: {driver: host, toolkit: host}`",
        )
        return
    for part in ("driver", "toolkit"):
        yield from told(_second, part, operator)


def _second(part: str, operator: GpuOperatorConfig) -> Iterator[Problem]:
    if getattr(operator, part) == "operator":
        yield (
            f"gpu_operator.{part}",
            "'operator' is a second one beside that of EKS' image; write 'host'",
        )


def _hugepages(cluster: AwsCluster) -> Iterator[Problem]:
    mode = cluster.fabric.row
    pools = knowing(cluster.pools, "pools", lambda p: (p.hugepages_2mib, MACHINES[p.instance_type]))
    for path, _, (pages, machine) in pools:
        asked = mode.hugepages_mib * len(machine.nics)
        if 2 * pages < asked:
            yield (
                f"{path}.hugepages_2mib",
                f"{pages} are {2 * pages} MiB, and a pod with all of a node's NICs asks for "
                f"{asked}: it would never start",
            )
        yield from told(_beside_hugepages, path, pages, machine, cluster)


def _beside_hugepages(
    path: str, pages: int, machine: Machine, cluster: AwsCluster
) -> Iterator[Problem]:
    """Yield huge pages that leave a pod too little memory (Kubernetes, Manage huge pages)."""
    gib, has = -(-2 * pages // 1024), machine.memory_gib
    for _, runtime, pool in knowing(cluster.runtimes, "runtimes", lambda r: r.pool):
        own = [p for p in cluster.pools if p.name == pool and p.hugepages_2mib == pages]
        if own and has and quantity.parse(runtime.memory) > (has - gib) * 2**30:
            yield (
                f"{path}.hugepages_2mib",
                f"{pages} are {gib} GiB of the node's {has}, and runtime {runtime.name!r} asks for "
                f"{runtime.memory} as well: it would never start",
            )
            return


_CHECKS: tuple[Callable[[AwsCluster], Iterator[Problem]], ...] = (
    _name,
    _isolated,
    _own_zones,
    _pool_zones,
    _storage_zones,
    _purchase_zones,
    _control_plane,
    _subnets_differ,
    _network,
    _addresses,
    _endpoint,
    _principals,
    _group,
    _issued,
    _addons,
    _logs,
    _tags,
    _system_pool,
    _images,
    _s3_access,
    _s3_twice,
    _s3_size,
    _s3_reached,
    _image_caches,
    _gpu_operator,
    _hugepages,
    _network_layers,
    _storage,
    _claims,
    _claim_paths,
    _claim_sizes,
    _pools,
)
_POOL_CHECKS: tuple[Callable[[str, AwsPool], Iterator[Problem]], ...] = (
    _pool_name,
    _pool_place,
    _purchase,
    _placement,
    _block_nodes,
    _ultraserver,
    _block_days,
    _group_of_the_region,
    _initial_nodes,
    _min_nodes,
    _repair,
    _labels,
    _label_texts,
    _selector,
    _taints,
)
