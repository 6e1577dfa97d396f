"""Questions to AWS: quotas, capacity, networks, versions, names that are taken, rights."""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from railhead.base.finding import Finding
from railhead.base.names import physical_name
from railhead.machines import MACHINES
from railhead.platform.aws import facts
from railhead.platform.aws.checks import SYSTEM, interfaces, volumes_gib
from railhead.platform.aws.model import (
    AwsCluster,
    AwsPool,
    CapacityBlock,
    ElasticFileSystem,
    ExistingNetwork,
    ExistingPlacementGroup,
    LustreFileSystem,
    NewNetwork,
    NewPlacementGroup,
    OnDemand,
    Reservation,
    Spot,
)
from railhead.platform.aws.reserved import mismatch
from railhead.preflight.check import Asker, failed, ok, unknown
from railhead.preflight.ledger import data
from railhead.preflight.reading import Aws

# Service Quotas (`aws service-quotas list-service-quotas`): service, code, name.
_ADDRESSES = ("ec2", "L-0263D0A3", "EC2-VPC Elastic IPs")
_VPCS = ("vpc", "L-F678F1CE", "VPCs per Region")
_INTERFACES = ("vpc", "L-DF5E4CA3", "Network interfaces per Region")
_VOLUMES = ("ebs", "L-7A658B76", "Storage for General Purpose SSD (gp3) volumes, in TiB")
# How a pool is bought, how its types begin, their quota. On spot, generations have their own (EC2
# user guide, using-spot-limits); of P6 no source says which.
_VCPUS: tuple[tuple[type, tuple[str, ...], tuple[str, str, str]], ...] = (
    (OnDemand, ("p",), ("ec2", "L-417A185B", "Running On-Demand P instances")),
    (Spot, ("p4", "p3", "p2"), ("ec2", "L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests")),
    (Spot, ("p5",), ("ec2", "L-C4BD4855", "All P5 Spot Instance Requests")),
)
# Of the controllers' machines, which new accounts may run few of; how their types begin.
_STANDARD = (
    "ec2",
    "L-1216C47A",
    "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
)
_STANDARD_TYPES = ("im", "is", *(f"{family}{n}" for family in "acdhimrtz" for n in range(1, 10)))
# EKS user guide, network-reqs: zones in which a control plane cannot be.
_NO_CONTROL_PLANE = frozenset({"use1-az3", "usw1-az2", "cac1-az3"})
# The same page: addresses that a subnet of the control plane should have free.
_CONTROL_PLANE_ADDRESSES = 16
# EKS user guide, cluster-endpoint: what a VPC must have on, and the CLI's options for it.
_DNS = {"EnableDnsSupport": "enable-dns-support", "EnableDnsHostnames": "enable-dns-hostnames"}
# Names of the VPC's own resolver, whose address is also the VPC's base plus two (VPC user guide,
# VPC_DHCP_Options and AmazonDNS-concepts).
_RESOLVER = ("AmazonProvidedDNS", "169.254.169.253")
# What opens a VPC that is there, and a new one as soon as it is (EC2 API reference,
# CreateVpcBlockPublicAccessExclusion).
_EXCLUDE = (
    "aws ec2 create-vpc-block-public-access-exclusion --internet-gateway-exclusion-mode "
    "allow-egress --vpc-id"
)
# The key of the secrets that ECR reads (ECR user guide, pull-through-cache-creating-secret).
_SECRETS_KEY = "alias/aws/secretsmanager"
# The role by which node groups start instances, and what it does with the key of their volumes (EC2
# Auto Scaling user guide, key-policy-requirements-EBS-encryption).
_AUTO_SCALING = "AWSServiceRoleForAutoScaling"
_VOLUME_RIGHTS = (
    "Encrypt",
    "Decrypt",
    "ReEncryptFrom",
    "ReEncryptTo",
    "GenerateDataKey",
    "GenerateDataKeyWithoutPlaintext",
    "DescribeKey",
    "CreateGrant",
)
# States of reservations whose day has not come (EC2 API reference, CapacityReservation).
_TO_COME = ("scheduled", "assessing")
# EKS's name of an image's kind in its public parameters (EKS user guide, retrieve-ami-id).
_IMAGE = "/aws/service/eks/optimized-ami/{minor}/amazon-linux-2023/{cpu}/{kind}/{release}"
_CPU = {"amd64": "x86_64", "arm64": "arm64"}
# IAM takes so many actions in one simulation without a page.
_ACTIONS_AT_ONCE = 100


@contextmanager
def opened(cluster: AwsCluster) -> Iterator[Aws]:
    """Yield a client of AWS for a stack.

    Raises:
        PrerequisiteError: there are no credentials, or AWS does not accept them.
    """
    aws = Aws(cluster.platform.region)
    aws.require("sts:GetCallerIdentity")
    yield aws


