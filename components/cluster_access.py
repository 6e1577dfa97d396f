"""How the engine reaches the cluster: the path of a kubeconfig, or its content as a secret."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base import paths
from railhead.base.errors import PrerequisiteError
from railhead.model.cluster import PlatformConfig
from railhead.platform.existing.model import ExistingPlatform
from railhead.platform.lab.model import LabPlatform

# The lab's own environment sets it, so that a second lab takes the same stack.
LAB_VARIABLE = "RAILHEAD_LAB"


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """A reachable cluster.

    ``kubeconfig`` is a path, or the content as a secret. ``identity`` names the cluster for good:
    resources are replaced when it changes, and only then, however often its address or its
    credentials do. Nothing goes into the cluster before ``after`` is there, nor leaves later.
    """

    kubeconfig: pulumi.Input[str]
    context: str | None
    identity: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


def cluster_access(platform: PlatformConfig, cluster: str) -> ClusterAccess:
    """Find the kubeconfig that a platform means.

    Raises:
        PrerequisiteError: it is not there; names what to run.
    """
    if isinstance(platform, LabPlatform):
        return _lab(os.environ.get(LAB_VARIABLE) or platform.lab)
    if not isinstance(platform, ExistingPlatform):
        raise TypeError(f"platform {platform.kind!r} makes its own cluster")
    path = Path(platform.kubeconfig).expanduser().absolute()
    if not path.is_file():
        raise PrerequisiteError(
            f"platform.kubeconfig: {path} is not there",
            remedy="write the cluster's kubeconfig there, or correct the path in the stack's file",
        )
    return ClusterAccess(
        kubeconfig=str(path), context=platform.context, identity=platform.identity or cluster
    )


def exec_kubeconfig(
    name: str, server: Mapping[str, str], command: Mapping[str, Any]
) -> dict[str, Any]:
    """A kubeconfig of one cluster in which a command gets a token: no credential is in it.

    ``server`` is the cluster's section, ``command`` what client-go's ``exec`` says beside its
    version.
    """
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": dict(server)}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        "users": [
            {
                "name": name,
                "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", **command}},
            }
        ],
    }


def _lab(name: str) -> ClusterAccess:
    kubeconfig = paths.lab_kubeconfig(name)
    identity = paths.lab_dir(name) / "identity"
    suffix = "" if name == "lab" else f" --name {name}"
    for path in (kubeconfig, identity):
        if not path.is_file():
            raise PrerequisiteError(
                f"the lab {name!r} is not up: {path} is not there",
                remedy=f"run `railhead lab up{suffix}`",
            )
    return ClusterAccess(
        kubeconfig=str(kubeconfig),
        context=None,
        identity=identity.read_text(encoding="utf-8").strip(),
    )


def provider(name: str, access: ClusterAccess, opts: pulumi.ResourceOptions) -> kubernetes.Provider:
    """The one provider that every resource of the cluster is registered with."""
    return kubernetes.Provider(
        name,
        kubeconfig=access.kubeconfig,
        context=access.context,
        cluster_identifier=access.identity,
        # Whatever goes into the cluster has the provider, and so waits for these.
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=list(access.after))
        ),
    )
