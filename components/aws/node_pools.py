"""Node pools: managed node groups, each with the one launch template that it keeps for life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pulumi
from pulumi_aws import autoscaling, ec2, eks

from railhead.base.names import physical_name
from railhead.components.aws.network import Nets
from railhead.components.aws.reservation import target
from railhead.components.aws.user_data import NodeSetup, user_data
from railhead.machines import MACHINES, Machine
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.checks import SYSTEM, reserved_label
from railhead.platform.aws.model import (
    AwsPool,
    CapacityBlock,
    ExistingPlacementGroup,
    NewPlacementGroup,
    OnDemand,
    Spot,
)
from railhead.platform.aws.model import SystemPool as SystemPoolConfig

if TYPE_CHECKING:
    from pulumi_aws.ec2 import (
        LaunchTemplateBlockDeviceMappingArgsDict,
        LaunchTemplateMetadataOptionsArgsDict,
        LaunchTemplateNetworkInterfaceArgsDict,
        LaunchTemplateTagSpecificationArgsDict,
    )
    from pulumi_aws.eks.outputs import NodeGroupResource

# The root device of EKS's Amazon Linux images.
ROOT_DEVICE = "/dev/xvda"
# Two of each controller on two nodes: an update of one leaves the other.
SYSTEM_NODES = 2
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
# What EKS calls what a pool is bought as, where that is not on demand. The template says nothing of
# spot: EKS does (EKS user guide, launch templates).
_CAPACITY = {"capacity-block": "CAPACITY_BLOCK", "spot": "SPOT"}
# The autoscaler's, and the scheduled action's that empties a capacity block in time.
_SIZE = ["scalingConfig.desiredSize"]
POOL_LABEL = "railhead.dev/pool"


@dataclass(frozen=True, kw_only=True)
class NodePoolArgs:
    """The arguments that every pool has.

    Args:
        cluster: the cluster's name, which the names of what is made begin with.
        cluster_name: the cluster's name as its own output, so that no node is made before it.
        kubernetes: minor version of the nodes, such as ``1.35``.
        node_role: ARN of the nodes' IAM role.
        nets: the network's subnets.
        tags: tags of each instance.
        after: resources that must exist for a node to become ready, such as its role's policies
            and the CNI add-on.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    kubernetes: str
    node_role: pulumi.Input[str]
    nets: Nets
    tags: Mapping[str, str] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, kw_only=True)
class SystemPoolArgs(NodePoolArgs):
    """Arguments of :class:`SystemPool`.

    Args:
        pool: instance type, architecture, number of nodes and size of the root volumes.
    """

    pool: SystemPoolConfig


@dataclass(frozen=True, kw_only=True)
class GpuPoolArgs(NodePoolArgs):
    """Arguments of :class:`GpuPool`.

    Args:
        pool: the pool, as a stack's file has it: instance type, zone, size, purchase, placement,
            labels, taints, disks.
        cluster_group: id of the security group that EKS puts on the API server and every node.
        efa_group: id of the fabric's security group (:class:`EfaSecurityGroup`).
        lustre_efa_devices: how many of each node's EFA devices Lustre takes; 0 mounts it over TCP.
        deletion_protection: whether Pulumi refuses to delete or replace the pool.
    """

    pool: AwsPool
    cluster_group: pulumi.Input[str]
    efa_group: pulumi.Input[str]
    lustre_efa_devices: int = 0
    deletion_protection: bool = True


def network_interfaces(
    machine: Machine, *, cluster_group: pulumi.Input[str], efa_group: pulumi.Input[str]
) -> list[LaunchTemplateNetworkInterfaceArgsDict]:
    """Return the interfaces of a node, as its row in the catalogue lays them out.

    Security groups go on the interfaces, as a template that has interfaces takes none of its own,
    and no subnet, which is the node group's. The cluster's group is on the one that has an address.
    """
    return [
        {
            "network_card_index": nic.card,
            "device_index": nic.device,
            "interface_type": nic.interface,
            "security_groups": [efa_group]
            if nic.interface == "efa-only"
            else [cluster_group, efa_group],
            "delete_on_termination": "true",
        }
        for nic in (*machine.host_nics, *machine.nics)
    ]


