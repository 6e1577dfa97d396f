"""Volcano, its queues and priorities (:mod:`railhead.resolve.schedulers.volcano`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import VOLCANO_API
from railhead.components.controllers.charts import Chart
from railhead.components.controllers.volcano import Volcano, VolcanoArgs
from railhead.components.queueing.installed import Queueing, QueueingArgs
from railhead.resolve.schedulers.volcano import VolcanoQueues as Resolved


@dataclass(frozen=True, kw_only=True)
class VolcanoQueuesArgs:
    """Arguments of :class:`VolcanoQueues`.

    Args:
        queues: name -> spec of each Queue.
        priorities: name -> ``value`` and ``description`` of each PriorityClass.
        after: resources that must exist before the queues; Volcano must be there.
    """

    queues: Mapping[str, Mapping[str, Any]]
    priorities: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


class VolcanoQueues(pulumi.ComponentResource):
    """A Queue for each that jobs name, and a PriorityClass for each priority.

    HyperNodes are made of the nodes' labels by Volcano's own controller.
    """

    def __init__(
        self, name: str, args: VolcanoQueuesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:VolcanoQueues", name, None, opts)
        after = pulumi.ResourceOptions(parent=self, depends_on=list(args.after))
        for queue, spec in args.queues.items():
            kubernetes.apiextensions.CustomResource(
                f"{name}-queue-{queue}",
                api_version=VOLCANO_API,
                kind="Queue",
                metadata={"name": queue},
                spec=spec,
                opts=after,
            )
        for priority, fields in args.priorities.items():
            kubernetes.scheduling.v1.PriorityClass(
                f"{name}-priority-{priority}",
                metadata={"name": priority},
                value=fields["value"],
                description=fields["description"],
                # Fixed once it is there (Kubernetes' ValidatePriorityClassUpdate). Pods have a
                # number of their own, and keep it.
                opts=pulumi.ResourceOptions.merge(
                    after,
                    pulumi.ResourceOptions(
                        replace_on_changes=["value"], delete_before_replace=True
                    ),
                ),
            )
        self.register_outputs({"queues": list(args.queues)})


def install(
    name: str, args: QueueingArgs, queues: Resolved, opts: pulumi.ResourceOptions
) -> Queueing:
    """``<name>-volcano`` and ``<name>-queues``; Trainer looks for PodGroups when it starts."""
    row = args.controller
    controller = Volcano(
        f"{name}-volcano",
        VolcanoArgs(
            chart=Chart.of(row),
            image=row.image,
            tag=row.tag,
            scheduler_image=row.operands["scheduler"].repository,
            webhooks_image=row.operands["webhooks"].repository,
            resources=args.resources,
            scheduler=queues.scheduler,
            topology=queues.controller,
        ),
        opts=opts,
    )
    made = VolcanoQueues(
        f"{name}-queues",
        VolcanoQueuesArgs(queues=queues.queues, priorities=queues.priorities, after=[controller]),
        opts=opts,
    )
    return Queueing(controller=controller, queues=made, before_trainer=(controller,))
