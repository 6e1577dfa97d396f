"""Turns a job file and a cluster's contract into a plan: every choice made, nothing created."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from railhead.base.errors import InputError, PrerequisiteError
from railhead.base.names import FABRIC_LABEL, LAUNCHER_LABEL, LOGS, NVLINK_CLAIM
from railhead.base.quantity import parse
from railhead.base.tags import moves
from railhead.contract import ClusterContract, NodePool, Runtime, Share
from railhead.framework.base import NODES, Framework, Gang, program_of
from railhead.launch.choose import framework_of
from railhead.launch.job import (
    MAIN_ROLE,
    MAX_NAME,
    MAX_WORD_BYTES,
    WORKSPACE,
    CheckpointFile,
    JobFile,
    Payload,
    RoleFile,
    seconds,
)
from railhead.launch.logs import claimed
from railhead.launch.patches import PlacementField
from railhead.launch.proof import Proof, prove
from railhead.launch.refusals import Choice, check_job, claims_of

#: What the variables begin with that hold the names of a role's pods.
HOSTS = "RAILHEAD_HOSTS_"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job with every choice made.

    Attributes:
        name: the job's name.
        namespace: the namespace of its queue.
        queue: the LocalQueue.
        cluster_queue: the queue's ClusterQueue.
        priority: the WorkloadPriorityClass, None if the cluster has no priorities.
        scheduler: the scheduler that admits it.
        pool: where the runtime's pods run.
        flavor: that pool's in the queue.
        avoid: names of nodes that its pods do not get.
        runtime: the runtime's name.
        replicated_job: the runtime's part whose pods train.
        container: the container in them that trains.
        template: the runtime's pods, as the contract has them.
        placement_field: the field of a TrainJob that changes the pods.
        annotations: all annotations of the pods, if the job's placement differs from the runtime's.
        labels: of the TrainJob, beside launch's own.
        pod_labels: labels of its pods.
        nodes: pods that train.
        min_nodes: the fewest nodes with which the run goes on; None if it needs all of them.
        gpus_per_node: GPUs of each pod.
        resources: the trainer container's complete ``requests`` and ``limits``.
        resized: whether they are others than the runtime's own.
        shm: size of ``/dev/shm``; None for the runtime's.
        image: the container image; None for the runtime's.
        program: the program and its arguments, as the job says them.
        command: the same, as its framework starts it.
        processes_per_node: processes of each pod.
        framework: how the processes find each other; None if this Railhead does not know it.
        wiring: variables by which they do and that launch sets; the kubelet completes them.
        env: what launch adds first, then the user's.
        secrets: environment variables from Secrets, ``secret/key`` by name.
        proof: what proves the fabric in the pods before the command; None where nobody asked.
        files: the local files that it gets.
        mounts: claims by path, ``claim`` or ``claim:ro``.
        checkpoint_claim: the claim of its checkpoints; None without one.
        keeping: what stands before all of it in a TrainJob's pods, puts what they print on the
            claim as well and says how their claims are; nothing where none is mounted.
        logs_claim: the claim that what they print is put on; empty where it is on none.
        max_seconds: how long it may run once admitted; 0 for ever.
        restarts: how often the gang is recreated; None for the runtime's own number.
        never_on: exit codes after which it is not, as the runtime has them.
        finished_days: how long its pods stay once it is over; None for ever.
        role: what its pods are called in their gang.
        roles: the gang's other pods, each a plan of the same name, namespace and queue.
        notes: what the user should know and nothing refuses.
    """

    name: str
    # Where it is admitted and placed.
    namespace: str
    queue: str
    cluster_queue: str
    priority: str | None
    scheduler: str
    pool: NodePool
    flavor: str
    avoid: tuple[str, ...]
    # The runtime's pods, and what differs in them.
    runtime: str
    replicated_job: str
    container: str
    template: dict[str, Any]
    placement_field: PlacementField
    annotations: dict[str, str] | None
    labels: dict[str, str]
    pod_labels: dict[str, str]
    # Their number and size.
    nodes: int
    min_nodes: int | None
    gpus_per_node: int
    resources: dict[str, dict[str, str]]
    resized: bool
    shm: str | None
    # Their processes.
    image: str | None
    program: tuple[str, ...]
    command: tuple[str, ...]
    processes_per_node: int
    framework: Framework | None
    wiring: dict[str, str]
    env: dict[str, str]
    secrets: dict[str, str]
    proof: Proof | None
    # What they read and write.
    files: tuple[Payload, ...]
    mounts: dict[str, str]
    checkpoint_claim: str | None
    keeping: tuple[str, ...]
    logs_claim: str
    # Its end.
    max_seconds: int
    restarts: int | None
    never_on: tuple[int, ...]
    finished_days: int | None = None
    role: str = MAIN_ROLE
    roles: tuple[Plan, ...] = ()
    notes: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """Words that each pod starts: the command, behind the proof of the fabric."""
        return (*(self.proof.words if self.proof else ()), *self.command)

    @property
    def pods_of(self) -> tuple[str, ...]:
        """The replicated jobs whose pods run the job's processes."""
        servers = self.framework.servers if self.framework else ()
        return (self.replicated_job, *servers)

    @property
    def parts(self) -> tuple[Plan, ...]:
        """All roles of the gang, this one first."""
        return (self, *self.roles)

    def gang(self, hosts: tuple[str, ...]) -> Gang:
        """Return the job's pods under these names."""
        return Gang(job=self.name, hosts=hosts, processes=self.processes_per_node)

    @property
    def world_size(self) -> int:
        """Processes in the whole job."""
        return self.nodes * self.processes_per_node

    @property
    def gpu_resource(self) -> str:
        """The GPUs' resource name, such as ``nvidia.com/gpu``."""
        return self.pool.gpu_resource