def _root_volume(gib: int) -> list[LaunchTemplateBlockDeviceMappingArgsDict]:
    return [
        {
            "device_name": ROOT_DEVICE,
            "ebs": {
                "volume_size": gib,
                "volume_type": "gp3",
                "encrypted": "true",
                "delete_on_termination": "true",
            },
        }
    ]


def _metadata_options() -> LaunchTemplateMetadataOptionsArgsDict:
    """Session tokens only, which do not reach into a pod: its rights come by pod identity."""
    return {
        "http_endpoint": "enabled",
        "http_tokens": "required",
        "http_put_response_hop_limit": 1,
        "instance_metadata_tags": "disabled",
    }


def _tag_specifications(cluster: str, pool: str) -> list[LaunchTemplateTagSpecificationArgsDict]:
    """Return the tags of what the template launches: the provider's default tags do not reach it.

    Only tags that never change: another tag is another version of the template, for which EKS
    replaces every node. The stack's own tags come by :func:`_tag_instances`.
    """
    tags = {
        "Name": f"{cluster}-{pool}",
        "railhead.dev/cluster": cluster,
        POOL_LABEL: pool,
    }
    return [
        {"resource_type": kind, "tags": tags}
        for kind in ("instance", "volume", "network-interface")
    ]


def _tag_instances(
    name: str, node_group: eks.NodeGroup, tags: Mapping[str, str], parent: pulumi.Resource
) -> None:
    """Put the stack's tags on each instance that the group launches from now on.

    No instance is replaced. EKS puts a node group's own tags on nothing but the group, and the
    Auto Scaling group's reach instances, not their volumes (Amazon EC2 Auto Scaling user guide,
    tagging).
    """
    group = node_group.resources.apply(_group_name)
    for key, value in tags.items():
        autoscaling.Tag(
            # A name's parts are parted by colons.
            f"{name}-tag-{key.replace(':', '-')}",
            autoscaling_group_name=group,
            tag={"key": key, "value": value, "propagate_at_launch": True},
            opts=pulumi.ResourceOptions(parent=parent),
        )


def _group_name(resources: Sequence[NodeGroupResource]) -> str:
    # A managed node group has exactly one (EKS API, NodegroupResources).
    groups = resources[0].autoscaling_groups or []
    return str(groups[0].name)


class SystemPool(pulumi.ComponentResource):
    """Nodes for the controllers, without GPUs, in every zone; they come first and go last.

    Attributes:
        node_group: the managed node group.
    """

    node_group: eks.NodeGroup

    def __init__(
        self, name: str, args: SystemPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:SystemPool", name, None, opts)
        cluster, pool = args.cluster, args.pool
        template = ec2.LaunchTemplate(
            f"{name}-template",
            name=physical_name(cluster, SYSTEM, limit=catalogue.LAUNCH_TEMPLATE_NAME),
            update_default_version=True,
            instance_type=pool.instance_type,
            block_device_mappings=_root_volume(pool.root_volume_gib),
            metadata_options=_metadata_options(),
            tag_specifications=_tag_specifications(cluster, SYSTEM),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.node_group = eks.NodeGroup(
            f"{name}-nodes",
            cluster_name=args.cluster_name,
            node_group_name=physical_name(cluster, SYSTEM, limit=catalogue.NODE_GROUP_NAME),
            node_role_arn=args.node_role,
            subnet_ids=list(args.nets.regional.values()),
            ami_type=catalogue.STANDARD_AMI[pool.architecture],
            capacity_type="ON_DEMAND",
            version=args.kubernetes,
            scaling_config={
                # Not more than any size it may have: EKS refuses a least above the present size,
                # and the present size is not the stack's to say.
                "min_size": min(pool.nodes, SYSTEM_NODES),
                "max_size": pool.max_nodes,
                "desired_size": pool.nodes,
            },
            update_config={"max_unavailable": 1},
            node_repair_config={"enabled": True},
            labels={POOL_LABEL: SYSTEM},
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *args.nets.ready],
                ignore_changes=_SIZE,
                delete_before_replace=True,
            ),
        )
        _tag_instances(name, self.node_group, args.tags, self)
        self.register_outputs({"node_group": self.node_group.arn})


