"""A stack on a cluster that is there already: metal, OCI, Azure, CoreWeave or any other."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from railhead.config.model import Cluster, Name, PlatformConfig


class ExistingPlatform(PlatformConfig):
    """A cluster that is there already; nothing below Kubernetes is created.

    ``kubeconfig`` is a path (``~`` allowed); its content never enters the state. ``identity`` names
    the cluster for good: resources are replaced when it changes, and only then.
    """

    kind: Literal["existing"]
    kubeconfig: str = Field(min_length=1)
    context: str | None = Field(default=None, min_length=1)
    identity: Name | None = None


class ExistingCluster(Cluster):
    """A cluster on Kubernetes that somebody else runs."""

    platform: ExistingPlatform
