"""A stack on a cluster that is there already: metal, OCI, Azure, CoreWeave or any other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import AbsolutePath, FilePath
from railhead.model.cluster import Cluster, Model, Name, PlatformConfig, Pool
from railhead.platform.existing.storage import NfsConfig

_UID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"


class ExistingPlatform(PlatformConfig):
    """A cluster that exists already; nothing below Kubernetes is created.

    ``kubeconfig`` is a path (``~`` allowed); its content never enters the state. ``identity`` names
    the cluster for good: resources are replaced when it changes, and only then. ``verify_nodes``
    compares the pools with the live nodes before anything is changed, if the cluster answers; set
    it to false for a cluster whose nodes are yet to join.

    ``context`` is one of the kubeconfig's; None takes its current one. ``uid`` is the UID of the
    cluster's namespace `kube-system`, which no other cluster has: with it, any other is refused.

    ``distribution`` says where nodes have the directories of kubelet, containerd and CNI.
    ``kubelet_directory`` is kubelet's own, if it was moved (k0s: ``--kubelet-root-dir``).

    ``nfs`` is a server's directories as storage classes; None where claims name classes that are
    there already.
    """

    kind: Literal["existing"]
    kubeconfig: FilePath
    context: str | None = Field(default=None, min_length=1)
    identity: Name | None = None
    uid: Annotated[str, Field(pattern=_UID)] | None = None
    verify_nodes: bool = True
    distribution: Literal["kubeadm", "rke2", "k3s", "microk8s", "k0s"] = "kubeadm"
    kubelet_directory: AbsolutePath | None = None
    nfs: NfsConfig | None = None


class Schedulable(Model):
    """The resources that pods can request on each node of a pool.

    ``cpu`` is whole CPUs, ``memory_gib`` is GiB.
    """

    # No machine of the catalogue has a tenth of it.
    cpu: Annotated[int, Field(strict=True, ge=1, le=4096)]
    memory_gib: Annotated[int, Field(strict=True, ge=1, le=65536)]


class ExistingPool(Pool):
    """Nodes that are there. ``schedulable`` where the catalogue cannot know or knows less."""

    schedulable: Schedulable | None = None

    @property
    def schedulable_resources(self) -> tuple[int, int]:
        """CPUs and GiB of memory that pods can request on a node; quotas count on them."""
        if self.schedulable is None:
            return super().schedulable_resources
        return self.schedulable.cpu, self.schedulable.memory_gib


class ExistingCluster(Cluster):
    """A cluster on Kubernetes that others run."""

    platform: ExistingPlatform
    pools: tuple[ExistingPool, ...] = Field(min_length=1)
