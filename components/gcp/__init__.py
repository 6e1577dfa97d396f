"""A cluster on GCP, from the network to its node pools."""

from __future__ import annotations

import pulumi

from railhead.components.cluster_access import ClusterAccess
from railhead.components.gcp.infrastructure import GcpInfrastructure, GcpInfrastructureArgs
from railhead.components.gcp.inside import InsideGcp
from railhead.components.platform import Infrastructure
from railhead.platform.gcp.model import GcpCluster


def build(cluster: GcpCluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build all that lies below Kubernetes, and its API server; ``opts`` carries the parent."""
    made = GcpInfrastructure(
        f"{cluster.name}-gcp",
        GcpInfrastructureArgs(
            name=cluster.name,
            platform=cluster.platform,
            pools=cluster.pools,
            people=list(dict.fromkeys(group for _, group in cluster.groups)),
            namespaces=cluster.training_namespaces,
            private_storage=cluster.network_policy.enabled,
        ),
        opts=opts,
    )
    return Infrastructure(
        access=ClusterAccess(
            kubeconfig=made.cluster.kubeconfig,
            context=None,
            identity=made.cluster.identity,
            # Controllers have nowhere to run before; and while a job's end is refused to `destroy`,
            # who is to end it still gets through the door.
            after=[made.system_pool.pool, *made.researchers],
        ),
        inside=InsideGcp(claims=cluster.checkpoints, infrastructure=made),
        kubeconfig=made.cluster.kubeconfig,
        details={
            "project": cluster.platform.project,
            "region": cluster.platform.region,
            "zone": cluster.platform.zone,
            "cluster_id": made.cluster.cluster.id,
            "network": made.network.network,
            "subnetwork": made.network.subnetwork,
        },
        of_namespaces=made.bucket_rights,
    )