class GpuPool(pulumi.ComponentResource):
    """GPU nodes of one type in one zone, on the fabric.

    A change of labels, taints, sizes or image goes into the group that is there. A change of what
    cannot be changed in place, such as the zone, replaces it, which deletion protection refuses.

    Attributes:
        node_group: the managed node group.
    """

    node_group: eks.NodeGroup

    def __init__(
        self, name: str, args: GpuPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:GpuPool", name, None, opts)
        self._name, self._args = name, args
        cluster, pool = args.cluster, args.pool
        template = self._template()
        self.node_group = eks.NodeGroup(
            f"{name}-nodes",
            cluster_name=args.cluster_name,
            node_group_name=physical_name(cluster, pool.name, limit=catalogue.NODE_GROUP_NAME),
            node_role_arn=args.node_role,
            subnet_ids=[args.nets.private[pool.availability_zone]],
            ami_type=catalogue.NVIDIA_AMI[MACHINES[pool.instance_type].architecture],
            capacity_type=_CAPACITY.get(pool.purchase.kind, "ON_DEMAND"),
            version=args.kubernetes,
            release_version=pool.ami_release,
            scaling_config={
                "min_size": pool.min_nodes,
                "max_size": pool.nodes,
                "desired_size": pool.first_nodes,
            },
            update_config={
                "max_unavailable": 1,
                # Reserved capacity has no room for a new node beside the old one.
                "update_strategy": "DEFAULT"
                if isinstance(pool.purchase, OnDemand | Spot)
                else "MINIMAL",
            },
            node_repair_config={"enabled": pool.repair},
            labels=node_labels(pool),
            taints=[
                {"key": t.key, "value": t.value, "effect": _EFFECTS[t.effect]} for t in pool.taints
            ],
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *args.nets.ready],
                ignore_changes=_SIZE,
                # Its name and its reserved capacity are taken while the old one is there.
                delete_before_replace=True,
                protect=args.deletion_protection,
            ),
        )
        _tag_instances(name, self.node_group, args.tags, self)
        self.register_outputs({"node_group": self.node_group.arn})

    def _template(self) -> ec2.LaunchTemplate:
        args, cluster, pool = self._args, self._args.cluster, self._args.pool
        inside = pulumi.ResourceOptions(parent=self)
        reserved = target(self._name, pool, inside)
        group = self._placement_group()
        return ec2.LaunchTemplate(
            f"{self._name}-template",
            name=physical_name(cluster, pool.name, limit=catalogue.LAUNCH_TEMPLATE_NAME),
            update_default_version=True,
            instance_type=pool.instance_type,
            network_interfaces=network_interfaces(
                MACHINES[pool.instance_type],
                cluster_group=args.cluster_group,
                efa_group=args.efa_group,
            ),
            placement=None if group is None else {"group_name": group},
            instance_market_options={"market_type": "capacity-block"}
            if isinstance(pool.purchase, CapacityBlock)
            else None,
            capacity_reservation_specification=None
            if reserved is None
            else {"capacity_reservation_target": reserved},
            block_device_mappings=_root_volume(pool.root_volume_gib),
            metadata_options=_metadata_options(),
            user_data=user_data(node_setup(pool, args.lustre_efa_devices)),
            tag_specifications=_tag_specifications(cluster, pool.name),
            opts=inside,
        )

    def _placement_group(self) -> pulumi.Input[str] | None:
        cluster, pool = self._args.cluster, self._args.pool
        if isinstance(pool.placement_group, ExistingPlacementGroup):
            return pool.placement_group.name
        if not isinstance(pool.placement_group, NewPlacementGroup):
            return None
        return ec2.PlacementGroup(
            f"{self._name}-placement",
            name=physical_name(cluster, pool.name, limit=catalogue.PLACEMENT_GROUP_NAME),
            strategy="cluster",
            opts=pulumi.ResourceOptions(parent=self),
        ).name


def node_setup(pool: AwsPool, lustre_efa_devices: int) -> NodeSetup:
    """Return the setup of a pool's nodes before they join."""
    return NodeSetup(
        raid=pool.local_storage == "raid0",
        hugepages_2mib=pool.hugepages_2mib,
        # Whatever has EFA registers memory with it.
        lock_memory="efa" in MACHINES[pool.instance_type].fabrics,
        lustre_efa=lustre_efa_devices,
    )


def node_labels(pool: AwsPool) -> Mapping[str, str]:
    """Labels that the group gives its nodes; those of Kubernetes' own domains nodes have anyway."""
    selected = {k: v for k, v in pool.node_selector.items() if not reserved_label(k)}
    return {POOL_LABEL: pool.name, **selected, **pool.labels}
