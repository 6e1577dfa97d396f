"""A cluster that is there already: nothing below Kubernetes is the stack's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.cluster_access import standing
from components.existing.nfs import Nfs, NfsArgs
from components.platform import Infrastructure
from railhead.catalog.versions import COMBINATIONS
from railhead.platform.existing.model import ExistingCluster


@dataclass(frozen=True, kw_only=True)
class InsideExisting:
    """Makes what the stack brings to a cluster that lacks it."""

    cluster: ExistingCluster

    def __call__(self, name: str, *, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """Make it; returns what pods of jobs wait for."""
        cluster = self.cluster
        if cluster.platform.nfs is None:
            return ()
        combination = COMBINATIONS[cluster.versions].through(cluster.registry_mirrors)
        args = NfsArgs(
            cluster=cluster.name,
            config=cluster.platform.nfs,
            driver=combination.addon("csi-driver-nfs"),
        )
        return [Nfs(f"{name}-nfs", args, opts=opts)]


def build(cluster: ExistingCluster, opts: pulumi.ResourceOptions) -> Infrastructure:  # noqa: ARG001
    """Find it; no resource is made outside of it."""
    return Infrastructure(access=standing(cluster), inside=InsideExisting(cluster=cluster))
