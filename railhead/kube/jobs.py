"""The state of a job, read from its TrainJob or JobSet, Workload and pods each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from railhead.base.errors import InputError, NotFoundError, choices, did_you_mean
from railhead.base.names import (
    JOB_LABEL,
    QUEUE_LABEL,
    TRAINER_CONTAINER,
    TRAINER_JOB,
    TRAINER_LAUNCHER,
)
from railhead.base.quantity import parse, show
from railhead.kube import client as kube
from railhead.kube import volcano
from railhead.kube.conditions import condition, holds
from railhead.kube.evictions import deactivated, put_back, times_put_back
from railhead.kube.queues import flavors, quota

Object = dict[str, Any]

JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"
REPLICAS_LABEL = "jobset.sigs.k8s.io/replicatedjob-replicas"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"
INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
UID_LABEL = "kueue.x-k8s.io/job-uid"
# Three in two hours, as the alert RailheadGangKeepsRestarting has it.
_OFTEN, _OFTEN_S = 3, 2400
#: The kind of a job of several roles; all others are TrainJobs.
JOBSET = "JobSet"
JOBSET_API = "jobset.x-k8s.io/v1alpha2"
#: How :attr:`Node.reason` begins where the kernel ended a container for its memory.
OUT_OF_MEMORY = "out of memory"
#: On a job that `railhead launch` submitted: who did, by the API server's own name for them.
USER = "railhead.dev/user"
# Nodes that are named; more are counted.
_NAMED = 3
# Characters of a message that are shown.
_MESSAGE = 300


class Phase(StrEnum):
    """The phase of a job."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SUSPENDED = "suspended"
    CANCELLING = "cancelling"

    @property
    def finished(self) -> bool:
        """True once it has completed or failed."""
        return self in (Phase.COMPLETED, Phase.FAILED)


@dataclass(frozen=True, kw_only=True)
class Node:
    """One pod of the gang.

    ``machine`` is empty until the pod is placed, ``since`` until its container runs, and
    ``finished`` until that has ended. ``created`` is when the pod was. ``name`` is by its role,
    where the job has several.
    """

    index: int
    pod: str
    uid: str
    machine: str
    phase: str
    started: bool
    ended: bool
    restarts: int
    reason: str
    finished: str = ""
    since: str = ""
    created: str = ""
    role: str = TRAINER_JOB
    #: The index of the first pod of its role.
    first: int = 0

    @property
    def name(self) -> str:
        """The node's name, such as ``node-3``."""
        return f"{self.role}-{self.index - self.first}"

    def runs(self, now: datetime) -> int:
        """Return the seconds since its container began to run; 0 where that is not known."""
        return max(0, int((now - _time(self.since)).total_seconds())) if self.since else 0

    def to_json(self) -> Object:
        """Return the object that ``--json`` prints."""
        return {
            "index": self.index,
            "name": self.name,
            "pod": self.pod,
            "machine": self.machine,
            "phase": self.phase,
            "restarts": self.restarts,
            "reason": self.reason,
        }


