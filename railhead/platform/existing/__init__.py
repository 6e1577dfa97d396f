"""A cluster that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.base.sections import Problem, known, taken
from railhead.machines import MACHINES
from railhead.model.node_paths import DISTRIBUTIONS, KUBELET, USUAL, NodePaths
from railhead.platform.base import Access, CreatedByPlatform, MadeWith, Platform
from railhead.platform.existing.model import ExistingCluster

# Nodes from which on it was seen: the informer's pages expire before all are read (nfd #2408). The
# network operator's is without the mend (Mellanox/node-feature-discovery network-operator-v26.4.1,
# nfd-master.go: nfdAPIUpdateOneNode), which v0.19.0 has.
_MANY = 1000


def nfs_directory(cluster: ExistingCluster) -> str:
    """Return the directory of the cluster's claims below each share; empty if nothing names it."""
    platform = cluster.platform
    if platform.nfs is not None and platform.nfs.directory is not None:
        return platform.nfs.directory
    first, _, _ = (platform.uid or "").partition("-")
    return f"{platform.identity or cluster.name}-{first}" if first else ""


def _runs_cri_o(cluster: ExistingCluster) -> bool:
    """Return whether nodes are OKE's: CRI-O alone says where its runtimes are."""
    return any(MACHINES[pool.instance_type].provider == "oci" for pool in cluster.pools)


@dataclass(frozen=True, kw_only=True)
class Existing(Platform[ExistingCluster]):
    """Kubernetes that others run; the stack does not own what is below it."""

    def problems(self, cluster: ExistingCluster) -> Iterator[Problem]:
        """Yield storage classes that share a name, and shares without a directory of their own."""
        if (nfs := known(lambda: cluster.platform.nfs)) is not None:
            yield from taken(nfs.classes, "platform.nfs.classes", lambda row: (row.name,))
            if known(lambda: nfs_directory(cluster)) == "":
                yield (
                    "platform.uid",
                    "is missing: it names the directory of the cluster's claims, so that a copy of "
                    "this file for another cluster cannot mount them; `kubectl get namespace "
                    "kube-system -o jsonpath='{.metadata.uid}'` prints it; or name a directory "
                    "yourself, platform.nfs.directory: until now that was the cluster's "
                    "name",
                )

        unlinked = known(lambda: not self.node_paths(cluster).linked)
        plugged = known(lambda: bool(cluster.fabric.addons())) or known(
            lambda: (
                cluster.gpu_operator is not None
                and (
                    cluster.gpu_operator.allocation == "dra" or cluster.gpu_operator.compute_domains
                )
            )
        )
        if unlinked and plugged:
            yield (
                "platform.kubelet_directory",
                f"{self.node_paths(cluster).kubelet!r} is not where device plugins of the network "
                f"operator and NVIDIA's DRA driver look for kubelet: start it with "
                f"--kubelet-root-dir={KUBELET}, and say platform.kubelet_directory: {KUBELET}",
            )

    def node_paths(self, cluster: ExistingCluster) -> NodePaths:
        """Return those of the distribution, with kubelet's as the stack says."""
        platform = cluster.platform
        paths = DISTRIBUTIONS[platform.distribution]
        if platform.distribution == "kubeadm" and _runs_cri_o(cluster):
            paths = USUAL
        moved = platform.kubelet_directory
        if moved in (None, paths.kubelet):
            return paths
        return replace(paths, kubelet=moved, linked=moved == KUBELET)

    def doubts(
        self,
        cluster: ExistingCluster,
        now: datetime,  # noqa: ARG002 - of other platforms' capacity
    ) -> Iterator[Problem]:
        """Yield what is odd of storage classes, and a discovery that is too old for many nodes."""
        nodes = sum(pool.nodes for pool in cluster.pools)
        operator = cluster.fabric.nic_operator
        if operator is not None and operator.nfd == "operator" and nodes >= _MANY:
            yield (
                "fabric.network_operator.nfd",
                f"'operator': on {nodes} nodes the network operator's Node Feature Discovery takes "
                "labels off nodes when its master starts again, and with them their GPUs and NICs "
                "(nfd #2408); install version 0.19 or newer yourself, and say 'existing'",
            )
        named = {claim.storage_class for claim in cluster.checkpoints}
        for at, row in enumerate(cluster.platform.nfs.classes if cluster.platform.nfs else ()):
            if row.name not in named:
                yield (
                    f"platform.nfs.classes[{at}].name",
                    f"no claim of checkpoints names {row.name!r} as its storage_class",
                )
            if "soft" in row.mount_options:
                yield (
                    f"platform.nfs.classes[{at}].mount_options",
                    "'soft' gives up on a server that is away, and a checkpoint may be cut (nfs(5))"
                    "; write 'hard'",
                )
            if row.lacks_statd:
                yield (
                    f"platform.nfs.classes[{at}].mount_options",
                    "version 3 of NFS keeps locks by rpc.statd, which the driver's container does "
                    "not run: no mount would succeed; add 'nolock', by which a lock holds on its "
                    "node alone",
                )

    def addons(self, cluster: ExistingCluster) -> tuple[str, ...]:
        """Return the driver of NFS, for a server that the stack names."""
        return ("csi-driver-nfs",) if known(lambda: cluster.platform.nfs) is not None else ()

    def access(self, cluster: ExistingCluster) -> Access:
        """Return the access by the kubeconfig that the stack names."""
        platform = cluster.platform
        path = Path(platform.kubeconfig).expanduser().absolute()
        if not path.is_file():
            raise PrerequisiteError(
                f"platform.kubeconfig: {path} is not there",
                remedy="write the cluster's kubeconfig there, or correct the path in the stack's "
                "file",
            )
        return Access(
            kubeconfig=path,
            context=platform.context,
            identity=platform.identity or cluster.name,
            why="platform.kubeconfig",
        )

    def made(self, cluster: ExistingCluster) -> CreatedByPlatform:
        """Return the identity, whose change makes all objects new, and the servers of claims."""
        platform = cluster.platform
        return CreatedByPlatform(
            cluster=MadeWith(fixed={"identity": platform.identity or cluster.name}),
            storage={
                row.name: MadeWith(
                    fixed={
                        "server": row.server,
                        "share": row.share,
                        "directory": nfs_directory(cluster),
                    }
                )
                for row in (platform.nfs.classes if platform.nfs else ())
            },
        )

    def uid(self, cluster: ExistingCluster) -> str:
        """Return the UID that the stack's file gives."""
        return cluster.platform.uid or ""

    def checks_nodes(self, cluster: ExistingCluster) -> bool:
        """Return whether to check nodes: not if the stack says that they are yet to join."""
        return cluster.platform.verify_nodes


