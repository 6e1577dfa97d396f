"""From a job file and a cluster's contract to a plan: every choice made, nothing created."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath as Path
from typing import Any, Literal, TypeVar

from railhead.base import quantity
from railhead.base.errors import InputError, PrerequisiteError, choices, did_you_mean
from railhead.base.names import (
    FABRIC_LABEL,
    LAUNCHER_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from railhead.contract import ClusterContract, NodePool, Queue, Runtime, Share, Switch
from railhead.framework import FRAMEWORKS
from railhead.framework.base import NODES, Framework, Gang
from railhead.launch.job import WORKSPACE, CheckpointFile, JobFile, Payload, seconds
from railhead.launch.logs import claimed
from railhead.launch.proof import PROGRAM, Proof, prove

_T = TypeVar("_T")
PlacementField = Literal["podTemplateOverrides", "runtimePatches"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job with every choice made.

    Attributes:
        pool: where the runtime's pods run.
        flavor: that pool's in the queue.
        resources: the trainer container's complete ``requests`` and ``limits``.
        resized: whether they are others than the runtime's own.
        env: what launch adds first, then the user's.
        labels: of the TrainJob, beside launch's own.
        pod_labels: of its pods.
        secrets: environment variables from Secrets, ``secret/key`` by name.
        mounts: claims by path, ``claim`` or ``claim:ro``.
        max_seconds: how long it may run once admitted; 0 for ever.
        restarts: how often the gang is made anew; None for as often as the runtime says.
        shm: size of ``/dev/shm``; None for the runtime's.
        priority: the WorkloadPriorityClass, None where the cluster has none.
        scheduler: who admits it.
        annotations: all of the pods' own, where the job's placement is another than the runtime's.
        framework: how the processes find each other; None where this Railhead knows it not.
        wiring: variables by which they do and that launch sets; the kubelet completes them.
        template: the runtime's pods, as the contract has them.
        notes: what the user should know and nothing refuses.
        proof: what proves the fabric in the pods before the command; None where nobody asked.
        keeping: what stands before all of it in a TrainJob's pods and puts what they print on the
            claim as well; nothing where that is not to be.
    """

    name: str
    namespace: str
    queue: str
    cluster_queue: str
    runtime: str
    replicated_job: str
    container: str
    nodes: int
    processes_per_node: int
    gpus_per_node: int
    pool: NodePool
    flavor: str
    image: str | None
    command: tuple[str, ...]
    env: dict[str, str]
    files: tuple[Payload, ...]
    resources: dict[str, dict[str, str]]
    resized: bool
    placement_field: PlacementField
    checkpoint_claim: str | None
    labels: dict[str, str]
    pod_labels: dict[str, str]
    priority: str | None
    annotations: dict[str, str] | None
    framework: Framework | None
    wiring: dict[str, str]
    template: dict[str, Any]
    notes: tuple[str, ...]
    scheduler: str = "kueue"
    secrets: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    max_seconds: int = 0
    restarts: int | None = None
    shm: str | None = None
    proof: Proof | None = None
    keeping: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """What each pod starts: the command, behind what proves the fabric."""
        return (*(self.proof.words if self.proof else ()), *self.command)

    @property
    def pods_of(self) -> tuple[str, ...]:
        """The replicated jobs whose pods run the job's processes."""
        servers = self.framework.servers if self.framework else ()
        return (self.replicated_job, *servers)

    def gang(self, hosts: tuple[str, ...]) -> Gang:
        """The job's pods under these names."""
        return Gang(job=self.name, hosts=hosts, processes=self.processes_per_node)

    @property
    def world_size(self) -> int:
        """Processes in the whole job."""
        return self.nodes * self.processes_per_node

    @property
    def gpu_resource(self) -> str:
        """The GPUs' resource name, such as ``nvidia.com/gpu``."""
        return self.pool.gpu_resource


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What of a cluster a job uses."""

    runtime: Runtime
    queue: Queue
    share: Share
    placement_field: PlacementField
    priority: str | None
    annotations: dict[str, str] | None
    datasets: dict[str, str]


def _framework(runtime: Runtime) -> Framework | None:
    return FRAMEWORKS.get(runtime.framework)


def _is(runtime: Runtime, framework: str | None) -> bool:
    """Whether a runtime is of a framework, which may be named by its launcher, too."""
    row = _framework(runtime)
    # Its launcher's name is one of the framework that has no other: its own is the launcher's.
    plain = row is not None and row.launcher == framework and row.label in (row.name, None)
    return framework in (None, runtime.framework) or plain


def _carried(framework: str | None, contract: ClusterContract) -> Iterator[Runtime]:
    """Runtimes that carry others' jobs, as those of a framework that a job alone can wire."""
    row = FRAMEWORKS.get(framework or "")
    if row is None or not row.told_all:
        return
    for runtime in contract.runtimes:
        own = _framework(runtime)
        if own is None or not own.carries:
            continue
        pinned = {n: who for n, who in runtime.reserved.items() if n not in own.reserved}
        yield runtime.model_copy(
            update={
                "framework": row.name,
                "processes_per_node": 1 if row.one_process else max(1, runtime.gpus_per_node),
                "launcher": row.launcher,
                "launches": row.launches,
                "alone": row.alone,
                "reserved": pinned | row.reserved,
                "told": row.told,
            }
        )


