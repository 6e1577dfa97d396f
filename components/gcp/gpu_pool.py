"""A GPU node pool, and the policy that places its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
from pulumi_gcp import compute, container

from railhead.base.names import physical_name
from railhead.components.gcp.gke_cluster import CLOUD_PLATFORM
from railhead.components.gcp.node_networks import AttachedNetwork
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.machines.machine import GkeMachine
from railhead.platform.gcp.checks import given_by_gke
from railhead.platform.gcp.model import (
    CompactPlacement,
    FlexStart,
    GcpPool,
    NoPlacement,
    Reservation,
    Spot,
)

# GKE documentation: at most so many characters.
NAME_LIMIT = 40
DRANET_LABEL = "cloud.google.com/gke-networking-dra-driver"
# GKE may put this label into the configuration of a pool with a network profile
# (GoogleCloudPlatform/cluster-autoscaler, pkg/autoprovisioning/selfservice/
# accelerator_network_profile.go), and the provider, which reads all labels back
# (container/node_config.go), would take it off at the next `up`. Written as the provider's bridge
# writes a key with dots (pulumi-terraform-bridge, pkg/tfbridge/diff.go: visitPropertyValue).
_PROFILE_LABEL = 'nodeConfig.labels.["gke.networks.io/accelerator-network-profile"]'
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_EFFECTS = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
_DRIVERS = {"default": "DEFAULT", "latest": "LATEST", "disabled": "INSTALLATION_DISABLED"}


@dataclass(frozen=True, kw_only=True)
class GpuPoolArgs:
    """Arguments of :class:`GpuPool`.

    Args:
        cluster: the cluster's id.
        cluster_name: the cluster's name, which the placement policy's name begins with.
        location: the control plane's location, a region or a zone.
        region: the region of the placement policy.
        zone: the zone of the nodes.
        pool: the pool, as a stack's file has it: machine type, size, capacity, placement, driver,
            disks, labels, taints.
        networks: the nodes' further interfaces; none with dranet.
        service_account: address of the nodes' service account.
        labels: resource labels of the nodes, for the bill.
        deletion_protection: whether Pulumi refuses to delete or replace the pool.
    """

    cluster: pulumi.Input[str]
    cluster_name: str
    location: str
    region: str
    zone: str
    pool: GcpPool
    networks: Sequence[AttachedNetwork] = ()
    service_account: pulumi.Input[str]
    labels: Mapping[str, str] = field(default_factory=dict)
    deletion_protection: bool = True


def reservation_value(reservation: Reservation) -> str:
    """Return GKE's name of a reservation: alone, with its project, or a block of it."""
    value = reservation.name
    if reservation.project is not None:
        value = f"projects/{reservation.project}/reservations/{value}"
    if reservation.block is not None:
        value += f"/reservationBlocks/{reservation.block}"
    if reservation.subblock is not None:
        value += f"/reservationSubBlocks/{reservation.subblock}"
    return value


def node_labels(pool: GcpPool) -> Mapping[str, str]:
    """Return the labels to put on the pool's nodes: those that GKE does not give by itself."""
    labels = {k: v for k, v in pool.node_selector.items() if not given_by_gke(k)}
    labels |= pool.labels
    if pool.networking == "dranet":
        labels[DRANET_LABEL] = "true"
    return labels


class GpuPool(pulumi.ComponentResource):
    """Equal GPU nodes in the platform's zone.

    Releases of the provider have replaced a pool for an edit of its labels or taints (pulumi-gcp
    #255, #412, #1139). With deletion protection the pool is protected: the engine refuses what
    would replace it, and says so in the preview.

    Attributes:
        pool: the node pool.
    """

    pool: container.NodePool

    def __init__(
        self, name: str, args: GpuPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:GpuPool", name, None, opts)
        pool = args.pool
        flex = pool.capacity if isinstance(pool.capacity, FlexStart) else None
        least = 0 if flex is not None else pool.min_nodes
        self.pool = container.NodePool(
            f"{name}-pool",
            name=physical_name(pool.name, limit=NAME_LIMIT),
            cluster=args.cluster,
            location=args.location,
            node_locations=[args.zone],
            node_count=pool.nodes if least is None else None,
            initial_node_count=least,
            autoscaling=None
            if least is None
            else {
                "total_min_node_count": least,
                "total_max_node_count": pool.nodes,
                "location_policy": "ANY",
            },
            # A node of flex-start is not to be had again, so it is not repaired by another.
            management={"auto_repair": flex is None, "auto_upgrade": True},
            # A reservation has no node to spare: one is taken away before one is added. On
            # flex-start GKE sets SHORT_LIVED, which the provider does not accept, and any other
            # is a change at every `up` (crossplane-contrib/provider-upjet-gcp, issue 1028).
            upgrade_settings=None
            if flex is not None
            else {"strategy": "SURGE", "max_surge": 0, "max_unavailable": 1},
            placement_policy=self._placement(name, args),
            queued_provisioning={"enabled": True} if flex is not None and flex.queued else None,
            network_config=_network_config(args),
            node_config=_node_config(args),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[item for network in args.networks for item in network.after],
                protect=args.deletion_protection,
                ignore_changes=[
                    *(() if least is None else ("initialNodeCount", "nodeCount")),
                    *((_PROFILE_LABEL,) if pool.networking == "dranet" else ()),
                ],
                # Its name is taken, and so are its nodes, until it is gone.
                delete_before_replace=True,
                custom_timeouts=_patience(pool),
            ),
        )
        self.register_outputs({"pool": self.pool.name})

    def _placement(
        self, name: str, args: GpuPoolArgs
    ) -> container.NodePoolPlacementPolicyArgs | None:
        placement = args.pool.placement
        if isinstance(placement, NoPlacement):
            return None
        if placement.policy is not None:
            return container.NodePoolPlacementPolicyArgs(
                type="COMPACT", policy_name=placement.policy
            )
        physical = physical_name(args.cluster_name, args.pool.name, "placement")
        opts = pulumi.ResourceOptions(parent=self)
        if isinstance(placement, CompactPlacement):
            policy = compute.ResourcePolicy(
                f"{name}-placement",
                name=physical,
                region=args.region,
                group_placement_policy={
                    "collocation": "COLLOCATED",
                    "max_distance": placement.max_distance,
                },
                opts=opts,
            )
        else:
            distance = placement.max_topology_distance
            policy = compute.ResourcePolicy(
                f"{name}-placement",
                name=physical,
                region=args.region,
                workload_policy={
                    "type": "HIGH_THROUGHPUT",
                    "max_topology_distance": distance and distance.upper(),
                    "accelerator_topology": placement.accelerator_topology,
                },
                opts=opts,
            )
        # The provider wants the type whatever the policy is; the policy's own says the rest.
        return container.NodePoolPlacementPolicyArgs(type="COMPACT", policy_name=policy.name)


