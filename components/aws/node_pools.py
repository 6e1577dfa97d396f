"""Node pools: managed node groups, each with the one launch template that it keeps for life."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pulumi
from pulumi_aws import autoscaling, ec2, eks

from railhead.base.names import physical_name
from railhead.components.aws.network import Nets
from railhead.components.aws.reservation import target
from railhead.components.aws.sizes import Bounds, scaling
from railhead.machines import MACHINES, Machine
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws import template
from railhead.platform.aws.checks import SYSTEM, reserved_label
from railhead.platform.aws.model import (
    AwsPool,
    CapacityBlock,
    ExistingPlacementGroup,
    NewPlacementGroup,
    RepairOverride,
)
from railhead.platform.aws.model import SystemPool as SystemPoolConfig
from railhead.platform.aws.user_data import user_data

if TYPE_CHECKING:
    from pulumi_aws.ec2 import (
        LaunchTemplateBlockDeviceMappingArgsDict,
        LaunchTemplateMetadataOptionsArgsDict,
        LaunchTemplateNetworkInterfaceArgsDict,
        LaunchTemplateTagSpecificationArgsDict,
    )
    from pulumi_aws.eks import NodeGroupNodeRepairConfigArgsDict
    from pulumi_aws.eks.outputs import GetNodeGroupScalingConfigResult, NodeGroupResource

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
# A template keeps the tags that it was made with: others would be another version of it, for which
# EKS replaces every node.
_TAGS = ["tagSpecifications"]
POOL_LABEL = "railhead.dev/pool"
# Findings that the node monitoring agent never takes back, of nodes that may be healthy: one failed
# call of the CNI's to the API server, such as at boot, and a lost connection to the agent's own
# DCGM (v1.6.7, monitors/networking/monitor.go: handleIPAMDLogs; its issues 215 and 266, open). EKS
# replaces a node for the first after half an hour (EKS user guide, node-repair); users saw it do so
# for the second (containers-roadmap, issue 2555). What is cut off or hangs is not Ready as well.
_STAYS = (
    RepairOverride(
        condition="NetworkingReady", reason="IPAMDNotReady", action="NoAction", wait_minutes=30
    ),
    RepairOverride(
        condition="AcceleratedHardwareReady", reason="DCGMError", action="NoAction", wait_minutes=30
    ),
)


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
        sizes: node group -> its sizes as they are (:func:`sizes.running`).
        after: resources that must exist for a node to become ready, such as its role's policies
            and the CNI add-on.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    kubernetes: str
    node_role: pulumi.Input[str]
    nets: Nets
    tags: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, GetNodeGroupScalingConfigResult] = field(default_factory=dict)
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
    """Return the interfaces of a node with the ids of their security groups."""
    groups = {template.CLUSTER: cluster_group, template.FABRIC: efa_group}
    return [
        cast(
            "LaunchTemplateNetworkInterfaceArgsDict",
            {**nic, "security_groups": [groups[group] for group in nic["security_groups"]]},
        )
        for nic in template.interfaces(machine)
    ]


def _root_volume(gib: int) -> list[LaunchTemplateBlockDeviceMappingArgsDict]:
    return [cast("LaunchTemplateBlockDeviceMappingArgsDict", template.root_volume(gib))]


def _metadata_options() -> LaunchTemplateMetadataOptionsArgsDict:
    return cast("LaunchTemplateMetadataOptionsArgsDict", template.metadata_options())


def _tag_specifications(
    args: NodePoolArgs, pool: str
) -> list[LaunchTemplateTagSpecificationArgsDict]:
    """Return the tags of what the template launches: the provider's default tags do not reach it.

    The stack's own are those of the day on which the pool was made, so that its first instances
    have them; what changes later comes by :func:`_tag_instances`.
    """
    tags = {
        **args.tags,
        "Name": f"{args.cluster}-{pool}",
        "railhead.dev/cluster": args.cluster,
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
    Auto Scaling group's reach instances, not their volumes; of one key, the group's value is the
    one that they get (Amazon EC2 Auto Scaling user guide, autoscaling-tagging).
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


def _limits(nodes: int) -> pulumi.CustomTimeouts:
    """Return the time limits of a group whose update may replace its nodes one by one.

    The provider's are an hour each, and it tells EKS of another `updateConfig` after an update of
    image or template alone, so that the first one after a change has the old one
    (terraform-provider-aws, node_group.go). Of each round EKS takes 15 minutes at most to drain the
    nodes, and 15 for new ones to join once they run (EKS user guide, managed-node-update-behavior
    and troubleshooting); between the two a machine with eight GPUs stops, is checked and boots.
    """
    return pulumi.CustomTimeouts(create="2h", update=f"{1 + nodes}h", delete="2h")


def _repair(
    *, enabled: bool, at_once: int | None = None, overrides: Sequence[RepairOverride] = ()
) -> NodeGroupNodeRepairConfigArgsDict:
    """Return how EKS repairs nodes: by the pool's overrides, else by :data:`_STAYS`."""
    config: NodeGroupNodeRepairConfigArgsDict = {"enabled": enabled}
    if at_once is not None:
        config["max_parallel_nodes_repaired_count"] = at_once
    rows = {(row.condition, row.reason): row for row in (*_STAYS, *overrides)}
    if enabled:
        config["node_repair_config_overrides"] = [
            {
                "node_monitoring_condition": row.condition,
                "node_unhealthy_reason": row.reason,
                "repair_action": row.action,
                "min_repair_wait_time_mins": row.wait_minutes,
            }
            for row in rows.values()
        ]
    return config


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
        launched = ec2.LaunchTemplate(
            f"{name}-template",
            name=physical_name(cluster, SYSTEM, limit=catalogue.LAUNCH_TEMPLATE_NAME),
            update_default_version=True,
            instance_type=pool.instance_type,
            block_device_mappings=_root_volume(pool.root_volume_gib),
            metadata_options=_metadata_options(),
            tag_specifications=_tag_specifications(args, SYSTEM),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=_TAGS),
        )
        group = physical_name(cluster, SYSTEM, limit=catalogue.NODE_GROUP_NAME)
        # Not more than any size it may have: EKS refuses a least above the present size, and the
        # present size is not the stack's to say.
        bounds = Bounds(least=min(pool.nodes, SYSTEM_NODES), most=pool.max_nodes, first=pool.nodes)
        sizes, left_alone = scaling(
            group, bounds, args.sizes, cluster=cluster, where="platform.system_pool"
        )
        self.node_group = eks.NodeGroup(
            f"{name}-nodes",
            cluster_name=args.cluster_name,
            node_group_name=group,
            node_role_arn=args.node_role,
            subnet_ids=list(args.nets.regional.values()),
            ami_type=catalogue.STANDARD_AMI[pool.architecture],
            capacity_type="ON_DEMAND",
            version=args.kubernetes,
            scaling_config=sizes,
            # EKS says the strategy back, and the provider would then take it out at each update
            # (terraform-aws-eks, issue 3625).
            update_config={"max_unavailable": 1, "update_strategy": "DEFAULT"},
            node_repair_config=_repair(enabled=True),
            labels={POOL_LABEL: SYSTEM},
            launch_template={"id": launched.id, "version": launched.latest_version.apply(str)},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *args.nets.ready],
                # A group's subnets are for life: in a zone that is appended it has no nodes, and
                # is not replaced, with every controller on it, for that zone's sake.
                ignore_changes=[*left_alone, "subnetIds"],
                delete_before_replace=True,
                custom_timeouts=_limits(pool.max_nodes),
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
        launched = self._template()
        group = physical_name(cluster, pool.name, limit=catalogue.NODE_GROUP_NAME)
        bounds = Bounds(least=pool.min_nodes, most=pool.nodes, first=pool.first_nodes)
        sizes, left_alone = scaling(
            group, bounds, args.sizes, cluster=cluster, where=f"pool {pool.name}"
        )
        self.node_group = eks.NodeGroup(
            f"{name}-nodes",
            cluster_name=args.cluster_name,
            node_group_name=group,
            node_role_arn=args.node_role,
            subnet_ids=[args.nets.private[pool.availability_zone]],
            ami_type=catalogue.NVIDIA_AMI[MACHINES[pool.instance_type].architecture],
            capacity_type=_CAPACITY.get(pool.purchase.kind, "ON_DEMAND"),
            version=args.kubernetes,
            release_version=pool.ami_release,
            scaling_config=sizes,
            update_config={
                "max_unavailable": pool.replaced_at_once,
                # Reserved capacity has no room for a new node beside the old one.
                "update_strategy": "MINIMAL" if pool.reserved else "DEFAULT",
            },
            node_repair_config=_repair(
                enabled=pool.repair, at_once=pool.repair_at_once, overrides=pool.repair_overrides
            ),
            labels=node_labels(pool),
            taints=[
                {"key": t.key, "value": t.value, "effect": _EFFECTS[t.effect]} for t in pool.taints
            ],
            launch_template={"id": launched.id, "version": launched.latest_version.apply(str)},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *args.nets.ready],
                ignore_changes=left_alone,
                custom_timeouts=_limits(pool.nodes),
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
            else {
                "capacity_reservation_target": reserved,
                "capacity_reservation_preference": template.capacity_preference(pool),
            },
            block_device_mappings=_root_volume(pool.root_volume_gib),
            metadata_options=_metadata_options(),
            user_data=user_data(template.node_setup(pool, args.lustre_efa_devices)),
            tag_specifications=_tag_specifications(args, pool.name),
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=_TAGS),
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


def node_labels(pool: AwsPool) -> Mapping[str, str]:
    """Labels that the group gives its nodes; those of Kubernetes' own domains nodes have anyway."""
    selected = {k: v for k, v in pool.node_selector.items() if not reserved_label(k)}
    return {POOL_LABEL: pool.name, **selected, **pool.labels}
