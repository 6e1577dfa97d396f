"""A scheduler of gangs in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components.controllers.charts import Resources
from railhead.catalog.versions import Controller
from railhead.model.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class QueueingArgs:
    """What every scheduler is installed from; ``resources`` None leaves the chart's own."""

    cluster: Cluster
    controller: Controller
    resources: Resources | None


@dataclass(frozen=True, kw_only=True)
class Queueing:
    """A scheduler.

    Args:
        controller: depend on it to have its webhooks answer.
        queues: what jobs wait in.
        before_trainer: what Trainer looks for when it starts, and only then.
    """

    controller: pulumi.Resource
    queues: pulumi.Resource
    before_trainer: tuple[pulumi.Resource, ...] = ()
