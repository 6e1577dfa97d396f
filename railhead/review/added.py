"""Judges Kubernetes objects that a program adds beside what the stack's file makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from railhead.base.quantity import parse
from railhead.review.commands import commands
from railhead.review.compare import Change
from railhead.review.judged import Judged, quoted
from railhead.review.objects import WORKLOADS, Rule
from railhead.review.rows import several, short

_DELETES = re.compile(r"\brm\s|\s-delete\b|\bunlink\b|\brmtree\b")
_QUEUE = "kueue.x-k8s.io/queue-name"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
# Made by every job, or the jobs themselves.
_OF_JOBS = ("*", "pods", "jobs", "jobsets", "trainjobs", "workloads")


def queues(change: Change, *, code: bool, **_: Any) -> Iterator[Judged]:
    """Yield quota that is given out beside the stack's own queues."""
    spec = change.now.get("spec") or {}
    if not code or change.kind != "added":
        return
    rows = [
        row
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for row in flavor.get("resources") or ()
        if "/" in str(row.get("name"))
    ]
    quotas = [f"{row.get('nominalQuota')} {row['name']}" for row in rows]
    if quotas:
        text = f"gives out {', '.join(quotas)} beside the quotas that the pools' nodes back"
        yield Judged("refuse", "quota", text, "gangs that are admitted and find no nodes")


def webhooks(change: Change, **_: Any) -> Iterator[Judged]:
    """Yield webhooks without which no pod or job is made, and others that see them."""
    if not change.now:
        return
    known = change.was.get("webhooks") or ()
    for hook in change.now.get("webhooks") or ():
        if hook in known:
            continue
        seen = {r for rule in hook.get("rules") or () for r in rule.get("resources") or ()}
        seen &= set(_OF_JOBS)
        # `Fail` is the API's default (admissionregistration.k8s.io/v1, types.go).
        fails = hook.get("failurePolicy", "Fail") == "Fail"
        narrowed = hook.get("namespaceSelector") or hook.get("objectSelector")
        if seen and fails and not narrowed:
            text = f"is asked about all {short(sorted(seen))}: while it is away none is made"
            yield Judged("refuse", "jobs", text, "everyone whose job starts meanwhile")
        elif seen:
            yield Judged("ask", "jobs", f"the webhook sees or changes {short(sorted(seen))}")


def priorities(change: Change, **_: Any) -> Iterator[Judged]:
    """Yield a class that every pod without one gets."""
    if change.kind == "added" and change.now.get("globalDefault") is True:
        text = f"is everyone's: each pod without a class is worth {change.now.get('value')}"
        yield Judged("refuse", "quota", text, "pods that it evicts, controllers among them")


def classes(change: Change, **_: Any) -> Iterator[Judged]:
    """Yield a storage class that claims without one get."""
    notes = _metadata(change, "annotations")
    if change.kind == "added" and str(notes.get(_DEFAULT_CLASS)) == "true":
        yield Judged("ask", "data", "is the class of every claim that names none")


def routes(change: Change, **_: Any) -> Iterator[Judged]:
    """Yield a way in from outside of the cluster."""
    if change.kind == "added":
        yield Judged("ask", "network", "lets requests in from outside of the cluster")


def apis(change: Change, **_: Any) -> Iterator[Judged]:
    """Yield a server that answers for the API server."""
    if change.kind == "added":
        text = "answers a part of the API: while it is away no namespace can be deleted"
        yield Judged("ask", "jobs", text)


def claims(change: Change, *, code: bool, own: Collection[str] = (), **_: Any) -> Iterator[Judged]:
    """Yield claims that added pods may write to, and so delete checkpoints from.

    ``own``: names of claims that come with them.
    """
    if not code or change.kind != "added":
        return
    below = list(_mappings(change.now.get("spec")))
    deleting = next((line for line in _lines(below) if _DELETES.search(line)), "")
    for name in (name for name in _written(below) if name not in own):
        if deleting:
            text = f"deletes files of claim {name}: it runs {short(deleting)}"
            yield Judged("refuse", "data", text, "runs that resume from them")
        else:
            text = f"mounts claim {name}, not read-only: what it runs can delete"
            yield Judged("ask", "data", f"{text} every checkpoint there", "runs that resume")


