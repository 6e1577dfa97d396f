"""Refusals of AWS, by the rows of truth whose ids are here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from railhead.twin.account import Account, Dependants, Made, RefusalError, Unique, at, flat, refuse

_NO_ADDRESS = "efa-only"
# Machines whose first card has no EFA device.
_PLAIN_FIRST = {
    "p6-b300.48xlarge": "aws.efa-b300-card0",
    "p6e-gb200.36xlarge": "aws.efa-gb200-card0",
}
#: EC2's names of machines with Arm's processors: Graviton's have a g, NVIDIA's Grace is in gb.
_ARM = re.compile(r"[a-z]+\d+[a-z]*g[a-z]*\.|[a-z]\d+e?-gb\d+\.")
#: EKS' choice where nobody names an image.
_IMAGE = "AL2023_x86_64_STANDARD"
_ADDRESSES = {"ipv4Addresses", "ipv4AddressCount", "ipv4PrefixCount", "privateIpAddress"}
_LEAST_GIB, _STEP_GIB = 1200, 2400
_THROUGHPUTS = (12, 40, 50, 100, 125, 200, 250, 500, 1000)
_PERSISTENT_2 = (125, 250, 500, 1000)
#: Add-ons of AWS and of the community; those of others have a _ in their names.
_ADDONS = frozenset(
    {
        "adot",
        "amazon-cloudwatch-observability",
        "aws-ebs-csi-driver",
        "aws-efs-csi-driver",
        "aws-fsx-csi-driver",
        "aws-guardduty-agent",
        "aws-mountpoint-s3-csi-driver",
        "coredns",
        "eks-node-monitoring-agent",
        "eks-pod-identity-agent",
        "kube-proxy",
        "metrics-server",
        "snapshot-controller",
        "vpc-cni",
    }
)
UNIQUE: Mapping[str, Unique] = {
    "aws:eks/accessEntry:AccessEntry": Unique(
        row="aws.dup-access-entry", keys=("clusterName", "principalArn")
    ),
    "aws:eks/cluster:Cluster": Unique(row="aws.dup-cluster", keys=("name",)),
    "aws:eks/nodeGroup:NodeGroup": Unique(
        row="aws.dup-nodegroup", keys=("clusterName", "nodeGroupName")
    ),
    "aws:eks/addon:Addon": Unique(row="aws.dup-addon", keys=("clusterName", "addonName")),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": Unique(
        row="aws.dup-pod-identity", keys=("clusterName", "namespace", "serviceAccount")
    ),
    "aws:cloudwatch/logGroup:LogGroup": Unique(row="aws.dup-log-group", keys=("name",)),
    "aws:ec2/placementGroup:PlacementGroup": Unique(row="aws.dup-placement-group", keys=("name",)),
    "aws:ec2/launchTemplate:LaunchTemplate": Unique(row="aws.dup-launch-template", keys=("name",)),
    "aws:kms/alias:Alias": Unique(row="aws.dup-kms-alias", keys=("name",)),
    "aws:iam/role:Role": Unique(row="aws.dup-iam-role", keys=("name",)),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": Unique(
        row="aws.dup-sg-rule",
        keys=(
            "cidrIpv4",
            "referencedSecurityGroupId",
            "fromPort",
            "toPort",
            "ipProtocol",
            "securityGroupId",
        ),
    ),
}


_IN_SUBNETS = {
    "aws:eks/nodeGroup:NodeGroup": ("subnetIds",),
    "aws:eks/cluster:Cluster": ("vpcConfig.subnetIds",),
    "aws:efs/mountTarget:MountTarget": ("subnetId",),
    "aws:fsx/lustreFileSystem:LustreFileSystem": ("subnetIds",),
    "aws:ec2/natGateway:NatGateway": ("subnetId",),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("subnetIds",),
}
DEPENDANTS: Mapping[str, Dependants] = {
    "aws:ec2/subnet:Subnet": Dependants(row="aws.subnet-dependency", users=_IN_SUBNETS),
    "aws:ec2/securityGroup:SecurityGroup": Dependants(
        row="aws.sg-dependency",
        users={
            "aws:efs/mountTarget:MountTarget": ("securityGroups",),
            "aws:fsx/lustreFileSystem:LustreFileSystem": ("securityGroupIds",),
            "aws:ec2/vpcEndpoint:VpcEndpoint": ("securityGroupIds",),
            "aws:ec2/launchTemplate:LaunchTemplate": (),
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (
                "referencedSecurityGroupId",
            ),
        },
    ),
    "aws:eks/cluster:Cluster": Dependants(
        row="aws.cluster-delete-ng", users={"aws:eks/nodeGroup:NodeGroup": ("clusterName",)}
    ),
    "aws:efs/fileSystem:FileSystem": Dependants(
        row="aws.efs-in-use", users={"aws:efs/mountTarget:MountTarget": ("fileSystemId",)}
    ),
    "aws:ec2/internetGateway:InternetGateway": Dependants(
        row="aws.igw-mapped", users={"aws:ec2/natGateway:NatGateway": ("*",)}
    ),
    "aws:ec2/placementGroup:PlacementGroup": Dependants(
        row="aws.pg-in-use",
        users={"aws:ec2/launchTemplate:LaunchTemplate": ("placement.groupName",)},
    ),
}


def _two_zones(account: Account, made: Made) -> None:
    if len(_zones(account, made)) < 2:
        refuse("aws.cluster-two-az")


def _same_zones(account: Account, before: Made, made: Made) -> None:
    if _zones(account, before) != _zones(account, made):
        refuse("aws.cluster-subnet-az")


def _one_minor(_: Account, before: Made, made: Made) -> None:
    steps = _minor(made) - _minor(before)
    if steps > 1:
        refuse("aws.cluster-skip-minor")
    if steps < 0:
        refuse("aws.cluster-downgrade")


def _minor(made: Made) -> int:
    return int(str(made.inputs.get("version") or "1.0").partition(".")[2])


def _not_ahead(account: Account, made: Made) -> None:
    for cluster in account.of("aws:eks/cluster:Cluster"):
        if _minor(made) > _minor(cluster):
            refuse("aws.ng-version-ahead")


def _block_is_empty(_: Account, before: Made, made: Made) -> None:
    rolled = any(
        before.inputs.get(key) != made.inputs.get(key)
        for key in ("version", "releaseVersion", "launchTemplate")
    )
    block = before.inputs.get("capacityType") == "CAPACITY_BLOCK"
    if block and rolled and int(before.inputs["scalingConfig"]["desiredSize"]):
        refuse("aws.ng-cb-upgrade")


def _template_of_a_group(account: Account, made: Made) -> None:
    template = account.find(str(at(made.inputs, "launchTemplate.id") or ""))
    if template is None:
        return
    places = template.inputs.get("networkInterfaces") or ()
    never = ("iamInstanceProfile", "instanceInitiatedShutdownBehavior", "hibernationOptions")
    if any(place.get("subnetId") for place in places) or set(never) & set(template.inputs):
        refuse("aws.ng-lt-forbidden")


def _zones(account: Account, cluster: Made) -> set[str]:
    subnets = flat(at(cluster.inputs, "vpcConfig.subnetIds"))
    places = (account.find(str(identifier)) for identifier in subnets)
    return {str(s.inputs.get("availabilityZone")) for s in places if s is not None} or {"a", "b"}


def _block_needs_template(account: Account, made: Made) -> None:
    if made.inputs.get("capacityType") != "CAPACITY_BLOCK":
        return
    template = account.find(str(at(made.inputs, "launchTemplate.id") or ""))
    if template is None:
        refuse("aws.ng-cb-needs-lt")
    if at(template.inputs, "instanceMarketOptions.marketType") != "capacity-block":
        refuse("aws.ng-cb-market")
    if at(template.inputs, "placement.groupName"):
        refuse("aws.cb-no-pg")


def machine_types(account: Account, group: Made) -> list[str]:
    """Return the instance types of a node group, which its launch template may name instead."""
    template = account.find(str(at(group.inputs, "launchTemplate.id") or ""))
    own = template.inputs.get("instanceType") if template else None
    return [*map(str, group.inputs.get("instanceTypes") or ([own] if own else []))]


def _image_of_its_processor(account: Account, made: Made) -> None:
    image = str(made.inputs.get("amiType") or _IMAGE)
    if image == "CUSTOM":
        return
    for machine in machine_types(account, made):
        if bool(_ARM.match(machine)) != ("ARM_64" in image):
            refuse("aws.ng-ami-type", f": [{machine}] and {image}")


def _taint_effects(_: Account, made: Made) -> None:
    for taint in made.inputs.get("taints") or ():
        if taint["effect"] not in ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE"):
            refuse("aws.ng-taint-effects")


def _limits(_: Account, made: Made) -> None:
    sizes = made.inputs["scalingConfig"]
    least, desired, most = (int(sizes[k]) for k in ("minSize", "desiredSize", "maxSize"))
    if most < 1 or least < 0 or not least <= desired <= most:
        raise RefusalError(
            "aws.ng-limits",
            f"InvalidParameterException: sizes {least}, {desired}, {most} are out of order",
        )
    name, taints = str(made.inputs.get("nodeGroupName") or ""), made.inputs.get("taints") or ()
    away = int(at(made.inputs, "updateConfig.maxUnavailable") or 1)
    if len(name) > 63 or len(taints) > 50 or not 1 <= away <= 100:
        refuse("aws.ng-limits")


def _needs_network(account: Account, _: Made) -> None:
    addons = {m.inputs["addonName"] for m in account.of("aws:eks/addon:Addon")}
    clusters = account.of("aws:eks/cluster:Cluster")
    own = any(c.inputs.get("bootstrapSelfManagedAddons") is False for c in clusters)
    if own and "vpc-cni" not in addons:
        raise RefusalError(
            "aws.mng-join-timeout",
            "NodeCreationFailure: Instances failed to join the kubernetes cluster: no CNI",
        )


def fabric_interface(place: Mapping[str, Any]) -> bool:
    """Return whether a launch template's interface is one of EFA, with or without an address."""
    return str(place.get("interfaceType", "")).startswith(_NO_ADDRESS.partition("-")[0])


