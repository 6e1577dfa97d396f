"""A whole training cluster, in the order in which its parts can work and be taken away again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components import arguments
from railhead.components.cluster_access import provider
from railhead.components.contract import ContractArgs, PublishedContract
from railhead.components.controllers.jobset import JobSet
from railhead.components.controllers.trainer import Trainer
from railhead.components.fabric.fabric import Fabric
from railhead.components.guards.guards import Guards, GuardsArgs
from railhead.components.guards.node_gate import NodeGate
from railhead.components.job_owners import JobOwners, JobOwnersArgs
from railhead.components.namespaces.researchers import Researchers, ResearchersArgs
from railhead.components.namespaces.training_namespace import (
    TrainingNamespace,
    TrainingNamespaceArgs,
)
from railhead.components.platform import infrastructure
from railhead.components.queueing import INSTALL
from railhead.components.runtimes import Runtimes, RuntimesArgs
from railhead.components.watching.watching import Watched
from railhead.contract import ClusterContract
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import Resolved, resolve
from railhead.resolve.schedulers import scheduler_of


@dataclass(frozen=True, kw_only=True)
class TrainingClusterArgs:
    """Arguments of :class:`TrainingCluster`.

    Args:
        cluster: the whole cluster, as a stack's file has it; :func:`railhead.config.parse` reads
            one and refuses what cannot work.
        resolved: what :func:`railhead.resolve.cluster.resolve` returned for the cluster, if the
            program has called it; else it is called here.
        adopt: whether objects that an earlier stack left in the cluster are taken over.
    """

    cluster: Cluster
    resolved: Resolved | None = None
    adopt: bool = False


class TrainingCluster(pulumi.ComponentResource):
    """Controllers, then what only they can serve, then the namespaces that jobs run in.

    Each part depends on what must be alive to take it away: ``destroy`` closes the training
    namespaces while the scheduler, JobSet and Trainer still run to let go of finalizers, and
    removes Kueue with its aggregated API after the last namespace that the API's absence would
    wedge.

    Attributes:
        contract: what the cluster tells its users, known at plan time.
        written: id of the contract's ConfigMap, known once the cluster holds it.
        kubeconfig: a secret; None where the cluster was there before.
        details: ids that other projects refer to, such as ``vpc_id``; no secrets.
        provider: the Kubernetes provider that everything in the cluster is made with.
    """

    contract: ClusterContract
    written: pulumi.Output[str]
    kubeconfig: pulumi.Output[str] | None
    details: Mapping[str, pulumi.Input[str]]
    provider: kubernetes.Provider

    def __init__(
        self, name: str, args: TrainingClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:TrainingCluster", name, None, opts)
        cluster, resolved = args.cluster, args.resolved or resolve(args.cluster)
        below_kubernetes = infrastructure(cluster, pulumi.ResourceOptions(parent=self))
        self.kubeconfig = below_kubernetes.kubeconfig
        self.details = below_kubernetes.details
        self.provider = provider(
            f"{name}-kubernetes",
            below_kubernetes.access,
            pulumi.ResourceOptions(parent=self),
            adopt=args.adopt,
        )

        # A component's own `depends_on` does not reach its children: what must come first is an
        # argument, and each child says it for itself.
        below = pulumi.ResourceOptions(parent=self, providers=[self.provider])

        platform = below_kubernetes.inside(f"{name}-platform", opts=below)
        queueing = INSTALL[scheduler_of(cluster).name](
            name, arguments.queueing(cluster), resolved.queues, below
        )
        controller, queues = queueing.controller, queueing.queues
        jobset = JobSet(f"{name}-jobset", arguments.jobset(cluster), opts=below)
        # Trainer looks for JobSet's CRD when it starts, and only then.
        trainer = Trainer(
            f"{name}-trainer",
            arguments.trainer(cluster, [jobset, *queueing.before_trainer]),
            opts=below,
        )
        fabric = Fabric(f"{name}-fabric", arguments.fabric(cluster, platform), opts=below)
        runtimes = Runtimes(
            f"{name}-runtimes",
            RuntimesArgs(
                runtimes=arguments.runtimes(resolved.runtimes),
                after=[*fabric.ready, jobset, trainer],
            ),
            opts=below,
        )
        # After the device plugins, whose resources nodes must offer.
        gate = NodeGate(f"{name}-gate", arguments.gate(cluster, [*fabric.ready]), opts=below)
        # After the runtimes: a guard may take one as its parameter.
        guards = Guards(
            f"{name}-guards", GuardsArgs(guards=resolved.guards, after=[runtimes]), opts=below
        )
        researchers = Researchers(
            f"{name}-researchers",
            ResearchersArgs(access=resolved.access, after=[queues, runtimes]),
            opts=below,
        )
        after = [*platform, controller, jobset, trainer, queues, runtimes, guards, gate]
        namespaces: dict[str, TrainingNamespace] = {}
        for namespace in resolved.namespaces:
            made = TrainingNamespace(
                f"{name}-namespace-{namespace.name}",
                TrainingNamespaceArgs(
                    namespace=namespace,
                    networks=arguments.networks(cluster),
                    traffic=arguments.traffic(cluster, namespace.name),
                    fabric=fabric.ready,
                    after=[*after, *below_kubernetes.of_namespaces.get(namespace.name, ())],
                ),
                opts=below,
            )
            if not namespaces:
                # The others wait for the first: hundreds of objects are named once, not in each.
                # Not so runtimes: an edit may remove one with a namespace whose TrainJobs hold it,
                # and the engine then heeds edges of what goes alone (pulumi v3.250.0,
                # step_generator.go, ScheduleDeletes).
                after = [made.namespace, runtimes]
            namespaces[namespace.name] = made
        if resolved.watching is not None:
            Watched(
                f"{name}-watching",
                arguments.watched(
                    cluster, resolved.watching, [controller, jobset, trainer, *namespaces.values()]
                ),
                opts=below,
            )
        self.contract = resolved.contract
        # Last: anyone who can read it can launch.
        published = PublishedContract(
            f"{name}-contract",
            ContractArgs(contract=self.contract, after=[researchers, *namespaces.values()]),
            opts=below,
        )
        # `destroy` begins with these, and stops there while a job runs.
        ended = Guards(
            f"{name}-ending", GuardsArgs(guards=resolved.ending, after=[published]), opts=below
        )
        JobOwners(
            f"{name}-jobs",
            JobOwnersArgs(
                # A namespace that goes takes its jobs along; from one that stays they go first, as
                # in `destroy`.
                namespaces={
                    namespace: [made, runtimes] if made.kept else []
                    for namespace, made in namespaces.items()
                },
                after=[ended],
            ),
            opts=below,
        )
        self.written = published.written
        self.register_outputs({"contract": self.contract.model_dump(mode="json")})
