"""The part below Kubernetes on each platform, and the engine's way to the cluster above.

A cloud's SDK costs seconds to import: only the platform in use is.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pulumi

from railhead.components.cluster_access import ClusterAccess
from railhead.model.cluster import Cluster


class Inside(Protocol):
    """Makes what the platform needs inside the cluster: storage classes, volumes, networks.

    ``opts`` carries the parent and the Kubernetes provider. Returns what others wait for.
    """

    def __call__(self, name: str, *, opts: pulumi.ResourceOptions) -> Sequence[pulumi.Resource]:
        """Make it."""


def _nothing(
    name: str,  # noqa: ARG001 - the protocol's
    *,
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
        of_namespaces: training namespace -> rights of its jobs in the cloud, which go after it.
    """

    access: ClusterAccess
    inside: Inside = _nothing
    kubeconfig: pulumi.Output[str] | None = None
    details: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    of_namespaces: Mapping[str, Sequence[pulumi.Resource]] = field(default_factory=dict)


Build = Callable[[Any, pulumi.ResourceOptions], Infrastructure]


def infrastructure(cluster: Cluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build, or find, what the cluster's platform means; ``opts`` carries the parent.

    Each platform's folder beside this file has a ``build``.

    Raises:
        PrerequisiteError: a cluster that should be there is not.
    """
    build: Build = importlib.import_module(f"railhead.components.{cluster.platform.kind}").build
    return build(cluster, opts)