def _interfaces(_: Account, made: Made) -> None:
    cards: dict[Any, int] = {}
    plain = _PLAIN_FIRST.get(str(made.inputs.get("instanceType")))
    if made.inputs.get("networkInterfaces") and made.inputs.get("vpcSecurityGroupIds"):
        refuse("aws.lt-sg-both")
    for place in made.inputs.get("networkInterfaces") or ():
        card, device = place.get("networkCardIndex") or 0, place.get("deviceIndex") or 0
        if plain and card == 0 and fabric_interface(place):
            refuse(plain)
        if place.get("interfaceType") == _NO_ADDRESS and _ADDRESSES & set(place):
            refuse("aws.efa-only-ip")
        if place.get("interfaceType") == _NO_ADDRESS and card == 0 and device == 0:
            refuse("aws.efa-primary")
        if fabric_interface(place):
            cards[card] = cards.get(card, 0) + 1
            if cards[card] > 1:
                refuse("aws.efa-one-per-card")
        several = len(made.inputs["networkInterfaces"]) > 1
        if several and str(place.get("associatePublicIpAddress", "")).lower() == "true":
            refuse("aws.efa-public-ip")


def _one_per_zone(account: Account, made: Made) -> None:
    def zone(target: Made) -> Any:
        subnet = account.find(str(target.inputs.get("subnetId")))
        return subnet.inputs.get("availabilityZone") if subnet else None

    for other in account.of(made.type):
        same = other.inputs.get("fileSystemId") == made.inputs.get("fileSystemId")
        if same and zone(made) is not None and zone(other) == zone(made):
            refuse("aws.dup-mount-target")