def choose_runtime(job: JobFile, contract: ClusterContract) -> Runtime:
    """The job's runtime. Raises as :func:`named_runtime`."""
    return named_runtime(job.runtime, contract, job.framework)


def named_runtime(
    name: str | None, contract: ClusterContract, framework: str | None = None
) -> Runtime:
    """The runtime of that name, the only one of a framework, or else the first of the cluster's.

    A framework without one, all of whose wiring a job can say, gets one that carries others' jobs.

    Raises:
        InputError: the cluster has none, several of the framework, or not the one that is named.
    """
    fitting = [runtime for runtime in contract.runtimes if _is(runtime, framework)]
    fitting = fitting or list(_carried(framework, contract))
    names = [runtime.name for runtime in contract.runtimes]
    known = ", ".join(names) or "none"
    if framework is not None and not fitting:
        frameworks = list(dict.fromkeys(runtime.framework for runtime in contract.runtimes))
        raise InputError(
            f"framework: {framework!r} has no runtime in cluster {contract.cluster!r}; there "
            f"are runtimes of: {', '.join(frameworks) or 'none'}"
            + did_you_mean(framework, frameworks),
            remedy="name one of them, or add a runtime of it to the cluster's stack",
        )
    if name is None and framework is not None and len(fitting) > 1:
        raise InputError(
            f"runtime: missing, and cluster {contract.cluster!r} has several of framework "
            f"{framework!r}: {', '.join(runtime.name for runtime in fitting)}",
            remedy="name one in the job file",
        )
    if not fitting:
        raise InputError(
            f"runtime: cluster {contract.cluster!r} has none",
            remedy="add one to the cluster's stack",
        )
    for runtime in fitting:
        if name in (None, runtime.name):
            return runtime
    if name in names:
        theirs = contract.runtime(str(name)).framework
        raise InputError(
            f"framework: runtime {name!r} is of {theirs!r}, not of {framework!r}",
            remedy="leave one of the two out",
        )
    raise InputError(
        f"runtime: {name!r} is not in cluster {contract.cluster!r}; there are: {known}"
        + did_you_mean(str(name), names),
        remedy="name one of them in the job file",
    )