@dataclass(frozen=True, kw_only=True)
class Role:
    """The pods of one role of a gang, each its own world; ``first`` is their first index."""

    name: str
    first: int
    nodes: int
    processes_per_node: int
    gpus_per_node: int

    @property
    def ranks(self) -> int:
        """The number of its processes."""
        return self.nodes * self.processes_per_node

    def to_json(self) -> Object:
        """Return the object that ``--json`` prints."""
        return {
            "name": self.name,
            "nodes": self.nodes,
            "processes_per_node": self.processes_per_node,
            "gpus_per_node": self.gpus_per_node,
        }


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job at one moment.

    Attributes:
        user: who submitted it, as its own annotation says; empty where it has none.
        detail: the reason of its phase, in one sentence; may be empty.
        restarts: times that the whole gang was started again.
        charged: pods that its scheduler charges, None before it has seen the job.
        held: seconds for which Kueue had admitted it, all its admissions together.
        before: of these, the seconds before its present pods were created.
        queued: seconds without an admission until now or its end; None if Kueue has no record.
        evictions: times that Kueue took its quota back.
        roles: its roles, its own pods first, if it has several; ``wanted`` is all pods, and
            ``processes_per_node`` and ``gpus_per_node`` are of its own.
    """

    name: str
    namespace: str
    uid: str
    phase: Phase
    detail: str
    queue: str
    runtime: str
    wanted: int
    processes_per_node: int
    gpus_per_node: int
    charged: int | None
    created: datetime
    nodes: tuple[Node, ...]
    restarts: int
    user: str = ""
    held: int = 0
    before: int = 0
    queued: int | None = None
    evictions: int = 0
    roles: tuple[Role, ...] = ()

    @property
    def over(self) -> bool:
        """True once it has ended, or no queue starts it again and none of its pods runs.

        So Kueue ends a job by its limit of time, or after too many tries: it sets the Workload
        inactive and suspends the job, which neither completes nor fails (v0.16.2, pkg/controller/
        core/workload_controller.go, reconcileMaxExecutionTime; jobframework/reconciler.go).
        """
        runs = any(node.started and not node.ended for node in self.nodes)
        return self.phase.finished or (self.phase is Phase.SUSPENDED and not runs)

    @property
    def parts(self) -> tuple[Role, ...]:
        """The roles of the job, or all of its pods as one."""
        alone = Role(
            name=TRAINER_JOB,
            first=0,
            nodes=self.wanted,
            processes_per_node=self.processes_per_node,
            gpus_per_node=self.gpus_per_node,
        )
        return self.roles or (alone,)

    def role(self, name: str | None) -> Role:
        """Return the role of that name; its own pods for None.

        Raises:
            InputError: it has no such role.
        """
        for role in self.parts:
            if name in (None, role.name):
                return role
        raise InputError(
            f"--role {name}: {self.name} has no such role"
            + choices(str(name), [role.name for role in self.parts]),
            remedy="name one of its roles, or leave it out",
        )

    def part(self, index: int) -> Role:
        """Return the role of a node."""
        return next(role for role in reversed(self.parts) if index >= role.first)

    def ranks_of(self, index: int) -> range:
        """Return the ranks of a node's processes, in the world of its role."""
        role = self.part(index)
        each = role.processes_per_node
        return range((index - role.first) * each, (index - role.first + 1) * each)

    def name_of(self, index: int) -> str:
        """Return the name of a node, which may have no pod."""
        role = self.part(index)
        return f"{role.name}-{index - role.first}"

    @property
    def ranks(self) -> int:
        """The number of processes in the whole job."""
        return sum(role.ranks for role in self.parts)

    @property
    def gpus(self) -> int:
        """The number of GPUs of the whole job."""
        return sum(role.nodes * role.gpus_per_node for role in self.parts)

    @property
    def gpu_hours(self) -> float:
        """The hours that its GPUs were its own."""
        return round(self.held * self.gpus / 3600, 2)

    def age(self, now: datetime | None = None) -> int:
        """Return the seconds since it was submitted."""
        return max(0, int(((now or datetime.now(UTC)) - self.created).total_seconds()))

    def to_json(self) -> Object:
        """Return the object that ``--json`` prints; it has the same keys in every phase."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "user": self.user,
            "phase": self.phase.value,
            "detail": self.detail,
            "queue": self.queue,
            "runtime": self.runtime,
            "nodes": self.wanted,
            "processes_per_node": self.processes_per_node,
            "gpus_per_node": self.gpus_per_node,
            "ranks": self.ranks,
            "gpus": self.gpus,
            "roles": [role.to_json() for role in self.roles],
            "charged": self.charged,
            "restarts": self.restarts,
            "gpu_hours": self.gpu_hours,
            "created": self.created.isoformat(),
            "age_seconds": self.age(),
            "pods": [node.to_json() for node in self.nodes],
        }


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _why(pod: Object, container: Object | None) -> str:
    """Return why a pod is not running well, in its own words."""
    state = (container or {}).get("state") or {}
    if ended := state.get("terminated"):
        if ended.get("exitCode") == 0:
            return ""
        reason = ended.get("reason") or "Error"
        signal = f", signal {ended['signal']}" if ended.get("signal") else ""
        if reason == "OOMKilled":
            return f"{OUT_OF_MEMORY}: exited {ended.get('exitCode')} ({reason}{_held(pod)})"
        # Of a container that could not be made, the runtime's reason (containerd 1.7.30,
        # pkg/cri/server/container_start.go).
        message = str(ended.get("message") or "")[:_MESSAGE] if reason == "StartError" else ""
        shown = f": {message}" if message else ""
        return f"exited {ended.get('exitCode')} ({reason}{signal}{shown})"
    if waiting := state.get("waiting"):
        reason = str(waiting.get("reason") or "")
        message = str(waiting.get("message") or "")
        return f"{reason}: {message}" if message else reason
    status = pod.get("status") or {}
    if status.get("reason"):
        return f"{status['reason']}: {status.get('message') or ''}".rstrip(": ")
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("message") or scheduled.get("reason") or "not placed yet")
    return ""


def _held(pod: Object) -> str:
    """Return the memory that a killed container had, which is its limit; empty if it had none."""
    containers = (pod.get("spec") or {}).get("containers") or []
    trainer: Object = next((c for c in containers if c.get("name") == TRAINER_CONTAINER), {})
    limit = ((trainer.get("resources") or {}).get("limits") or {}).get("memory")
    return f": it held all of its {limit}" if limit else ", its node had no more"


def read_node(pod: Object) -> Node:
    """Return one pod of a gang."""
    metadata = pod["metadata"]
    status = pod.get("status") or {}
    statuses = status.get("containerStatuses") or []
    container = next((c for c in statuses if c.get("name") == TRAINER_CONTAINER), None)
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    index = labels.get(INDEX_LABEL) or annotations.get(INDEX_LABEL) or "0"
    state = (container or {}).get("state") or {}
    phase = "Terminating" if metadata.get("deletionTimestamp") else status.get("phase", "Pending")
    return Node(
        index=int(index),
        pod=metadata["name"],
        uid=metadata["uid"],
        machine=(pod.get("spec") or {}).get("nodeName") or "",
        phase=phase,
        started="running" in state or "terminated" in state,
        ended="terminated" in state,
        restarts=int((container or {}).get("restartCount") or 0),
        reason=_why(pod, container),
        finished=str((state.get("terminated") or {}).get("finishedAt") or ""),
        since=str((state.get("running") or {}).get("startedAt") or ""),
        created=str(metadata.get("creationTimestamp") or ""),
    )


def gang(pods: Iterable[Object], roles: Sequence[Role] = ()) -> tuple[Node, ...]:
    """Return the trainer's pods, or those of all roles, by index; the newest of one.

    A pod that starts the others' processes comes last, as in Trainer's hostfile.
    """
    newest: dict[int, tuple[str, Node]] = {}
    for pod, node in _in_roles(pods, roles) if roles else _in_one(pods):
        born = pod["metadata"].get("creationTimestamp") or ""
        if node.index not in newest or born >= newest[node.index][0]:
            newest[node.index] = (born, node)
    return tuple(newest[index][1] for index in sorted(newest))


def _in_roles(pods: Iterable[Object], roles: Sequence[Role]) -> Iterator[tuple[Object, Node]]:
    known = {role.name: role for role in roles}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        if role := known.get(str(labels.get(REPLICATED_LABEL))):
            # Launch writes one Job a role, a hand perhaps more; each counts its pods from 0.
            each = role.nodes // (int(labels.get(REPLICAS_LABEL) or 1) or 1)
            node, before = read_node(pod), int(labels.get(JOB_INDEX_LABEL) or 0) * each
            index = role.first + before + node.index
            yield pod, replace(node, index=index, role=role.name, first=role.first)


def _in_one(pods: Iterable[Object]) -> Iterator[tuple[Object, Node]]:
    ours: dict[str, list[Object]] = {TRAINER_JOB: [], TRAINER_LAUNCHER: []}
    for pod in pods:
        name = (pod["metadata"].get("labels") or {}).get(REPLICATED_LABEL)
        ours.get(str(name), []).append(pod)
    servers = 1 + max((read_node(pod).index for pod in ours[TRAINER_JOB]), default=-1)
    for pod in (*ours[TRAINER_JOB], *ours[TRAINER_LAUNCHER]):
        node = read_node(pod)
        if pod in ours[TRAINER_LAUNCHER]:
            node = replace(node, index=servers + node.index)
        yield pod, node


def allowed(cluster: kube.Cluster, path: str, selector: str = "", fields: str = "") -> list[Object]:
    """Return a collection; empty if it is forbidden or its kind is not installed."""
    try:
        return cluster.list(path, selector=selector, fields=fields)
    except kube.ApiError as error:
        if error.status in (403, 404):
            return []
        raise


def readable(cluster: kube.Cluster, path: str) -> Object | None:
    """Return an object; None if it does not exist or is forbidden."""
    try:
        return cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return None


def happened(event: Object) -> str:
    """Return when an event happened last, RFC 3339; empty if it does not say."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def named(names: Sequence[str]) -> str:
    """Return the names of nodes; of many, the first few and how many more."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def alike(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Return the nodes that have a reason for their state, those with the same one together."""
    names: dict[str, list[str]] = {}
    for node in nodes:
        if node.reason:
            names.setdefault(node.reason, []).append(node.name)
    return [(named(same), reason) for reason, same in names.items()]


