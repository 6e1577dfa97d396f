"""Does the queue exist, is it open, and could it ever hold this job?"""

from __future__ import annotations

from decimal import Decimal

from railhead.base.finding import Finding
from railhead.base.quantity import parse, show
from railhead.kube import client as kube
from railhead.kube.queues import borrowing_limits, quota
from railhead.launch.asked import Asked, Object, existing

ORDER = 40


def check(asked: Asked) -> list[Finding]:
    """The LocalQueue, then the ClusterQueue behind it with its quota."""
    plan = asked.plan
    what = f"queue {plan.namespace}/{plan.queue}"
    path = kube.kueue(plan.namespace, "localqueues", plan.queue)
    found, local = existing(asked, "queue", path, what)
    if local is None:
        return [found]
    name = str((local.get("spec") or {}).get("clusterQueue") or plan.cluster_queue)
    path = kube.kueue("", "clusterqueues", name)
    second, behind = existing(asked, "quota", path, f"ClusterQueue {name}")
    if behind is None:
        return [found, second]
    if short := _short(asked, behind):
        text = (
            f"{plan.nodes} nodes need {', '.join(short)} that ClusterQueue {name} has in all of "
            f"pool {plan.pool.name}; the job would wait for ever"
        )
        remedy = "ask for fewer nodes or GPUs, or name another queue"
        return [found, Finding(name="quota", passed=False, text=text, remedy=remedy)]
    text = f"ClusterQueue {name} can hold the job"
    return [found, Finding(name="quota", passed=True, text=text)]


def _short(asked: Asked, queue: Object) -> list[str]:
    """What the job needs and the queue can never give."""
    plan, amounts = asked.plan, quota(queue, asked.plan.flavor)
    # A queue in a cohort may borrow, up to its limit; of what others leave only Kueue can say.
    borrows = bool((queue.get("spec") or {}).get("cohortName"))
    limits = borrowing_limits(queue, plan.flavor)
    short = []
    for resource, each in sorted((plan.resources.get("requests") or {}).items()):
        need = parse(each) * plan.nodes
        if resource not in amounts and resource == plan.gpu_resource:
            short.append(f"{show(need)} {resource} of none")
        elif resource in amounts and not (borrows and resource not in limits):
            most = amounts[resource][0] + limits.get(resource, Decimal(0))
            if need > most:
                short.append(f"{show(need)} {resource} of {show(most)}")
    return short
