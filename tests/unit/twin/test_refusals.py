"""Refusals: the cloud says no where a row of truth says that it does."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from railhead.twin.account import Account, Made, RefusalError
from railhead.twin.refusals import (
    UNIQUE,
    on_create,
    on_delete,
    on_update,
)

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
SUBNET = "aws:ec2/subnet:Subnet"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
SIZES = {"minSize": 0, "desiredSize": 1, "maxSize": 2}


def made(kind: str, name: str = "x", /, **inputs: Any) -> Made:
    return Made(id=f"{name}-id", type=kind, name=name, inputs=inputs)


def account(*resources: Made) -> Account:
    result = Account()
    for resource in resources:
        result.add(resource)
    return result


def refused(row: str) -> Any:
    return pytest.raises(RefusalError, match=rf"\[{row}\]")


@pytest.mark.parametrize("kind", sorted(UNIQUE))
def test_a_name_that_is_taken_is_refused(kind: str) -> None:
    rule = UNIQUE[kind]
    inputs = dict.fromkeys(rule.keys, "same") | {"scalingConfig": SIZES}
    there = account(made(kind, "old", **inputs))
    with refused(rule.row):
        on_create(there, made(kind, "new", **inputs))
    if kind not in (CLUSTER, NODE_GROUP, ADDON):
        on_create(there, made(kind, "new", **(inputs | {rule.keys[-1]: "other"})))


def test_a_name_that_the_provider_makes_up_is_not_taken() -> None:
    role = "aws:iam/role:Role"
    on_create(account(made(role, "old")), made(role, "new"))


def zones(*names: str) -> list[Made]:
    return [made(SUBNET, f"s{n}", availabilityZone=name) for n, name in enumerate(names)]


def cluster(*subnets: Made) -> Made:
    return made(CLUSTER, "c", name="c", vpcConfig={"subnetIds": [s.id for s in subnets]})


def test_a_cluster_in_one_zone_is_refused() -> None:
    subnets = zones("a")
    with refused("aws.cluster-two-az"):
        on_create(account(*subnets), cluster(*subnets))


@pytest.mark.parametrize(
    ("machine", "image", "taken"),
    [
        ("p5.48xlarge", "AL2023_x86_64_NVIDIA", True),
        ("p5.48xlarge", "AL2023_ARM_64_NVIDIA", False),
        ("p6e-gb200.36xlarge", "AL2023_ARM_64_NVIDIA", True),
        ("p6e-gb200.36xlarge", "AL2023_x86_64_NVIDIA", False),
        ("p6-b200.48xlarge", "AL2023_x86_64_NVIDIA", True),
        ("m7i.2xlarge", None, True),
        ("m7g.2xlarge", None, False),
        ("c7gn.2xlarge", "AL2023_ARM_64_STANDARD", True),
        ("g6e.2xlarge", "AL2023_x86_64_NVIDIA", True),
        ("m7g.2xlarge", "CUSTOM", True),
    ],
)
@pytest.mark.parametrize("where", ["group", "template"])
def test_an_image_is_of_its_machines_processor(
    machine: str, image: str | None, taken: bool, where: str
) -> None:
    template = made(TEMPLATE, "t", **({"instanceType": machine} if where == "template" else {}))
    more: dict[str, Any] = {"launchTemplate": {"id": template.id}, "amiType": image}
    more |= {"instanceTypes": [machine]} if where == "group" else {}
    with contextlib.nullcontext() if taken else refused("aws.ng-ami-type"):
        on_create(account(template), group(**more))


@pytest.mark.parametrize(
    ("name", "taken"),
    [("coredns", True), ("core-dns", False), ("kubecost_kubecost", True), ("fsx-csi", False)],
)
def test_an_add_on_is_one_that_eks_has(name: str, taken: bool) -> None:
    addon = made(ADDON, name, addonName=name, clusterName="c")
    with contextlib.nullcontext() if taken else refused("aws.addon-unknown"):
        on_create(account(), addon)


def test_a_cluster_takes_no_zone_later() -> None:
    subnets = zones("a", "b", "c")
    with refused("aws.cluster-subnet-az"):
        on_update(account(*subnets), cluster(*subnets[:2]), cluster(*subnets))


def group(**more: Any) -> Made:
    inputs = {"nodeGroupName": "g", "clusterName": "c", "scalingConfig": SIZES}
    return made(NODE_GROUP, "g", **(inputs | more))


def test_a_group_joins_no_cluster_without_a_network() -> None:
    own = made(CLUSTER, "c", bootstrapSelfManagedAddons=False)
    with refused("aws.mng-join-timeout"):
        on_create(account(own), group())
    cni = made("aws:eks/addon:Addon", "cni", addonName="vpc-cni")
    on_create(account(own, cni), group())


@pytest.mark.parametrize("sizes", [(2, 1, 3), (0, 4, 3), (0, 0, 0)])
def test_sizes_out_of_order_are_refused(sizes: tuple[int, int, int]) -> None:
    least, desired, most = sizes
    config = {"minSize": least, "desiredSize": desired, "maxSize": most}
    with refused("aws.ng-limits"):
        on_create(account(), group(scalingConfig=config))
    with refused("aws.ng-limits"):
        on_update(account(), group(), group(scalingConfig=config))


def test_kubernetes_spelling_of_a_taint_is_refused() -> None:
    with refused("aws.ng-taint-effects"):
        on_create(account(), group(taints=[{"key": "k", "effect": "NoSchedule"}]))


def test_a_capacity_block_needs_a_template_of_its_market() -> None:
    block = group(capacityType="CAPACITY_BLOCK", launchTemplate={"id": "t-id"})
    with refused("aws.ng-cb-needs-lt"):
        on_create(account(), block)
    with refused("aws.ng-cb-market"):
        on_create(account(made(TEMPLATE, "t")), block)
    market = {"marketType": "capacity-block"}
    placed = made(TEMPLATE, "t", instanceMarketOptions=market, placement={"groupName": "together"})
    with refused("aws.cb-no-pg"):
        on_create(account(placed), block)
    on_create(account(made(TEMPLATE, "t", instanceMarketOptions=market)), block)


def test_a_cluster_goes_one_minor_up_and_its_groups_after_it() -> None:
    def at(version: str) -> Made:
        return made(CLUSTER, "c", name="c", version=version)

    on_update(account(), at("1.34"), at("1.35"))
    with refused("aws.cluster-skip-minor"):
        on_update(account(), at("1.33"), at("1.35"))
    with refused("aws.cluster-downgrade"):
        on_update(account(), at("1.35"), at("1.34"))
    with refused("aws.ng-version-ahead"):
        on_update(account(at("1.34")), group(version="1.34"), group(version="1.35"))


def test_a_group_of_a_block_is_updated_without_nodes_alone() -> None:
    block = {"capacityType": "CAPACITY_BLOCK", "version": "1.34"}
    none: dict[str, Any] = {"scalingConfig": SIZES | {"desiredSize": 0}}
    with refused("aws.ng-cb-upgrade"):
        on_update(account(), group(**block), group(**(block | {"version": "1.35"})))
    on_update(account(), group(**block), group(**block, **none))
    on_update(account(), group(**block, **none), group(**(block | none | {"version": "1.35"})))


def test_a_clusters_log_group_is_made_before_it() -> None:
    """EKS makes it itself as soon as the cluster logs."""
    group_of = made("aws:cloudwatch/logGroup:LogGroup", "l", name="/aws/eks/c/cluster")
    with refused("aws.dup-log-group"):
        on_create(account(made(CLUSTER, "c", name="c", enabledClusterLogTypes=["api"])), group_of)
    on_create(account(made(CLUSTER, "c", name="c")), group_of)
    on_create(account(made(CLUSTER, "d", name="d", enabledClusterLogTypes=["api"])), group_of)


TAINT = {"key": "k", "value": "v", "effect": "NO_SCHEDULE"}


@pytest.mark.parametrize(
    "more",
    [
        {"nodeGroupName": "g" * 64},
        {"taints": [TAINT] * 51},
        {"updateConfig": {"maxUnavailable": 101}},
    ],
)
def test_a_group_has_limits(more: dict[str, Any]) -> None:
    with refused("aws.ng-limits"):
        on_create(account(), group(**more))
    fits = {"taints": [TAINT] * 50, "updateConfig": {"maxUnavailable": 100}}
    on_create(account(), group(nodeGroupName="g" * 63, **fits))


def test_a_group_takes_no_subnet_of_its_template() -> None:
    template = made(TEMPLATE, "t", networkInterfaces=[{"subnetId": "subnet-1"}])
    with refused("aws.ng-lt-forbidden"):
        on_create(account(template), group(launchTemplate={"id": "t-id"}))


def test_a_file_system_of_no_size_that_fsx_has_is_refused() -> None:
    lustre = "aws:fsx/lustreFileSystem:LustreFileSystem"
    on_create(account(), made(lustre, storageCapacity=1200, perUnitStorageThroughput=250))
    on_create(account(), made(lustre, storageCapacity=6000, storageType="HDD"))
    second = {"deploymentType": "PERSISTENT_2", "storageCapacity": 4800}
    on_create(account(), made(lustre, **second, perUnitStorageThroughput=1000))
    for sizes in (
        {"storageCapacity": 600},
        {"storageCapacity": 3600},
        {"perUnitStorageThroughput": 300},
        {**second, "perUnitStorageThroughput": 200},
    ):
        with refused("aws.fsx-min"):
            on_create(account(), made(lustre, **sizes))


def test_templates_that_ec2_refuses() -> None:
    first = [{"interfaceType": "efa", "networkCardIndex": 0}]
    address = [{"interfaceType": "efa-only", "networkCardIndex": 1, "ipv4PrefixCount": 1}]
    cases: dict[str, dict[str, Any]] = {
        "aws.efa-b300-card0": {"instanceType": "p6-b300.48xlarge", "networkInterfaces": first},
        "aws.efa-gb200-card0": {"instanceType": "p6e-gb200.36xlarge", "networkInterfaces": first},
        "aws.efa-only-ip": {"networkInterfaces": address},
        "aws.lt-sg-both": {"networkInterfaces": first, "vpcSecurityGroupIds": ["sg-1"]},
    }
    for row, inputs in cases.items():
        with refused(row):
            on_create(account(), made(TEMPLATE, **inputs))


@pytest.mark.parametrize(
    ("places", "row"),
    [
        ([{"interfaceType": "efa-only"}], "aws.efa-primary"),
        (
            [
                {"interfaceType": "efa"},
                {"interfaceType": "efa-only", "deviceIndex": 1},
            ],
            "aws.efa-one-per-card",
        ),
        (
            [
                {"interfaceType": "interface", "associatePublicIpAddress": "true"},
                {"interfaceType": "efa-only", "deviceIndex": 1},
            ],
            "aws.efa-public-ip",
        ),
    ],
)
def test_interfaces_that_ec2_refuses(places: list[dict[str, Any]], row: str) -> None:
    with refused(row):
        on_create(account(), made(TEMPLATE, networkInterfaces=places))


def test_a_zone_has_one_mount_target_of_a_file_system() -> None:
    target = "aws:efs/mountTarget:MountTarget"
    subnets = zones("a", "a", "b")
    there = account(*subnets, made(target, "old", fileSystemId="f", subnetId="s0-id"))
    with refused("aws.dup-mount-target"):
        on_create(there, made(target, "new", fileSystemId="f", subnetId="s1-id"))
    on_create(there, made(target, "new", fileSystemId="f", subnetId="s2-id"))


def test_lustre_does_not_shrink() -> None:
    lustre = "aws:fsx/lustreFileSystem:LustreFileSystem"
    with refused("aws.fsx-shrink"):
        on_update(account(), made(lustre, storageCapacity=2400), made(lustre, storageCapacity=1200))


@pytest.mark.parametrize(
    ("first", "user", "row"),
    [
        (made(SUBNET, "s"), group(subnetIds=["s-id"]), "aws.subnet-dependency"),
        (
            made("aws:ec2/securityGroup:SecurityGroup", "s"),
            made("aws:efs/mountTarget:MountTarget", securityGroups=["s-id"]),
            "aws.sg-dependency",
        ),
        (made(CLUSTER, "c", name="c"), group(), "aws.cluster-delete-ng"),
        (
            made("aws:efs/fileSystem:FileSystem", "f"),
            made("aws:efs/mountTarget:MountTarget", fileSystemId="f-id"),
            "aws.efs-in-use",
        ),
        (
            made("aws:ec2/internetGateway:InternetGateway", "i"),
            made("aws:ec2/natGateway:NatGateway"),
            "aws.igw-mapped",
        ),
        (
            made("aws:ec2/placementGroup:PlacementGroup", "p", name="together"),
            made(TEMPLATE, placement={"groupName": "together"}),
            "aws.pg-in-use",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_goes_before_what_needs_it(first: Made, user: Made, row: str) -> None:
    with refused(row):
        on_delete(account(first, user), first)
    on_delete(account(first), first)


def test_an_account_is_what_it_was_when_read_again(tmp_path: Path) -> None:
    path = tmp_path / "account.json"
    assert not Account.read(path).made
    account(group()).write(path)
    assert Account.read(path).of(NODE_GROUP) == [group()]