def _unmade(node: Node) -> bool:
    """Return whether its container does not exist yet and its status does not say why."""
    return not node.started and node.reason in ("", "ContainerCreating", "PodInitializing")


def _complaints(cluster: kube.Cluster, namespace: str, pods: Iterable[Object]) -> dict[str, Object]:
    """Return the kubelet's last warning by the pod's uid; read only if a pod has yet to start."""
    if not any(_unmade(read_node(pod)) for pod in pods):
        return {}
    fields = "type=Warning,involvedObject.kind=Pod"
    events = allowed(cluster, kube.core(namespace, "events"), fields=fields)
    events.sort(key=happened)
    warnings = (e for e in events if e.get("type") == "Warning")
    return {str((e.get("involvedObject") or {}).get("uid")): e for e in warnings}


def _explained(nodes: Iterable[Node], complaints: Mapping[str, Object]) -> tuple[Node, ...]:
    """Return the nodes; those without a container yet have the kubelet's last warning."""
    return tuple(
        replace(node, reason=_reason(node, complaints.get(node.uid))) if _unmade(node) else node
        for node in nodes
    )


def _reason(node: Node, complaint: Object | None) -> str:
    if complaint is not None:
        return f"{complaint.get('reason')}: {complaint.get('message')}"
    # So the kubelet waits for mounts (kubernetes v1.35, pkg/kubelet/volumemanager,
    # podAttachAndMountTimeout) before it complains of one that hangs.
    silent = "its machine has complained of nothing yet; of a mount that hangs it does in 2 minutes"
    return f"{node.reason} ({silent})" if node.reason and node.machine else node.reason