def account(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Compare account and role of the credentials with the stack's."""
    me = aws.require("sts:GetCallerIdentity")
    expected = cluster.platform.account
    if me["Account"] != expected:
        yield failed(f"these credentials are of account {me['Account']}, the stack's is {expected}")
    elif not any(_is(me["Arn"], arn) for arn in cluster.platform.administrators):
        yield failed(
            f"{me['Arn']} is not in platform.administrators: EKS will not let it in",
            "add its role to platform.administrators, or log in as one of them",
        )
    else:
        yield ok(f"{me['Arn']} is one of the administrators")


def _is(caller: str, principal: str) -> bool:
    """Return whether a caller, maybe a session of a role, is a principal of the stack's file."""
    resource = caller.split(":", 5)[5]
    if resource.startswith("assumed-role/"):
        return principal.rpartition("/")[2] == resource.split("/")[1] and ":role/" in principal
    return caller == principal


def permissions(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Have IAM simulate what `up` and `destroy` call."""
    arn = _principal(aws)
    if arn is None:
        yield unknown("IAM simulates roles and users alone, and these credentials are neither")
        return
    actions = rights(cluster)
    refused = _refused(aws, arn, actions)
    if refused:
        # A policy may name what it allows them on.
        refused = _refused(aws, arn, list(refused), ResourceArns=_own_arns(cluster))
    if never := [action for action, missing in refused.items() if not missing]:
        yield failed(f"{arn} may not call {', '.join(sorted(never))}")
    if unsure := sorted(refused.keys() - set(never)):
        keys = sorted({key for action in unsure for key in refused[action]})
        yield unknown(
            f"whether {arn} may call {', '.join(unsure)}: its policies ask for {', '.join(keys)}"
        )
    if not refused:
        yield ok(f"{arn} may make all {len(actions)} calls, as far as IAM can simulate them")


def _refused(aws: Aws, arn: str, actions: list[str], **more: list[str]) -> dict[str, set[str]]:
    """Return the actions that are allowed on no resource -> the conditions that were not known."""
    refused: dict[str, set[str]] = {}
    # Policies of organizations deny all but some regions.
    region = {
        "ContextKeyName": "aws:RequestedRegion",
        "ContextKeyValues": [aws.region],
        "ContextKeyType": "string",
    }
    for at in range(0, len(actions), _ACTIONS_AT_ONCE):
        answer = aws.require(
            "iam:SimulatePrincipalPolicy",
            PolicySourceArn=arn,
            ActionNames=actions[at : at + _ACTIONS_AT_ONCE],
            ContextEntries=[region],
            **more,
        )
        for result in answer["EvaluationResults"]:
            each = [r["EvalResourceDecision"] for r in result.get("ResourceSpecificResults", ())]
            if "allowed" not in (result["EvalDecision"], *each):
                refused[result["EvalActionName"]] = set(result.get("MissingContextValues", ()))
    return refused


def _own_arns(cluster: AwsCluster) -> list[str]:
    """Return an ARN of each kind of resource that policies are narrowed to by name."""
    name, region, account = cluster.name, cluster.platform.region, cluster.platform.account
    partition = facts.partition(region)
    inside = (
        f"cluster/{name}",
        f"nodegroup/{name}/{physical_name(name, SYSTEM)}/0",
        f"addon/{name}/{facts.VPC_CNI.name}/0",
        f"access-entry/{name}/role/{account}/any/0",
        f"podidentityassociation/{name}/a-0",
    )
    return [
        f"arn:{partition}:iam::{account}:role/{wanted_names(cluster)['role'][0]}",
        f"arn:{partition}:logs:{region}:{account}:log-group:/aws/eks/{name}/cluster",
        *(f"arn:{partition}:eks:{region}:{account}:{kind}" for kind in inside),
    ]


def _principal(aws: Aws) -> str | None:
    """Return the ARN whose policies apply: a role's own for a session of it."""
    arn = str(aws.require("sts:GetCallerIdentity")["Arn"])
    resource = arn.split(":", 5)[5]
    if resource.startswith("assumed-role/"):
        role = aws.ask("iam:GetRole", RoleName=resource.split("/")[1])
        return str(role["Role"]["Arn"]) if role else None
    return arn if resource.startswith("user/") else None


def rights(cluster: AwsCluster) -> list[str]:
    """Return the actions that `up` and `destroy` of a stack need."""
    platform = cluster.platform
    parts = {
        "always": True,
        "network": isinstance(platform.network, NewNetwork),
        "endpoints": isinstance(platform.network, NewNetwork)
        and platform.network.interface_endpoints,
        "transit-gateway": isinstance(platform.network, NewNetwork)
        and platform.network.transit_gateway is not None,
        "placement-group": any(
            isinstance(pool.placement_group, NewPlacementGroup) for pool in cluster.pools
        ),
        "lustre": any(isinstance(row, LustreFileSystem) for row in platform.storage),
        "backups": any(
            isinstance(row, LustreFileSystem) and row.backup is not None for row in platform.storage
        ),
        "efs": any(isinstance(row, ElasticFileSystem) for row in platform.storage),
        "image-caches": bool(platform.image_caches),
        "oidc": platform.oidc is not None,
    }
    table: Mapping[str, list[str]] = data("aws.rights")
    return sorted({action for part, wanted in parts.items() if wanted for action in table[part]})


def quota(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Compare the quotas of vCPUs and volumes with what runs and what the pools add."""
    yield from _system_quota(aws, cluster)
    gp3 = [{"Name": "volume-type", "Values": ["gp3"]}]
    there = aws.require("ec2:DescribeVolumes", Filters=gp3).get("Volumes", ())
    used = math.ceil(sum(volume["Size"] for volume in there) / 1024)
    yield _room(aws, _VOLUMES, math.ceil(volumes_gib(cluster) / 1024), used, "TiB")
    pools = [pool for pool in cluster.pools if isinstance(pool.purchase, OnDemand | Spot)]
    for kind, types, row in _VCPUS:
        counted = [
            pool
            for pool in pools
            if isinstance(pool.purchase, kind) and pool.instance_type.startswith(types)
        ]
        pools = [pool for pool in pools if pool not in counted]
        need = sum(pool.nodes * (MACHINES[pool.instance_type].vcpus or 0) for pool in counted)
        if need:
            lifecycle = "spot" if kind is Spot else None
            yield _room(aws, row, need, _running_vcpus(aws, types, lifecycle), "vCPUs")
    for pool in pools:
        yield unknown(f"pool {pool.name}: no quota is known here of its machines")


def _system_quota(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    system = cluster.platform.system_pool
    kind = system.instance_type
    answer = aws.ask("ec2:DescribeInstanceTypes", InstanceTypes=[kind])
    if answer is None or not kind.startswith(_STANDARD_TYPES):
        yield unknown(f"system pool: no quota is known here of {kind}")
        return
    need = system.max_nodes * answer["InstanceTypes"][0]["VCpuInfo"]["DefaultVCpus"]
    yield _room(aws, _STANDARD, need, _running_vcpus(aws, _STANDARD_TYPES, None), "vCPUs")


def _running_vcpus(aws: Aws, types: tuple[str, ...], lifecycle: str | None) -> int:
    answer = aws.require(
        "ec2:DescribeInstances",
        Filters=[
            {"Name": "instance-type", "Values": [f"{start}*" for start in types]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]},
        ],
    )
    return sum(
        instance["CpuOptions"]["CoreCount"] * instance["CpuOptions"]["ThreadsPerCore"]
        for reservation in answer.get("Reservations", ())
        for instance in reservation["Instances"]
        if instance.get("InstanceLifecycle") == lifecycle
    )


def _room(aws: Aws, row: tuple[str, str, str], need: int, used: int, unit: str) -> Finding:
    service, code, name = row
    answer = aws.ask("service-quotas:GetServiceQuota", ServiceCode=service, QuotaCode=code)
    # Without a value of the account's own, the default holds.
    answer = answer or aws.ask(
        "service-quotas:GetAWSDefaultServiceQuota", ServiceCode=service, QuotaCode=code
    )
    if answer is None:
        return unknown(f"quota {code} ({name}): Service Quotas does not know it in this region")
    limit = int(answer["Quota"]["Value"])
    text = f"{name}: {limit} {unit}, {used} in use, {need} to come"
    if used + need <= limit:
        return ok(text)
    return failed(text, f"request {used + need} of quota {code} ({service}) in Service Quotas")


def networks(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Compare the quotas of VPCs, elastic addresses and interfaces with what the stack adds."""
    network = cluster.platform.network
    if isinstance(network, NewNetwork):
        gateways = 1 if network.nat == "single" else len(network.availability_zones)
        vpcs = len(aws.require("ec2:DescribeVpcs")["Vpcs"])
        yield _room(aws, _VPCS, 1, vpcs, "VPCs")
        addresses = len(aws.require("ec2:DescribeAddresses")["Addresses"])
        yield _room(aws, _ADDRESSES, gateways, addresses, "addresses")
    there = aws.require("ec2:DescribeNetworkInterfaces")["NetworkInterfaces"]
    for zone, need in interfaces(cluster).items():
        used = sum(row.get("AvailabilityZone") == zone for row in there)
        yield _room(aws, _INTERFACES, need, used, f"interfaces in {zone}")
    if isinstance(network, NewNetwork) and (access := _closed(aws)):
        ways = ["have it set to ingress-only"]
        if access.get("ExclusionsAllowed") != "not-allowed":
            ways.append(f"exclude the VPC as soon as `up` has made it (`{_EXCLUDE} VPC`)")
        yield failed(
            "VPC Block Public Access is bidirectional, which closes the new VPC's NAT gateways",
            ", or ".join((*ways, "take an existing network that is excluded from it")),
        )


def _closed(aws: Aws) -> Mapping[str, Any] | None:
    """Return how the account closes its internet gateways; None where NAT gateways stay open.

    VPC user guide, security-vpc-bpa-basics: `block-ingress` leaves them open.
    """
    answer = aws.require("ec2:DescribeVpcBlockPublicAccessOptions")
    access: Mapping[str, Any] = answer["VpcBlockPublicAccessOptions"]
    closed = access.get("InternetGatewayBlockMode") == "block-bidirectional"
    return access if closed else None


def zones(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for each instance type in its zones, and for zones that EKS or the account lack."""
    wanted = {(pool.instance_type, pool.availability_zone) for pool in cluster.pools}
    regional = _regional_zones(cluster)
    wanted |= {(cluster.platform.system_pool.instance_type, zone) for zone in regional}
    answer = aws.require(
        "ec2:DescribeInstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": sorted({kind for kind, _ in wanted})}],
    )
    offered = {(o["InstanceType"], o["Location"]) for o in answer["InstanceTypeOfferings"]}
    for kind, zone in sorted(wanted):
        if (kind, zone) in offered:
            yield ok(f"{kind} is offered in {zone}")
        else:
            elsewhere = sorted(place for other, place in offered if other == kind) or ["no zone"]
            yield failed(f"{kind} is not offered in {zone}, but in {', '.join(elsewhere)}")
    yield from _known_zones(aws, {zone for _, zone in wanted}, regional)


def _regional_zones(cluster: AwsCluster) -> list[str]:
    """Return the zones of control plane and controllers, which no Local Zone is."""
    network = cluster.platform.network
    named = (
        network.availability_zones
        if isinstance(network, NewNetwork)
        else tuple(network.private_subnets)
    )
    return [zone for zone in named if not facts.is_local_zone(zone)]


def _known_zones(aws: Aws, wanted: set[str], regional: list[str]) -> Iterator[Finding]:
    # Also those that the account has not opted in to.
    answer = aws.require("ec2:DescribeAvailabilityZones", AllAvailabilityZones=True)
    known = {zone["ZoneName"]: zone for zone in answer["AvailabilityZones"]}
    for name in sorted(wanted):
        zone = known.get(name)
        if zone is None:
            yield failed(f"this account has no zone {name}")
        elif zone.get("OptInStatus") == "not-opted-in":
            yield failed(
                f"this account has not opted in to {name}",
                f"`aws ec2 modify-availability-zone-group --group-name {zone['GroupName']} "
                "--opt-in-status opted-in`",
            )
        elif name in regional and zone["ZoneId"] in _NO_CONTROL_PLANE:
            yield failed(f"{name} is {zone['ZoneId']} here, in which EKS has no control plane")


def reservation(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Compare each reservation and capacity block with its pool."""
    for pool in cluster.pools:
        purchase = pool.purchase
        if not isinstance(purchase, Reservation | CapacityBlock):
            continue
        answer = aws.ask(
            "ec2:DescribeCapacityReservations", CapacityReservationIds=[purchase.id]
        ) or {"CapacityReservations": []}
        if not answer["CapacityReservations"]:
            yield failed(f"pool {pool.name}: {purchase.id} is not in this account and region")
            continue
        [there] = answer["CapacityReservations"]
        wrong = _sold(purchase, there) or mismatch(pool, _described(there))
        wrong = wrong or _usable(there, pool) or _taken(there, pool, cluster)
        if wrong:
            yield failed(f"pool {pool.name}: {purchase.id} {wrong}")
        else:
            yield ok(
                f"pool {pool.name}: {purchase.id} is {there['State']}, "
                f"{there['TotalInstanceCount']} x {there['InstanceType']}"
            )


def _sold(purchase: Reservation | CapacityBlock, there: Mapping[str, Any]) -> str:
    """Return that a reservation is of the other kind: EC2 starts none in the other's market."""
    sold = there.get("ReservationType")
    block = sold == "capacity-block"
    if sold is None or block == isinstance(purchase, CapacityBlock):
        return ""
    kind = "a capacity block" if block else "a reservation on demand, and no capacity block"
    return f"is {kind}: the pool's purchase says {purchase.kind!r}"


def _described(there: Mapping[str, Any]) -> dict[str, Any]:
    names = {
        "availability_zone": "AvailabilityZone",
        "instance_type": "InstanceType",
        "instance_count": "TotalInstanceCount",
        "instance_platform": "InstancePlatform",
        "tenancy": "Tenancy",
        "state": "State",
        "placement_group_arn": "PlacementGroupArn",
    }
    moments = {"start_date": "StartDate", "end_date": "EndDate"}
    described = {ours: there.get(theirs) for ours, theirs in names.items()}
    return described | {
        ours: there[theirs].isoformat() for ours, theirs in moments.items() if there.get(theirs)
    }


def _usable(there: Mapping[str, Any], pool: AwsPool) -> str:
    """Return why a reservation that fits gives no machines now; it may be yet to begin.

    A pool on a block is made with no node. A future-dated reservation gives none before it is
    active (EC2 user guide, capacity-reservations-create).
    """
    state = there["State"]
    if state not in ("active", "pending", *_TO_COME):
        return f"is {state}"
    if state in _TO_COME and isinstance(pool.purchase, Reservation) and pool.first_nodes:
        begins = f", from {start.isoformat()}" if (start := there.get("StartDate")) else ""
        return (
            f"is {state}{begins}: EC2 starts no node before it is active, and EKS calls a group "
            "failed that gets none: write `initial_nodes: 0`, and scale the group up then"
        )
    free = there["AvailableInstanceCount"]
    if state == "active" and free < pool.nodes:
        return (
            f"has {free} of {there['TotalInstanceCount']} instances free, {pool.nodes} are needed"
        )
    return ""


def _taken(there: Mapping[str, Any], pool: AwsPool, cluster: AwsCluster) -> str:
    """Return that nodes on demand of another pool would take a reservation's machines.

    EC2 starts an instance that names no reservation in an open one of its type, zone and placement
    group (EC2 API reference, CapacityReservation, instanceMatchCriteria), which may be changed
    while nothing runs in it (ModifyCapacityReservation).
    """
    place = (pool.instance_type, pool.availability_zone)
    group = {"placement_group_arn": there.get("PlacementGroupArn")}
    others = [
        other
        for other in cluster.pools
        if isinstance(other.purchase, OnDemand)
        and (other.instance_type, other.availability_zone) == place
        and not mismatch(other, group)
    ]
    room = there["AvailableInstanceCount"] - pool.nodes
    if there.get("InstanceMatchCriteria") != "open" or sum(o.nodes for o in others) <= room:
        return ""
    return (
        f"is open, and EC2 starts the nodes on demand of pool {others[0].name} in it: `aws ec2 "
        "modify-capacity-reservation --instance-match-criteria targeted "
        f"--capacity-reservation-id {there['CapacityReservationId']}` while nothing runs in it"
    )


def placement(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the placement groups that pools name."""
    for pool in cluster.pools:
        if not isinstance(pool.placement_group, ExistingPlacementGroup):
            continue
        name = pool.placement_group.name
        groups = _filtered(aws, "ec2:DescribePlacementGroups", "group-name", [name])
        if [group.get("Strategy") for group in groups] == ["cluster"]:
            yield ok(f"placement group {name} is there")
        else:
            yield failed(f"pool {pool.name}: there is no cluster placement group {name}")


def _filtered(aws: Aws, call: str, name: str, values: list[str]) -> list[dict[str, Any]]:
    answer = aws.require(call, Filters=[{"Name": name, "Values": values}])
    [items] = [value for value in answer.values() if isinstance(value, list)]
    return items


def subnets(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Compare a network that is there with what the stack puts into it."""
    network = cluster.platform.network
    if not isinstance(network, ExistingNetwork):
        return
    yield from _resolves(aws, network.vpc_id)
    for zone, subnet in network.private_subnets.items():
        answer = aws.ask("ec2:DescribeSubnets", SubnetIds=[subnet])
        if answer is None:
            yield failed(f"{subnet} is not in this account and region")
            continue
        [there] = answer["Subnets"]
        need, free = _addresses(cluster, zone), there["AvailableIpAddressCount"]
        for what, have, want in (
            ("AvailabilityZone", there["AvailabilityZone"], zone),
            ("VpcId", there["VpcId"], network.vpc_id),
        ):
            if have != want:
                yield failed(f"{subnet} has {what} {have}, not {want}")
        if free < need:
            yield failed(f"{subnet} has {free} addresses free, {need} are needed")
        else:
            yield ok(f"{subnet} has {free} addresses free, {need} are needed")
        # EC2 gives no public address to an instance of several network interfaces, as those of all
        # pools are (EKS user guide, create-managed-node-group).
        has_addresses = there["MapPublicIpOnLaunch"] and all(
            pool.availability_zone != zone for pool in cluster.pools
        )
        yield from _way_out(aws, network.vpc_id, subnet, has_addresses=has_addresses)
    yield from _opened(aws, network)


def _addresses(cluster: AwsCluster, zone: str) -> int:
    """Return the addresses that nodes, their pods and the control plane take in a zone."""
    nodes = sum(pool.nodes for pool in cluster.pools if pool.availability_zone == zone)
    regional = _regional_zones(cluster)
    if zone not in regional:
        return nodes * facts.ADDRESSES_A_NODE
    nodes += math.ceil(cluster.platform.system_pool.max_nodes / len(regional))
    return nodes * facts.ADDRESSES_A_NODE + _CONTROL_PLANE_ADDRESSES


def _resolves(aws: Aws, vpc: str) -> Iterator[Finding]:
    """Find what keeps nodes from resolving the API server's private address, and file systems'."""
    for key, option in _DNS.items():
        attribute = key[0].lower() + key[1:]
        answer = aws.ask("ec2:DescribeVpcAttribute", VpcId=vpc, Attribute=attribute)
        if answer is None:
            yield failed(f"{vpc} is not in this account and region")
            return
        if not answer[key]["Value"]:
            yield failed(
                f"{vpc} has {attribute} off: no node finds the API server",
                f"aws ec2 modify-vpc-attribute --vpc-id {vpc} --{option}",
            )
    yield from _name_servers(aws, vpc)


def _name_servers(aws: Aws, vpc: str) -> Iterator[Finding]:
    """Find name servers that may not know the names of EKS, FSx and EFS, which are the VPC's own.

    EKS user guide, cluster-endpoint: AmazonProvidedDNS must be among them. Those that forward to it
    do as well, which no API tells.
    """
    [there] = aws.require("ec2:DescribeVpcs", VpcIds=[vpc])["Vpcs"]
    # Without DHCP options the id is `default` (EC2 API reference, AssociateDhcpOptions).
    answer = aws.ask("ec2:DescribeDhcpOptions", DhcpOptionsIds=[there["DhcpOptionsId"]]) or {}
    servers = [
        value["Value"]
        for options in answer.get("DhcpOptions", ())
        for row in options["DhcpConfigurations"]
        if row["Key"] == "domain-name-servers"
        for value in row["Values"]
    ]
    own = {*_RESOLVER, str(ipaddress.ip_network(there["CidrBlock"])[2])}
    if not own & set(servers):
        yield unknown(
            f"{vpc}: its DHCP options name {', '.join(servers) or 'no name server'} and not "
            "AmazonProvidedDNS: nodes find API server and file systems only if that asks the VPC's "
            "own resolver",
            "have AmazonProvidedDNS among the name servers of the VPC's DHCP options, or have them "
            "forward the names of EKS, FSx and EFS to it",
        )


def _default_routes(aws: Aws, vpc: str, subnet: str) -> list[Mapping[str, Any]]:
    call = "ec2:DescribeRouteTables"
    tables = _filtered(aws, call, "association.subnet-id", [subnet])
    if not tables:
        # A subnet without a table of its own has the VPC's.
        ours = _filtered(aws, call, "vpc-id", [vpc])
        tables = [t for t in ours if any(a.get("Main") for a in t.get("Associations", ()))]
    return [
        route
        for table in tables
        for route in table.get("Routes", ())
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") == "active"
    ]


def _way_out(aws: Aws, vpc: str, subnet: str, *, has_addresses: bool) -> Iterator[Finding]:
    """Find a subnet without a way out; ``has_addresses``: its nodes have public addresses."""
    routes = _default_routes(aws, vpc, subnet)
    if not routes:
        yield failed(
            f"{subnet} has no active route to 0.0.0.0/0: nodes reach no registry",
            "add a route to a NAT or transit gateway",
        )
    elif not has_addresses and any(map(_internet, routes)):
        yield failed(
            f"{subnet} is a public subnet, whose way out is an internet gateway, and its nodes get "
            "no public address: they reach no registry, and their group fails for good",
            "name a subnet whose route to 0.0.0.0/0 is a NAT or transit gateway",
        )


def _internet(route: Mapping[str, Any]) -> bool:
    return str(route.get("GatewayId", "")).startswith("igw-")


def _opened(aws: Aws, network: ExistingNetwork) -> Iterator[Finding]:
    """Find gateways that VPC Block Public Access closes."""
    out = any(
        route.get("NatGatewayId") or _internet(route)
        for subnet in network.private_subnets.values()
        for route in _default_routes(aws, network.vpc_id, subnet)
    )
    if not out or _closed(aws) is None:
        return
    rows = aws.require("ec2:DescribeVpcBlockPublicAccessExclusions")
    excluded = [
        row["ResourceArn"].rpartition(":")[2]
        for row in rows["VpcBlockPublicAccessExclusions"]
        if row["State"] in ("create-complete", "update-complete")
    ]
    if f"vpc/{network.vpc_id}" in excluded:
        return
    text = f"VPC Block Public Access is bidirectional, and {network.vpc_id} is not excluded from it"
    remedy = f"{_EXCLUDE} {network.vpc_id}"
    if any(row.startswith("subnet/") for row in excluded):
        yield unknown(f"{text}: whether its gateways' subnets are was not looked at", remedy)
    else:
        yield failed(f"{text}: nodes reach no registry", remedy)


def gateway(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the transit gateway that a new network is attached to."""
    network = cluster.platform.network
    if not isinstance(network, NewNetwork) or network.transit_gateway is None:
        return
    name = network.transit_gateway.id
    answer = aws.ask("ec2:DescribeTransitGateways", TransitGatewayIds=[name])
    state = answer["TransitGateways"][0]["State"] if answer and answer["TransitGateways"] else None
    if state is None:
        yield failed(f"{name} is neither in this account nor shared with it")
    elif state != "available":
        yield failed(f"{name} is {state}")
    else:
        yield ok(f"{name} is available")


def image(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the images of the nodes among EKS' public parameters."""
    minor = cluster.platform.kubernetes
    system = _CPU[cluster.platform.system_pool.architecture]
    wanted: set[tuple[str, str, str | None]] = {("standard", system, None)}
    for pool in cluster.pools:
        cpu = _CPU[MACHINES[pool.instance_type].architecture]
        wanted.add(("nvidia", cpu, pool.ami_release))
    for kind, cpu, release in sorted(wanted, key=str):
        # A release's folder has the image's name, whose end is the day of the release.
        folder = "recommended"
        if release is not None:
            day = release.rpartition("-")[2]
            folder = f"amazon-eks-node-al2023-{cpu}-{kind}-{minor}-v{day}"
        path = _IMAGE.format(minor=minor, cpu=cpu, kind=kind, release=folder)
        answer = aws.ask("ssm:GetParameter", Name=f"{path}/image_id")
        if answer is None:
            yield failed(f"EKS has no image {kind} {cpu} of {minor}, release {release or 'newest'}")
            continue
        ami = answer["Parameter"]["Value"]
        images = aws.ask("ec2:DescribeImages", ImageIds=[ami], IncludeDeprecated=True)
        if images and images["Images"]:
            yield ok(f"{ami} is the image {kind} {cpu} of {minor}")
        else:
            yield failed(
                f"{ami}, the image {kind} {cpu} of {minor}, is not to be seen in this account",
                "have `amazon` among the image providers of the account's Allowed AMIs, or the id "
                f"of the account that owns EKS' images ({facts.EKS_REGISTRY} in most regions)",
            )


def kubernetes(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the minor and for the add-ons' versions among those that EKS offers."""
    minor, platform = cluster.platform.kubernetes, cluster.platform
    answer = aws.ask("eks:DescribeClusterVersions", clusterVersions=[minor])
    listed = answer["clusterVersions"] if answer else []
    status = str(listed[0].get("versionStatus") or listed[0].get("status", "")) if listed else ""
    if not listed or status.upper() == "UNSUPPORTED":
        yield failed(f"EKS does not offer Kubernetes {minor} for new clusters")
    elif status.upper() == "EXTENDED_SUPPORT" and platform.support == "standard":
        yield failed(
            f"Kubernetes {minor} has extended support alone, and platform.support is 'standard'",
            "choose a newer minor, or `support: extended`, at its price",
        )
    else:
        yield ok(f"EKS offers Kubernetes {minor}: {status.lower().replace('_', ' ')}")
    for addon in addons(cluster):
        yield _addon(aws, addon, minor, platform.addon_versions.get(addon.name))


def _addon(aws: Aws, addon: facts.Addon, minor: str, chosen: str | None) -> Finding:
    version = chosen or addon.versions.get(minor)
    answer = aws.ask(
        "eks:DescribeAddonVersions", addonName=addon.name, kubernetesVersion=minor
    ) or {"addons": []}
    offered = [v["addonVersion"] for a in answer["addons"] for v in a["addonVersions"]]
    if not offered:
        return failed(f"EKS does not offer the add-on {addon.name} for {minor}")
    if version in (None, "default") or version in offered:
        return ok(f"{addon.name} {version or 'by default'} is offered")
    return failed(
        f"{addon.name} {version} is not offered for {minor} any more; newest: {offered[0]}",
        f"set platform.addon_versions.{addon.name} to one that is, or to 'default'",
    )


def addons(cluster: AwsCluster) -> list[facts.Addon]:
    """Return the add-ons that a stack installs."""
    drivers = {LustreFileSystem: facts.FSX_CSI, ElasticFileSystem: facts.EFS_CSI}
    kinds = {type(row) for row in cluster.platform.storage}
    return [
        facts.POD_IDENTITY_AGENT,
        facts.KUBE_PROXY,
        facts.VPC_CNI,
        facts.COREDNS,
        facts.NODE_MONITORING_AGENT,
        *(driver for kind, driver in drivers.items() if kind in kinds),
    ]


def names(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for what has a name already that the stack gives."""
    wanted = wanted_names(cluster)
    taken = [
        f"{what} {name}"
        for what, look in _LOOKS.items()
        if wanted[what]
        for name in sorted(set(wanted[what]) & look(aws, wanted[what]))
    ]
    for name in taken:
        yield failed(f"there is already the {name}", _left_over(name))
    if not taken:
        yield ok(f"none of {sum(map(len, wanted.values()))} names is taken")


def _left_over(name: str) -> str:
    if name.startswith("log group"):
        return (
            "an earlier cluster of this name left it: keep what you need of it, then `aws logs "
            f"delete-log-group --log-group-name {name.removeprefix('log group ')}`"
        )
    return ""


def wanted_names(cluster: AwsCluster) -> dict[str, list[str]]:
    """Return the names that a stack gives to what has one name in an account or a region."""
    platform, name = cluster.platform, cluster.name
    accounts = [a.service_account for a in addons(cluster) if a.service_account is not None]
    parts = [
        ("eks",),
        ("nodes",),
        *((account,) for account in accounts),
        *((access.namespace, "default") for access in platform.s3_access),
    ]
    pools = [SYSTEM, *(pool.name for pool in cluster.pools)]
    return {
        "EKS cluster": [name],
        "log group": [f"/aws/eks/{name}/cluster"],
        "key alias": [f"alias/{physical_name(name, 'eks-secrets', limit=facts.KEY_ALIAS)}"],
        "role": [
            physical_name(name, platform.region, *part, limit=facts.ROLE_NAME) for part in parts
        ],
        "launch template": [
            physical_name(name, pool, limit=facts.LAUNCH_TEMPLATE_NAME) for pool in pools
        ],
        "placement group": [
            physical_name(name, pool.name, limit=facts.PLACEMENT_GROUP_NAME)
            for pool in cluster.pools
            if isinstance(pool.placement_group, NewPlacementGroup)
        ],
        "EFS creation token": [
            physical_name(name, row.name, limit=facts.CREATION_TOKEN)
            for row in platform.storage
            if isinstance(row, ElasticFileSystem)
        ],
        "pull-through prefix": [cache.prefix for cache in platform.image_caches],
    }


def _clusters(aws: Aws, names: list[str]) -> set[str]:
    return {name for name in names if aws.ask("eks:DescribeCluster", name=name)}


def _log_groups(aws: Aws, names: list[str]) -> set[str]:
    [name] = names
    answer = aws.require("logs:DescribeLogGroups", logGroupNamePrefix=name)
    return {group["logGroupName"] for group in answer.get("logGroups", ())}


def _aliases(aws: Aws, _: list[str]) -> set[str]:
    return {alias["AliasName"] for alias in aws.require("kms:ListAliases")["Aliases"]}


def _roles(aws: Aws, names: list[str]) -> set[str]:
    return {name for name in names if aws.ask("iam:GetRole", RoleName=name)}


def _templates(aws: Aws, names: list[str]) -> set[str]:
    items = _filtered(aws, "ec2:DescribeLaunchTemplates", "launch-template-name", names)
    return {item["LaunchTemplateName"] for item in items}


def _groups(aws: Aws, names: list[str]) -> set[str]:
    items = _filtered(aws, "ec2:DescribePlacementGroups", "group-name", names)
    return {item["GroupName"] for item in items}


def _tokens(aws: Aws, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if (aws.ask("efs:DescribeFileSystems", CreationToken=name) or {}).get("FileSystems")
    }


def _prefixes(aws: Aws, _: list[str]) -> set[str]:
    answer = aws.ask("ecr:DescribePullThroughCacheRules") or {}
    return {rule["ecrRepositoryPrefix"] for rule in answer.get("pullThroughCacheRules", ())}


_LOOKS = {
    "EKS cluster": _clusters,
    "log group": _log_groups,
    "key alias": _aliases,
    "role": _roles,
    "launch template": _templates,
    "placement group": _groups,
    "EFS creation token": _tokens,
    "pull-through prefix": _prefixes,
}


def principals(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the roles and users of the stack's own account."""
    platform = cluster.platform
    named = [*platform.administrators, *platform.researchers]
    named += [arn for arns in platform.members.values() for arn in arns]
    own = [arn for arn in dict.fromkeys(named) if arn.split(":")[4] == platform.account]
    there = {arn: _of_iam(aws, arn) for arn in own}
    for arn, real in there.items():
        if real is None:
            yield failed(f"{arn} does not exist")
        elif real != arn:
            yield failed(f"{arn} is {real} in full: EKS takes no principal without its path")
    if all(real == arn for arn, real in there.items()):
        yield ok(f"{len(own)} roles and users exist")


def _of_iam(aws: Aws, arn: str) -> str | None:
    """Return the ARN, with its path, of the role or user of this name."""
    name = arn.rpartition("/")[2]
    if ":role/" in arn:
        answer = aws.ask("iam:GetRole", RoleName=name)
        return str(answer["Role"]["Arn"]) if answer else None
    answer = aws.ask("iam:GetUser", UserName=name)
    return str(answer["User"]["Arn"]) if answer else None


def buckets(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the buckets of jobs, in the stack's region."""
    named = {b.name for access in cluster.platform.s3_access for b in access.buckets}
    region = cluster.platform.region
    for name in sorted(named):
        answer = aws.ask("s3:HeadBucket", Bucket=name)
        if answer is None:
            yield failed(f"there is no bucket {name}")
            continue
        place = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region", region)
        if place == region:
            yield ok(f"bucket {name} is in {region}")
        else:
            yield failed(f"bucket {name} is in {place}: each read leaves the region, and is paid")


def secrets(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the secrets by which ECR logs in, and their key; their content is not read."""
    for cache in cluster.platform.image_caches:
        if cache.secret_arn is None:
            continue
        there = aws.ask("secretsmanager:DescribeSecret", SecretId=cache.secret_arn)
        key = (there or {}).get("KmsKeyId", _SECRETS_KEY)
        if there is None:
            yield failed(f"{cache.registry}: there is no secret {cache.secret_arn}")
        elif not _own_key(aws, key):
            yield failed(
                f"{cache.registry}: {cache.secret_arn} is encrypted with {key}, and ECR reads none "
                "but those of AWS' own key",
                f"aws secretsmanager update-secret --secret-id {cache.secret_arn} --kms-key-id "
                f"{_SECRETS_KEY}",
            )
        else:
            yield ok(f"{cache.registry}: its secret is there")


def _own_key(aws: Aws, key: str) -> bool:
    """Return whether a secret's key is AWS' own.

    The answer leaves that one out, or has its alias, or its id where the console made the secret
    (Secrets Manager API reference, DescribeSecret).
    """
    if key.endswith(_SECRETS_KEY):
        return True
    own = aws.ask("kms:DescribeKey", KeyId=_SECRETS_KEY)
    return own is not None and own["KeyMetadata"]["KeyId"] == key.rpartition("/")[2]


def endpoints(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look for the interface endpoints in each zone: a service need not have them in all."""
    network, region = cluster.platform.network, cluster.platform.region
    if not isinstance(network, NewNetwork) or not network.interface_endpoints:
        return
    wanted = facts.endpoint_services(region)
    answer = aws.require(
        "ec2:DescribeVpcEndpointServices", Filters=[{"Name": "service-name", "Values": wanted}]
    )
    offered = {
        (service["ServiceName"], zone)
        for service in answer["ServiceDetails"]
        for zone in service["AvailabilityZones"]
    }
    lacks = [
        f"{name} in {zone}"
        for name in wanted
        for zone in network.availability_zones
        if (name, zone) not in offered
    ]
    if lacks:
        yield failed(f"there is no interface endpoint of {', '.join(lacks)}")
    else:
        yield ok(f"{len(wanted)} services have interface endpoints in every zone")


def volumes(aws: Aws, cluster: AwsCluster) -> Iterator[Finding]:
    """Look whether nodes may start with the key by which the account encrypts EBS volumes."""
    default = aws.require("ec2:GetEbsDefaultKmsKeyId")["KmsKeyId"]
    if default.endswith("alias/aws/ebs"):
        yield ok("EBS encrypts volumes with AWS' own key")
        return
    key = aws.require("kms:DescribeKey", KeyId=default)["KeyMetadata"]
    arn, region = key["Arn"], cluster.platform.region
    role = (
        f"arn:{facts.partition(region)}:iam::{cluster.platform.account}:role/aws-service-role/"
        f"autoscaling.amazonaws.com/{_AUTO_SCALING}"
    )
    if key["KeyState"] != "Enabled":
        yield failed(
            f"{arn}, which encrypts EBS volumes by default, is {key['KeyState']}",
            "enable it, or give the account another: `aws ec2 reset-ebs-default-kms-key-id`",
        )
    elif key["KeyManager"] == "AWS" or _usable_by(aws, arn, role):
        yield ok(f"{_AUTO_SCALING} may use {arn}, which encrypts EBS volumes by default")
    else:
        yield failed(
            f"{arn} encrypts EBS volumes by default, and neither its policy nor a grant lets "
            f"{_AUTO_SCALING} use it: instances end as soon as they start",
            f"aws kms create-grant --key-id {arn} --grantee-principal {role} --operations "
            f"{' '.join(_VOLUME_RIGHTS)}",
        )


def _usable_by(aws: Aws, key: str, role: str) -> bool:
    """Return whether a key's policy or a grant names a role, or the policy names everybody.

    The account itself is not enough: a service-linked role has no policy that passes it on.
    """
    # Grants first: the policy of another account's key cannot be read.
    grants = aws.require("kms:ListGrants", KeyId=key)["Grants"]
    if any(grant.get("GranteePrincipal") == role for grant in grants):
        return True
    policy = aws.require("kms:GetKeyPolicy", KeyId=key, PolicyName="default")["Policy"]
    statements = json.loads(policy)["Statement"]
    for statement in statements if isinstance(statements, list) else [statements]:
        principal = statement.get("Principal")
        named = principal.get("AWS", ()) if isinstance(principal, dict) else principal
        names = [named] if isinstance(named, str) else named or ()
        if statement["Effect"] == "Allow" and {role, "*"} & set(names):
            return True
    return False


ASKER = Asker(
    opened=opened,
    checks={
        "account": account,
        "permissions": permissions,
        "quota": quota,
        "networks": networks,
        "zones": zones,
        "reservation": reservation,
        "placement": placement,
        "subnets": subnets,
        "gateway": gateway,
        "image": image,
        "kubernetes": kubernetes,
        "names": names,
        "principals": principals,
        "buckets": buckets,
        "secrets": secrets,
        "endpoints": endpoints,
        "volumes": volumes,
    },
)
