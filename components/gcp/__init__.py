"""A cluster on GCP, from the network to its node pools."""

from __future__ import annotations

import pulumi

from components.cluster_access import ClusterAccess
from components.gcp.infrastructure import GcpInfrastructure, GcpInfrastructureArgs
from components.gcp.inside import InsideGcp
from components.platform import Infrastructure
from railhead.platform.gcp.model import GcpCluster


def build(cluster: GcpCluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build all that lies below Kubernetes, and its API server; ``opts`` carries the parent."""
    made = GcpInfrastructure(
        f"{cluster.name}-gcp", GcpInfrastructureArgs(cluster=cluster), opts=opts
    )
    return Infrastructure(
        access=ClusterAccess(
            kubeconfig=made.cluster.kubeconfig,
            context=None,
            identity=made.cluster.identity,
            # Controllers have nowhere to run before.
            after=[made.system_pool.pool],
        ),
        inside=InsideGcp(cluster=cluster, infrastructure=made),
        kubeconfig=made.cluster.kubeconfig,
        details={
            "project": cluster.platform.project,
            "region": cluster.platform.region,
            "zone": cluster.platform.zone,
            "cluster_id": made.cluster.cluster.id,
            "network": made.network.network,
            "subnetwork": made.network.subnetwork,
        },
    )
