"""Nodes for controllers; nothing runs in the cluster before they are there."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import container

from railhead.components.gcp.gke_cluster import CLOUD_PLATFORM
from railhead.platform.gcp.checks import SYSTEM_POOL
from railhead.platform.gcp.model import SystemPool as SystemPoolConfig


@dataclass(frozen=True, kw_only=True)
class SystemPoolArgs:
    """Arguments of :class:`SystemPool`.

    Args:
        cluster: the cluster's id.
        location: the control plane's location, a region or a zone.
        zone: the zone of the nodes, unless ``pool`` lists zones.
        pool: machine type, disk size in GB, and the least and the most nodes.
        service_account: address of the nodes' service account.
    """

    cluster: pulumi.Input[str]
    location: str
    zone: str
    pool: SystemPoolConfig
    service_account: pulumi.Input[str]


class SystemPool(pulumi.ComponentResource):
    """A node pool without GPUs that grows with what the controllers ask for.

    Attributes:
        pool: the node pool.
    """

    pool: container.NodePool

    def __init__(
        self, name: str, args: SystemPoolArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:SystemPool", name, None, opts)
        system = args.pool
        self.pool = container.NodePool(
            f"{name}-pool",
            name=SYSTEM_POOL,
            cluster=args.cluster,
            location=args.location,
            node_locations=list(system.zones) or [args.zone],
            autoscaling={
                "total_min_node_count": system.min_nodes,
                "total_max_node_count": system.max_nodes,
                "location_policy": "BALANCED",
            },
            management={"auto_repair": True, "auto_upgrade": True},
            upgrade_settings={"strategy": "SURGE", "max_surge": 1, "max_unavailable": 0},
            network_config={"enable_private_nodes": True},
            node_config={
                "machine_type": system.machine_type,
                "disk_size_gb": system.disk_size_gb,
                "image_type": "COS_CONTAINERD",
                "service_account": args.service_account,
                "oauth_scopes": [CLOUD_PLATFORM],
                "labels": {"railhead.dev/pool": "system"},
                "gvnic": {"enabled": True},
                "shielded_instance_config": {
                    "enable_secure_boot": True,
                    "enable_integrity_monitoring": True,
                },
                # Pods meet their own identity, never the node's.
                "workload_metadata_config": {"mode": "GKE_METADATA"},
                "metadata": {"disable-legacy-endpoints": "true"},
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                # The autoscaler's from the first day on.
                ignore_changes=["initialNodeCount", "nodeCount"],
                delete_before_replace=True,
            ),
        )
        self.register_outputs({"pool": self.pool.name})
