"""Topology, flavors and cluster queues (:mod:`railhead.resolve.queues`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import KUEUE_API
from railhead.components.queueing.priorities import Priorities, PrioritiesArgs
from railhead.components.queueing.provisioning import Provisioning, ProvisioningArgs
from railhead.resolve.queues import ClusterQueue, Cohort, Flavor
from railhead.resolve.queues import Provisioning as Resolved


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """Arguments of :class:`Queues`.

    Args:
        topology: name of the Topology.
        levels: the Topology's spec: the node labels that place gangs, from the widest to the host.
        flavors: a ResourceFlavor for each pool: its labels and tolerations.
        cluster_queues: the ClusterQueues with their quotas.
        cohort: the Cohort in which the queues borrow from each other; None without.
        priorities: the WorkloadPriorityClasses: name -> ``value`` and ``description``.
        provisioning: how Kueue asks for nodes; None where all are there or come by themselves.
        after: resources that must exist before the queues; Kueue must be there.
    """

    topology: str
    levels: Mapping[str, Any]
    flavors: Sequence[Flavor]
    cluster_queues: Sequence[ClusterQueue]
    cohort: Cohort | None = None
    priorities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provisioning: Resolved | None = None
    after: Sequence[pulumi.Resource] = ()


class Queues(pulumi.ComponentResource):
    """Kueue's ClusterQueues over ResourceFlavors over one Topology, and its priorities."""

    def __init__(
        self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Queues", name, None, opts)
        after = list(args.after)
        topology = kubernetes.apiextensions.CustomResource(
            f"{name}-topology",
            api_version=KUEUE_API,
            kind="Topology",
            metadata={"name": args.topology},
            spec=args.levels,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        asked: Sequence[pulumi.Resource] = ()
        if args.provisioning is not None:
            provisioning = Provisioning(
                f"{name}-provisioning",
                ProvisioningArgs(provisioning=args.provisioning, after=after),
                opts=pulumi.ResourceOptions(parent=self),
            )
            asked = provisioning.ready
        flavors = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-flavor-{flavor.pool}",
                api_version=KUEUE_API,
                kind="ResourceFlavor",
                metadata={"name": flavor.name},
                spec=flavor.spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, topology]),
            )
            for flavor in args.flavors
        ]
        if args.cohort is not None:
            cohort = kubernetes.apiextensions.CustomResource(
                f"{name}-cohort",
                api_version=KUEUE_API,
                kind="Cohort",
                metadata={"name": args.cohort.name},
                spec=args.cohort.spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, *flavors]),
            )
            asked = [*asked, cohort]
        for queue in args.cluster_queues:
            kubernetes.apiextensions.CustomResource(
                f"{name}-cluster-queue-{queue.name}",
                api_version=KUEUE_API,
                kind="ClusterQueue",
                metadata={"name": queue.name},
                spec=queue.spec,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[*after, *asked, *flavors],
                    # Kueue holds it until its last job has given its quota back.
                    custom_timeouts=pulumi.CustomTimeouts(delete="2m"),
                ),
            )
        Priorities(
            f"{name}-priority",
            PrioritiesArgs(priorities=args.priorities, after=after),
            opts=pulumi.ResourceOptions(parent=self),
        )
        named = {flavor.pool: flavor.name for flavor in args.flavors}
        self.register_outputs({"flavors": named})
