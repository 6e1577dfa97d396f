"""Topology, flavors and cluster queues (:mod:`railhead.resolve.queues`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.queueing.priorities import Priorities, PrioritiesArgs
from components.queueing.provisioning import Provisioning, ProvisioningArgs
from railhead.base.names import KUEUE_API
from railhead.resolve.queues import Queues as Resolved


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """Arguments of :class:`Queues`."""

    queues: Resolved
    after: Sequence[pulumi.Resource] = ()


class Queues(pulumi.ComponentResource):
    """ClusterQueues over ResourceFlavors over one Topology."""

    def __init__(
        self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Queues", name, None, opts)
        queues, after = args.queues, list(args.after)
        topology = kubernetes.apiextensions.CustomResource(
            f"{name}-topology",
            api_version=KUEUE_API,
            kind="Topology",
            metadata={"name": queues.topology},
            spec=queues.levels,
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        asked: Sequence[pulumi.Resource] = ()
        if queues.provisioning is not None:
            provisioning = Provisioning(
                f"{name}-provisioning",
                ProvisioningArgs(provisioning=queues.provisioning, after=after),
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
            for flavor in queues.flavors.values()
        ]
        if queues.cohort is not None:
            cohort = kubernetes.apiextensions.CustomResource(
                f"{name}-cohort",
                api_version=KUEUE_API,
                kind="Cohort",
                metadata={"name": queues.cohort.name},
                spec=queues.cohort.spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, *flavors]),
            )
            asked = [*asked, cohort]
        for queue in queues.cluster_queues:
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
            PrioritiesArgs(priorities=queues.priorities, after=after),
            opts=pulumi.ResourceOptions(parent=self),
        )
        named = {pool: flavor.name for pool, flavor in queues.flavors.items()}
        self.register_outputs({"flavors": named})
