"""A cluster on AWS, from the network to its node pools."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from railhead.components.aws.infrastructure import AwsInfrastructure, AwsInfrastructureArgs
from railhead.components.aws.volumes import Volumes, VolumesArgs
from railhead.components.cluster_access import ClusterAccess
from railhead.components.platform import Infrastructure
from railhead.platform.aws.model import AwsCluster


def build(cluster: AwsCluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build all that lies below Kubernetes, and its API server; ``opts`` carries the parent."""
    made = AwsInfrastructure(
        f"{cluster.name}-aws",
        AwsInfrastructureArgs(
            name=cluster.name,
            platform=cluster.platform,
            pools=cluster.pools,
            researchers_group=cluster.researchers,
            lustre_efa_devices={
                pool.name: pool.lustre_devices
                for pool in cluster.pools
                if cluster.lustre_over_efa(pool)
            },
        ),
        opts=opts,
    )

    def inside(name: str, *, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        if not made.lustre and not made.elastic:
            return ()
        volumes = Volumes(
            name,
            VolumesArgs(
                lustre=made.lustre,
                elastic=made.elastic,
                checkpoints=cluster.checkpoints,
            ),
            opts=opts,
        )
        return volumes.made

    return Infrastructure(
        access=ClusterAccess(
            kubeconfig=made.cluster.kubeconfig,
            context=None,
            identity=made.cluster.cluster.arn,
            after=made.ready,
        ),
        inside=inside,
        kubeconfig=made.cluster.kubeconfig,
        details={
            "vpc_id": made.nets.vpc_id,
            "cluster_arn": made.cluster.cluster.arn,
            "cluster_security_group_id": made.cluster.security_group,
            "efa_security_group_id": made.efa.group.id,
            **{f"lustre_{system.config.name}_id": system.file_system.id for system in made.lustre},
            **{f"efs_{system.config.name}_id": system.file_system.id for system in made.elastic},
        },
        of_namespaces={
            namespace: [access.association] for namespace, access in made.job_access.items()
        },
    )
