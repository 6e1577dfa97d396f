"""All of a cluster on GCP that lies below Kubernetes, and what it needs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components.gcp import node_networks, primary_network
from components.gcp.bucket import TrainingBucket, TrainingBucketArgs
from components.gcp.filestore import SHARE, Filestore, FilestoreArgs
from components.gcp.gke_cluster import GkeCluster, GkeClusterArgs
from components.gcp.gpu_pool import GpuPool, GpuPoolArgs
from components.gcp.lustre import Lustre, LustreArgs
from components.gcp.node_identity import NodeIdentity, NodeIdentityArgs
from components.gcp.node_networks import AttachedNetwork, NodeNetworks, NodeNetworksArgs
from components.gcp.primary_network import NetworkRefs, PrimaryNetwork, PrimaryNetworkArgs
from components.gcp.researchers import ResearcherAccess, ResearcherAccessArgs
from components.gcp.service_access import ServiceAccess, ServiceAccessArgs
from components.gcp.storage_names import StorageNames, StorageNamesArgs
from components.gcp.system_pool import SystemPool, SystemPoolArgs
from components.gcp.volumes import VolumeSource
from railhead.platform.gcp.model import (
    BucketStorage,
    DnsEndpoint,
    ExistingGpuNetworks,
    FilestoreStorage,
    GcpCluster,
    GcpExistingNetwork,
    GcpNewNetwork,
    LustreStorage,
    NewGpuNetworks,
)


@dataclass(frozen=True, kw_only=True)
class GcpInfrastructureArgs:
    """Arguments of :class:`GcpInfrastructure`."""

    cluster: GcpCluster


class GcpInfrastructure(pulumi.ComponentResource):
    """Networks, the GKE cluster, its pools, and file systems, in the order in which they work.

    ``attached`` are the GPU nodes' further networks, ``sources`` the file systems by the name of
    their storage class; :func:`components.gcp.build` brings both into the cluster.
    """

    cluster: GkeCluster
    system_pool: SystemPool
    gpu_pools: Mapping[str, GpuPool]
    network: NetworkRefs
    attached: Sequence[AttachedNetwork]
    names: Sequence[pulumi.Resource]
    sources: Mapping[str, VolumeSource]

    def __init__(
        self, name: str, args: GcpInfrastructureArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Infrastructure", name, None, opts)
        cluster = args.cluster
        platform = cluster.platform
        provider = gcp.Provider(
            f"{name}-provider",
            project=platform.project,
            region=platform.region,
            zone=platform.zone,
            default_labels={"railhead-cluster": cluster.name} | platform.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._below = pulumi.ResourceOptions(parent=self, providers=[provider])
        self._cluster = cluster
        self.network = self._network(f"{name}-network")
        self.attached = self._attached(f"{name}-gpu-networks")
        identity = NodeIdentity(
            f"{name}-nodes",
            NodeIdentityArgs(cluster=cluster.name, project=platform.project),
            opts=self._below,
        )
        self.cluster = GkeCluster(
            f"{name}-gke",
            GkeClusterArgs(
                cluster=cluster.name,
                platform=platform,
                network=self.network,
                service_account=identity.email,
                # Without its rights a node never registers.
                after=[*self.network.after, *identity.grants],
            ),
            opts=self._below,
        )
        self.system_pool = SystemPool(
            f"{name}-system",
            SystemPoolArgs(
                cluster=self.cluster.cluster.id, platform=platform, service_account=identity.email
            ),
            opts=self._below,
        )
        self.gpu_pools = {
            pool.name: GpuPool(
                f"{name}-{pool.name}",
                GpuPoolArgs(
                    cluster=self.cluster.cluster.id,
                    cluster_name=cluster.name,
                    platform=platform,
                    pool=pool,
                    networks=self.attached if pool.networking == "additional-networks" else (),
                    service_account=identity.email,
                ),
                opts=self._below,
            )
            for pool in cluster.pools
        }
        if isinstance(platform.endpoint, DnsEndpoint):
            people = dict.fromkeys(group for _, group in cluster.groups)
            for index, group in enumerate(people):
                access = ResearcherAccessArgs(project=platform.project, researchers=group)
                # The first was there before there were teams.
                suffix = f"-{index}" if index else ""
                ResearcherAccess(f"{name}-researchers{suffix}", access, opts=self._below)
        self.names = self._storage_names(f"{name}-storage-names")
        self.sources = self._storage(f"{name}-storage")
        self.register_outputs({"cluster": self.cluster.cluster.id})

    def _network(self, name: str) -> NetworkRefs:
        platform = self._cluster.platform
        if isinstance(platform.network, GcpExistingNetwork):
            return primary_network.existing(platform, platform.network)
        args = PrimaryNetworkArgs(
            cluster=self._cluster.name, region=platform.region, network=platform.network
        )
        return PrimaryNetwork(name, args, opts=self._below).refs

    def _attached(self, name: str) -> Sequence[AttachedNetwork]:
        platform = self._cluster.platform
        with_nics = [p for p in self._cluster.pools if p.networking == "additional-networks"]
        if not with_nics:
            return ()
        # Pools of one cluster have the same interfaces; the checks of its configuration see to it.
        instance_type = with_nics[0].instance_type
        if isinstance(platform.gpu_networks, ExistingGpuNetworks):
            return node_networks.existing(instance_type, platform.gpu_networks)
        if not isinstance(platform.gpu_networks, NewGpuNetworks):
            raise TypeError(f"no networks for {instance_type}")
        args = NodeNetworksArgs(
            cluster=self._cluster.name,
            project=platform.project,
            region=platform.region,
            zone=platform.zone,
            instance_type=instance_type,
            networks=platform.gpu_networks,
        )
        return NodeNetworks(name, args, opts=self._below).attached

    def _storage_names(self, name: str) -> Sequence[pulumi.Resource]:
        cluster = self._cluster
        made_here = isinstance(cluster.platform.network, GcpNewNetwork)
        if not (made_here and cluster.network_policy.enabled and cluster.buckets):
            return ()
        args = StorageNamesArgs(cluster=cluster.name, network=self.network)
        return StorageNames(name, args, opts=self._below).ready

    def _storage(self, name: str) -> Mapping[str, VolumeSource]:
        cluster, platform = self._cluster, self._cluster.platform
        access: Sequence[pulumi.Resource] = ()
        if isinstance(platform.network, GcpNewNetwork) and platform.network.google_services:
            args = ServiceAccessArgs(
                cluster=cluster.name,
                network=self.network,
                addresses=platform.network.google_services,
            )
            access = ServiceAccess(f"{name}-access", args, opts=self._below).ready
        sources: dict[str, VolumeSource] = {}
        for storage in platform.storage:
            child = f"{name}-{storage.name}"
            if isinstance(storage, FilestoreStorage):
                sources[storage.name] = self._filestore(child, storage)
            elif isinstance(storage, LustreStorage):
                sources[storage.name] = self._lustre(child, storage, access)
            else:
                sources[storage.name] = self._bucket(child, storage)
        return sources

    def _filestore(self, name: str, storage: FilestoreStorage) -> VolumeSource:
        made = Filestore(
            name,
            FilestoreArgs(
                cluster=self._cluster.name,
                platform=self._cluster.platform,
                network=self.network,
                storage=storage,
            ),
            opts=self._below,
        )
        return VolumeSource(
            driver="filestore.csi.storage.gke.io",
            handle=made.handle,
            attributes={"ip": made.address, "volume": SHARE},
        )

    def _lustre(
        self, name: str, storage: LustreStorage, access: Sequence[pulumi.Resource]
    ) -> VolumeSource:
        made = Lustre(
            name,
            LustreArgs(
                cluster=self._cluster.name,
                platform=self._cluster.platform,
                network=self.network,
                storage=storage,
                after=access,
            ),
            opts=self._below,
        )
        return VolumeSource(
            driver="lustre.csi.storage.gke.io",
            handle=made.handle,
            attributes={"ip": made.address, "filesystem": storage.filesystem},
        )

    def _bucket(self, name: str, storage: BucketStorage) -> VolumeSource:
        made = TrainingBucket(
            name,
            TrainingBucketArgs(
                platform=self._cluster.platform,
                storage=storage,
                namespaces=self._cluster.training_namespaces,
                # The first cluster with workload identity makes the project's pool of identities.
                pool=self.cluster.cluster,
            ),
            opts=self._below,
        )
        return VolumeSource(
            driver="gcsfuse.csi.storage.gke.io",
            handle=made.bucket.name,
            mount_options=("implicit-dirs", *_cache(storage.cache_gib)),
            # A pod that mounts it looks its address up before it runs.
            after=[*made.grants, *self.names],
        )


def _cache(gib: int | None) -> Sequence[str]:
    """Options of GCS FUSE that keep what was read on local SSDs.

    GKE documentation, "Optimize Cloud Storage FUSE CSI driver": the cache is an emptyDir of the
    pod's, which these nodes have on their local SSDs, and objects come in parallel parts.
    """
    if gib is None:
        return ()
    return (
        f"file-cache:max-size-mb:{gib * 1024}",
        "file-cache:cache-file-for-range-read:true",
        "file-cache:enable-parallel-downloads:true",
    )
