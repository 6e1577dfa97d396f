"""All of a cluster on GCP that lies below Kubernetes, and what it needs in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from railhead.components.gcp import node_networks, primary_network
from railhead.components.gcp.bucket import TrainingBucket, TrainingBucketArgs
from railhead.components.gcp.filestore import SHARE, Filestore, FilestoreArgs
from railhead.components.gcp.gke_cluster import GkeCluster, GkeClusterArgs
from railhead.components.gcp.gpu_pool import GpuPool, GpuPoolArgs
from railhead.components.gcp.lustre import Lustre, LustreArgs
from railhead.components.gcp.node_identity import NodeIdentity, NodeIdentityArgs
from railhead.components.gcp.node_networks import AttachedNetwork, NodeNetworks, NodeNetworksArgs
from railhead.components.gcp.primary_network import NetworkRefs, PrimaryNetwork, PrimaryNetworkArgs
from railhead.components.gcp.researchers import ResearcherAccess, ResearcherAccessArgs
from railhead.components.gcp.service_access import ServiceAccess, ServiceAccessArgs
from railhead.components.gcp.storage_names import StorageNames, StorageNamesArgs
from railhead.components.gcp.system_pool import SystemPool, SystemPoolArgs
from railhead.components.gcp.volumes import VolumeSource
from railhead.platform.gcp.model import (
    BucketStorage,
    DnsEndpoint,
    ExistingGpuNetworks,
    FilestoreStorage,
    GcpExistingNetwork,
    GcpNewNetwork,
    GcpPlatform,
    GcpPool,
    LustreStorage,
    NewGpuNetworks,
)


@dataclass(frozen=True, kw_only=True)
class GcpInfrastructureArgs:
    """Arguments of :class:`GcpInfrastructure`.

    Args:
        name: the cluster's name, which the names of what is made begin with.
        platform: GCP's part of a stack's file: project, region, zone, networks, endpoint, storage,
            labels.
        pools: the GPU node pools.
        people: addresses of the groups that may connect to a control plane that is reached by DNS.
        namespaces: training namespaces, whose pods may read and write the buckets.
        private_storage: whether buckets are reached at private.googleapis.com, which network
            policies can name, where the stack makes the network.
    """

    name: str
    platform: GcpPlatform
    pools: Sequence[GcpPool]
    people: Sequence[str] = ()
    namespaces: Sequence[str] = ()
    private_storage: bool = False


class GcpInfrastructure(pulumi.ComponentResource):
    """Networks, the GKE cluster, its pools, and file systems, in the order in which they work.

    :func:`railhead.components.gcp.build` brings ``attached`` and ``sources`` into the cluster.

    Attributes:
        cluster: the GKE cluster.
        system_pool: the nodes of the controllers.
        gpu_pools: name -> the GPU node pool.
        network: the VPC, its subnet and its ranges.
        attached: the GPU nodes' further networks.
        researchers: the right of each group to connect to the control plane; empty unless IAM asks.
        names: the private names of Cloud Storage; empty without any.
        sources: name of a storage class -> its file system.
        bucket_rights: training namespace -> the rights of its pods in the buckets.
    """

    cluster: GkeCluster
    system_pool: SystemPool
    gpu_pools: Mapping[str, GpuPool]
    network: NetworkRefs
    attached: Sequence[AttachedNetwork]
    researchers: Sequence[pulumi.Resource]
    names: Sequence[pulumi.Resource]
    sources: Mapping[str, VolumeSource]
    bucket_rights: dict[str, list[pulumi.Resource]]

    def __init__(
        self, name: str, args: GcpInfrastructureArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Infrastructure", name, None, opts)
        platform = args.platform
        location = platform.region if platform.availability == "regional" else platform.zone
        provider = gcp.Provider(
            f"{name}-provider",
            project=platform.project,
            region=platform.region,
            zone=platform.zone,
            default_labels={"railhead-cluster": args.name} | platform.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._below = pulumi.ResourceOptions(parent=self, providers=[provider])
        self._args = args
        self.network = self._network(f"{name}-network")
        self.attached = self._attached(f"{name}-gpu-networks")
        identity = NodeIdentity(
            f"{name}-nodes",
            NodeIdentityArgs(cluster=args.name, project=platform.project),
            opts=self._below,
        )
        self.cluster = GkeCluster(
            f"{name}-gke",
            GkeClusterArgs(
                cluster=args.name,
                project=platform.project,
                location=location,
                zone=platform.zone,
                network=self.network,
                service_account=identity.email,
                endpoint=platform.endpoint,
                release_channel=platform.release_channel,
                kubernetes=platform.kubernetes,
                maintenance=platform.maintenance,
                groups=platform.groups,
                bucket_driver=any(isinstance(s, BucketStorage) for s in platform.storage),
                lustre_driver=any(isinstance(s, LustreStorage) for s in platform.storage),
                legacy_lustre_port=any(
                    isinstance(s, LustreStorage) and s.gke_support for s in platform.storage
                ),
                deletion_protection=platform.deletion_protection,
                # Without its rights a node never registers.
                after=[*self.network.after, *identity.grants],
            ),
            opts=self._below,
        )
        self.system_pool = SystemPool(
            f"{name}-system",
            SystemPoolArgs(
                cluster=self.cluster.cluster.id,
                location=location,
                zone=platform.zone,
                pool=platform.system_pool,
                service_account=identity.email,
            ),
            opts=self._below,
        )
        self.gpu_pools = {
            pool.name: GpuPool(
                f"{name}-{pool.name}",
                GpuPoolArgs(
                    cluster=self.cluster.cluster.id,
                    cluster_name=args.name,
                    location=location,
                    region=platform.region,
                    zone=platform.zone,
                    pool=pool,
                    networks=self.attached if pool.networking == "additional-networks" else (),
                    service_account=identity.email,
                    labels=platform.labels,
                    deletion_protection=platform.deletion_protection,
                ),
                opts=self._below,
            )
            for pool in args.pools
        }
        by_name = isinstance(platform.endpoint, DnsEndpoint)
        self.researchers = [
            self._researchers(f"{name}-researchers", index, group)
            for index, group in enumerate(args.people if by_name else ())
        ]
        self.bucket_rights = {namespace: [] for namespace in args.namespaces}
        self.names = self._storage_names(f"{name}-storage-names")
        self.sources = self._storage(f"{name}-storage")
        self.register_outputs({"cluster": self.cluster.cluster.id})

    def _network(self, name: str) -> NetworkRefs:
        platform = self._args.platform
        if isinstance(platform.network, GcpExistingNetwork):
            return primary_network.existing(platform.project, platform.region, platform.network)
        args = PrimaryNetworkArgs(
            cluster=self._args.name, region=platform.region, network=platform.network
        )
        return PrimaryNetwork(name, args, opts=self._below).refs

    def _attached(self, name: str) -> Sequence[AttachedNetwork]:
        platform = self._args.platform
        with_nics = [p for p in self._args.pools if p.networking == "additional-networks"]
        if not with_nics:
            return ()
        # Pools of one cluster have the same interfaces; the checks of its configuration see to it.
        instance_type = with_nics[0].instance_type
        if isinstance(platform.gpu_networks, ExistingGpuNetworks):
            return node_networks.existing(instance_type, platform.gpu_networks)
        if not isinstance(platform.gpu_networks, NewGpuNetworks):
            raise TypeError(f"no networks for {instance_type}")
        args = NodeNetworksArgs(
            cluster=self._args.name,
            project=platform.project,
            region=platform.region,
            zone=platform.zone,
            instance_type=instance_type,
            networks=platform.gpu_networks,
        )
        return NodeNetworks(name, args, opts=self._below).attached

    def _researchers(self, name: str, index: int, group: str) -> pulumi.Resource:
        access = ResearcherAccessArgs(project=self._args.platform.project, researchers=group)
        # By its address, so that one that comes or goes moves no other; it was by its place. To
        # create this grant and then delete that one would leave none.
        was = f"{name}-{index}" if index else name
        aliases = pulumi.ResourceOptions(aliases=[pulumi.Alias(name=was)])
        opts = pulumi.ResourceOptions.merge(self._below, aliases)
        return ResearcherAccess(f"{name}-{group}", access, opts=opts).grant

    def _storage_names(self, name: str) -> Sequence[pulumi.Resource]:
        platform = self._args.platform
        made_here = isinstance(platform.network, GcpNewNetwork)
        buckets = any(isinstance(storage, BucketStorage) for storage in platform.storage)
        if not (made_here and self._args.private_storage and buckets):
            return ()
        args = StorageNamesArgs(cluster=self._args.name, network=self.network)
        return StorageNames(name, args, opts=self._below).ready

    def _storage(self, name: str) -> Mapping[str, VolumeSource]:
        platform = self._args.platform
        access: Sequence[pulumi.Resource] = ()
        if isinstance(platform.network, GcpNewNetwork) and platform.network.google_services:
            args = ServiceAccessArgs(
                cluster=self._args.name,
                network=self.network,
                addresses=platform.network.google_services,
            )
            access = ServiceAccess(f"{name}-access", args, opts=self._below).ready
        sources: dict[str, VolumeSource] = {}
        for storage in platform.storage:
            child = f"{name}-{storage.name}"
            if isinstance(storage, FilestoreStorage):
                sources[storage.name] = self._filestore(child, storage, access)
            elif isinstance(storage, LustreStorage):
                sources[storage.name] = self._lustre(child, storage, access)
            else:
                sources[storage.name] = self._bucket(child, storage)
        return sources

    def _filestore(
        self, name: str, storage: FilestoreStorage, access: Sequence[pulumi.Resource]
    ) -> VolumeSource:
        platform = self._args.platform
        made = Filestore(
            name,
            FilestoreArgs(
                cluster=self._args.name,
                location=platform.region if storage.tier == "regional" else platform.zone,
                network=self.network,
                storage=storage,
                apart=self._gpu_subnets(),
                calls_in=isinstance(platform.network, GcpNewNetwork),
                deletion_protection=platform.deletion_protection,
                # Beside a subnet that is not there yet it may take a part of the subnet's range,
                # which Google then refuses (file.v1, reservedIpRange; cluster-toolkit, modules/
                # network/vpc/outputs.tf: its VPC's name comes after the subnets).
                after=[*self.network.after, *access],
            ),
            opts=self._below,
        )
        return VolumeSource(
            driver="filestore.csi.storage.gke.io",
            handle=made.handle,
            attributes={"ip": made.address, "volume": SHARE},
            # Connections of a node; one alone carries less than a node may have (Filestore
            # documentation, Test instance performance).
            mount_options=(f"nconnect={7 if storage.large else 2}",),
        )

    def _gpu_subnets(self) -> Sequence[str]:
        """Return the subnets of nodes' further interfaces, if the stack makes them.

        A node has a route to each at its interface (lustre-csi-driver v0.6.9, pkg/network/
        network.go: configureRoutesForNIC reads its gateway), also for a file system's address.
        """
        networks = self._args.platform.gpu_networks
        if not self.attached or not isinstance(networks, NewGpuNetworks):
            return ()
        return node_networks.subnets(networks.cidr, len(self.attached))

    def _lustre(
        self, name: str, storage: LustreStorage, access: Sequence[pulumi.Resource]
    ) -> VolumeSource:
        platform = self._args.platform
        made = Lustre(
            name,
            LustreArgs(
                cluster=self._args.name,
                project=platform.project,
                zone=platform.zone,
                network=self.network,
                storage=storage,
                apart=self._gpu_subnets(),
                deletion_protection=platform.deletion_protection,
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
        platform = self._args.platform
        made = TrainingBucket(
            name,
            TrainingBucketArgs(
                project=platform.project,
                project_number=platform.project_number,
                region=platform.region,
                storage=storage,
                namespaces=self._args.namespaces,
                deletion_protection=platform.deletion_protection,
                # The first cluster with workload identity makes the project's pool of identities.
                pool=self.cluster.cluster,
            ),
            opts=self._below,
        )
        for namespace, grant in zip(self._args.namespaces, made.grants, strict=True):
            self.bucket_rights[namespace].append(grant)
        return VolumeSource(
            driver="gcsfuse.csi.storage.gke.io",
            handle=made.bucket.name,
            # The kernel's 128 KiB at a time make reads of large files slow; newer drivers ask for 2
            # MiB by themselves (gcs-fuse-csi-driver, deploy/base/setup/storageclass.yaml:
            # gcsfusecsi-checkpointing; gcsfuse, cfg/params.yaml: max-read-ahead-kb).
            mount_options=("implicit-dirs", "read_ahead_kb=1024", *_cache(storage.cache_gib)),
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
