"""Volcano's objects of a job: its PodGroup, and the PodGroup's Queue.

Volcano v1.15.1, staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from railhead.base.names import VOLCANO_API, VOLCANO_QUEUE
from railhead.base.quantity import parse, show
from railhead.kube.conditions import condition

Object = dict[str, Any]


def queue_path(name: str) -> str:
    """Return the path of a Queue."""
    return f"/apis/{VOLCANO_API}/queues/{quote(name, safe='')}"


def groups_path(namespace: str) -> str:
    """Return the path of a namespace's PodGroups; a TrainJob's has its name."""
    return f"/apis/{VOLCANO_API}/namespaces/{quote(namespace, safe='')}/podgroups"


def queue_of(job: Object) -> str:
    """Return the Queue that a TrainJob names; empty for a job that is not Volcano's."""
    spec = job.get("spec") or {}
    annotations = [spec.get("annotations") or {}]
    for patch in spec.get("runtimePatches") or []:
        template = (patch.get("trainingRuntimeSpec") or {}).get("template") or {}
        annotations.append((template.get("metadata") or {}).get("annotations") or {})
    return next(
        (str(row[VOLCANO_QUEUE]) for row in reversed(annotations) if VOLCANO_QUEUE in row), ""
    )


def members(group: Object | None) -> int | None:
    """Return how many pods are bound all or nothing; None before the PodGroup exists."""
    count = ((group or {}).get("spec") or {}).get("minMember")
    return int(count) if count else None


def requests(group: Object | None) -> Object:
    """Return the requests of each pod of a PodGroup, assuming that all are the same."""
    count, spec = members(group), (group or {}).get("spec") or {}
    total = spec.get("minResources") or {}
    return {name: show(parse(amount) / count) for name, amount in total.items()} if count else {}


def waits(group: Object | None) -> bool:
    """Return whether the gang is not bound yet."""
    phase = ((group or {}).get("status") or {}).get("phase") or "Pending"
    return group is not None and phase in ("Pending", "Inqueue")


def shut(queue: Object) -> str:
    """Return a sentence if a Queue takes no jobs; empty if it takes them."""
    state = (queue.get("status") or {}).get("state") or "Open"
    name = queue["metadata"]["name"]
    return "" if state == "Open" else f"Queue {name} is {state.lower()}, and takes no jobs"


def charged(queue: Object, resource: str) -> str:
    """Return a Queue's amount of a resource, and its limit, in words."""
    taken = ((queue.get("status") or {}).get("allocated") or {}).get(resource, "0")
    most = ((queue.get("spec") or {}).get("capability") or {}).get(resource)
    has = f"queue {queue['metadata']['name']} has {taken}"
    return f"{has} of {most} at most" if most else has


def reason(group: Object | None, queue: Object | None) -> str:
    """Return why a gang is not bound: its queue's state, else the scheduler's own words."""
    if group is None:
        return "Trainer has not made its PodGroup yet"
    if queue is not None and (words := shut(queue)):
        return words
    unschedulable = condition(group, "Unschedulable")
    if unschedulable.get("status") == "True":
        return f"Volcano: {unschedulable.get('message') or unschedulable.get('reason')}"
    return "Volcano has not said why yet"
