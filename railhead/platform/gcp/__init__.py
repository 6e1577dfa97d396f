"""Google Cloud: a cluster on GKE, and all that lies below it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from railhead.base.fields import Model
from railhead.base.sections import Problem
from railhead.model.cluster import CheckpointConfig
from railhead.model.network_policy import Destination
from railhead.platform.base import CreatedByPlatform, MadeWith, Platform
from railhead.platform.gcp import checks
from railhead.platform.gcp.model import (
    MAX_RUN_SECONDS,
    PRIVATE_GOOGLE_APIS,
    BucketStorage,
    FilestoreStorage,
    FlexStart,
    GcpCluster,
    GcpNetwork,
    GcpNewNetwork,
    GcpPool,
    GcpStorage,
    LustreStorage,
)

# Where a pod gets the token of its own identity. On dataplane V2 the policy judges this address and
# port, before the translation to the node's own (gke-labs/kube-agents #777, #805: port 80 alone
# brings tokens, and rules of nodes' addresses match nothing).
_METADATA = ("169.254.169.254/32", 80)


@dataclass(frozen=True, kw_only=True)
class Gcp(Platform[GcpCluster]):
    """Google Cloud."""

    def problems(self, cluster: GcpCluster) -> Iterator[Problem]:
        """Yield the problems that only Google Cloud has."""
        return checks.problems(cluster)

    def doubts(self, cluster: GcpCluster, now: datetime) -> Iterator[Problem]:
        """Yield support that ends, capacity named twice, no driver, rails of small frames."""
        return checks.doubts(cluster, now)

    def queued_pools(self, cluster: GcpCluster) -> tuple[str, ...]:
        """Return the flex-start pools, which give nodes to whole gangs only."""
        return tuple(
            pool.name
            for pool in cluster.pools
            if isinstance(pool.capacity, FlexStart) and pool.capacity.queued
        )

    def provisioning_parameters(self, cluster: GcpCluster) -> Mapping[str, str]:
        """Return how long the nodes may live, if not for the seven days that GKE asks for.

        It asks for a request's own time and not for the pool's (GoogleCloudPlatform/
        cluster-autoscaler, pkg/provisioningrequests/manager/manager.go), and gives no node of a
        pool with less to a request with more (scaleup/orchestrator.go).
        """
        times = {
            pool.capacity.max_run_seconds
            for pool in cluster.pools
            if isinstance(pool.capacity, FlexStart) and pool.capacity.queued
        }
        shortest = min(times, default=MAX_RUN_SECONDS)
        return {} if shortest == MAX_RUN_SECONDS else {"maxRunDurationSeconds": str(shortest)}

    def made(self, cluster: GcpCluster) -> CreatedByPlatform:
        """Return the settings whose change replaces the cluster, or a part of it.

        See terraform-provider-google: container, lustre, filestore, storage. If GKE does not
        replace a pool as a whole, such as for its disk, it replaces every node of it.
        """
        platform = cluster.platform
        where = {"project": platform.project, "region": platform.region}
        regional = platform.availability == "regional"
        return CreatedByPlatform(
            cluster=MadeWith(
                fixed=where
                | {"availability": platform.availability}
                | ({} if regional else {"zone": platform.zone})
                | _network(platform.network),
                grows=_addresses(platform.network),
            ),
            system=MadeWith(
                fixed=platform.system_pool.model_dump(
                    mode="json", include={"machine_type", "disk_size_gb", "zones"}
                )
            ),
            protected=platform.deletion_protection,
            pools={pool.name: _nodes(pool, cluster) for pool in cluster.pools},
            storage={row.name: _storage(row, cluster, where) for row in platform.storage},
        )

    def system_nodes(self, cluster: GcpCluster) -> tuple[int, str]:
        """Return the fewest that there are."""
        pool = cluster.platform.system_pool
        return pool.min_nodes, pool.machine_type

    def mount_annotations(self, cluster: GcpCluster, claim: CheckpointConfig) -> Mapping[str, str]:
        """Return GCS FUSE's annotations: without them no sidecar comes, and the mount waits.

        The sidecar has no limits: with the driver's own (a quarter of a CPU, 256 MiB, 5 GiB of
        disk) it slows eight GPUs down, and is evicted, with the pod, for what it buffers or caches
        (gcs-fuse-csi-driver, cmd/webhook/main.go; pkg/webhook/config.go: "0" is no limit, and what
        is requested stays).
        """
        if claim.storage_class not in cluster.buckets:
            return {}
        unlimited = ("cpu", "memory", "ephemeral-storage")
        return {"gke-gcsfuse/volumes": "true"} | {
            f"gke-gcsfuse/{resource}-limit": "0" for resource in unlimited
        }

    def file_system(self, cluster: GcpCluster, claim: CheckpointConfig) -> str | None:
        """Return the storage class, whose volumes all have one handle.

        kubelet tells a pod's volumes apart by it, and waits for the second for ever
        (gcs-fuse-csi-driver issue 48, kubernetes issue 132921).
        """
        own = {row.name for row in cluster.platform.storage}
        return claim.storage_class if claim.storage_class in own else None

    def egress(self, cluster: GcpCluster, namespace: str) -> tuple[Destination, ...]:  # noqa: ARG002
        """Return the addresses that GCS FUSE needs, if there is a bucket.

        It runs in the pod's network, and fetches the token and the objects (gcs-fuse-csi-driver,
        docs/istio.md).
        """
        address, port = _METADATA
        wanted = (
            Destination(cidr=address, ports=(port,)),
            Destination(cidr=str(PRIVATE_GOOGLE_APIS), ports=(443,)),
        )
        return wanted if cluster.buckets else ()


def _network(network: GcpNetwork) -> dict[str, Any]:
    """Return the settings of the network, without Google's services in it, which come and go."""
    later = {"google_services", "service_connection", "storage_names"}
    # The nodes' range grows in place (compute, Subnetwork.expandIpCidrRange), and no other.
    text = _said("network", network, later | {"nodes"})
    if isinstance(network, GcpNewNetwork):
        text["network.nodes"] = str(network.nodes).partition("/")[0]
    return text


