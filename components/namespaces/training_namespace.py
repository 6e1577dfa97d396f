"""A namespace that training runs in, with everything a job in it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.namespaces.checkpoints import Checkpoints, CheckpointsArgs
from components.namespaces.claims import Claims, ClaimsArgs
from components.namespaces.nccl_profile import NcclProfile, NcclProfileArgs
from components.namespaces.network_policies import NetworkPolicies, NetworkPoliciesArgs
from components.namespaces.networks import RailNetworks, RailNetworksArgs
from components.namespaces.roles import roles
from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.model.cluster import Cluster
from railhead.resolve.namespaces import Namespace


@dataclass(frozen=True, kw_only=True)
class TrainingNamespaceArgs:
    """Arguments of :class:`TrainingNamespace`; ``namespace`` is one of the cluster's."""

    cluster: Cluster
    namespace: Namespace
    after: Sequence[pulumi.Resource] = ()


class TrainingNamespace(pulumi.ComponentResource):
    """Namespace, networks, policies, NCCL profile, queues, claims and people's roles.

    Make it depend on the controllers, the queues, the runtimes and the guards: it opens last, and
    when destroyed it takes every job away while the controllers that hold finalizers still run.
    """

    namespace: kubernetes.core.v1.Namespace

    def __init__(
        self, name: str, args: TrainingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:TrainingNamespace", name, None, opts)
        cluster, resolved, namespace = args.cluster, args.namespace, args.namespace.name
        self.namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": namespace,
                "labels": {TRAINING_LABEL: "true", "railhead.dev/managed": "true"},
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        # What is in the namespace goes with it: one by one, a claim would wait for ever for the
        # jobs that still use it, which nobody but the namespace takes away.
        inside = pulumi.ResourceOptions(
            parent=self, depends_on=[self.namespace], deleted_with=self.namespace
        )
        RailNetworks(
            f"{name}-networks",
            RailNetworksArgs(namespace=namespace, cluster=cluster, after=[self.namespace]),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.namespace),
        )
        NcclProfile(
            f"{name}-nccl",
            NcclProfileArgs(
                namespace=namespace, files=resolved.nccl_profile, after=[self.namespace]
            ),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.namespace),
        )
        if resolved.nic_claims:
            Claims(
                f"{name}-claims",
                ClaimsArgs(
                    namespace=namespace, templates=resolved.nic_claims, after=[self.namespace]
                ),
                opts=pulumi.ResourceOptions(parent=self, deleted_with=self.namespace),
            )
        NetworkPolicies(
            f"{name}-network-policies",
            NetworkPoliciesArgs(cluster=cluster, namespace=namespace, after=[self.namespace]),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.namespace),
        )
        Checkpoints(
            f"{name}-checkpoints",
            CheckpointsArgs(
                namespace=namespace, claims=resolved.checkpoints, after=[self.namespace]
            ),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=self.namespace),
        )
        for queue, spec in resolved.queues.items():
            kubernetes.apiextensions.CustomResource(
                f"{name}-queue-{queue}",
                api_version=KUEUE_API,
                kind="LocalQueue",
                metadata={"name": queue, "namespace": namespace},
                spec=spec,
                opts=inside,
            )
        roles(name, namespace, resolved.access, inside)
        self.register_outputs({"namespace": namespace})
