"""AWS: a cluster on EKS, and all that lies below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from railhead.base.sections import Problem
from railhead.model.network_policy import Destination
from railhead.platform.aws import checks, facts
from railhead.platform.aws.model import (
    AwsCluster,
    ElasticFileSystem,
    LustreFileSystem,
    NewNetwork,
    ProvisionedMetadata,
)
from railhead.platform.base import Made, Platform

# In the node's own network (EKS user guide, pod-id-agent-setup).
_POD_IDENTITY = Destination(cidr="169.254.170.23/32", ports=(80,))


@dataclass(frozen=True, kw_only=True)
class Aws(Platform[AwsCluster]):
    """AWS."""

    def problems(self, cluster: AwsCluster) -> Iterator[Problem]:
        """What only AWS minds."""
        return checks.problems(cluster)

    def doubts(self, cluster: AwsCluster, now: datetime) -> Iterator[Problem]:
        """Capacity that is over, to come or named twice, and people of other accounts."""
        return checks.doubts(cluster, now)

    def file_systems(self, cluster: AwsCluster) -> Mapping[str, Made]:
        """What replaces one (terraform-provider-aws, service/fsx/lustre_file_system.go)."""
        return {row.name: _made(row, cluster) for row in cluster.platform.storage}

    def image(self, cluster: AwsCluster, image: str) -> str:
        """EKS' own images from the region's registry."""
        own = image.startswith(f"{facts.EKS_REGISTRY}.")
        return facts.eks_image(image, cluster.platform.region) if own else image

    def egress(self, cluster: AwsCluster, namespace: str) -> tuple[Destination, ...]:
        """Where EKS' pod identity agent hands out credentials, for what the stack lets jobs do."""
        asks = any(access.namespace == namespace for access in cluster.platform.s3_access)
        return (_POD_IDENTITY,) if asks else ()


def _made(row: LustreFileSystem | ElasticFileSystem, cluster: AwsCluster) -> Made:
    network = cluster.platform.network
    vpc = network.cidr if isinstance(network, NewNetwork) else network.vpc_id
    of_all = {"kind": row.kind, "region": cluster.platform.region, "network": vpc}
    if isinstance(row, ElasticFileSystem):
        return {"fixed": of_all, "grows": {}}
    subnet = (
        network.availability_zones.index(row.availability_zone)
        if isinstance(network, NewNetwork)
        else network.private_subnets[row.availability_zone]
    )
    metadata = row.metadata.iops if isinstance(row.metadata, ProvisionedMetadata) else 0
    return {
        "fixed": of_all
        | {"availability_zone": row.availability_zone, "subnet": subnet, "efa": row.efa},
        "grows": {"capacity_gib": row.capacity_gib, "metadata.iops": metadata},
    }


PLATFORM = Aws(
    kind="aws",
    cluster=AwsCluster,
    offers=frozenset({"efa"}),
    # What EKS and the cloud's node controller put on nodes (cloud-provider-aws, topology.go).
    label_domains=("topology.k8s.aws", "eks.amazonaws.com"),
    levels=(
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.k8s.aws/zone-id",
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
        "kubernetes.io/hostname",
    ),
)