def _sizes(_: Account, made: Made) -> None:
    throughput = made.inputs.get("perUnitStorageThroughput")
    second = made.inputs.get("deploymentType") == "PERSISTENT_2"
    if throughput and int(throughput) not in (_PERSISTENT_2 if second else _THROUGHPUTS):
        refuse("aws.fsx-min")
    gib = int(made.inputs.get("storageCapacity") or _LEAST_GIB)
    steps = made.inputs.get("storageType") in (None, "SSD")
    if gib < _LEAST_GIB or (steps and gib != _LEAST_GIB and gib % _STEP_GIB):
        refuse("aws.fsx-min")


def _before_its_cluster(account: Account, made: Made) -> None:
    for cluster in account.of("aws:eks/cluster:Cluster"):
        own = f"/aws/eks/{cluster.inputs.get('name')}/cluster"
        if made.inputs.get("name") == own and cluster.inputs.get("enabledClusterLogTypes"):
            refuse("aws.dup-log-group", f" ({own})")


def _known_addon(_: Account, made: Made) -> None:
    name = str(made.inputs["addonName"])
    if name not in _ADDONS and "_" not in name:
        refuse("aws.addon-unknown", f": {name}")


def _no_smaller(_: Account, before: Made, made: Made) -> None:
    if int(made.inputs.get("storageCapacity") or 0) < int(
        before.inputs.get("storageCapacity") or 0
    ):
        refuse("aws.fsx-shrink")