def _addresses(network: GcpNetwork) -> dict[str, int]:
    """Return how many nodes there may be; an existing network decides that itself."""
    if not isinstance(network, GcpNewNetwork):
        return {}
    return {"addresses of network.nodes": ipaddress.ip_network(network.nodes).num_addresses}


def _said(field: str, section: Model, without: Set[str] = frozenset()) -> dict[str, Any]:
    text = section.model_dump(mode="json", exclude=set(without))
    return {f"{field}.{key}": value for key, value in text.items()}


def _nodes(pool: GcpPool, cluster: GcpCluster) -> MadeWith:
    platform = cluster.platform
    fields = (
        "instance_type",
        "networking",
        "disk_size_gb",
        "disk_type",
        "driver",
        "host_maintenance",
        "image_streaming",
        "image_cache",
    )
    fixed: dict[str, Any] = {"zone": platform.zone} | {f: getattr(pool, f) for f in fields}
    if platform.gpu_networks is not None and pool.networking == "additional-networks":
        fixed |= _said("gpu_networks", platform.gpu_networks)
    # In place for the provider (container/node_config.go), but GKE recreates the nodes (gcloud
    # container node-pools update, --labels); the labels that Kubernetes knows it changes in place.
    fixed["platform.labels"] = ", ".join(f"{k}={v}" for k, v in sorted(platform.labels.items()))
    return MadeWith(
        fixed=fixed | _said("capacity", pool.capacity) | _said("placement", pool.placement),
        # GKE takes away what is over, whatever runs there; the autoscaler only what is idle.
        grows={"nodes": pool.nodes} if pool.keeps_nodes else {},
    )


def _storage(row: GcpStorage, cluster: GcpCluster, where: Mapping[str, str]) -> MadeWith:
    fields = ("kind", "tier", "addresses", "throughput", "filesystem", "bucket")
    fixed = dict(where) | {f: getattr(row, f) for f in fields if hasattr(row, f)}
    grows = {}
    if not isinstance(row, BucketStorage):
        fixed["zone"] = cluster.platform.zone
    if isinstance(row, FilestoreStorage):
        fixed["capacity_gib"] = "10 TiB and more" if row.large else "less than 10 TiB"
    if isinstance(row, LustreStorage):
        # Managed Lustre documentation, Increase the capacity.
        grows["capacity_gib"] = row.capacity_gib
        fixed["capacity_gib"] = f"at most {checks.lustre_steps(row)[0]}"
        # Where its servers are, and stay (Service Networking API, reservedPeeringRanges); the
        # firewall rule that lets them in would follow.
        fixed["google_services"] = getattr(cluster.platform.network, "google_services", None)
    return MadeWith(fixed=fixed, grows=grows)


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
    # kueue issue 9048 and xpk's dws-config: how GKE keeps gangs apart.
    provisioning_labels={"autoscaling.gke.io/provisioning-request": "ResizeRequestName"},
)