def charged(workload: Object | None) -> int | None:
    """Return the pods that Kueue charges for a Workload."""
    if workload is None:
        return None
    return sum(int(s.get("count") or 0) for s in (workload.get("spec") or {}).get("podSets") or [])


def _gpus(job: Object, workload: Object | None, group: Object | None = None) -> tuple[str, int]:
    """Return the GPUs' resource name and the number each pod asks for; empty and 0 for none."""
    trainer = (job.get("spec") or {}).get("trainer") or {}
    requests = [((trainer.get("resourcesPerNode") or {}).get("requests")) or {}]
    requests.append(volcano.requests(group))
    for pod_set in ((workload or {}).get("spec") or {}).get("podSets") or []:
        containers = pod_set["template"]["spec"].get("containers") or []
        requests += [(c.get("resources") or {}).get("requests") or {} for c in containers]
    for resources in requests:
        for name, amount in resources.items():
            if name.endswith("/gpu"):
                return str(name), int(parse(amount))
    return "", 0


def _processes(
    job: Object, workload: Object | None, child: Object | None, group: Object | None
) -> int:
    """Return the processes of each pod: the job's number, Trainer's, or one per GPU."""
    number = ((job.get("spec") or {}).get("trainer") or {}).get("numProcPerNode")
    if isinstance(number, int):
        return number
    for replicated in ((child or {}).get("spec") or {}).get("replicatedJobs") or []:
        for container in replicated["template"]["spec"]["template"]["spec"].get("containers") or []:
            for variable in container.get("env") or []:
                value = str(variable.get("value") or "")
                if variable["name"].endswith("NPROC_PER_NODE") and value.isdigit():
                    return int(value)
    return _gpus(job, workload, group)[1] or 1


def _queue_room(cluster: kube.Cluster, namespace: str, queue: str, gpu: str, labels: Object) -> str:
    """Return what the queue has left of a resource in the pools that the job can run on.

    ``labels`` are the node selector of its pods. Empty if the queue may not be read.
    """
    try:
        local = cluster.find(kube.kueue(namespace, "localqueues", queue))
        name = ((local or {}).get("spec") or {}).get("clusterQueue")
        behind = cluster.find(kube.kueue("", "clusterqueues", str(name))) if name else None
    except kube.ApiError as error:
        if error.status == 403:
            return ""
        raise
    if local is None:
        return f"there is no queue {queue!r} in namespace {namespace}"
    if behind is None:
        return f"there is no ClusterQueue {name!r}"
    names = flavors(behind)
    mine = [name for name in names if _fits(cluster, name, labels)] if len(names) > 1 else names
    amounts = [room[gpu] for name in mine if gpu in (room := quota(behind, name))]
    if not amounts:
        return ""
    nominal = sum((total for total, _ in amounts), Decimal(0))
    reserved = sum((taken for _, taken in amounts), Decimal(0))
    if (behind.get("spec") or {}).get("cohortName"):
        over = f", {show(reserved - nominal)} borrowed" if reserved > nominal else ""
        free = max(nominal - reserved, Decimal(0))
        return f"queue {queue} has {show(free)} of its own {show(nominal)} free{over}"
    return f"queue {queue} has {show(nominal - reserved)} of {show(nominal)} free"


