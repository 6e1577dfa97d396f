"""Kueue and its queues."""

from __future__ import annotations

import pulumi

from railhead.components.controllers.charts import Chart
from railhead.components.controllers.kueue import Kueue, KueueArgs
from railhead.components.queueing.installed import Queueing, QueueingArgs
from railhead.components.queueing.queues import Queues, QueuesArgs
from railhead.resolve.queues import KueueQueues as Resolved


def install(
    name: str, args: QueueingArgs, queues: Resolved, opts: pulumi.ResourceOptions
) -> Queueing:
    """``<name>-kueue`` and ``<name>-queues``."""
    controller = Kueue(
        f"{name}-kueue",
        KueueArgs(
            chart=Chart.of(args.controller),
            image=args.controller.image,
            tag=args.controller.tag,
            resources=args.resources,
            settings=queues.settings,
            gates={**args.controller.gates, **queues.gates},
            pod_groups=args.pod_groups,
        ),
        opts=opts,
    )
    made = Queues(
        f"{name}-queues",
        QueuesArgs(
            topology=queues.topology,
            levels=queues.levels,
            flavors=list(queues.flavors.values()),
            cluster_queues=queues.cluster_queues,
            cohort=queues.cohort,
            priorities=queues.priorities,
            provisioning=queues.provisioning,
            after=[controller],
        ),
        opts=opts,
    )
    return Queueing(controller=controller, queues=made)
