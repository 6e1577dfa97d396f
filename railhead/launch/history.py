"""The history of a job in the order of time, from the conditions and events of its objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.launch import insight
from railhead.launch.logs import claimed

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Happening:
    """One thing that happened.

    Attributes:
        at: when, RFC 3339.
        what: the kind of the object that it happened to, such as ``Workload``.
        reason: in one word, as the controller gave it.
        text: in words.
        warning: whether the controller thought that something is wrong.
    """

    at: str
    what: str
    reason: str
    text: str
    warning: bool = False

    def to_json(self) -> Object:
        """Return the event as ``--json`` prints it."""
        return {
            "at": self.at,
            "object": self.what,
            "reason": self.reason,
            "text": self.text,
            "warning": self.warning,
        }


def _conditions(kind: str, body: Object) -> Iterable[Happening]:
    for condition in (body.get("status") or {}).get("conditions") or []:
        negated = "" if condition.get("status") == "True" else "not "
        yield Happening(
            at=str(condition.get("lastTransitionTime") or ""),
            what=kind,
            reason=f"{negated}{condition.get('type')}",
            text=str(condition.get("message") or condition.get("reason") or ""),
            warning=condition.get("type") in ("Failed", "Evicted")
            and condition.get("status") == "True",
        )


def _events(kind: str, events: Iterable[Object]) -> Iterable[Happening]:
    for event in events:
        times = int(event.get("count") or 1)
        name = (event.get("involvedObject") or {}).get("name") or ""
        yield Happening(
            at=str(event.get("lastTimestamp") or event.get("eventTime") or ""),
            what=f"{kind} {name}".strip(),
            reason=str(event.get("reason") or ""),
            text=str(event.get("message") or "") + (f" ({times} times)" if times > 1 else ""),
            warning=event.get("type") == "Warning",
        )


def read(cluster: kube.Cluster, job: Object, state: jobs.JobState) -> list[Happening]:
    """Return everything that is still known of a job, oldest first; events last about an hour."""
    namespace, name = state.namespace, state.name
    selector = f"{jobs.UID_LABEL}={state.uid}"
    workloads = jobs.allowed(cluster, kube.kueue(namespace, "workloads"), selector=selector)
    alone = job.get("kind") == jobs.JOBSET
    child = None if alone else cluster.find(kube.jobset(namespace, name))
    objects = [
        (jobs.JOBSET if alone else "TrainJob", job),
        *(("Workload", workload) for workload in workloads),
    ]
    objects += [("JobSet", child)] if child else []
    results = [
        Happening(
            at=str(body["metadata"].get("creationTimestamp") or ""),
            what=kind,
            reason="Created",
            text=str(body["metadata"]["name"]),
        )
        for kind, body in objects
    ]
    for kind, body in objects:
        results += _conditions(kind, body)
    uids = [(kind, body["metadata"]["uid"]) for kind, body in objects]
    uids += [("Pod", node.uid) for node in state.nodes]
    for kind, uid in uids:
        path = kube.core(namespace, "events")
        events = jobs.allowed(cluster, path, fields=f"involvedObject.uid={uid}")
        results += _events(kind, events)
    # Some have parts of a second, which begin with a character before the Z of those without.
    return sorted(results, key=lambda item: item.at.removesuffix("Z"))


def described(cluster: kube.Cluster, job: Object, state: jobs.JobState) -> Object:
    """Return all that is known of a job, as ``railhead describe --json`` prints it."""
    trainer = jobs.trainer(job)
    return state.to_json() | {
        "image": trainer.get("image"),
        "command": claimed.without([*(trainer.get("command") or ()), *(trainer.get("args") or ())]),
        # Names alone: a value may be a token.
        "environment": [str(item["name"]) for item in trainer.get("env") or ()],
        "waits": insight.waits(cluster, job, state),
        "claims": insight.claims(cluster, state),
        "history": [item.to_json() for item in read(cluster, job, state)],
    }
