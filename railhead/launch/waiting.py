"""Finds why a job waits: its place in the queue, whose jobs hold the quota, when it may start.

The place is Kueue's own (its visibility API, apis/visibility/v1beta2/types.go of v0.16.6), or read
off the Workloads where the user may not use that API. Holders are Workloads that have quota
reserved in the same ClusterQueue, in namespaces that the user may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from railhead.base.quantity import parse, show
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.conditions import condition, holds
from railhead.kube.jobs import JobState

Object = dict[str, Any]
VISIBILITY = "/apis/visibility.kueue.x-k8s.io/v1beta2"
# More than these are counted, not named.
NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A job that holds quota of the queue.

    Attributes:
        job: its name.
        queue: the LocalQueue that it came by, with its namespace.
        amount: how much of the resource that is asked for.
        until: when its own limit of time ends it; None where it has none.
    """

    job: str
    queue: str
    amount: Decimal
    until: datetime | None


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """The reason why a job waits.

    Attributes:
        ahead: jobs before it in its ClusterQueue; None where that is not known.
        ahead_here: those of them in its own queue.
        kueue: whether Kueue itself reported the place.
        resource: the resource of which there is not enough.
        holders: the jobs that hold it, the largest first.
        unseen: namespaces whose Workloads may not be read.
        starts: when enough is free at the latest, by the holders' limits of time; None if unknown.
    """

    ahead: int | None
    ahead_here: int | None
    kueue: bool
    resource: str
    holders: tuple[Holder, ...]
    unseen: tuple[str, ...]
    starts: datetime | None

    def lines(self) -> list[str]:
        """Return the reason in words."""
        texts: list[str] = []
        if self.ahead is not None:
            by = "" if self.kueue else ", by priority and age as far as they may be read"
            here = f", {self.ahead_here} of them of its own queue" if self.ahead else ""
            texts.append(f"place: {_count(self.ahead, 'job')} ahead of it{here}{by}")
        if self.holders:
            named = [_holder(holder, self.resource) for holder in self.holders[:NAMED]]
            more = len(self.holders) - NAMED
            named += [f"and {more} more"] if more > 0 else []
            texts.append(f"held by: {', '.join(named)}")
        if self.unseen:
            texts.append(f"not seen: jobs of {', '.join(self.unseen)}, which you may not read")
        if self.starts is not None:
            also = "; those ahead of it come first" if self.ahead else ""
            texts.append(
                f"may start: by {_clock(self.starts)} at the latest, when limits of time have "
                f"ended enough of them{also}"
            )
        elif self.holders:
            endless = sum(1 for holder in self.holders if holder.until is None)
            texts.append(
                f"may start: nobody can say; {endless} of {_count(len(self.holders), 'holder')} "
                "have no limit of time (`timeout`)"
            )
        return texts

    def to_json(self) -> Object:
        """Return the reason as ``--json`` prints it."""
        return {
            "ahead": self.ahead,
            "ahead_in_own_queue": self.ahead_here,
            "said_by_kueue": self.kueue,
            "resource": self.resource,
            "holders": [
                {
                    "job": holder.job,
                    "queue": holder.queue,
                    "amount": show(holder.amount),
                    "until": holder.until.isoformat() if holder.until else None,
                }
                for holder in self.holders
            ],
            "not_seen": list(self.unseen),
            "may_start": self.starts.isoformat() if self.starts else None,
        }


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _clock(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _holder(one: Holder, resource: str) -> str:
    amount = f", {show(one.amount)} {resource}" if resource else ""
    until = f", until {_clock(one.until)} at most" if one.until else ""
    return f"{one.job} ({one.queue}{amount}{until})"


def read(
    cluster: kube.Cluster, job: Object, state: JobState, namespaces: Sequence[str]
) -> Waiting | None:
    """Return why a queued job waits; None where it has its quota, or nothing of it can be read.

    Args:
        cluster: the cluster of the job.
        job: the TrainJob.
        state: the state of the job.
        namespaces: the namespaces whose Workloads are read, beside its own.
    """
    everywhere = list(dict.fromkeys((state.namespace, *namespaces)))
    seen: list[Object] = []
    unseen: list[str] = []
    for namespace in everywhere:
        try:
            seen += cluster.list(kube.kueue(namespace, "workloads"))
        except kube.ApiError as error:
            if error.status not in (403, 404):
                raise
            unseen.append(namespace)
    uid = job["metadata"]["uid"]
    own = next((entry for entry in seen if _uid(entry) == uid), None)
    if own is None or holds(own, "QuotaReserved"):
        return None
    behind = _cluster_queue(cluster, state)
    resource, needed = _need(own)
    holders = sorted(
        (made for entry in seen if (made := _held(entry, behind, resource)) is not None),
        key=lambda item: (-item.amount, item.job),
    )
    ahead, here, kueue = _place(cluster, state, own, seen)
    free = _free(cluster, behind, resource)
    starts = _starts(holders, needed, free) if not unseen else None
    return Waiting(
        ahead=ahead,
        ahead_here=here,
        kueue=kueue,
        resource=resource,
        holders=tuple(holders),
        unseen=tuple(unseen),
        starts=starts,
    )


def _uid(workload: Object) -> str:
    return str((workload["metadata"].get("labels") or {}).get(jobs.UID_LABEL) or "")


def _cluster_queue(cluster: kube.Cluster, state: JobState) -> str:
    local = cluster.find(kube.kueue(state.namespace, "localqueues", state.queue))
    return str(((local or {}).get("spec") or {}).get("clusterQueue") or "")


def _need(workload: Object) -> tuple[str, Decimal]:
    """Return the GPUs that a Workload asks for, and how many; "" and 0 where it asks for none."""
    total: dict[str, Decimal] = {}
    for pods in (workload.get("spec") or {}).get("podSets") or []:
        count = int(pods.get("count") or 0)
        for container in pods["template"]["spec"].get("containers") or []:
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                total[name] = total.get(name, Decimal(0)) + parse(amount) * count
    gpu = next((name for name in sorted(total) if name.endswith("/gpu")), "")
    return gpu, total.get(gpu, Decimal(0))


def _held(workload: Object, queue: str, resource: str) -> Holder | None:
    """Return what a Workload holds of a ClusterQueue; None if nothing, or once it is finished."""
    reserved, finished = holds(workload, "QuotaReserved"), holds(workload, "Finished")
    admission = (workload.get("status") or {}).get("admission") or {}
    if not reserved or finished or admission.get("clusterQueue") != queue:
        return None
    amount = sum(
        (
            parse((podsetassignment.get("resourceUsage") or {}).get(resource, 0))
            for podsetassignment in admission.get("podSetAssignments") or []
        ),
        Decimal(0),
    )
    if resource and not amount:
        return None
    metadata = workload["metadata"]
    owners = metadata.get("ownerReferences") or [{}]
    return Holder(
        job=str(owners[0].get("name") or metadata["name"]),
        queue=f"{metadata.get('namespace')}/{(workload.get('spec') or {}).get('queueName')}",
        amount=amount,
        until=_until(workload),
    )


def _until(workload: Object) -> datetime | None:
    """Return when Kueue ends it (workload_controller.go, reconcileMaxExecutionTime), or None."""
    most = (workload.get("spec") or {}).get("maximumExecutionTimeSeconds")
    admitted = condition(workload, "Admitted")
    if most is None or admitted.get("status") != "True" or not admitted.get("lastTransitionTime"):
        return None
    before = int((workload.get("status") or {}).get("accumulatedPastExecutionTimeSeconds") or 0)
    begin = datetime.fromisoformat(str(admitted["lastTransitionTime"]))
    return begin + timedelta(seconds=int(most) - before)


def _free(cluster: kube.Cluster, queue: str, resource: str) -> Decimal | None:
    """Return how much of its own quota a ClusterQueue has free; None if it may not be read."""
    from railhead.kube.queues import quota

    result = jobs.readable(cluster, kube.kueue("", "clusterqueues", queue)) if queue else None
    if result is None or resource not in (amounts := quota(result)):
        return None
    nominal, reserved = amounts[resource]
    return max(nominal - reserved, Decimal(0))


def _starts(holders: Iterable[Holder], needed: Decimal, free: Decimal | None) -> datetime | None:
    """Return when time limits alone will have freed enough; None if they never will."""
    if free is None or not needed:
        return None
    have = free
    for until, amount in sorted(
        (holder.until, holder.amount) for holder in holders if holder.until
    ):
        have += amount
        if have >= needed:
            return until
    return None


def visible(cluster: kube.Cluster, namespace: str, queue: str) -> list[Object]:
    """Return what waits in a LocalQueue, as Kueue reports it; empty where it does not."""
    base = f"{VISIBILITY}/namespaces/{namespace}/localqueues"
    try:
        summary = cluster.find(f"{base}/{queue}/pendingworkloads")
    except kube.ApiError as error:
        # The aggregated API may be closed to this user, or down; the Workloads are still there.
        if error.status not in (403, *kube.TRANSIENT):
            raise
        summary = None
    return (summary or {}).get("items") or []


def _place(
    cluster: kube.Cluster, state: JobState, own: Object, seen: Iterable[Object]
) -> tuple[int, int, bool]:
    """Return the jobs ahead in the ClusterQueue and in the own queue, and whether Kueue said so."""
    name = own["metadata"]["name"]
    for item in visible(cluster, state.namespace, state.queue):
        if item["metadata"]["name"] == name:
            return item["positionInClusterQueue"], item["positionInLocalQueue"], True
    waiting = [
        entry
        for entry in seen
        if not holds(entry, "QuotaReserved")
        and not holds(entry, "Finished")
        and (entry.get("spec") or {}).get("active", True)
        and entry["metadata"].get("namespace") == state.namespace
        and (entry.get("spec") or {}).get("queueName") == state.queue
    ]
    before = [entry for entry in waiting if _order(entry) < _order(own)]
    return len(before), len(before), False


def _order(workload: Object) -> tuple[int, str, str]:
    """Return Kueue's order as far as an object shows it: priority first, then age."""
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    metadata = workload["metadata"]
    return -priority, str(metadata.get("creationTimestamp") or ""), metadata["name"]
