"""A cluster that is there already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.base.sections import Problem, known, taken
from railhead.platform.base import Access, Made, MadeWith, Platform
from railhead.platform.existing.model import ExistingCluster


@dataclass(frozen=True, kw_only=True)
class Existing(Platform[ExistingCluster]):
    """Kubernetes that somebody else runs; what is below it is not the stack's."""

    def problems(self, cluster: ExistingCluster) -> Iterator[Problem]:
        """Storage classes of one name."""
        if (nfs := known(lambda: cluster.platform.nfs)) is not None:
            yield from taken(nfs.classes, "platform.nfs.classes", lambda row: (row.name,))

    def doubts(
        self,
        cluster: ExistingCluster,
        now: datetime,  # noqa: ARG002 - of other platforms' capacity
    ) -> Iterator[Problem]:
        """Storage classes that no claim of the stack names."""
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

    def addons(self, cluster: ExistingCluster) -> tuple[str, ...]:
        """NFS' driver, for a server that the stack names."""
        return ("csi-driver-nfs",) if known(lambda: cluster.platform.nfs) is not None else ()

    def access(self, cluster: ExistingCluster) -> Access:
        """By the kubeconfig that the stack names."""
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

    def made(self, cluster: ExistingCluster) -> Made:
        """By another identity all objects are others'; claims stay on the server that they have."""
        platform = cluster.platform
        return Made(
            cluster=MadeWith(fixed={"identity": platform.identity or cluster.name}),
            storage={
                row.name: MadeWith(fixed={"server": row.server, "share": row.share})
                for row in (platform.nfs.classes if platform.nfs else ())
            },
        )

    def uid(self, cluster: ExistingCluster) -> str:
        """As the stack says."""
        return cluster.platform.uid or ""

    def checks_nodes(self, cluster: ExistingCluster) -> bool:
        """Unless the stack says that its nodes are yet to join."""
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
    levels=(
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        # Topograph, docs/engines/k8s.md: the switches above a node.
        "network.topology.nvidia.com/core",
        "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/leaf",
    ),
)