def _fits(cluster: kube.Cluster, flavor: str, labels: Object) -> bool:
    """Return whether pods with this node selector fit a flavor's nodes; True if unreadable."""
    resource_flavor = readable(cluster, kube.kueue("", "resourceflavors", flavor)) or {}
    own = (resource_flavor.get("spec") or {}).get("nodeLabels") or {}
    # As in Kueue's flavor assigner: labels that both name must be equal.
    return all(labels[key] == own[key] for key in labels.keys() & own.keys())


def _selector(workload: Object | None) -> Object:
    """Return the node selector of a Workload's pods; the common part of several pod sets."""
    sets = ((workload or {}).get("spec") or {}).get("podSets") or []
    selectors = [s["template"]["spec"].get("nodeSelector") or {} for s in sets]
    first: Object = dict(selectors[0]) if selectors else {}
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in selectors)}


def _waiting(
    cluster: kube.Cluster,
    job: Object,
    workload: Object | None,
    *,
    queue: str,
    wanted: int,
    roles: Sequence[Role],
) -> str:
    gpu, each = _gpus(job, workload)
    sizes = [(role.nodes, role.gpus_per_node) for role in roles] or [(wanted, each)]
    amounts = " + ".join(f"{nodes} x {gpus}" for nodes, gpus in sizes)
    parts = [f"needs {amounts} {gpu}" if each else f"needs {wanted} pods"]
    namespace, labels = job["metadata"]["namespace"], _selector(workload)
    if each and (room := _queue_room(cluster, namespace, queue, gpu, labels)):
        parts.append(room)
    if history := put_back(workload):
        parts.append(history)
    text = f"waiting in queue {queue}: {', '.join(parts)}"
    reserved = condition(workload, "QuotaReserved")
    if reserved.get("status") == "False" and reserved.get("message"):
        text += f" (Kueue: {reserved['message']})"
    elif workload is None:
        text += " (Kueue has not seen it yet)"
    return text


def _unbound(cluster: kube.Cluster, job: Object, group: Object | None, wanted: int) -> str:
    """Return why a gang that Volcano binds is not bound yet."""
    queue = volcano.queue_of(job)
    gpu, each = _gpus(job, None, group)
    needs = f"needs {wanted} x {each} {gpu}" if each else f"needs {wanted} pods"
    behind = readable(cluster, volcano.queue_path(queue))
    has = f", {volcano.charged(behind, gpu)}" if behind and each else ""
    return f"waiting in queue {queue}: {needs}{has} ({volcano.reason(group, behind)})"


def _failure(job: Object, nodes: tuple[Node, ...]) -> str:
    why = condition(job, "Failed")
    text = str(why.get("message") or why.get("reason") or "failed")
    bad = [f"{n.name} ({n.pod} on {n.machine}) {n.reason}" for n in nodes if n.reason]
    return "; ".join([text, *bad])


def _phase(
    job: Object,
    workload: Object | None,
    group: Object | None,
    nodes: tuple[Node, ...],
    wanted: int,
) -> Phase:
    spec = job.get("spec") or {}
    if job["metadata"].get("deletionTimestamp"):
        return Phase.CANCELLING
    # A TrainJob's, and a JobSet's.
    if holds(job, "Complete") or holds(job, "Completed"):
        return Phase.COMPLETED
    if holds(job, "Failed"):
        return Phase.FAILED
    if spec.get("suspend"):
        if not (job["metadata"].get("labels") or {}).get(QUEUE_LABEL):
            return Phase.SUSPENDED
        if deactivated(workload):
            return Phase.SUSPENDED
        if holds(workload, "Admitted"):
            return Phase.ADMITTED
        return Phase.QUEUED
    if volcano.queue_of(job) and not any(node.machine for node in nodes):
        if volcano.waits(group) or not nodes:
            return Phase.QUEUED
    elif not nodes:
        return Phase.ADMITTED
    running = [n for n in nodes if n.phase in ("Running", "Succeeded") and n.started]
    return Phase.RUNNING if len(running) >= wanted else Phase.STARTING