CREATE: Mapping[str, tuple[Callable[[Account, Made], None], ...]] = {
    "aws:eks/cluster:Cluster": (_two_zones,),
    "aws:eks/nodeGroup:NodeGroup": (
        _limits,
        _taint_effects,
        _block_needs_template,
        _image_of_its_processor,
        _template_of_a_group,
        _not_ahead,
        _needs_network,
    ),
    "aws:cloudwatch/logGroup:LogGroup": (_before_its_cluster,),
    "aws:eks/addon:Addon": (_known_addon,),
    "aws:ec2/launchTemplate:LaunchTemplate": (_interfaces,),
    "aws:efs/mountTarget:MountTarget": (_one_per_zone,),
    "aws:fsx/lustreFileSystem:LustreFileSystem": (_sizes,),
}
UPDATE: Mapping[str, tuple[Callable[[Account, Made, Made], None], ...]] = {
    "aws:eks/cluster:Cluster": (_same_zones, _one_minor),
    "aws:eks/nodeGroup:NodeGroup": (
        lambda account, _, made: _limits(account, made),
        lambda account, _, made: _not_ahead(account, made),
        _block_is_empty,
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": (lambda account, _, made: _interfaces(account, made),),
    "aws:fsx/lustreFileSystem:LustreFileSystem": (_no_smaller,),
}

#: The rows that the checks above follow.
CHECKED: tuple[str, ...] = (
    "aws.cluster-two-az",
    "aws.cluster-subnet-az",
    "aws.ng-cb-needs-lt",
    "aws.ng-cb-market",
    "aws.cb-no-pg",
    "aws.addon-unknown",
    "aws.ng-ami-type",
    "aws.ng-taint-effects",
    "aws.ng-limits",
    "aws.efa-primary",
    "aws.efa-one-per-card",
    "aws.efa-public-ip",
    "aws.dup-mount-target",
    "aws.fsx-shrink",
    "aws.cluster-skip-minor",
    "aws.cluster-downgrade",
    "aws.ng-version-ahead",
    "aws.ng-cb-upgrade",
    "aws.ng-lt-forbidden",
    "aws.efa-b300-card0",
    "aws.efa-gb200-card0",
    "aws.efa-only-ip",
    "aws.lt-sg-both",
    "aws.fsx-min",
)
