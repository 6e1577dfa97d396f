"""What happened to a job, in the order of time, from the conditions and events of its objects."""

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
        """For ``--json``."""
        return {
            "at": self.at,
            "object": self.what,
            "reason": self.reason,
            "text": self.text,
            "warning": self.warning,
        }


def _conditions(kind: str, body: Object) -> Iterable[Happening]:
    for one in (body.get("status") or {}).get("conditions") or []:
        negated = "" if one.get("status") == "True" else "not "
        yield Happening(
            at=str(one.get("lastTransitionTime") or ""),
            what=kind,
            reason=f"{negated}{one.get('type')}",
            text=str(one.get("message") or one.get("reason") or ""),
            warning=one.get("type") in ("Failed", "Evicted") and one.get("status") == "True",
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
    """Everything that is still known of a job, oldest first. Events are kept for an hour or so."""
    namespace, name = state.namespace, state.name
    selector = f"{jobs.UID_LABEL}={state.uid}"
    workloads = jobs.allowed(cluster, kube.kueue(namespace, "workloads"), selector=selector)
    child = cluster.find(kube.jobset(namespace, name))
    objects = [("TrainJob", job), *(("Workload", one) for one in workloads)]
    objects += [("JobSet", child)] if child else []
    found = [
        Happening(
            at=str(body["metadata"].get("creationTimestamp") or ""),
            what=kind,
            reason="Created",
            text=str(body["metadata"]["name"]),
        )
        for kind, body in objects
    ]
    for kind, body in objects:
        found += _conditions(kind, body)
    uids = [(kind, body["metadata"]["uid"]) for kind, body in objects]
    uids += [("Pod", node.uid) for node in state.nodes]
    for kind, uid in uids:
        path = kube.core(namespace, "events")
        events = jobs.allowed(cluster, path, fields=f"involvedObject.uid={uid}")
        found += _events(kind, events)
    # Some have parts of a second, which begin with a character before the Z of those without.
    return sorted(found, key=lambda one: one.at.removesuffix("Z"))


def described(cluster: kube.Cluster, job: Object, state: jobs.JobState) -> Object:
    """All that is known of a job, as ``railhead describe --json`` prints it."""
    trainer = (job.get("spec") or {}).get("trainer") or {}
    return state.to_json() | {
        "image": trainer.get("image"),
        "command": claimed.without([*(trainer.get("command") or ()), *(trainer.get("args") or ())]),
        # Names alone: a value may be somebody's token.
        "environment": [str(one["name"]) for one in trainer.get("env") or ()],
        "claims": insight.claims(cluster, state),
        "history": [one.to_json() for one in read(cluster, job, state)],
    }