def ran(change: Change, *, code: bool, **_: Any) -> Iterator[Judged]:
    """Yield commands of added pods that delete or open something."""
    if code and change.kind == "added":
        for _index, line, row in commands(list(_lines(_mappings(change.now.get("spec"))))):
            text = f"runs {quoted(line, 120)}: {row.does}"
            yield Judged(row.level, row.loss, text, "nobody, until it has run")


def _written(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each claim among the rows that a container mounts to write to it."""
    mounts = {row.get("name") for row in rows if "mountPath" in row and not row.get("readOnly")}
    for row in rows:
        claim = row.get("persistentVolumeClaim")
        if isinstance(claim, Mapping) and not claim.get("readOnly") and row.get("name") in mounts:
            yield str(claim.get("claimName"))


def _lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each line that a container among the rows runs."""
    for row in rows:
        words = [str(w) for key in ("command", "args") for w in several(row.get(key))]
        yield from " ".join(words).splitlines()


def daemons(change: Change, *, code: bool, **_: Any) -> Iterator[Judged]:
    """Yield pods that an added DaemonSet puts beside those of jobs."""
    if code and change.kind == "added":
        requests = [
            f"{name} {amount}"
            for row in _mappings(change.now.get("spec"))
            # The API server takes limits for requests that are absent.
            for name, amount in (row.get("requests") or row.get("limits") or {}).items()
        ]
        taken = short(requests) if requests else "what it finds"
        text = f"runs on every node that it tolerates, and takes {taken} of it"
        yield Judged("ask", "jobs", text, "jobs that need the whole of a node, and wait")


def devices(change: Change, *, code: bool, **_: Any) -> Iterator[Judged]:
    """Yield devices that added pods take without a queue, and so past every quota."""
    if not code or change.kind != "added" or _metadata(change, "labels").get(_QUEUE):
        return
    taken = sorted(set(_devices(change.now.get("spec"))))
    if taken:
        text = f"takes {', '.join(taken)} a pod, past every quota: Kueue counts them as free"
        yield Judged("refuse", "quota", text, "gangs that are admitted and find no nodes")


def _devices(value: Any) -> Iterator[str]:
    """Yield each amount of a device that a container below a value asks for."""
    for row in _mappings(value):
        limits = row.get("limits")
        for name, amount in limits.items() if isinstance(limits, Mapping) else ():
            if "/" in name and parse(str(amount)):
                yield f"{amount} {name}"


def _metadata(change: Change, key: str) -> Mapping[str, Any]:
    """Return an object's labels or annotations; none where its metadata is not known."""
    metadata = change.now.get("metadata")
    return (metadata.get(key) if isinstance(metadata, Mapping) else None) or {}


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield each mapping below a value, and the value if it is one."""
    if isinstance(value, Mapping):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value
    for item in inner if isinstance(value, Mapping | list) else ():
        yield from _mappings(item)


ADDED: Mapping[str, tuple[Rule, ...]] = {
    "ClusterQueue": (queues,),
    "Cohort": (queues,),
    "MutatingWebhookConfiguration": (webhooks,),
    "ValidatingWebhookConfiguration": (webhooks,),
    "PriorityClass": (priorities,),
    "StorageClass": (classes,),
    "Ingress": (routes,),
    "Gateway": (routes,),
    "HTTPRoute": (routes,),
    "APIService": (apis,),
    **dict.fromkeys(WORKLOADS, (devices, claims, ran)),
    "DaemonSet": (devices, claims, ran, daemons),
}
#: Kinds that do nothing by themselves, or that the policy pack judges.
QUIET = (
    *("CustomResourceDefinition", "PersistentVolume", "PersistentVolumeClaim", "PodMonitor"),
    *("ResourceFlavor", "ServiceAccount", "ServiceMonitor", "Topology", "WorkloadPriorityClass"),
)
