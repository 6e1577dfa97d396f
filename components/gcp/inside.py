"""The objects of a cluster on GCP inside it: its networks', and its file systems' volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from railhead.components.gcp.cluster_networks import ClusterNetworks, ClusterNetworksArgs
from railhead.components.gcp.infrastructure import GcpInfrastructure
from railhead.components.gcp.volumes import Volumes, VolumesArgs
from railhead.model.storage import CheckpointConfig


@dataclass(frozen=True, kw_only=True)
class InsideGcp:
    """Makes it with the provider of the cluster, once there is one.

    Args:
        claims: the stack's claims with checkpoints.
        infrastructure: what lies below.
    """

    claims: Sequence[CheckpointConfig]
    infrastructure: GcpInfrastructure

    def __call__(self, name: str, *, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """Make it; returns what pods of jobs wait for."""
        made: list[pulumi.Resource] = []
        below = self.infrastructure
        if below.attached:
            networks = ClusterNetworksArgs(networks=below.attached)
            made.append(ClusterNetworks(f"{name}-networks", networks, opts=opts))
        if below.sources:
            volumes = VolumesArgs(sources=below.sources, claims=self.claims)
            made.append(Volumes(f"{name}-volumes", volumes, opts=opts))
        # A namespace closes when kubelets have ended its pods: their nodes stay until then.
        return [*made, *(pool.pool for pool in below.gpu_pools.values())]