def choose_queue(job: JobFile, contract: ClusterContract, runtime: Runtime | None) -> Queue:
    """The job's queue, or the first one over its runtime's pool; over any where that is unknown.

    Raises:
        InputError: the cluster has none, or the one that is named is not there or over other pools.
    """
    covering = [q for q in contract.queues if runtime is None or runtime.pool in q.pools]
    wanted = [
        queue
        for queue in covering
        if job.queue in (None, queue.name) and job.namespace in (None, queue.namespace)
    ]
    if len({queue.team for queue in wanted}) > 1:
        known = ", ".join(f"{queue.namespace}/{queue.name}" for queue in wanted)
        raise InputError(
            f"queue: missing, and several teams have one in cluster {contract.cluster!r}: {known}",
            remedy="name your team's, in the job file or with --queue",
        )
    if wanted:
        return wanted[0]
    if job.namespace is not None and any(job.queue in (None, queue.name) for queue in covering):
        places = ", ".join(dict.fromkeys(queue.namespace for queue in covering))
        raise InputError(
            f"namespace: {job.namespace!r} has no such queue; these have one: {places}",
            remedy="name one of them, or leave it out",
        )
    names = [queue.name for queue in contract.queues]
    if runtime is not None and job.queue in names:
        raise InputError(
            f"queue: {job.queue!r} does not cover pool {runtime.pool!r}, where the pods of runtime "
            f"{runtime.name!r} run; these do: {', '.join(q.name for q in covering) or 'none'}",
            remedy="name one of them, in the job file or with --queue, or leave it out",
        )
    raise InputError(
        f"queue: {job.queue!r} is not in cluster {contract.cluster!r}; "
        f"there are: {', '.join(names) or 'none'}" + did_you_mean(job.queue or "", names),
        remedy="name one of them, in the job file or with --queue",
    )


def choose_share(job: JobFile, runtime: Runtime) -> Share:
    """What a pod requests with the job's GPUs, or with the runtime's own number of them.

    Raises:
        InputError: the runtime serves no pods of that many.
    """
    wanted = runtime.gpus_per_node if job.gpus_per_node is None else job.gpus_per_node
    for share in runtime.shares:
        if share.gpus == wanted:
            return share
    allowed = ", ".join(str(share.gpus) for share in runtime.shares)
    raise InputError(
        f"gpus_per_node: {wanted} is not allowed with runtime {runtime.name!r}; allowed: {allowed}",
        remedy="ask for one of them, or name another runtime; any other number needs a runtime of "
        "its own in the cluster's stack",
    )


def choose_priority(job: JobFile, contract: ClusterContract, queue: Queue | None) -> str | None:
    """The job's priority, or what the queue gives to jobs that name none.

    Raises:
        InputError: the cluster has none, or not the one that is named.
    """
    if job.priority is None or "priority" in contract.unsaid:
        return queue.priority if queue else None
    if job.priority in contract.priorities:
        return job.priority
    known = ", ".join(f"{name} ({value})" for name, value in contract.priorities.items()) or "none"
    raise InputError(
        f"priority: {job.priority!r} is not in cluster {contract.cluster!r}; there are: {known}"
        + did_you_mean(job.priority, contract.priorities),
        remedy="name one of them, or leave it out",
    )


_PLACEMENTS = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, UNCONSTRAINED_TOPOLOGY)


def choose_placement(
    job: JobFile, contract: ClusterContract, runtime: Runtime
) -> dict[str, str] | None:
    """The pods' annotations with the job's placement in place of the runtime's; None for that.

    Raises:
        InputError: the topology has no such level, or several of that name.
    """
    if job.topology is None:
        return None
    own = (runtime.pod.get("metadata") or {}).get("annotations") or {}
    kept = {key: value for key, value in own.items() if key not in _PLACEMENTS}
    first, _, second = job.topology.partition(" ")
    if first == "any":
        return kept | {UNCONSTRAINED_TOPOLOGY: "true"}
    wanted, levels = second or first, contract.topology_levels
    found = [level for level in levels if wanted in (level, level.rpartition("/")[2])]
    if len(found) == 1:
        return kept | {PREFERRED_TOPOLOGY if second else REQUIRED_TOPOLOGY: found[0]}
    short = [level.rpartition("/")[2] for level in levels]
    names = [s if short.count(s) == 1 else level for s, level in zip(short, levels, strict=True)]
    raise InputError(
        f"topology: {wanted!r} is {'no level' if not found else 'several levels'} of cluster "
        f"{contract.cluster!r}; from the widest: {', '.join(names)}" + did_you_mean(wanted, names),
        remedy="name one of them, `prefer` and one of them, or `any`",
    )


def complete_resources(runtime: Runtime, share: Share) -> dict[str, dict[str, str]]:
    """The runtime's own resources with these devices in place of its own."""
    result: dict[str, dict[str, str]] = {}
    for side in ("requests", "limits"):
        own = (runtime.trainer.get("resources") or {}).get(side) or {}
        plain = {name: value for name, value in own.items() if name not in runtime.devices}
        # Extended resources must be equal on both sides (core validation).
        result[side] = dict(sorted((plain | share.requests).items()))
    return result


