"""The GKE cluster: its control plane, and nothing but."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_gcp import container

from railhead.base.names import physical_name
from railhead.components.cluster_access import exec_kubeconfig
from railhead.components.gcp.outputs import when_made
from railhead.components.gcp.primary_network import NetworkRefs
from railhead.platform.gcp.model import (
    DnsEndpoint,
    Maintenance,
    PrivateEndpoint,
    PublicEndpoint,
)

# GKE documentation: at most so many characters.
NAME_LIMIT = 40
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


@dataclass(frozen=True, kw_only=True)
class GkeClusterArgs:
    """Arguments of :class:`GkeCluster`.

    Args:
        cluster: the cluster's name.
        project: id of the GCP project.
        location: the control plane's: a region, whose zones then all have one, or a zone.
        zone: the zone of the node that GKE makes with the cluster and that is removed at once.
        network: the VPC, its subnet and its ranges of addresses.
        service_account: address of the nodes' service account.
        endpoint: how the control plane is reached: by DNS, or by addresses from some networks.
        release_channel: ``rapid``, ``regular``, ``stable`` or ``extended``.
        kubernetes: least version of the control plane; None takes the channel's default.
        maintenance: when GKE may maintain the cluster; None lets it choose.
        groups: address of the Google Group whose member groups Kubernetes knows; None for none.
        bucket_driver: whether GKE installs the CSI driver of GCS FUSE.
        lustre_driver: whether GKE installs the CSI driver of Managed Lustre.
        legacy_lustre_port: whether that driver uses the port of instances with GKE support.
        deletion_protection: whether GCP and Pulumi refuse to delete or replace the cluster.
        after: resources that must exist before the cluster, such as its nodes' rights.
    """

    cluster: str
    project: str
    location: str
    zone: str
    network: NetworkRefs
    service_account: pulumi.Input[str]
    endpoint: DnsEndpoint | PrivateEndpoint | PublicEndpoint
    release_channel: str = "regular"
    kubernetes: str | None = None
    maintenance: Maintenance | None = None
    groups: str | None = None
    bucket_driver: bool = False
    lustre_driver: bool = False
    legacy_lustre_port: bool = False
    deletion_protection: bool = True
    after: Sequence[pulumi.Resource] = ()


def kubeconfig(
    name: str, *, project: str, location: str, endpoint: str, authority: str | None
) -> dict[str, Any]:
    """Return a kubeconfig that asks ``gke-gcloud-auth-plugin`` for a token, without credentials."""
    server = {"server": f"https://{endpoint}"}
    # The DNS endpoint has a certificate that the world trusts.
    if authority is not None:
        server["certificate-authority-data"] = authority
    context = f"gke_{project}_{location}_{name}"
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

    Attributes:
        cluster: the cluster.
        kubeconfig: a kubeconfig in which gcloud's plugin gets the token; a secret.
        identity: the cluster's self link.
    """

    cluster: container.Cluster
    kubeconfig: pulumi.Output[str]
    identity: pulumi.Output[str]

    def __init__(
        self, name: str, args: GkeClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:GkeCluster", name, None, opts)
        physical = physical_name(args.cluster, limit=NAME_LIMIT)
        by_name = isinstance(args.endpoint, DnsEndpoint)
        self.cluster = container.Cluster(
            f"{name}-control-plane",
            name=physical,
            location=args.location,
            # Where the pool that is taken away stands meanwhile: one node, not one a zone.
            node_locations=[args.zone] if args.location != args.zone else None,
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
                else isinstance(args.endpoint, PrivateEndpoint),
            },
            control_plane_endpoints_config={
                "dns_endpoint_config": {"allow_external_traffic": by_name},
                "ip_endpoints_config": {"enabled": not by_name},
            },
            master_authorized_networks_config=_authorized(args),
            release_channel={"channel": args.release_channel.upper()},
            min_master_version=args.kubernetes,
            maintenance_policy=_maintenance(args.maintenance),
            workload_identity_config={"workload_pool": f"{args.project}.svc.id.goog"},
            authenticator_groups_config=None
            if args.groups is None
            else {"security_group": args.groups},
            enable_shielded_nodes=True,
            enable_legacy_abac=False,
            addons_config=_addons(args),
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
            deletion_protection=args.deletion_protection,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                protect=args.deletion_protection,
                # Both are of the pool that is gone; a change would replace the whole cluster.
                ignore_changes=["initialNodeCount", "nodeConfig"],
                # Its name is taken until it is gone.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create="90m", update="90m", delete="90m"),
            ),
        )
        self.identity = self.cluster.self_link
        self.kubeconfig = pulumi.Output.secret(_content(physical, args, self.cluster))
        self.register_outputs({"cluster": self.cluster.id})


def _content(name: str, args: GkeClusterArgs, cluster: container.Cluster) -> pulumi.Output[str]:
    def content(endpoint: str, authority: str | None) -> str:
        return json.dumps(
            kubeconfig(
                name,
                project=args.project,
                location=args.location,
                endpoint=endpoint,
                authority=authority,
            )
        )

    if isinstance(args.endpoint, DnsEndpoint):
        return when_made(cluster, cluster.control_plane_endpoints_config).apply(
            lambda made: content(_dns_endpoint(made.dns_endpoint_config), None)
        )
    authority = cluster.master_auth.apply(lambda auth: auth.cluster_ca_certificate)
    return pulumi.Output.all(cluster.endpoint, authority).apply(
        lambda values: content(values[0], values[1])
    )


def _dns_endpoint(
    config: container.outputs.ClusterControlPlaneEndpointsConfigDnsEndpointConfig | None,
) -> str:
    # Without one nothing could be reached, so that no kubeconfig is better than a wrong one.
    if config is None or not config.endpoint:
        raise ValueError("GKE gave the cluster no DNS endpoint")
    return config.endpoint


def _authorized(
    args: GkeClusterArgs,
) -> container.ClusterMasterAuthorizedNetworksConfigArgs | None:
    if not isinstance(args.endpoint, PublicEndpoint | PrivateEndpoint):
        return None
    return container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(cidr_block=cidr)
            for cidr in args.endpoint.authorized_networks
        ],
        gcp_public_cidrs_access_enabled=False,
    )


def _addons(args: GkeClusterArgs) -> container.ClusterAddonsConfigArgs:
    return container.ClusterAddonsConfigArgs(
        gce_persistent_disk_csi_driver_config=container.ClusterAddonsConfigGcePersistentDiskCsiDriverConfigArgs(
            enabled=True
        ),
        gcp_filestore_csi_driver_config=container.ClusterAddonsConfigGcpFilestoreCsiDriverConfigArgs(
            enabled=True
        ),
        gcs_fuse_csi_driver_config=container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
            enabled=args.bucket_driver
        ),
        lustre_csi_driver_config=container.ClusterAddonsConfigLustreCsiDriverConfigArgs(
            enabled=args.lustre_driver,
            enable_legacy_lustre_port=args.legacy_lustre_port or None,
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
