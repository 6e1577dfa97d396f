"""The GKE cluster: its control plane, and nothing but."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_gcp import container

from components.cluster_access import exec_kubeconfig
from components.gcp.outputs import when_made
from components.gcp.primary_network import NetworkRefs
from railhead.base.names import physical_name
from railhead.platform.gcp.model import (
    DnsEndpoint,
    GcpPlatform,
    LustreStorage,
    Maintenance,
    PrivateEndpoint,
    PublicEndpoint,
)

# GKE documentation: at most so many characters.
NAME_LIMIT = 40
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, kw_only=True)
class GkeClusterArgs:
    """Arguments of :class:`GkeCluster`; nothing of it is made before ``after`` is there."""

    cluster: str
    platform: GcpPlatform
    network: NetworkRefs
    service_account: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


def location(platform: GcpPlatform) -> str:
    """Where the control plane is: a region's zones, or one zone."""
    return platform.region if platform.availability == "regional" else platform.zone


def kubeconfig(
    name: str, platform: GcpPlatform, endpoint: str, authority: str | None
) -> dict[str, Any]:
    """A kubeconfig that asks ``gke-gcloud-auth-plugin`` for a token; no credentials in it."""
    server = {"server": f"https://{endpoint}"}
    # The DNS endpoint has a certificate that the world trusts.
    if authority is not None:
        server["certificate-authority-data"] = authority
    context = f"gke_{platform.project}_{location(platform)}_{name}"
    return exec_kubeconfig(
        context,
        server,
        {
            "command": "gke-gcloud-auth-plugin",
            "installHint": "install gke-gcloud-auth-plugin, a component of gcloud",
            "interactiveMode": "IfAvailable",
            "provideClusterInfo": True,
        },
    )


class GkeCluster(pulumi.ComponentResource):
    """A private cluster with dataplane V2, multi-networking and workload identity.

    It has no node pool of its own: GKE makes one and the provider takes it away again, so that
    pools come and go without the cluster.

    ``kubeconfig`` is a secret; ``identity`` is the cluster's self link.
    """

    cluster: container.Cluster
    kubeconfig: pulumi.Output[str]
    identity: pulumi.Output[str]

    def __init__(
        self, name: str, args: GkeClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:GkeCluster", name, None, opts)
        platform = args.platform
        physical = physical_name(args.cluster, limit=NAME_LIMIT)
        by_name = isinstance(platform.endpoint, DnsEndpoint)
        self.cluster = container.Cluster(
            f"{name}-control-plane",
            name=physical,
            location=location(platform),
            # Where the pool that is taken away stands meanwhile: one node, not one a zone.
            node_locations=[platform.zone] if platform.availability == "regional" else None,
            network=args.network.network,
            subnetwork=args.network.subnetwork,
            networking_mode="VPC_NATIVE",
            ip_allocation_policy={
                "cluster_secondary_range_name": args.network.pods_range,
                "services_secondary_range_name": args.network.services_range,
                "stack_type": "IPV4",
            },
            datapath_provider="ADVANCED_DATAPATH",
            enable_multi_networking=True,
            private_cluster_config={
                "enable_private_nodes": True,
                # Said of addresses only; beside the DNS endpoint alone it brings them back.
                "enable_private_endpoint": None
                if by_name
                else isinstance(platform.endpoint, PrivateEndpoint),
            },
            control_plane_endpoints_config={
                "dns_endpoint_config": {"allow_external_traffic": by_name},
                "ip_endpoints_config": {"enabled": not by_name},
            },
            master_authorized_networks_config=_authorized(platform),
            release_channel={"channel": platform.release_channel.upper()},
            min_master_version=platform.kubernetes,
            maintenance_policy=_maintenance(platform.maintenance),
            workload_identity_config={"workload_pool": f"{platform.project}.svc.id.goog"},
            authenticator_groups_config=None
            if platform.groups is None
            else {"security_group": platform.groups},
            enable_shielded_nodes=True,
            enable_legacy_abac=False,
            addons_config=_addons(platform),
            logging_config={"enable_components": ["SYSTEM_COMPONENTS", "WORKLOADS"]},
            monitoring_config={
                # From provider 10 on a set: sorted, so that what is read back is what is here.
                "enable_components": ["DCGM", "JOBSET", "SYSTEM_COMPONENTS"],
                "managed_prometheus": {"enabled": True},
            },
            # Upstream 8.9 deprecates both for leaving `initial_node_count` out; 10.2 still needs
            # them, and so does every 9.
            remove_default_node_pool=True,
            initial_node_count=1,
            node_config={
                "service_account": args.service_account,
                "oauth_scopes": [CLOUD_PLATFORM],
                "shielded_instance_config": {
                    "enable_secure_boot": True,
                    "enable_integrity_monitoring": True,
                },
            },
            deletion_protection=platform.deletion_protection,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                protect=platform.deletion_protection,
                # Both are of the pool that is gone; a change would replace the whole cluster.
                ignore_changes=["initialNodeCount", "nodeConfig"],
                # Its name is taken until it is gone.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="60m", delete="60m"),
            ),
        )
        self.identity = self.cluster.self_link
        self.kubeconfig = pulumi.Output.secret(_content(physical, platform, self.cluster))
        self.register_outputs({"cluster": self.cluster.id})


