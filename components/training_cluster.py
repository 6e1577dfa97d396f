"""A whole training cluster, in the order in which its parts can work and be taken away again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster_access import provider
from components.contract import ContractArgs, PublishedContract
from components.controllers.charts import ControllerArgs, Resources
from components.controllers.jobset import JobSet
from components.controllers.trainer import Trainer
from components.fabric.fabric import Fabric
from components.fabric.objects import FabricArgs
from components.guards.guards import Guards, GuardsArgs
from components.guards.node_gate import NodeGate, NodeGateArgs
from components.namespaces.researchers import Researchers, ResearchersArgs
from components.namespaces.training_namespace import TrainingNamespace, TrainingNamespaceArgs
from components.platform import infrastructure
from components.queueing import INSTALL
from components.queueing.installed import QueueingArgs
from components.runtimes import Runtimes, RuntimesArgs
from components.watching.watching import Watched, WatchedArgs
from railhead.catalog.versions import COMBINATIONS
from railhead.contract import ClusterContract
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import resolve
from railhead.resolve.schedulers import scheduler_of


@dataclass(frozen=True, kw_only=True)
class TrainingClusterArgs:
    """Arguments of :class:`TrainingCluster`; ``adopt`` takes over what an earlier stack left."""

    cluster: Cluster
    adopt: bool = False


class TrainingCluster(pulumi.ComponentResource):
    """Controllers, then what only they can serve, then the namespaces that jobs run in.

    Each part depends on what must be alive to take it away: ``destroy`` closes the training
    namespaces while the scheduler, JobSet and Trainer still run to let go of finalizers, and
    removes Kueue with its aggregated API after the last namespace that the API's absence would
    wedge.

    ``contract``: what the cluster tells its users, known at plan time; ``written`` is known once
    the cluster holds it. ``kubeconfig``: a secret,
    None where the cluster was there before. ``details``: what other projects refer to.
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
        cluster, resolved = args.cluster, resolve(args.cluster)
        combination = COMBINATIONS[cluster.versions].through(cluster.registry_mirrors)
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
        resources = None
        if cluster.controllers is not None:
            resources = Resources(
                cpu=cluster.controllers.cpu,
                memory=cluster.controllers.memory,
                memory_limit=cluster.controllers.memory_limit,
            )
        scheduler = scheduler_of(cluster)
        queueing = INSTALL[scheduler.name](
            name,
            QueueingArgs(
                cluster=cluster,
                controller=scheduler.controller(combination),
                resources=resources,
            ),
            resolved.queues,
            below,
        )
        controller, queues = queueing.controller, queueing.queues
        jobset = JobSet(
            f"{name}-jobset",
            ControllerArgs(controller=combination.jobset, resources=resources),
            opts=below,
        )
        # Trainer looks for JobSet's CRD when it starts, and only then.
        trainer = Trainer(
            f"{name}-trainer",
            ControllerArgs(
                controller=combination.trainer,
                resources=resources,
                after=[jobset, *queueing.before_trainer],
            ),
            opts=below,
        )
        fabric = Fabric(
            f"{name}-fabric",
            FabricArgs(cluster=cluster, combination=combination, after=platform),
            opts=below,
        )
        runtimes = Runtimes(
            f"{name}-runtimes",
            RuntimesArgs(runtimes=resolved.runtimes, after=[*fabric.ready, jobset, trainer]),
            opts=below,
        )
        # After the device plugins, whose resources nodes must offer.
        gate = NodeGate(
            f"{name}-gate", NodeGateArgs(cluster=cluster, after=[*fabric.ready]), opts=below
        )
        # After the runtimes: a guard may take one as its parameter.
        guards = Guards(
            f"{name}-guards", GuardsArgs(guards=resolved.guards, after=[runtimes]), opts=below
        )
        researchers = Researchers(
            f"{name}-researchers",
            ResearchersArgs(access=resolved.access, after=[queues, runtimes]),
            opts=below,
        )
        namespaces = [
            TrainingNamespace(
                f"{name}-namespace-{namespace.name}",
                TrainingNamespaceArgs(
                    cluster=cluster,
                    namespace=namespace,
                    after=[*platform, controller, jobset, trainer, queues, runtimes, guards, gate],
                ),
                opts=below,
            )
            for namespace in resolved.namespaces
        ]
        if resolved.watching is not None:
            Watched(
                f"{name}-watching",
                WatchedArgs(
                    cluster=cluster,
                    combination=combination,
                    watching=resolved.watching,
                    after=[controller, jobset, trainer, *namespaces],
                ),
                opts=below,
            )
        self.contract = resolved.contract
        # Last: whoever can read it can launch.
        published = PublishedContract(
            f"{name}-contract",
            ContractArgs(contract=self.contract, after=[researchers, *namespaces]),
            opts=below,
        )
        self.written = published.written
        self.register_outputs({"contract": self.contract.model_dump(mode="json")})
