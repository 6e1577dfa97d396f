"""What lies below Kubernetes on each platform, and how the engine reaches what lies above.

A cloud's SDK costs seconds to import: only the platform in use is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pulumi

from components.cluster_access import ClusterAccess, cluster_access
from railhead.model.cluster import Cluster
from railhead.platform.aws.model import AwsCluster
from railhead.platform.gcp.model import GcpCluster


class Inside(Protocol):
    """Makes what the platform needs inside the cluster: storage classes, volumes, networks.

    ``opts`` carries the parent and the Kubernetes provider; ``after`` is what must exist first.
    Returns what others wait for.
    """

    def __call__(
        self, name: str, *, after: Sequence[pulumi.Resource], opts: pulumi.ResourceOptions
    ) -> Sequence[pulumi.Resource]:
        """Make it."""


def _nothing(
    name: str,  # noqa: ARG001 - the protocol's
    *,
    after: Sequence[pulumi.Resource],  # noqa: ARG001 - the protocol's
    opts: pulumi.ResourceOptions,  # noqa: ARG001 - the protocol's
) -> Sequence[pulumi.Resource]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Infrastructure:
    """A cluster up to its API server and its nodes.

    Args:
        access: how the engine reaches it.
        inside: what the platform needs inside the cluster.
        kubeconfig: what other projects reach it with, a secret; None where it was there before.
        details: what other projects refer to, such as ``vpc_id``; no secrets.
    """

    access: ClusterAccess
    inside: Inside = _nothing
    kubeconfig: pulumi.Output[str] | None = None
    details: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)


def infrastructure(cluster: Cluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build, or find, what the cluster's platform means; ``opts`` carries the parent.

    Raises:
        PrerequisiteError: a cluster that should be there is not.
    """
    if isinstance(cluster, AwsCluster):
        from components import aws

        return aws.build(cluster, opts)
    if isinstance(cluster, GcpCluster):
        from components import gcp

        return gcp.build(cluster, opts)
    return Infrastructure(access=cluster_access(cluster.platform, cluster.name))