def _check_nodes(job: JobFile, runtime: Runtime) -> None:
    if runtime.only_nodes not in (None, job.nodes):
        raise InputError(
            f"nodes: {job.nodes} is not allowed with runtime {runtime.name!r}; allowed: "
            f"{runtime.only_nodes}",
            remedy=f"ask for {runtime.only_nodes}: this cluster's queue charges the runtime's own "
            "number of nodes, whatever a job asks for; or name a runtime of another size",
        )


def _check_environment(job: JobFile, runtime: Runtime, switches: Mapping[str, Switch]) -> None:
    """A value of the job's would be a lie, or take it off its network."""
    leaves = job.fabric == "none"
    said = {
        name: f" ({name}={runtime.environment[name]})" if name in runtime.environment else ""
        for name in (*job.env, *job.secrets)
        if name in runtime.reserved and not (leaves and name in switches)
    }
    if said:
        text = "; ".join(f"{n}: set by {runtime.reserved[n]}{value}" for n, value in said.items())
        raise InputError(
            f"env: {text}, not by a job", remedy="leave it out; the runtime carries it"
        )
    off = [
        f"{name}={value}: {switches[name].reason}"
        for name, value in job.env.items()
        if name in switches and value not in switches[name].allowed
    ]
    if off and not leaves:
        raise InputError(
            f"env: {'; '.join(off)}; the job would leave its fabric and still complete",
            remedy="leave it out, or write `fabric: none` if the job wants no fabric",
        )


def _check_verify(job: JobFile, runtime: Runtime) -> None:
    """Whether there is something to prove, and something to prove it with."""
    if not job.verify:
        return
    if job.fabric == "none":
        raise InputError(
            "verify: contradicts `fabric: none`: a job that may leave the fabric proves nothing of "
            "it",
            remedy="leave one of the two out",
        )
    if job.nodes == 1:
        raise InputError(
            "verify: one node has nothing to prove: no data of the job goes over the fabric",
            remedy="leave it out, or ask for more nodes",
        )
    framework = _framework(runtime)
    if framework is None or framework.proving(PROGRAM) is None:
        can = [name for name, one in FRAMEWORKS.items() if one.proving(PROGRAM) is not None]
        starter = framework.launcher if framework else "nothing that is known"
        raise InputError(
            f"verify: runtime {runtime.name!r} is of framework {runtime.framework!r}: what proves "
            f"the fabric is a program of PyTorch, and {starter} starts none in the job's world "
            f"before its command; it can be asked of: {', '.join(can)}",
            remedy="leave it out; `railhead accept --only rdma` proves the fabric by a job of its "
            "own",
        )


def _check_words(job: JobFile, switches: Mapping[str, Switch]) -> None:
    """What `env:` may not say, the command may not either."""
    names = "|".join(map(re.escape, switches))
    found = re.search(rf"(?:^|[^A-Za-z0-9_])({names})=", " ".join(job.command)) if names else None
    if found and job.fabric != "none":
        raise InputError(
            f"command: sets {found[1]}: {switches[found[1]].reason}; the job would leave its "
            "fabric and still complete",
            remedy="leave it out, or write `fabric: none` if the job wants no fabric",
        )


def _check_launcher(job: JobFile, runtime: Runtime) -> None:
    """Without a launcher every node would be a world of its own, and the job complete."""
    if job.nodes == 1 or job.launcher or runtime.launches is None:
        return
    framework, one = _framework(runtime), Gang(job=job.name, hosts=(job.name,), processes=1)
    started = framework.start(job.command, one) if framework else job.command
    words, shown = " ".join(started), repr(job.command[0])
    alone = re.search(runtime.alone, words) if runtime.alone else None
    if re.search(runtime.launches, words) and alone is None:
        return
    problem = (
        f"has {alone[0].strip()!r}, by which {runtime.launcher} makes a world of one node"
        if alone
        else f"{shown} starts no launcher that is known ({runtime.launcher})"
    )
    raise InputError(
        f"command: {problem}: each of the {job.nodes} nodes would train alone, in a world of its "
        "own, and the job complete",
        remedy=f"begin it with {runtime.launcher} and leave size and addresses to the runtime; or "
        "write `launcher: own` if it starts its processes in a way that cannot be seen from here, "
        "or `launcher: none` if each node is to work by itself; or ask for one node",
    )


