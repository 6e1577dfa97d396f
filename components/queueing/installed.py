"""A scheduler of gangs in a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from railhead.catalog.versions import Controller
from railhead.components.controllers.charts import Resources


@dataclass(frozen=True, kw_only=True)
class QueueingArgs:
    """The arguments of every scheduler's ``install``.

    Args:
        controller: the scheduler's row in the catalogue.
        resources: what its containers request; None leaves the chart's own.
        pod_groups: whether it also admits pods that no job owns; Kueue's alone.
    """

    controller: Controller
    resources: Resources | None = None
    pod_groups: bool = False


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