def complete_resources(
    runtime: Runtime, share: Share, *, stand_in: bool = False
) -> dict[str, dict[str, str]]:
    """Return the runtime's own resources with these devices in place of its own.

    Memory goes with GPUs, but not where they are stand-ins.
    """
    result: dict[str, dict[str, str]] = {}
    for side in ("requests", "limits"):
        own = (runtime.trainer.get("resources") or {}).get(side) or {}
        plain = {name: value for name, value in own.items() if name not in runtime.devices}
        # Extended resources must be equal on both sides (core validation).
        result[side] = dict(sorted((plain | share.requests).items()))
    limit = result["limits"].get("memory")
    if limit and share.gpus != runtime.gpus_per_node and not stand_in:
        result["limits"]["memory"] = _memory_limit(runtime, share, limit)
    return result


def _memory_limit(runtime: Runtime, share: Share, limit: str) -> str:
    """Return the part of the runtime's limit that goes with these GPUs, at least the request."""
    requested = str(runtime.trainer["resources"]["requests"]["memory"])
    part = parse(limit) * share.gpus // runtime.gpus_per_node
    return requested if parse(requested) >= part else f"{part // (1 << 20)}Mi"


def _checkpoint_directory(job: JobFile, runtime: Runtime) -> str | None:
    """Return the directory of the job's checkpoints in its containers; None without a claim."""
    mount, asked = runtime.checkpoint, job.checkpoint or CheckpointFile()
    if mount is None:
        return None
    return f"{mount.path.rstrip('/')}/{asked.path or job.name}"


def _environment(job: JobFile, runtime: Runtime, processes: int, role: str) -> dict[str, str]:
    """Return the variables that launch adds, then the job's."""
    added = {
        "RAILHEAD_JOB": job.name,
        "RAILHEAD_NODES": str(job.nodes),
        "RAILHEAD_PROCESSES_PER_NODE": str(processes),
    }
    # In a run that can go on with fewer nodes it would soon be wrong.
    if job.min_nodes is None:
        added["RAILHEAD_WORLD_SIZE"] = str(job.nodes * processes)
    directory = _checkpoint_directory(job, runtime)
    if directory is not None:
        added["CHECKPOINT_DIR"] = directory
    if job.fabric == "none":
        added["NCCL_NET"] = "Socket"
    if job.launcher == "none":
        added["RAILHEAD_LAUNCHER"] = "none"
    if job.roles:
        added["RAILHEAD_ROLE"] = role
    env = added | job.env
    if "PYTHONPATH" in env and "PYTHONPATH" in runtime.environment:
        env["PYTHONPATH"] += f":{runtime.environment['PYTHONPATH']}"
    return env


