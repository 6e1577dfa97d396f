"""Kueue and its queues."""

from __future__ import annotations

import pulumi

from components.controllers.kueue import Kueue, KueueArgs
from components.queueing.installed import Queueing, QueueingArgs
from components.queueing.queues import Queues, QueuesArgs
from railhead.resolve.queues import Queues as Resolved


def install(
    name: str, args: QueueingArgs, queues: Resolved, opts: pulumi.ResourceOptions
) -> Queueing:
    """``<name>-kueue`` and ``<name>-queues``."""
    controller = Kueue(
        f"{name}-kueue",
        KueueArgs(
            controller=args.controller,
            resources=args.resources,
            settings=queues.settings,
            gates=queues.gates,
            pod_groups=args.cluster.pod_groups,
        ),
        opts=opts,
    )
    made = Queues(f"{name}-queues", QueuesArgs(queues=queues, after=[controller]), opts=opts)
    return Queueing(controller=controller, queues=made)