def check_job(job: JobFile, contract: ClusterContract) -> Choice:
    """Compare what a job names with what the cluster has.

    Raises:
        InputError: with everything that the cluster does not have, or does not leave to a job.
        PrerequisiteError: the contract is too old to tell what the job's pods need.
    """
    problems: list[InputError] = []

    def tried(check: Callable[[], _T]) -> _T | None:
        try:
            return check()
        except InputError as error:
            problems.append(error)
            return None

    patch = contract.placement_field
    if patch is None:
        raise PrerequisiteError(
            f"the contract of cluster {contract.cluster!r} does not say what the pods of jobs "
            "request and mount: an older Railhead wrote it",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    runtime = tried(lambda: choose_runtime(job, contract))
    queue = tried(lambda: choose_queue(job, contract, runtime))
    priority = tried(lambda: choose_priority(job, contract, queue))
    share = annotations = None
    if runtime is not None:
        annotations = tried(partial(choose_placement, job, contract, runtime))
        share = tried(partial(choose_share, job, runtime))
        tried(partial(_check_nodes, job, runtime))
        tried(partial(_check_environment, job, runtime, contract.fabric.switches))
        tried(partial(_check_launcher, job, runtime))
        tried(partial(_check_verify, job, runtime))
        tried(partial(_check_extras, job, runtime))
        tried(partial(_check_shm, job, runtime))
    datasets = tried(partial(_datasets, job, contract, queue)) if queue else None
    tried(partial(_check_words, job, contract.fabric.switches))
    tried(partial(_check_unsaid, job, contract))
    if runtime and queue and share and not problems:
        mounted = _mounted(runtime)
        return Choice(
            runtime=runtime,
            queue=queue,
            # The runtime may mount some of them for every job.
            datasets={p: c for p, c in (datasets or {}).items() if p not in mounted},
            share=share,
            placement_field=patch,
            priority=priority,
            annotations=annotations,
        )
    if len(problems) == 1:
        raise problems[0]
    raise InputError(
        "\n  ".join([f"{len(problems)} mistakes", *(p.problem for p in problems)]),
        remedy="; ".join(dict.fromkeys(p.remedy for p in problems)),
    )


def _mounted(runtime: Runtime) -> list[str]:
    """Where the container that trains has something of its runtime's."""
    return [str(mount["mountPath"]) for mount in runtime.trainer.get("volumeMounts", ())]


def _check_unsaid(job: JobFile, contract: ClusterContract) -> None:
    """What the cluster's scheduler has no word for would be lost without one."""
    said = {name: why for name, why in contract.unsaid.items() if getattr(job, name) is not None}
    if said:
        raise InputError(
            "\n  ".join(f"{name}: {why}" for name, why in said.items()),
            remedy=f"leave {', '.join(said)} out",
        )


def _check_extras(job: JobFile, runtime: Runtime) -> None:
    """Secrets, mounts and checkpoints beside what else the job and its runtime have."""
    if twice := sorted(set(job.env) & set(job.secrets)):
        raise InputError(f"secrets: {', '.join(twice)}: given in env too", remedy="give each once")
    taken = _mounted(runtime)
    taken += [runtime.checkpoint.path] if runtime.checkpoint else []
    for path in job.mounts:
        for other in taken:
            if Path(path).is_relative_to(other):
                raise InputError(
                    f"mounts: {path!r} lies in {other}, which runtime {runtime.name!r} mounts",
                    remedy="name another path",
                )
    if job.logs == "kept" and runtime.checkpoint is None:
        raise InputError(
            f"logs: 'kept' is not possible: runtime {runtime.name!r} has no claim to keep them on",
            remedy="leave it out, or name a runtime that has a claim for checkpoints",
        )
    if job.checkpoint is not None and runtime.checkpoint is None:
        raise InputError(
            f"checkpoint: runtime {runtime.name!r} has no claim for checkpoints",
            remedy="leave it out, or name a runtime that has one",
        )


def _check_shm(job: JobFile, runtime: Runtime) -> None:
    """Less than a container has by itself is a mistake, and so is more than the pod's memory."""
    memory = (runtime.trainer.get("resources") or {}).get("requests", {}).get("memory")
    if job.shm is None or memory is None:
        return
    if not quantity.RUNTIME_SHM < quantity.parse(job.shm) <= quantity.parse(memory):
        raise InputError(
            f"shm: {job.shm} is not allowed with runtime {runtime.name!r}; allowed: more than the "
            f"64Mi that a container has anyway, and at most the {memory} of memory that its pods "
            "request, as which it counts",
            remedy="ask for a size between them, or name a runtime with more memory",
        )


def _datasets(job: JobFile, contract: ClusterContract, queue: Queue) -> dict[str, str]:
    """Claims of the job's data sets by path, as in ``mounts``; of its queue's namespace.

    Raises:
        InputError: the namespace has no such data set, or something else is mounted there.
    """
    known = {one.name: one for one in contract.datasets if one.namespace == queue.namespace}
    found = {}
    for name in job.datasets:
        if name not in known:
            raise InputError(
                f"datasets: namespace {queue.namespace!r} has no data set {name!r}"
                f"{choices(name, list(known))}",
                remedy="name one of them, or mount a claim by `mounts`",
            )
        if (path := known[name].mount_path) in job.mounts:
            raise InputError(
                f"datasets: {name!r} is mounted at {path}, which mounts names too",
                remedy="leave one of the two out",
            )
        found[path] = f"{known[name].claim}:ro"
    return found


def _checkpoint_directory(job: JobFile, runtime: Runtime) -> str | None:
    """Where the job's checkpoints lie in its containers; None without a claim."""
    mount, asked = runtime.checkpoint, job.checkpoint or CheckpointFile()
    if mount is None:
        return None
    directory = f"{mount.path.rstrip('/')}/{asked.path or job.name}"
    # A directory that no launch had before, so there is nothing to go on from.
    if asked.resume == "never":
        directory += f"/{datetime.now(UTC):%Y%m%d-%H%M%S}"
    return directory


def _environment(
    job: JobFile, *, nodes: int, processes: int, directory: str | None
) -> dict[str, str]:
    added = {
        "RAILHEAD_JOB": job.name,
        "RAILHEAD_NODES": str(nodes),
        "RAILHEAD_PROCESSES_PER_NODE": str(processes),
        "RAILHEAD_WORLD_SIZE": str(nodes * processes),
    }
    if directory is not None:
        added["CHECKPOINT_DIR"] = directory
    if job.fabric == "none":
        added["NCCL_NET"] = "Socket"
    if job.launcher == "none":
        added["RAILHEAD_LAUNCHER"] = "none"
    return added | job.env


def _command(job: JobFile, files: tuple[Payload, ...]) -> tuple[str, ...]:
    """The job's words; a program that travels with it is where its files are."""
    first, *rest = job.command
    sent = {payload.name for payload in files}
    return (f"{WORKSPACE}/{first}" if first in sent else first, *rest)


def _check_framework(framework: Framework, command: tuple[str, ...], gang: Gang, gpus: int) -> None:
    """What the framework itself says of such a job.

    Raises:
        InputError: fewer nodes or other processes than it runs on, or its own sizes do not fit.
    """
    found = framework.problems(command, gang, gpus)
    if gang.nodes < framework.fewest_nodes:
        text = f"{framework.name} jobs have at least {framework.fewest_nodes} nodes here"
        found.append((f"nodes: {gang.nodes} is too few: {text}", "ask for more nodes"))
    if framework.one_process and gang.processes != 1:
        text = f"processes_per_node: {gang.processes} is not allowed with {framework.name}"
        fix = "leave it out: one process a pod has all of its GPUs, or starts the others itself"
        found.append((text, fix))
    if found:
        raise InputError(
            "\n  ".join(text for text, _ in found), remedy="; ".join(fix for _, fix in found)
        )


def _keeping(job: JobFile, runtime: Runtime, namespace: str, processes: int) -> tuple[str, ...]:
    """What keeps the job's output on the claim; nothing without one, or where it is not wanted."""
    if runtime.checkpoint is None or job.logs == "pods":
        return ()
    framework = _framework(runtime)
    about = {
        "name": job.name,
        "nodes": job.nodes,
        "processes": processes,
        "runtime": runtime.name,
    }
    # A pod that starts the others' processes is the last (railhead.kube.jobs.gang).
    first = job.nodes - 1 if framework is not None and framework.servers else 0
    return claimed.words(runtime.checkpoint, namespace=namespace, about=about, first=first)


def make_plan(job: JobFile, files: tuple[Payload, ...], contract: ClusterContract) -> Plan:
    """Decide everything about a job.

    Args:
        job: the job file.
        files: its local files.
        contract: the cluster's contract.

    Raises:
        InputError: the job asks for what this cluster does not have.
        PrerequisiteError: the contract is too old to tell what the job's pods need.
    """
    choice = check_job(job, contract)
    runtime, queue, share = choice.runtime, choice.queue, choice.share
    gpus, resized = share.gpus, share.gpus != runtime.gpus_per_node
    framework = _framework(runtime)
    one = framework is not None and framework.one_process
    own = gpus if resized and not one else runtime.processes_per_node
    processes = job.processes_per_node or own
    mount, pool = runtime.checkpoint, contract.pool(runtime)
    notes = []
    if runtime.framework != contract.runtime(runtime.name).framework:
        notes.append(
            f"the cluster has no runtime of {runtime.framework}: {runtime.name} carries the job, "
            f"{'in its own image, ' if job.image is None else ''}and launch says how the "
            "processes meet"
        )
    if job.nodes > 1 and gpus < pool.gpus_per_node:
        notes.append(
            f"{gpus} of a machine's {pool.gpus_per_node} GPUs a node: several of this job's nodes "
            "may share one machine; ask for all of them to have each machine whole"
        )
    env = _environment(
        job,
        nodes=job.nodes,
        processes=processes,
        directory=_checkpoint_directory(job, runtime),
    )
    if "PYTHONPATH" in env and "PYTHONPATH" in runtime.environment:
        env["PYTHONPATH"] += f":{runtime.environment['PYTHONPATH']}"
    command, wiring, proof = _command(job, files), {}, None
    if framework is not None:
        pods = (f"{job.name}-{runtime.replicated_job}-0-{i}.{job.name}" for i in range(job.nodes))
        gang = Gang(job=job.name, hosts=tuple(pods), processes=processes)
        _check_framework(framework, command, gang, gpus)
        command = framework.start(command, gang)
        every = framework.wiring(gang) | {NODES: str(job.nodes)}
        wiring = {name: value for name, value in every.items() if name in runtime.told}
        wiring |= framework.taken_along([*runtime.environment, *env])
        proof = prove(framework, gang, contract.fabric) if job.verify else None
    return Plan(
        name=job.name,
        namespace=queue.namespace,
        queue=queue.name,
        cluster_queue=queue.cluster_queue,
        runtime=runtime.name,
        replicated_job=runtime.replicated_job,
        container=runtime.container,
        nodes=job.nodes,
        processes_per_node=processes,
        gpus_per_node=gpus,
        pool=pool,
        flavor=queue.flavors[queue.pools.index(pool.name)],
        image=job.image,
        command=command,
        env={name: value for name, value in env.items() if name not in wiring},
        files=files,
        resources=complete_resources(runtime, share),
        resized=resized,
        placement_field=choice.placement_field,
        checkpoint_claim=mount.claim if mount else None,
        labels={LAUNCHER_LABEL: "own"} if job.launcher else {},
        pod_labels={FABRIC_LABEL: job.fabric} if job.fabric else {},
        priority=choice.priority,
        annotations=choice.annotations,
        framework=framework,
        wiring=wiring,
        template=runtime.pod,
        notes=tuple(notes),
        scheduler=contract.scheduler,
        secrets=dict(job.secrets),
        mounts=job.mounts | choice.datasets,
        max_seconds=seconds(job.timeout) if job.timeout else 0,
        restarts=job.restarts,
        shm=job.shm,
        proof=proof,
        keeping=_keeping(job, runtime, queue.namespace, processes),
    )
