"""Volcano: an annotation in the TrainJob's spec names the Queue, which Trainer's PodGroup gets.

Trainer v2.1.0 and v2.3.0, pkg/runtime/framework/plugins/volcano, and pkg/runtime/core: 2.1 takes
``spec.annotations``, 2.3 the annotations of a runtime patch.
"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.base.names import VOLCANO_QUEUE
from railhead.base.quantity import parse, show
from railhead.kube import volcano
from railhead.launch.asked import Asked, Object, existing
from railhead.launch.patches import patched
from railhead.launch.plan import Plan
from railhead.launch.schedulers.base import Scheduler, needs, room


class Volcano(Scheduler):
    """Volcano, which reads no labels: pods name their scheduler, and their PodGroup the queue."""

    name = "volcano"
    local = False

    def labels(self, plan: Plan) -> Object:
        """Return no labels; the contract refuses what a label of Kueue's would set (``unsaid``)."""
        del plan
        return {}

    def queued(self, plan: Plan, spec: Object) -> Object:
        """Return the annotation, where the cluster's Trainer looks for it."""
        texts = {VOLCANO_QUEUE: plan.queue}
        if plan.placement_field == "podTemplateOverrides":
            return spec | {"annotations": texts}
        return spec | patched(spec, {"metadata": {"annotations": texts}})

    def path(self, plan: Plan) -> str:
        """Return a Queue, which is of no namespace."""
        return volcano.queue_path(plan.queue)

    def check(self, asked: Asked) -> list[Finding]:
        """Return the Queue, its state and what it may have at the most."""
        plan = asked.plan
        result, queue = existing(asked, "queue", self.path(plan), f"Queue {plan.queue}")
        if queue is None:
            return [result]
        if shut := volcano.shut(queue):
            remedy = "wait until it is open again, or name another queue"
            return [Finding(name="queue", passed=False, text=shut, remedy=remedy)]
        short = _short(asked, queue)
        return [result, room(asked.together, f"Queue {plan.queue}", short, "may have at the most")]


def _short(asked: Asked, queue: Object) -> list[str]:
    """Return what the job needs and the queue may never have: beyond its capability or its pool."""
    plan = asked.plan
    most = (queue.get("spec") or {}).get("capability") or {}
    whole = {name: parse(each) * plan.pool.nodes for name, each in plan.pool.capacity.items()}
    short = []
    for resource, need in needs(asked.together).items():
        limits = [parse(most[resource])] if resource in most else []
        limits += [whole[resource]] if resource in whole else []
        if limits and need > min(limits):
            short.append(f"{show(need)} {resource} of {show(min(limits))}")
    return short


SCHEDULER = Volcano()