def _command(job: JobFile, files: tuple[Payload, ...]) -> tuple[str, ...]:
    """Return the job's words; a program that travels with it is where its files are."""
    first, *rest = job.command
    sent = {payload.name for payload in files}
    return (f"{WORKSPACE}/{first}" if first in sent else first, *rest)


def _check_framework(framework: Framework, command: tuple[str, ...], gang: Gang, gpus: int) -> None:
    """Check what the framework itself requires of such a job.

    Raises:
        InputError: fewer nodes or other processes than it runs on, or its own sizes do not fit.
    """
    result = framework.problems(command, gang, gpus)
    if gang.nodes < framework.fewest_nodes:
        text = f"{framework.name} jobs have at least {framework.fewest_nodes} nodes here"
        result.append((f"nodes: {gang.nodes} is too few: {text}", "ask for more nodes"))
    if framework.one_process and gang.processes != 1:
        text = f"processes_per_node: {gang.processes} is not allowed with {framework.name}"
        fix = "leave it out: one process a pod has all of its GPUs, or starts the others itself"
        result.append((text, fix))
    if result:
        raise InputError(
            "\n  ".join(text for text, _ in result), remedy="; ".join(fix for _, fix in result)
        )


def _logs(job: JobFile, runtime: Runtime) -> str:
    """Return what becomes of the pods' output, by the job or its runtime."""
    return job.logs or runtime.environment.get(LOGS, "kept")


def _joined(choice: Choice, contract: ClusterContract) -> int:
    """Return the GPUs that NVLink joins to a pod's own, itself included."""
    gpus, pool = choice.share.gpus, contract.pool(choice.runtime)
    claims = (choice.runtime.pod.get("spec") or {}).get("resourceClaims") or ()
    # A part of a machine's GPUs, or a pod without a channel, is in no domain of several machines.
    whole = gpus == pool.gpus_per_node and any(c["name"] == NVLINK_CLAIM for c in claims)
    return max(gpus, pool.nvlink_domain) if whole else gpus


def _kept(job: JobFile, runtime: Runtime) -> bool:
    """Return whether the pods' output goes to the claim for checkpoints too, if there is one."""
    return bool(runtime.programs) and _logs(job, runtime) == "kept"


def _keeping(
    job: JobFile, runtime: Runtime, mounts: Mapping[str, str], namespace: str, processes: int
) -> tuple[str, ...]:
    """Return the words that keep the job's output on the claim and watch the job's claims."""
    own = runtime.checkpoint.path if runtime.checkpoint else None
    others = {path: claim for path, claim in claims_of(runtime, mounts).items() if path != own}
    if _logs(job, runtime) == "bare" or not runtime.programs or not (own or others):
        return ()
    framework = framework_of(runtime)
    about = {
        "name": job.name,
        "nodes": job.nodes,
        "processes": processes,
        "runtime": runtime.name,
    }
    # A pod that starts the others' processes is the last (railhead.kube.jobs.gang).
    first = job.nodes - 1 if framework is not None and framework.servers else 0
    return claimed.words(
        runtime.programs,
        runtime.checkpoint,
        others=others,
        namespace=namespace,
        about=about,
        first=first,
        logs=_kept(job, runtime),
    )


def _notes(job: JobFile, choice: Choice, contract: ClusterContract) -> Iterator[str]:
    """Yield the notes on the choice that a user should read before launching."""
    runtime, gpus = choice.runtime, choice.share.gpus
    whole = contract.pool(runtime).gpus_per_node
    if runtime.framework != contract.runtime(runtime.name).framework:
        image = ", in its own image" if job.image is None else ""
        meet = ", and launch says how the processes meet" if runtime.told else ""
        yield f"runtime {runtime.name} carries this job of {runtime.framework}{image}{meet}"
    if runtime.checkpoint and not runtime.programs and _logs(job, runtime) == "kept":
        yield (
            "logs last as long as the pods: the stack is of an earlier Railhead, whose pods have "
            "no program that keeps them; `pulumi up` brings it"
        )
    if job.image is not None and moves(job.image):
        # A runtime's pods have imagePullPolicy IfNotPresent (railhead.resolve.runtimes).
        yield (
            f"image: {job.image} is not the same on all nodes once its tag has moved: one that has "
            "it does not pull it again; name a version or a digest"
        )
    if job.nodes > 1 and gpus < whole:
        yield (
            f"{gpus} of a machine's {whole} GPUs a node: several of this job's nodes may share "
            "one machine; ask for all of them to have each machine whole"
        )