def _detail(
    cluster: kube.Cluster,
    job: Object,
    workload: Object | None,
    group: Object | None,
    nodes: tuple[Node, ...],
    *,
    phase: Phase,
    queue: str,
    wanted: int,
    roles: Sequence[Role],
    again: str,
) -> str:
    if phase is Phase.QUEUED and volcano.queue_of(job):
        return _unbound(cluster, job, group, wanted)
    if phase is Phase.QUEUED:
        return _waiting(cluster, job, workload, queue=queue, wanted=wanted, roles=roles)
    if phase is Phase.FAILED:
        return _failure(job, nodes)
    if phase is Phase.SUSPENDED:
        return deactivated(workload) or "suspended, and no queue will start it"
    if phase is Phase.ADMITTED:
        return "; ".join(["admitted by the queue", again or "pods are being made"])
    if phase in (Phase.STARTING, Phase.RUNNING, Phase.CANCELLING):
        up = [n for n in nodes if n.phase in ("Running", "Succeeded")]
        each = [
            f"{role.name} {sum(1 for n in up if n.role == role.name)} of {role.nodes}"
            for role in roles
        ]
        why = [f"{names}: {reason}" for names, reason in alike(nodes)]
        history = put_back(workload)
        running = f"{len(up)} of {wanted} pods running"
        running += f": {', '.join(each)}" if each else ""
        return "; ".join(filter(None, [running, *why, history, again]))
    return ""


def _again(name: str, restarts: int, held: int, before: int) -> str:
    """Return how often a gang that keeps dying was recreated; empty for others.

    JobSet has no pause between restarts, and counts them for the whole life of a job (v0.10.1 and
    v0.12.0, api/jobset/v1alpha2, FailurePolicy): of one that died late the alert alone knows.

    Args:
        name: the job's.
        restarts: how often it was recreated.
        held: for how long it had its quota, in seconds.
        before: of these, those before its pods were made.
    """
    lives = held - before > _OFTEN_S
    if restarts < _OFTEN or not held or before / restarts > _OFTEN_S or lives:
        return ""
    return (
        f"restarted {restarts} times, after less than {_OFTEN_S // 60} min each on average: "
        f"`railhead logs {name} --previous` shows how attempts ended, `railhead cancel {name}` "
        "gives its nodes back"
    )


def _end(workload: Object | None, now: datetime) -> datetime:
    """Return when a Workload finished, or was evicted for good; else now."""
    kind = "Evicted" if deactivated(workload) else "Finished"
    ended = condition(workload, kind) if holds(workload, kind) else {}
    return _time(ended["lastTransitionTime"]) if ended else now


def _held_seconds(workload: Object | None, now: datetime) -> int:
    """Return for how long a Workload had its quota.

    Kueue adds up admissions that ended by an eviction, and Admitted stays true when a job finishes
    (v0.16.2, pkg/workload/admissionchecks.go, SyncAdmittedCondition).
    """
    before = int(
        ((workload or {}).get("status") or {}).get("accumulatedPastExecutionTimeSeconds", 0)
    )
    since = str(condition(workload, "Admitted").get("lastTransitionTime") or "")
    if not since or not holds(workload, "Admitted"):
        return before
    return before + max(0, int((_end(workload, now) - _time(since)).total_seconds()))


def _build(
    cluster: kube.Cluster,
    job: Object,
    *,
    workload: Object | None,
    nodes: tuple[Node, ...],
    child: Object | None,
    group: Object | None,
) -> JobState:
    metadata, spec = job["metadata"], job.get("spec") or {}
    trainer = spec.get("trainer") or {}
    queue = (metadata.get("labels") or {}).get(QUEUE_LABEL) or volcano.queue_of(job)
    counted, roles = charged(workload) or volcano.members(group), roles_of(job)
    pods = sum(role.nodes for role in roles)
    wanted = int(trainer.get("numNodes") or pods or counted or 1)
    phase = _phase(job, workload, group, nodes, wanted)
    now, created = datetime.now(UTC), _time(metadata["creationTimestamp"])
    held, end = _held_seconds(workload, now), _end(workload, now)
    restarts = int(((child or {}).get("status") or {}).get("restarts") or 0)
    began = min((_time(node.created) for node in nodes if node.created), default=end)
    before = max(0, held - max(0, int((end - began).total_seconds())))
    return JobState(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        phase=phase,
        detail=_detail(
            cluster,
            job,
            workload,
            group,
            nodes,
            phase=phase,
            queue=queue,
            wanted=wanted,
            roles=roles,
            again=_again(metadata["name"], restarts, held, before),
        ),
        queue=queue,
        runtime=(spec.get("runtimeRef") or {}).get("name") or "",
        wanted=wanted,
        processes_per_node=roles[0].processes_per_node
        if roles
        else _processes(job, workload, child, group),
        gpus_per_node=roles[0].gpus_per_node if roles else _gpus(job, workload, group)[1],
        charged=counted,
        created=created,
        nodes=nodes,
        restarts=restarts,
        user=str((metadata.get("annotations") or {}).get(USER) or ""),
        held=held,
        before=before,
        queued=max(0, int((end - created).total_seconds()) - held) if workload else None,
        evictions=times_put_back(workload),
        roles=roles,
    )


