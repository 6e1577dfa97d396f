"""Finds every reason why a job has no pods yet, or its pods do not run, and what to change.

Read are Kueue's conditions and checks of its Workload, the state of its queues, the warnings of the
controllers that make its pods, and what the scheduler, the kubelet and claims say of its pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from railhead.base.names import TRAINER_JOB, TRAINER_LAUNCHER
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.conditions import condition, holds
from railhead.kube.jobs import JobState, Phase
from railhead.launch.reasons import Meaning, meanings
from railhead.launch.stalled import stalled

Object = dict[str, Any]
#: Phases in which a job waits for something.
WAITS = (Phase.QUEUED, Phase.ADMITTED, Phase.STARTING, Phase.SUSPENDED)

_PASSING = re.compile(
    # Two controllers wrote at the same time, and the second tries again at once (apiserver,
    # pkg/registry/generic/registry/store.go, OptimisticLockErrorMsg).
    "the object has been modified"
    # Kueue's cache did not have the TrainJob yet when Trainer made its JobSet, which it makes again
    # (kueue v0.16.2, pkg/controller/jobframework/reconciler.go, FindAncestorJobManagedByKueue).
    r'|workload owner not found\s+TrainJob\S* "[^"]+" not found'
)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One reason why a job waits.

    Attributes:
        source: who said so, such as ``Kueue``, ``node-0`` or ``claim data``.
        message: in the words of that source.
        meanings: its meanings with their remedies; none where the message is not known.
    """

    source: str
    message: str
    meanings: tuple[Meaning, ...]

    def lines(self) -> list[str]:
        """Return the reason and what to change, in words."""
        if not self.meanings:
            return [f"why: {self.source}: {self.message}"]
        texts: list[str] = []
        for item in self.meanings:
            texts.append(f"why: {self.source}: {item.text}")
            texts += [f"  change: {item.change}"] if item.change else []
        return texts

    def to_json(self) -> Object:
        """Return the reason as ``--json`` prints it."""
        return {
            "source": self.source,
            "message": self.message,
            "meanings": [{"text": item.text, "change": item.change} for item in self.meanings],
        }


def read(cluster: kube.Cluster, job: Object, state: JobState) -> tuple[Reason, ...]:
    """Return the reasons why a job waits; empty for one that runs or has ended."""
    if state.phase not in WAITS:
        return ()
    selector = f"{jobs.UID_LABEL}={state.uid}"
    workloads = jobs.allowed(cluster, kube.kueue(state.namespace, "workloads"), selector=selector)
    messages = [item for workload in workloads for item in _kueue(cluster, state, workload)]
    messages += _controllers(cluster, state)
    messages += jobs.alike(node for node in state.nodes if not node.started)
    messages += _claims(cluster, state)
    reasons = (
        Reason(source=source, message=message, meanings=tuple(meanings(message)))
        for source, message in dict.fromkeys(messages)
    )
    # The state's own line has the message already.
    known = [item for item in reasons if item.meanings or item.message not in state.detail]
    if late := stalled(cluster, job, state, explained=bool(known)):
        source, meaning = late
        known.insert(0, Reason(source=source, message=meaning.text, meanings=(meaning,)))
    return tuple(known)


def _kueue(cluster: kube.Cluster, state: JobState, workload: Object) -> Iterator[tuple[str, str]]:
    reserved = condition(workload, "QuotaReserved")
    message = str(reserved.get("message") or "")
    if message and reserved.get("status") == "False":
        yield "Kueue", message
        if "Queue" in message:
            yield from _queues(cluster, state)
    if not holds(workload, "Admitted"):
        for check in (workload.get("status") or {}).get("admissionChecks") or []:
            if check.get("state") != "Ready":
                text = check.get("message") or f"{check.get('state')}, with no reason given"
                yield f"check {check.get('name')}", str(text)


def _queues(cluster: kube.Cluster, state: JobState) -> Iterator[tuple[str, str]]:
    """Yield why a queue is closed: a Workload says only that it is."""
    local = jobs.readable(cluster, kube.kueue(state.namespace, "localqueues", state.queue))
    behind = ((local or {}).get("spec") or {}).get("clusterQueue")
    queue = jobs.readable(cluster, kube.kueue("", "clusterqueues", str(behind))) if behind else None
    # A LocalQueue only repeats that the ClusterQueue behind it is closed.
    for name, item in ((f"cluster queue {behind}", queue), (f"queue {state.queue}", local)):
        active = condition(item, "Active")
        if active.get("status") == "False" and active.get("message"):
            yield name, str(active["message"])
            return


def _controllers(cluster: kube.Cluster, state: JobState) -> Iterator[tuple[str, str]]:
    """Yield the last warnings of who makes its pods: Trainer, JobSet, the Job controller."""
    if len(state.nodes) >= state.wanted:
        return
    roles = {role.name for role in state.roles} or {TRAINER_JOB, TRAINER_LAUNCHER}
    made = {f"{state.name}-{role}-0" for role in roles}
    names = {"TrainJob": {state.name}, "JobSet": {state.name}, "Job": made}
    events = jobs.allowed(cluster, kube.core(state.namespace, "events"), fields="type=Warning")
    # One of an earlier job of this name is older.
    begin = state.created.strftime("%Y-%m-%dT%H:%M:%S")
    last: dict[str, tuple[str, str]] = {}
    for event in sorted(events, key=jobs.happened):
        involved = event.get("involvedObject") or {}
        kind, name = str(involved.get("kind")), str(involved.get("name"))
        message = str(event.get("message") or event.get("reason"))
        ours = name in names.get(kind, ()) and jobs.happened(event) >= begin
        if ours and not _PASSING.search(message):
            last[kind] = (f"{kind} {name}", message)
    yield from last.values()


def _claims(cluster: kube.Cluster, state: JobState) -> Iterator[tuple[str, str]]:
    """Yield what is known of claims without a volume, if the pods wait for any."""
    waiting = next((n for n in state.nodes if "persistentvolume" in n.reason.lower()), None)
    if waiting is None:
        return
    pod = cluster.find(kube.core(state.namespace, "pods", waiting.pod)) or {}
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        name = str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")
        path = kube.core(state.namespace, "persistentvolumeclaims", name)
        claim = jobs.readable(cluster, path) if name else None
        if claim is None or (claim.get("status") or {}).get("phase") == "Bound":
            continue
        fields = f"involvedObject.uid={claim['metadata']['uid']}"
        events = jobs.allowed(cluster, kube.core(state.namespace, "events"), fields=fields)
        for event in sorted(events, key=jobs.happened)[-1:]:
            yield f"claim {name}", str(event.get("message") or event.get("reason"))