def _started(
    job: JobFile,
    files: tuple[Payload, ...],
    choice: Choice,
    contract: ClusterContract,
    processes: int,
    role: str,
) -> tuple[tuple[str, ...], dict[str, str], Proof | None]:
    """Return the words that start the job, what launch itself tells its processes, and its proof.

    Raises:
        InputError: as :func:`_check_framework`.
    """
    runtime, words = choice.runtime, _command(job, files)
    framework = framework_of(runtime)
    if framework is None:
        return words, {}, None
    pods = hosts(job.name, runtime.replicated_job if role == MAIN_ROLE else role, job.nodes)
    gang = Gang(job=job.name, hosts=pods, processes=processes, programs=runtime.programs)
    _check_framework(framework, words, gang, _joined(choice, contract))
    every = framework.wiring(gang) | {NODES: str(job.nodes)}
    wiring = {name: value for name, value in every.items() if name in runtime.told}
    proof = prove(framework, gang, contract.fabric) if job.verify else None
    # A command that starts its processes itself would start all of them in each process.
    own = job.launcher == "own"
    started = program_of(words) if own else framework.start(words, gang)
    return started, wiring, proof


def _forwarding(
    framework: Framework, runtime: Runtime, words: Sequence[str], names: Iterable[str]
) -> dict[str, str]:
    """Return the variables by which the job's others and the runtime's reach all of its pods.

    Raises:
        InputError: they cannot.
        PrerequisiteError: an earlier Railhead made the runtime, whose pods take none.
    """
    results = framework.forwarding(words, (*runtime.environment, *names))
    if not results.keys() <= runtime.environment.keys():
        raise PrerequisiteError(
            f"runtime {runtime.name}: an older Railhead made it, and its pods would not get the "
            "job's variables",
            remedy="run `pulumi up` on the cluster's stack again",
        )
    return results


def hosts(job: str, replicated_job: str, nodes: int) -> tuple[str, ...]:
    """Return names below a JobSet's service (v0.10.1, pkg/controllers/jobset_controller.go)."""
    return tuple(f"{job}-{replicated_job}-0-{i}.{job}" for i in range(nodes))


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
    if job.matrix:
        raise InputError(
            "matrix: makes several jobs of a file, which `railhead launch` alone does",
            remedy="leave it out; in Python, write a loop",
        )
    given: dict[str, Any] = {"env": _meeting(job) | job.env}
    if job.checkpoint is not None and job.checkpoint.resume == "never":
        # A directory that no launch had before, so there is nothing to go on from; of all roles.
        path = f"{job.checkpoint.path or job.name}/{datetime.now(UTC):%Y%m%d-%H%M%S}"
        given["checkpoint"] = job.checkpoint.model_copy(update={"path": path})
    job = job.model_copy(update=given)
    plan = _part(job, files, contract, MAIN_ROLE)
    roles = tuple(_role(job, files, contract, plan, *item) for item in job.roles.items())
    notes = (f"roles.{part.role}: {note}" for part in roles for note in part.notes)
    return replace(plan, roles=roles, notes=(*plan.notes, *notes))


def _meeting(job: JobFile) -> dict[str, str]:
    """Return the variables by which the pods of one role find all others; none without roles.

    Raises:
        InputError: the names of a role's pods are more than one variable holds.
    """
    if not job.roles:
        return {}
    results = {}
    sizes = {MAIN_ROLE: job.nodes} | {name: role.nodes for name, role in job.roles.items()}
    for role, nodes in sizes.items():
        variable = f"{HOSTS}{role.replace('-', '_').upper()}"
        results[variable] = ",".join(hosts(job.name, role, nodes))
        if len(results[variable]) > MAX_WORD_BYTES:
            raise InputError(
                f"roles: {variable} would have {len(results[variable])} bytes, the names of "
                f"{nodes} pods; allowed: {MAX_WORD_BYTES}, for Linux starts no program with more",
                remedy="shorten the job's name, or ask for fewer nodes",
            )
    return results