def roles_of(job: Object) -> tuple[Role, ...]:
    """Return the roles of a JobSet that launch wrote, in its order; none of a TrainJob.

    Someone may have changed it since: what cannot be read counts as one process, without GPUs.
    """
    roles: list[Role] = []
    for replicated in (job.get("spec") or {}).get("replicatedJobs") or []:
        spec = replicated["template"]["spec"]
        container = _container(replicated)
        env = {row["name"]: str(row.get("value")) for row in container.get("env") or []}
        requests = (container.get("resources") or {}).get("requests") or {}
        gpus = next((int(parse(n)) for name, n in requests.items() if name.endswith("/gpu")), 0)
        processes = env.get("RAILHEAD_PROCESSES_PER_NODE", "")
        roles.append(
            Role(
                name=replicated["name"],
                first=sum(role.nodes for role in roles),
                nodes=int(spec.get("parallelism") or 1) * int(replicated.get("replicas", 1)),
                processes_per_node=int(processes) if processes.isdigit() else gpus or 1,
                gpus_per_node=gpus,
            )
        )
    return tuple(roles)


def trainer(job: Object) -> Object:
    """Return the image, the words and the variables of a job, of several roles its own pods'."""
    spec = job.get("spec") or {}
    for replicated in spec.get("replicatedJobs") or []:
        return _container(replicated)
    return spec.get("trainer") or {}


def _container(replicated: Object) -> Object:
    """Return the first container of a JobSet's Job; empty if it has none."""
    pod = replicated["template"]["spec"]["template"].get("spec") or {}
    return next(iter(pod.get("containers") or ()), {})


def read_state(cluster: kube.Cluster, job: Object) -> JobState:
    """Return the state of one job, a TrainJob or a JobSet, that was just read."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    workloads = allowed(
        cluster,
        kube.kueue(namespace, "workloads"),
        selector=f"{UID_LABEL}={job['metadata']['uid']}",
    )
    pods = cluster.list(kube.core(namespace, "pods"), selector=f"{JOBSET_LABEL}={name}")
    return _build(
        cluster,
        job,
        workload=workloads[0] if workloads else None,
        nodes=_explained(gang(pods, roles_of(job)), _complaints(cluster, namespace, pods)),
        child=job if job.get("kind") == JOBSET else cluster.find(kube.jobset(namespace, name)),
        group=_groups(cluster, namespace, [job]).get(name),
    )


def _groups(cluster: kube.Cluster, namespace: str, jobs: Iterable[Object]) -> dict[str, Object]:
    """Return name -> PodGroup, if any of the jobs is Volcano's."""
    if not any(volcano.queue_of(job) for job in jobs):
        return {}
    groups = allowed(cluster, volcano.groups_path(namespace))
    return {group["metadata"]["name"]: group for group in groups}


def read_states(cluster: kube.Cluster, namespaces: tuple[str, ...]) -> list[JobState]:
    """Return the state of every job, oldest first; at most five requests per namespace.

    Namespaces whose jobs may not be read are left out, unless it is all of them.
    """
    states: list[JobState] = []
    for namespace, jobs, jobsets in _readable_jobs(cluster, namespaces):
        if not jobs:
            continue
        pods: dict[str, list[Object]] = {}
        every = cluster.list(kube.core(namespace, "pods"), selector=JOBSET_LABEL)
        for pod in every:
            pods.setdefault(pod["metadata"]["labels"][JOBSET_LABEL], []).append(pod)
        complaints = _complaints(cluster, namespace, every)
        workloads = {
            (w["metadata"].get("labels") or {}).get(UID_LABEL): w
            for w in allowed(cluster, kube.kueue(namespace, "workloads"))
        }
        groups = _groups(cluster, namespace, jobs)
        children = {child["metadata"]["name"]: child for child in jobsets}
        for job in jobs:
            name = job["metadata"]["name"]
            states.append(
                _build(
                    cluster,
                    job,
                    workload=workloads.get(job["metadata"]["uid"]),
                    nodes=_explained(gang(pods.get(name, []), roles_of(job)), complaints),
                    child=children.get(name),
                    group=groups.get(name),
                )
            )
    return sorted(states, key=lambda state: state.created)


