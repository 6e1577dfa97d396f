"""A cluster that is there already: nothing below Kubernetes is the stack's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from railhead.catalog.versions import COMBINATIONS
from railhead.components.cluster_access import standing
from railhead.components.controllers.charts import Chart
from railhead.components.existing.nfs import Nfs, NfsArgs
from railhead.components.platform import Infrastructure
from railhead.platform.existing import PLATFORM, nfs_directory
from railhead.platform.existing.model import ExistingCluster


@dataclass(frozen=True, kw_only=True)
class InsideExisting:
    """Makes what the stack brings to a cluster that lacks it.

    Args:
        nfs: arguments of the NFS driver; None where the stack brings none.
    """

    nfs: NfsArgs | None

    def __call__(self, name: str, *, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """Make it; returns what pods of jobs wait for."""
        return () if self.nfs is None else [Nfs(f"{name}-nfs", self.nfs, opts=opts)]


def build(cluster: ExistingCluster, opts: pulumi.ResourceOptions) -> Infrastructure:  # noqa: ARG001
    """Find it; no resource is made outside of it."""
    return Infrastructure(access=standing(cluster), inside=InsideExisting(nfs=_nfs(cluster)))


def _nfs(cluster: ExistingCluster) -> NfsArgs | None:
    config = cluster.platform.nfs
    if config is None:
        return None
    combination = COMBINATIONS[cluster.versions].through(cluster.registry_mirrors)
    return NfsArgs(
        chart=Chart.of(combination.addon("csi-driver-nfs")),
        directory=nfs_directory(cluster),
        kubelet_directory=PLATFORM.node_paths(cluster).kubelet,
        classes=config.classes,
    )