PLATFORM = Existing(
    kind="existing",
    cluster=ExistingCluster,
    offers=frozenset({"multus", "operator", "efa", "gke", "nic-claims", "provider"}),
    standing=True,
    owns_cluster=False,
    knows_networks=False,
    # It may be anybody's managed Kubernetes.
    knows_labels=False,
    # In the node's namespace: AKS' LocalDNS, the default from Kubernetes 1.37 on (Azure's pages,
    # aks/localdns-custom; Azure/AgentBaker, e2e: CLUSTER_IP), Kubespray's NodeLocal DNSCache, which
    # every pod asks by default (v2.31.0, roles/kubespray_defaults: nodelocaldns_ip), and GKE's
    # Cloud DNS, at the metadata server's address (tektoncd/operator #4000).
    name_servers=("169.254.10.11/32", "169.254.25.10/32", "169.254.169.254/32"),
    levels=(
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        # Topograph, docs/engines/k8s.md: the switches above a node.
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
        # A scale set, beyond which Azure's InfiniBand does not reach.
        "kubernetes.azure.com/agentpool",
        # Oracle's labeler (oci-hpc-oke, docs/using-rdma-network-locality-when-running-workloads).
        "oci.oraclecloud.com/rdma.hpc_island_id",
        "oci.oraclecloud.com/rdma.network_block_id",
        "oci.oraclecloud.com/rdma.local_block_id",
    ),
)
