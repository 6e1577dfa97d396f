"""Kueue: a label names the LocalQueue, and the ClusterQueue behind it has the quota."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from railhead.base.finding import Finding
from railhead.base.names import PRIORITY_LABEL, QUEUE_LABEL
from railhead.base.quantity import show
from railhead.kube import client as kube
from railhead.kube.queues import borrowing_limits, quota
from railhead.launch.asked import Asked, Object, existing
from railhead.launch.plan import Plan
from railhead.launch.schedulers.base import Scheduler, needs, room

MAX_SECONDS_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"


class Kueue(Scheduler):
    """Kueue, which takes labels, for any kind of job."""

    name = "kueue"
    local = True

    def labels(self, plan: Plan) -> dict[str, Any]:
        """Return the queue, the priority and the limit of time."""
        # Kueue puts the limit into the Workload of any kind of job, and deactivates it after that
        # (v0.16.2 pkg/controller/jobframework/interface.go, MaximumExecutionTimeSecondsForObject).
        limit = {MAX_SECONDS_LABEL: str(plan.max_seconds)} if plan.max_seconds else {}
        first = {} if plan.priority is None else {PRIORITY_LABEL: plan.priority}
        return {QUEUE_LABEL: plan.queue} | first | limit

    def queued(self, plan: Plan, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the spec unchanged: the label names the queue."""
        del plan
        return spec

    def path(self, plan: Plan) -> str:
        """Return a LocalQueue."""
        return kube.kueue(plan.namespace, "localqueues", plan.queue)

    def check(self, asked: Asked) -> list[Finding]:
        """Return the LocalQueue, then the ClusterQueue behind it with its quota."""
        plan = asked.plan
        what = f"queue {plan.namespace}/{plan.queue}"
        result, local = existing(asked, "queue", self.path(plan), what)
        if local is None:
            return [result]
        name = str((local.get("spec") or {}).get("clusterQueue") or plan.cluster_queue)
        path = kube.kueue("", "clusterqueues", name)
        second, behind = existing(asked, "quota", path, f"ClusterQueue {name}")
        if behind is None:
            return [result, second]
        most = f"has in all of pool {plan.pool.name}"
        parts = [part for part in asked.parts if part.flavor == plan.flavor]
        short = _short(parts, behind)
        return [result, room(parts, f"ClusterQueue {name}", short, most)]


def _short(parts: Sequence[Plan], queue: Object) -> list[str]:
    """Return what roles of one flavor need together and the queue can never give."""
    plan = parts[0]
    amounts = quota(queue, plan.flavor)
    # A queue in a cohort may borrow, up to its limit; of what others leave only Kueue can say.
    borrows = bool((queue.get("spec") or {}).get("cohortName"))
    limits = borrowing_limits(queue, plan.flavor)
    short = []
    for resource, need in needs(parts).items():
        if resource not in amounts and resource == plan.gpu_resource:
            short.append(f"{show(need)} {resource} of none")
        elif resource in amounts and not (borrows and resource not in limits):
            most = amounts[resource][0] + limits.get(resource, Decimal(0))
            if need > most:
                short.append(f"{show(need)} {resource} of {show(most)}")
    return short


SCHEDULER = Kueue()