def _role(
    job: JobFile,
    files: tuple[Payload, ...],
    contract: ClusterContract,
    main: Plan,
    name: str,
    role: RoleFile,
) -> Plan:
    """Decide everything about other pods of a job's gang.

    Raises:
        InputError: as :func:`make_plan`; or its pods have no room for the name, or another queue.
    """
    if len(job.name) + len(name) > MAX_NAME + len(MAIN_ROLE):
        raise InputError(
            f"roles.{name}: too long beside the job's name {job.name!r}: its pods carry both, and "
            f"allowed are {MAX_NAME + len(MAIN_ROLE)} characters",
            remedy="shorten one of them",
        )
    own: dict[str, Any] = role.model_dump(include={"nodes", "command", "processes_per_node"})
    own |= role.model_dump(include={"gpus_per_node", "image"}, exclude_none=True)
    if role.runtime or role.framework:
        own |= {"runtime": role.runtime, "framework": role.framework}
    own |= {"env": job.env | role.env, "launcher": role.launcher}
    # These are about the job's own pods.
    own |= {"verify": None, "min_nodes": None}
    try:
        plan = _part(job.model_copy(update=own), files, contract, name)
    except InputError as error:
        raise InputError(f"roles.{name}: {error.problem}", remedy=error.remedy) from None
    if (plan.namespace, plan.queue) != (main.namespace, main.queue):
        raise InputError(
            f"roles.{name}: its queue is {plan.namespace}/{plan.queue}, the job's is "
            f"{main.namespace}/{main.queue}, and one queue admits a gang",
            remedy="name a runtime over a pool of the job's queue",
        )
    return plan


def _part(job: JobFile, files: tuple[Payload, ...], contract: ClusterContract, role: str) -> Plan:
    """Decide everything about the pods of one role. Raises as :func:`make_plan`."""
    choice = check_job(job, contract)
    runtime, queue, share = choice.runtime, choice.queue, choice.share
    gpus, resized = share.gpus, share.gpus != runtime.gpus_per_node
    framework = framework_of(runtime)
    item = framework is not None and framework.one_process
    own = gpus if resized and not item else runtime.processes_per_node
    processes = job.processes_per_node or own
    checkpoint, pool = runtime.checkpoint, contract.pool(runtime)
    mounts = job.mounts | choice.datasets
    # A TrainJob leaves the number to its runtime, and no job with one of these is a TrainJob.
    counts = job.min_nodes is not None or bool(job.roles)
    env = _environment(job, runtime, processes, role)
    command, wiring, proof = _started(job, files, choice, contract, processes, role)
    if framework is not None:
        env = _forwarding(framework, runtime, command, (*env, *job.secrets)) | env
    return Plan(
        name=job.name,
        namespace=queue.namespace,
        queue=queue.name,
        cluster_queue=queue.cluster_queue,
        priority=choice.priority,
        scheduler=contract.scheduler,
        pool=pool,
        flavor=queue.flavors[queue.pools.index(pool.name)],
        avoid=job.avoid,
        runtime=runtime.name,
        replicated_job=runtime.replicated_job,
        container=runtime.container,
        template=runtime.pod,
        placement_field=choice.placement_field,
        annotations=choice.annotations,
        labels={LAUNCHER_LABEL: "own"} if job.launcher else {},
        pod_labels={FABRIC_LABEL: job.fabric} if job.fabric else {},
        nodes=job.nodes,
        min_nodes=job.min_nodes,
        gpus_per_node=gpus,
        resources=complete_resources(runtime, share, stand_in=contract.stand_in),
        resized=resized,
        shm=job.shm,
        image=job.image,
        program=_command(job, files),
        command=command,
        processes_per_node=processes,
        framework=framework,
        wiring=wiring,
        env={name: value for name, value in env.items() if name not in wiring},
        secrets=dict(job.secrets),
        proof=proof,
        files=files,
        mounts=mounts,
        checkpoint_claim=checkpoint.claim if checkpoint else None,
        keeping=_keeping(job, runtime, mounts, queue.namespace, processes),
        logs_claim=checkpoint.claim if checkpoint and _kept(job, runtime) else "",
        max_seconds=seconds(job.timeout) if job.timeout else 0,
        restarts=runtime.restarts if counts and job.restarts is None else job.restarts,
        never_on=runtime.never_on,
        finished_days=contract.made.finished_days,
        role=role,
        notes=tuple(_notes(job, choice, contract)),
    )
