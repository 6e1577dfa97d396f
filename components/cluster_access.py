"""The engine's way to the cluster: a kubeconfig's path, or its content as a secret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of


@dataclass(frozen=True, kw_only=True)
class ClusterAccess:
    """A reachable cluster.

    Args:
        kubeconfig: the path of a kubeconfig, or its content as a secret.
        context: the kubeconfig's context; None takes its current one.
        identity: names the cluster for good: resources are replaced when it changes, and only then,
            however often its address or its credentials do.
        after: resources that must exist before anything goes into the cluster, and stay until it is
            out.
    """

    kubeconfig: pulumi.Input[str]
    context: str | None
    identity: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


def standing(cluster: Cluster) -> ClusterAccess:
    """Return a cluster that is there already, as its platform finds it.

    Raises:
        PrerequisiteError: it is not there; names what to run.
    """
    result = platform_of(cluster).access(cluster)
    if result is None:
        raise TypeError(f"platform {cluster.platform.kind!r} makes its own cluster")
    return ClusterAccess(
        kubeconfig=str(result.kubeconfig), context=result.context, identity=result.identity
    )


def exec_kubeconfig(
    name: str, server: Mapping[str, str], command: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a kubeconfig of one cluster in which a command gets a token: no credential is in it.

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


def provider(
    name: str, access: ClusterAccess, opts: pulumi.ResourceOptions, *, adopt: bool = False
) -> kubernetes.Provider:
    """Return the one provider that every resource of the cluster is registered with.

    ``adopt``: what an earlier stack left, such as claims and their namespaces, is taken over.
    """
    return kubernetes.Provider(
        name,
        kubeconfig=access.kubeconfig,
        context=access.context,
        cluster_identifier=access.identity,
        # What another client has written into a field of ours is taken back by `up --refresh`;
        # otherwise the API server refuses the apply as a conflict (docs/drift.md).
        enable_patch_force=True,
        # By default a ConfigMap whose data changes is deleted and recreated (pulumi-kubernetes
        # 4.34.2, `forceNewProperties`): no pod that mounts it starts in between, or after an `up`
        # that ends there. Running pods get the new files either way: kubelet reads it by name.
        enable_config_map_mutable=True,
        upsert_existing_objects=adopt or None,
        # Whatever goes into the cluster has the provider, and so waits for these.
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(depends_on=list(access.after))
        ),
    )
