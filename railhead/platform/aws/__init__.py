"""AWS: a cluster on EKS, and all that lies below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from railhead.base.sections import Problem
from railhead.catalog import fsx
from railhead.machines import MACHINES
from railhead.model.cluster import Pool
from railhead.model.network_policy import Destination
from railhead.platform.aws import checks, facts, template
from railhead.platform.aws.model import (
    AwsCluster,
    AwsPool,
    ElasticFileSystem,
    LustreFileSystem,
    NewNetwork,
    ProvisionedMetadata,
)
from railhead.platform.base import CreatedByPlatform, MadeWith, Platform

# In the node's own network (EKS user guide, pod-id-agent-setup).
_POD_IDENTITY = Destination(cidr="169.254.170.23/32", ports=(80,))


@dataclass(frozen=True, kw_only=True)
class Aws(Platform[AwsCluster]):
    """AWS."""

    def problems(self, cluster: AwsCluster) -> Iterator[Problem]:
        """Yield the problems that only AWS has."""
        return checks.problems(cluster)

    def doubts(self, cluster: AwsCluster, now: datetime) -> Iterator[Problem]:
        """Yield capacity that is over, to come or named twice, and people of other accounts."""
        return checks.doubts(cluster, now)

    def made(self, cluster: AwsCluster) -> CreatedByPlatform:
        """Return the settings whose change replaces a file system, or replaces or rolls nodes.

        A node group takes a new version of its launch template, or of Kubernetes, by replacing
        every node (EKS user guide, managed-node-update-behavior); terraform-provider-aws,
        service/fsx/lustre_file_system.go and service/eks/node_group.go, shows what replaces it.
        """
        platform, zones = cluster.platform, _zones(cluster)
        return CreatedByPlatform(
            cluster=MadeWith(
                fixed={"account": platform.account, **_place(cluster), **zones},
                grows={
                    "Kubernetes minor": int(platform.kubernetes.split(".")[1]),
                    **({"zones": len(zones)} if zones else {}),
                },
            ),
            system=_system(cluster),
            protected=platform.deletion_protection,
            pools={pool.name: _nodes(pool, cluster) for pool in cluster.pools},
            storage={row.name: _storage(row, cluster) for row in platform.storage},
        )

    def system_nodes(self, cluster: AwsCluster) -> tuple[int, str]:
        """Return the system pool of the stack."""
        pool = cluster.platform.system_pool
        return pool.nodes, pool.instance_type

    def lustre_devices(self, cluster: AwsCluster, pool: Pool) -> int:
        """Return the devices that a pool's nodes set up for Lustre when they boot."""
        if not isinstance(pool, AwsPool) or not cluster.lustre_over_efa(pool):
            return 0
        return min(pool.lustre_devices, len(MACHINES[pool.instance_type].nics))

    def image(self, cluster: AwsCluster, image: str) -> str:
        """Return an image's place: EKS' own come from the region's registry."""
        own = image.startswith(f"{facts.EKS_REGISTRY}.")
        return facts.eks_image(image, cluster.platform.region) if own else image

    def egress(self, cluster: AwsCluster, namespace: str) -> tuple[Destination, ...]:
        """Return the address of EKS' pod identity agent, if the stack lets jobs use S3."""
        asks = any(access.namespace == namespace for access in cluster.platform.s3_access)
        return (_POD_IDENTITY,) if asks else ()


def _place(cluster: AwsCluster) -> dict[str, str]:
    network = cluster.platform.network
    vpc = network.cidr if isinstance(network, NewNetwork) else network.vpc_id
    return {"region": cluster.platform.region, "network": str(vpc)}


def _zones(cluster: AwsCluster) -> dict[str, str]:
    """Return the zones of a network of the stack's own, in their order.

    Subnets are cut in it, and the control plane is in those that it was made in for good.
    """
    network = cluster.platform.network
    if not isinstance(network, NewNetwork):
        return {}
    return {f"zone {n}": zone for n, zone in enumerate(network.availability_zones, 1)}


def _subnet(zone: str, cluster: AwsCluster) -> str | int:
    """Return the zone's private subnet: its id, or its place among those cut from the network."""
    network = cluster.platform.network
    if isinstance(network, NewNetwork):
        return network.availability_zones.index(zone)
    return network.private_subnets[zone]


def _system(cluster: AwsCluster) -> MadeWith:
    platform = cluster.platform
    pool = platform.system_pool
    text = pool.model_dump(include={"instance_type", "architecture", "root_volume_gib"})
    return MadeWith(
        fixed=text | {"kubernetes": platform.kubernetes}, template=template.digest(pool)
    )


def _nodes(pool: AwsPool, cluster: AwsCluster) -> MadeWith:
    capacity = pool.purchase.model_dump(include={"kind", "id", "arn"})
    group = pool.placement_group
    # Also where a file system of theirs speaks EFA for the first time.
    lustre = pool.lustre_devices if cluster.lustre_over_efa(pool) else 0
    return MadeWith(
        fixed={
            "instance_type": pool.instance_type,
            "kubernetes": cluster.platform.kubernetes,
            "availability_zone": pool.availability_zone,
            "subnet": _subnet(pool.availability_zone, cluster),
            "purchase": " ".join(capacity.values()),
            "placement_group": " ".join(group.model_dump().values()) if group else "none",
            "root_volume_gib": pool.root_volume_gib,
            "local_storage": pool.local_storage,
            "hugepages_2mib": pool.hugepages_2mib,
            "devices of Lustre": lustre,
            "ami_release": pool.ami_release or "the newest",
        },
        template=template.digest(pool, lustre),
    )


def _storage(row: LustreFileSystem | ElasticFileSystem, cluster: AwsCluster) -> MadeWith:
    of_all = {"kind": row.kind, **_place(cluster)}
    if isinstance(row, ElasticFileSystem):
        return MadeWith(fixed=of_all)
    zone = row.availability_zone
    # FSx goes back to automatic mode where that gives no fewer (FSx user guide,
    # switch-provisioning-mode).
    metadata, mode = fsx.metadata_iops(row.capacity_gib), {"metadata": "automatic"}
    if isinstance(row.metadata, ProvisionedMetadata):
        # Said of automatic mode alone, which is compared with nothing: it changes in place.
        metadata, mode = row.metadata.iops, {}
    return MadeWith(
        fixed=of_all
        | {"availability_zone": zone, "subnet": _subnet(zone, cluster), "efa": row.efa}
        | {"backup": row.backup or "none"}
        # Of others it changes in place (FSx user guide, EFA-enabled file systems).
        | ({"throughput": row.throughput} if row.efa else {})
        | mode,
        grows={"capacity_gib": row.capacity_gib, "metadata.iops": metadata},
    )


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
        *(f"{facts.NETWORK_LAYER}{layer}" for layer in (1, 2, 3, 4)),
        "kubernetes.io/hostname",
    ),
)
