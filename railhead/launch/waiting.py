"""Why a job waits: its place in the queue, whose jobs hold the quota, and when it may start.

The place is Kueue's own (its visibility API, apis/visibility/v1beta2/types.go of v0.16.6), or read
off the Workloads where that may not be asked. Holders are Workloads that have quota reserved in the
same ClusterQueue, of the namespaces that the user may read.
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
    """Why a job waits.

    Attributes:
        ahead: jobs before it in its ClusterQueue; None where that is not known.
        ahead_here: those of them in its own queue.
        kueue: whether Kueue itself said so.
        resource: of which there is not enough.
        holders: who holds it, the largest first.
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
        """In words."""
        said: list[str] = []
        if self.ahead is not None:
            by = "" if self.kueue else ", by priority and age as far as they may be read"
            here = f", {self.ahead_here} of them of its own queue" if self.ahead else ""
            said.append(f"place: {_count(self.ahead, 'job')} ahead of it{here}{by}")
        if self.holders:
            named = [_holder(one, self.resource) for one in self.holders[:NAMED]]
            more = len(self.holders) - NAMED
            named += [f"and {more} more"] if more > 0 else []
            said.append(f"held by: {', '.join(named)}")
        if self.unseen:
            said.append(f"not seen: jobs of {', '.join(self.unseen)}, which you may not read")
        if self.starts is not None:
            also = "; those ahead of it come first" if self.ahead else ""
            said.append(
                f"may start: by {_clock(self.starts)} at the latest, when limits of time have "
                f"ended enough of them{also}"
            )
        elif self.holders:
            endless = sum(1 for one in self.holders if one.until is None)
            said.append(
                f"may start: nobody can say; {endless} of {_count(len(self.holders), 'holder')} "
                "have no limit of time (`timeout`)"
            )
        return said

    def to_json(self) -> Object:
        """For ``--json``."""
        return {
            "ahead": self.ahead,
            "ahead_in_own_queue": self.ahead_here,
            "said_by_kueue": self.kueue,
            "resource": self.resource,
            "holders": [
                {
                    "job": one.job,
                    "queue": one.queue,
                    "amount": show(one.amount),
                    "until": one.until.isoformat() if one.until else None,
                }
                for one in self.holders
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
    """Why a queued job waits; None where nothing of it can be read.

    Args:
        cluster: where it is.
        job: its TrainJob.
        state: what it is doing.
        namespaces: those whose Workloads are looked at, beside its own.
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
    own = next((one for one in seen if _uid(one) == uid), None)
    if own is None:
        return None
    behind = _cluster_queue(cluster, state)
    resource, needed = _need(own)
    holders = sorted(
        (made for one in seen if (made := _held(one, behind, resource)) is not None),
        key=lambda one: (-one.amount, one.job),
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
    """The GPUs that a Workload asks for, and how many; "" and 0 where it asks for none."""
    total: dict[str, Decimal] = {}
    for pods in (workload.get("spec") or {}).get("podSets") or []:
        count = int(pods.get("count") or 0)
        for container in pods["template"]["spec"].get("containers") or []:
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                total[name] = total.get(name, Decimal(0)) + parse(amount) * count
    gpu = next((name for name in sorted(total) if name.endswith("/gpu")), "")
    return gpu, total.get(gpu, Decimal(0))


def _held(workload: Object, queue: str, resource: str) -> Holder | None:
    """What a Workload holds of a ClusterQueue; None for nothing, or once it is finished."""
    reserved, finished = holds(workload, "QuotaReserved"), holds(workload, "Finished")
    admission = (workload.get("status") or {}).get("admission") or {}
    if not reserved or finished or admission.get("clusterQueue") != queue:
        return None
    amount = sum(
        (
            parse((one.get("resourceUsage") or {}).get(resource, 0))
            for one in admission.get("podSetAssignments") or []
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
    """When Kueue ends it (workload_controller.go, reconcileMaxExecutionTime); None for never."""
    most = (workload.get("spec") or {}).get("maximumExecutionTimeSeconds")
    admitted = condition(workload, "Admitted")
    if most is None or admitted.get("status") != "True" or not admitted.get("lastTransitionTime"):
        return None
    before = int((workload.get("status") or {}).get("accumulatedPastExecutionTimeSeconds") or 0)
    begin = datetime.fromisoformat(str(admitted["lastTransitionTime"]))
    return begin + timedelta(seconds=int(most) - before)


def _free(cluster: kube.Cluster, queue: str, resource: str) -> Decimal | None:
    """What a ClusterQueue has left of its own; None where it may not be read."""
    from railhead.kube.queues import quota

    try:
        found = cluster.find(kube.kueue("", "clusterqueues", queue)) if queue else None
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return None
    if found is None or resource not in (amounts := quota(found)):
        return None
    nominal, reserved = amounts[resource]
    return max(nominal - reserved, Decimal(0))


def _starts(holders: Iterable[Holder], needed: Decimal, free: Decimal | None) -> datetime | None:
    """When limits of time alone have freed enough; None where they never do."""
    if free is None or not needed:
        return None
    have = free
    for until, amount in sorted((one.until, one.amount) for one in holders if one.until):
        have += amount
        if have >= needed:
            return until
    return None


def _place(
    cluster: kube.Cluster, state: JobState, own: Object, seen: Iterable[Object]
) -> tuple[int, int, bool]:
    """Jobs ahead in the ClusterQueue and in the own queue, and whether Kueue said so."""
    name = own["metadata"]["name"]
    base = f"{VISIBILITY}/namespaces/{state.namespace}/localqueues"
    try:
        summary = cluster.find(f"{base}/{state.queue}/pendingworkloads")
    except kube.ApiError as error:
        # The aggregated API may be closed to this user, or down; the Workloads are still there.
        if error.status not in (403, *kube.TRANSIENT):
            raise
        summary = None
    for item in (summary or {}).get("items") or []:
        if item["metadata"]["name"] == name:
            return item["positionInClusterQueue"], item["positionInLocalQueue"], True
    waiting = [
        one
        for one in seen
        if not holds(one, "QuotaReserved")
        and not holds(one, "Finished")
        and (one.get("spec") or {}).get("active", True)
        and one["metadata"].get("namespace") == state.namespace
        and (one.get("spec") or {}).get("queueName") == state.queue
    ]
    before = [one for one in waiting if _order(one) < _order(own)]
    return len(before), len(before), False


def _order(workload: Object) -> tuple[int, str, str]:
    """Kueue's order as far as it is in the object: priority first, then age."""
    priority = int((workload.get("spec") or {}).get("priority") or 0)
    metadata = workload["metadata"]
    return -priority, str(metadata.get("creationTimestamp") or ""), metadata["name"]