def _patience(pool: GcpPool) -> pulumi.CustomTimeouts:
    """Return the time that changes take: an update goes node by node, and drains each.

    GKE waits up to an hour for a node's pods to end; half an hour a node is with a boot of one.
    """
    hours = max(6, pool.nodes // 2 + 1)
    return pulumi.CustomTimeouts(create="2h", update=f"{hours}h", delete="2h")


def _network_config(args: GpuPoolArgs) -> container.NodePoolNetworkConfigArgs:
    if args.pool.networking == "dranet":
        return container.NodePoolNetworkConfigArgs(
            enable_private_nodes=True, accelerator_network_profile="auto"
        )
    return container.NodePoolNetworkConfigArgs(
        enable_private_nodes=True,
        additional_node_network_configs=[
            container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs(
                network=attached.network, subnetwork=attached.subnetwork
            )
            for attached in args.networks
        ],
    )


def _affinity(pool: GcpPool) -> container.NodePoolNodeConfigReservationAffinityArgs:
    if isinstance(pool.capacity, Reservation):
        return container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="SPECIFIC_RESERVATION",
            key=RESERVATION_KEY,
            values=[reservation_value(pool.capacity)],
        )
    # Else nodes would use up whatever open reservation the project has for others.
    return container.NodePoolNodeConfigReservationAffinityArgs(
        consume_reservation_type="NO_RESERVATION"
    )


def _node_config(args: GpuPoolArgs) -> container.NodePoolNodeConfigArgs:
    pool = args.pool
    machine: GkeMachine = GKE_MACHINES[pool.instance_type]
    flex = pool.capacity if isinstance(pool.capacity, FlexStart) else None
    taints = [("nvidia.com/gpu", "present", "NO_SCHEDULE")]
    taints += [(t.key, t.value, _EFFECTS[t.effect]) for t in pool.taints]
    return container.NodePoolNodeConfigArgs(
        machine_type=pool.instance_type,
        disk_size_gb=pool.disk_size_gb,
        disk_type=pool.disk_type,
        image_type="COS_CONTAINERD",
        service_account=args.service_account,
        oauth_scopes=[CLOUD_PLATFORM],
        guest_accelerators=[
            container.NodePoolNodeConfigGuestAcceleratorArgs(
                type=machine.accelerator,
                count=MACHINES[pool.instance_type].gpus,
                gpu_driver_installation_config=container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
                    gpu_driver_version=_DRIVERS[pool.driver]
                ),
            )
        ],
        reservation_affinity=_affinity(pool),
        spot=True if isinstance(pool.capacity, Spot) else None,
        flex_start=True if flex is not None else None,
        max_run_duration=f"{flex.max_run_seconds}s" if flex is not None else None,
        ephemeral_storage_local_ssd_config=container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(
            local_ssd_count=machine.local_ssds
        ),
        gvnic=container.NodePoolNodeConfigGvnicArgs(enabled=True),
        gcfs_config=container.NodePoolNodeConfigGcfsConfigArgs(enabled=True)
        if pool.image_streaming
        else None,
        secondary_boot_disks=None
        if pool.image_cache is None
        else [
            container.NodePoolNodeConfigSecondaryBootDiskArgs(
                disk_image=pool.image_cache, mode="CONTAINER_IMAGE_CACHE"
            )
        ],
        host_maintenance_policy=None
        if pool.host_maintenance is None
        else container.NodePoolNodeConfigHostMaintenancePolicyArgs(
            maintenance_interval=pool.host_maintenance.upper().replace("-", "_")
        ),
        labels=node_labels(pool),
        taints=[
            container.NodePoolNodeConfigTaintArgs(key=key, value=value, effect=effect)
            for key, value, effect in taints
        ],
        shielded_instance_config=container.NodePoolNodeConfigShieldedInstanceConfigArgs(
            enable_secure_boot=True, enable_integrity_monitoring=True
        ),
        # Nodes do not take the provider's labels, and they are most of the bill.
        resource_labels=dict(args.labels) or None,
        # Pods meet their own identity, never the node's.
        workload_metadata_config=container.NodePoolNodeConfigWorkloadMetadataConfigArgs(
            mode="GKE_METADATA"
        ),
        metadata={"disable-legacy-endpoints": "true"},
    )
