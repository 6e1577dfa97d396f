"""A namespace that training runs in, with everything a job in it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import KUEUE_API, TRAINING_LABEL
from railhead.components.namespaces.checkpoints import Checkpoints, CheckpointsArgs
from railhead.components.namespaces.claims import Claims, ClaimsArgs
from railhead.components.namespaces.datasets import Datasets
from railhead.components.namespaces.jobs_account import JobsAccount, JobsAccountArgs
from railhead.components.namespaces.nccl_profile import NcclProfile, NcclProfileArgs
from railhead.components.namespaces.network_policies import (
    NetworkPolicies,
    NetworkPoliciesArgs,
    Traffic,
)
from railhead.components.namespaces.networks import RailNetworks, RailNetworksArgs
from railhead.components.namespaces.roles import roles
from railhead.resolve.namespaces import Namespace


@dataclass(frozen=True, kw_only=True)
class TrainingNamespaceArgs:
    """Arguments of :class:`TrainingNamespace`.

    Args:
        namespace: the namespace's name and what it has for its jobs: NICs' claims, NCCL settings,
            storage, queues, roles, quota (:mod:`railhead.resolve.namespaces`).
        networks: the rails' networks, as :class:`RailNetworksArgs` has them.
        traffic: what the pods of jobs may reach; None leaves the namespace open.
        fabric: what serves the fabric on nodes, whose drivers hold ComputeDomains.
        after: resources that must exist before it, and stay until it is gone: controllers, queues,
            runtimes, guards.
    """

    namespace: Namespace
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    traffic: Traffic | None = None
    fabric: Sequence[pulumi.Resource] = ()
    after: Sequence[pulumi.Resource] = ()


class TrainingNamespace(pulumi.ComponentResource):
    """Namespace, networks, policies, NCCL profile, queues, claims and people's roles.

    Make it depend on the controllers, the queues, the runtimes and the guards: it opens last, and
    when destroyed its queues go first, which the API server refuses while they have jobs, so that
    nothing else is gone then. A namespace with checkpoint claims is left, and its claims in it.

    Attributes:
        namespace: the Namespace.
        kept: whether Pulumi leaves it in the cluster, for the claims in it.
    """

    namespace: kubernetes.core.v1.Namespace
    kept: bool

    def __init__(
        self, name: str, args: TrainingNamespaceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:TrainingNamespace", name, None, opts)
        resolved, namespace = args.namespace, args.namespace.name
        self.kept = bool(resolved.checkpoints or resolved.datasets)
        self.namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                "name": namespace,
                "labels": {
                    TRAINING_LABEL: "true",
                    "railhead.dev/managed": "true",
                    **resolved.fences.labels,
                },
            },
            # With claims in it, it stays for them; everything else in it goes one by one.
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                retain_on_delete=self.kept,
            ),
        )
        goes_with = None if self.kept else self.namespace
        inside = pulumi.ResourceOptions(
            parent=self, depends_on=[self.namespace], deleted_with=goes_with
        )
        networks = RailNetworks(
            f"{name}-networks",
            RailNetworksArgs(namespace=namespace, networks=args.networks, after=[self.namespace]),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
        )
        profile = NcclProfile(
            f"{name}-nccl",
            NcclProfileArgs(
                namespace=namespace, files=resolved.nccl_profile, after=[self.namespace]
            ),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
        )
        opened: list[pulumi.Resource] = [networks, profile]
        if resolved.nic_claims:
            claims = Claims(
                f"{name}-claims",
                ClaimsArgs(
                    namespace=namespace, templates=resolved.nic_claims, after=[self.namespace]
                ),
                opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
            )
            opened.append(claims)
        opened += [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{domain}",
                api_version="resource.nvidia.com/v1beta1",
                kind="ComputeDomain",
                metadata={"name": domain, "namespace": namespace},
                spec=spec,
                # Its driver holds it by a finalizer (dra-driver-nvidia-gpu v0.4.1,
                # computedomain.go), and one edit may remove both. Its definition fixes its spec.
                opts=pulumi.ResourceOptions.merge(
                    inside,
                    pulumi.ResourceOptions(
                        depends_on=list(args.fabric),
                        replace_on_changes=["spec"],
                        delete_before_replace=True,
                    ),
                ),
            )
            for domain, spec in resolved.nvlink_domains.items()
        ]
        policies = NetworkPolicies(
            f"{name}-network-policies",
            NetworkPoliciesArgs(namespace=namespace, traffic=args.traffic, after=[self.namespace]),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
        )
        checkpoints = Checkpoints(
            f"{name}-checkpoints",
            CheckpointsArgs(
                namespace=namespace, claims=resolved.checkpoints, after=[self.namespace]
            ),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
        )
        if resolved.datasets:
            datasets = Datasets(
                f"{name}-datasets",
                CheckpointsArgs(
                    namespace=namespace, claims=resolved.datasets, after=[self.namespace]
                ),
                opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
            )
            opened.append(datasets)
        quota: Any = dict(resolved.fences.quota)
        objects = kubernetes.core.v1.ResourceQuota(
            f"{name}-objects",
            metadata={"name": "railhead-objects", "namespace": namespace},
            spec=quota,
            opts=inside,
        )
        account = JobsAccount(
            f"{name}-jobs",
            JobsAccountArgs(
                namespace=namespace,
                pull_secrets=resolved.fences.pull_secrets,
                after=[self.namespace],
            ),
            opts=pulumi.ResourceOptions(parent=self, deleted_with=goes_with),
        )
        opened += [policies, checkpoints, objects, account]
        opened += roles(name, namespace, resolved.access, inside)
        # Last to open and first to close: the API server refuses to delete a queue that has jobs
        # (railhead.resolve.keepers), and what those need must still be there then.
        queues = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-queue-{queue}",
                api_version=KUEUE_API,
                kind="LocalQueue",
                metadata={"name": queue, "namespace": namespace},
                spec=spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[self.namespace, *opened],
                    # Fixed once it is there (kueue, apis/kueue/v1beta2, LocalQueueSpec), and so is
                    # the queue's name: the old one goes first.
                    replace_on_changes=["spec.clusterQueue"],
                    delete_before_replace=True,
                ),
            )
            for queue, spec in resolved.queues.items()
        ]
        for claim, spec in resolved.retention.items():
            job: Any = spec
            kubernetes.batch.v1.CronJob(
                f"{name}-retention-{claim}",
                metadata={"name": f"{claim}-retention", "namespace": namespace},
                spec=job,
                opts=pulumi.ResourceOptions.merge(
                    inside, pulumi.ResourceOptions(depends_on=[*opened, *queues])
                ),
            )
        self.register_outputs({"namespace": namespace})
