"""Google Cloud: a cluster on GKE, and all that lies below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from railhead.base.sections import Problem
from railhead.model.cluster import CheckpointConfig
from railhead.model.network_policy import Destination
from railhead.platform.base import Made, Platform
from railhead.platform.gcp import checks
from railhead.platform.gcp.model import (
    PRIVATE_GOOGLE_APIS,
    BucketStorage,
    FlexStart,
    GcpCluster,
)

# Where a pod gets the token of its own identity. On dataplane V2 the policy judges this address and
# port, before the translation to the node's own (gke-labs/kube-agents #777, #805: port 80 alone
# brings tokens, and rules of nodes' addresses match nothing).
_METADATA = ("169.254.169.254/32", 80)


@dataclass(frozen=True, kw_only=True)
class Gcp(Platform[GcpCluster]):
    """Google Cloud."""

    def problems(self, cluster: GcpCluster) -> Iterator[Problem]:
        """What only Google Cloud minds."""
        return checks.problems(cluster)

    def doubts(
        self,
        cluster: GcpCluster,
        now: datetime,  # noqa: ARG002 - of other platforms' capacity
    ) -> Iterator[Problem]:
        """Capacity named twice, nodes without a driver, rails of small frames."""
        return checks.doubts(cluster)

    def queued_pools(self, cluster: GcpCluster) -> tuple[str, ...]:
        """Flex-start pools whose nodes only whole gangs get."""
        return tuple(
            pool.name
            for pool in cluster.pools
            if isinstance(pool.capacity, FlexStart) and pool.capacity.queued
        )

    def file_systems(self, cluster: GcpCluster) -> Mapping[str, Made]:
        """What replaces one (terraform-provider-google: lustre, filestore and storage_bucket)."""
        platform = cluster.platform
        where = {"project": platform.project, "region": platform.region}
        fields = ("kind", "tier", "throughput", "filesystem", "bucket")
        found = {}
        for row in platform.storage:
            fixed = where | {f: getattr(row, f) for f in fields if hasattr(row, f)}
            if not isinstance(row, BucketStorage):
                fixed["zone"] = platform.zone
            found[row.name] = {"fixed": fixed, "grows": {}}
        return found

    def mount_annotations(self, cluster: GcpCluster, claim: CheckpointConfig) -> Mapping[str, str]:
        """GCS FUSE: without it no sidecar comes into the pod, and the mount waits for one.

        A sidecar that caches has no limits: one whose cache is larger than the 5 GiB that it gets
        by itself would be evicted, with the pod (gcs-fuse-csi-driver, pkg/webhook/config.go: "0" is
        no limit, and what is requested stays).
        """
        bucket = cluster.buckets.get(claim.storage_class)
        if bucket is None:
            return {}
        unlimited = ("cpu", "memory", "ephemeral-storage") if bucket.cache_gib else ()
        return {"gke-gcsfuse/volumes": "true"} | {
            f"gke-gcsfuse/{resource}-limit": "0" for resource in unlimited
        }

    def egress(self, cluster: GcpCluster, namespace: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """With a bucket: GCS FUSE runs in the pod, in its network, and fetches token and objects.

        gcs-fuse-csi-driver, docs/istio.md: what its sidecar connects to.
        """
        address, port = _METADATA
        wanted = (
            Destination(cidr=address, ports=(port,)),
            Destination(cidr=str(PRIVATE_GOOGLE_APIS), ports=(443,)),
        )
        return wanted if cluster.buckets else ()


PLATFORM = Gcp(
    kind="gcp",
    cluster=GcpCluster,
    offers=frozenset({"gke", "nic-claims"}),
    # GKE's Cloud DNS answers at the metadata server; policies leave its other ports shut.
    name_servers=(_METADATA[0],),
    # GKE's documentation, Schedule GKE workloads with Topology Aware Scheduling.
    label_domains=("cloud.google.com", "topology.gke.io"),
    levels=(
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "cloud.google.com/gce-topology-host",
        "kubernetes.io/hostname",
    ),
    # GKE's class for flex-start with queued provisioning.
    provisioning_class="queued-provisioning.gke.io",
)