def _content(name: str, platform: GcpPlatform, cluster: container.Cluster) -> pulumi.Output[str]:
    if isinstance(platform.endpoint, DnsEndpoint):
        return when_made(cluster, cluster.control_plane_endpoints_config).apply(
            lambda made: json.dumps(
                kubeconfig(name, platform, _dns_endpoint(made.dns_endpoint_config), None)
            )
        )
    authority = cluster.master_auth.apply(lambda auth: auth.cluster_ca_certificate)
    return pulumi.Output.all(cluster.endpoint, authority).apply(
        lambda values: json.dumps(kubeconfig(name, platform, values[0], values[1]))
    )


def _dns_endpoint(
    config: container.outputs.ClusterControlPlaneEndpointsConfigDnsEndpointConfig | None,
) -> str:
    # Without one nothing could be reached, so that no kubeconfig is better than a wrong one.
    if config is None or not config.endpoint:
        raise ValueError("GKE gave the cluster no DNS endpoint")
    return config.endpoint


def _authorized(
    platform: GcpPlatform,
) -> container.ClusterMasterAuthorizedNetworksConfigArgs | None:
    if not isinstance(platform.endpoint, PublicEndpoint | PrivateEndpoint):
        return None
    return container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(cidr_block=cidr)
            for cidr in platform.endpoint.authorized_networks
        ],
        gcp_public_cidrs_access_enabled=False,
    )


def _addons(platform: GcpPlatform) -> container.ClusterAddonsConfigArgs:
    kinds = {storage.kind for storage in platform.storage}
    legacy = any(isinstance(s, LustreStorage) and s.gke_support for s in platform.storage)
    return container.ClusterAddonsConfigArgs(
        gce_persistent_disk_csi_driver_config=container.ClusterAddonsConfigGcePersistentDiskCsiDriverConfigArgs(
            enabled=True
        ),
        gcp_filestore_csi_driver_config=container.ClusterAddonsConfigGcpFilestoreCsiDriverConfigArgs(
            enabled=True
        ),
        gcs_fuse_csi_driver_config=container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
            enabled="bucket" in kinds
        ),
        lustre_csi_driver_config=container.ClusterAddonsConfigLustreCsiDriverConfigArgs(
            enabled="lustre" in kinds, enable_legacy_lustre_port=legacy or None
        ),
    )


def _maintenance(window: Maintenance | None) -> container.ClusterMaintenancePolicyArgs | None:
    if window is None:
        return None
    exclusions = []
    if window.no_upgrades_from is not None:
        exclusions.append(
            container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
                exclusion_name="no-minor-or-node-upgrades",
                start_time=_timestamp(window.no_upgrades_from.isoformat()),
                exclusion_options=container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
                    scope="NO_MINOR_OR_NODE_UPGRADES", end_time_behavior="UNTIL_END_OF_SUPPORT"
                ),
            )
        )
    return container.ClusterMaintenancePolicyArgs(
        recurring_window=container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=_timestamp(window.start.isoformat()),
            end_time=_timestamp(window.end.isoformat()),
            recurrence=window.recurrence,
        ),
        maintenance_exclusions=exclusions,
    )


def _timestamp(text: str) -> str:
    # As the API gives it back, or every preview would show a change.
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