def _readable_jobs(
    cluster: kube.Cluster, namespaces: tuple[str, ...], *, selector: str = ""
) -> Iterator[tuple[str, list[Object], list[Object]]]:
    """Yield each namespace whose jobs may be read, with them and the JobSets that are selected.

    Of several, other teams' may not be read.

    Raises:
        ApiError: none may be read.
    """
    refused: list[kube.ApiError] = []
    for namespace in namespaces:
        try:
            jobs = cluster.list(kube.trainjobs(namespace))
            jobsets = allowed(cluster, kube.jobset(namespace, ""), selector=selector)
        except kube.ApiError as error:
            if error.status != 403:
                raise
            refused.append(error)
        else:
            yield namespace, [*jobs, *of_roles(jobsets)], jobsets
    if refused and len(refused) == len(namespaces):
        raise refused[0]


def of_roles(jobsets: Iterable[Object]) -> list[Object]:
    """Return the JobSets that are jobs of their own: launch wrote them, and no TrainJob."""
    return [
        {"kind": JOBSET, "apiVersion": JOBSET_API} | jobset
        for jobset in jobsets
        if JOB_LABEL in (jobset["metadata"].get("labels") or {})
        and all(
            o.get("kind") != "TrainJob" for o in jobset["metadata"].get("ownerReferences") or ()
        )
    ]


def folder_of(job: Object) -> str:
    """Return the path of the objects of a job's kind in its namespace."""
    namespace = job["metadata"]["namespace"]
    is_set = job.get("kind") == JOBSET
    return kube.jobset(namespace, "") if is_set else kube.trainjobs(namespace)


def find_again(cluster: kube.Cluster, job: Object) -> Object | None:
    """Return a job as it is now; None once it is gone, also where another has its name."""
    now = cluster.find(f"{folder_of(job)}/{job['metadata']['name']}")
    return now if now and now["metadata"]["uid"] == job["metadata"]["uid"] else None


def find_in(cluster: kube.Cluster, namespace: str, name: str) -> Object | None:
    """Return the job of that name: a TrainJob, or a JobSet of several roles."""
    if (job := cluster.find(kube.trainjobs(namespace, name))) is not None:
        return job
    jobset = readable(cluster, kube.jobset(namespace, name))
    return next(iter(of_roles([jobset] if jobset else [])), None)


def find_job(cluster: kube.Cluster, namespaces: tuple[str, ...], name: str) -> Object:
    """Return the job called ``name`` in the first namespace that has it.

    Raises:
        NotFoundError: no namespace has it; the message names near misses and the jobs.
        ApiError: no namespace's jobs may be read.
    """
    for namespace in namespaces if name else ():
        try:
            job = find_in(cluster, namespace, name)
        except kube.ApiError as error:
            # Other teams' jobs may not be read.
            if error.status != 403 or len(namespaces) == 1:
                raise
        else:
            if job:
                return job
    known = [job["metadata"]["name"] for job in list_jobs(cluster, namespaces)]
    shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
    raise NotFoundError(
        f"no job is called {name!r} in namespace {', '.join(namespaces)}"
        + did_you_mean(name, known)
        + (f"; there are: {shown}" if known else "; there are no jobs"),
        remedy="`railhead status` lists the jobs",
    )


def is_pattern(name: str) -> bool:
    """Return whether it is a shell's pattern: no job's name has such characters."""
    return any(character in name for character in "*?[")


def matching(states: Iterable[JobState], name: str | None) -> list[JobState]:
    """Return the states of jobs whose names match a pattern; of all jobs without one.

    Raises:
        NotFoundError: no job matches.
    """
    several = [state for state in states if name is None or fnmatchcase(state.name, name)]
    if name is not None and not several:
        raise _no_match(name)
    return several


def find_jobs(
    cluster: kube.Cluster, namespaces: tuple[str, ...], names: Iterable[str]
) -> list[Object]:
    """Return the jobs of these names or patterns, each once. Raises as find_job does."""
    by_uid: dict[str, Object] = {}
    for name in names:
        if is_pattern(name):
            every = list_jobs(cluster, namespaces)
            several = [job for job in every if fnmatchcase(job["metadata"]["name"], name)]
            if not several:
                raise _no_match(name)
        else:
            several = [find_job(cluster, namespaces, name)]
        by_uid |= {job["metadata"]["uid"]: job for job in several}
    return list(by_uid.values())


def _no_match(pattern: str) -> NotFoundError:
    return NotFoundError(
        f"no job's name matches {pattern!r}", remedy="`railhead list` prints the names"
    )


def list_jobs(cluster: kube.Cluster, namespaces: tuple[str, ...]) -> list[Object]:
    """Return every job in the namespaces, oldest first. Raises as _readable_jobs does."""
    every = _readable_jobs(cluster, namespaces, selector=JOB_LABEL)
    jobs = [job for _, several, _ in every for job in several]
    return sorted(jobs, key=lambda job: str(job["metadata"]["creationTimestamp"]))
