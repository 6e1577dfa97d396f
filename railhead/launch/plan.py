"""From a job file and a cluster's contract to a plan: every choice made, nothing created."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from railhead.base.errors import InputError, PrerequisiteError, did_you_mean
from railhead.catalog.versions import COMBINATIONS
from railhead.contract import ClusterContract, NodePool, Queue, Runtime, Share
from railhead.launch.job import JobFile, Payload

# What of a runtime's resources is no device; the rest goes with a job's GPUs.
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage"})
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
        notes: what the user should know and nothing refuses.
    """

    name: str
    namespace: str
    queue: str
    cluster_queue: str
    runtime: str
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
    notes: tuple[str, ...]

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


def placement_field(versions: dict[str, str]) -> PlacementField:
    """The TrainJob field that patches pods, from the contract's versions.

    Trainer 2.1 and older have ``podTemplateOverrides``, 2.2 and newer ``runtimePatches``.

    Raises:
        PrerequisiteError: the contract does not say which Trainer the cluster runs.
    """
    combination = COMBINATIONS.get(versions.get("combination", ""))
    if combination is not None:
        return combination.placement_field
    version = versions.get("trainer") or versions.get("kubeflow-trainer") or ""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if not match:
        raise PrerequisiteError(
            f"the cluster's contract does not say which Trainer it runs: versions are {versions!r}",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    newer = (int(match[1]), int(match[2])) >= (2, 2)
    return "runtimePatches" if newer else "podTemplateOverrides"


def choose_runtime(job: JobFile, contract: ClusterContract) -> Runtime:
    """The job's runtime, or the cluster's only one.

    Raises:
        InputError: the cluster has none, several, or not the one that is named.
    """
    names = [runtime.name for runtime in contract.runtimes]
    known = ", ".join(names) or "none"
    if job.runtime is None and len(names) != 1:
        raise InputError(
            f"runtime: missing, and cluster {contract.cluster!r} has several: {known}",
            remedy="name one in the job file",
        )
    for runtime in contract.runtimes:
        if job.runtime in (None, runtime.name):
            return runtime
    raise InputError(
        f"runtime: {job.runtime!r} is not in cluster {contract.cluster!r}; there are: {known}"
        + did_you_mean(str(job.runtime), names),
        remedy="name one of them in the job file",
    )


def choose_queue(job: JobFile, contract: ClusterContract, runtime: Runtime | None) -> Queue:
    """The job's queue, or the first one over its runtime's pool; over any where that is unknown.

    Raises:
        InputError: the cluster has none, or the one that is named is not there or over other pools.
    """
    covering = [q for q in contract.queues if runtime is None or runtime.pool in q.pools]
    for queue in covering:
        if job.queue in (None, queue.name):
            return queue
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


def _container(template: dict[str, Any], runtime: Runtime) -> dict[str, Any]:
    """The trainer container in a ClusterTrainingRuntime object."""
    try:
        for replicated in template["spec"]["template"]["spec"]["replicatedJobs"]:
            pod = replicated["template"]["spec"]["template"]["spec"]
            for container in pod["containers"]:
                if container["name"] == runtime.container:
                    found: dict[str, Any] = container
                    return found
    except (KeyError, TypeError):
        pass
    raise PrerequisiteError(
        f"runtime {runtime.name!r} in the cluster has no container {runtime.container!r}, "
        "which its contract promises",
        remedy="run `pulumi up` on the cluster's stack again",
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


def complete_resources(base: dict[str, Any], share: Share) -> dict[str, dict[str, str]]:
    """The runtime's own resources with this job's devices in place of the runtime's.

    Args:
        base: the runtime container's ``resources``.
        share: the devices.
    """
    result: dict[str, dict[str, str]] = {}
    for side in ("requests", "limits"):
        values = {str(k): str(v) for k, v in (base.get(side) or {}).items() if k in _PLAIN}
        # Extended resources must be equal on both sides (core validation).
        result[side] = dict(sorted((values | share.requests).items()))
    return result


def _check_environment(job: JobFile, runtime: Runtime) -> None:
    """A value of the job's would be a lie, or take it off its network."""
    said = {
        name: f" ({name}={runtime.environment[name]})" if name in runtime.environment else ""
        for name in job.env
        if name in runtime.reserved
    }
    if said:
        text = "; ".join(f"{n}: set by {runtime.reserved[n]}{value}" for n, value in said.items())
        raise InputError(
            f"env: {text}, not by a job", remedy="leave it out; the runtime carries it"
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

    runtime = tried(lambda: choose_runtime(job, contract))
    if runtime is not None and runtime.pool is None:
        raise PrerequisiteError(
            f"the contract of cluster {contract.cluster!r} does not say what pods of runtime "
            f"{runtime.name!r} request and mount: an older Railhead wrote it",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    queue = tried(lambda: choose_queue(job, contract, runtime))
    share = None
    if runtime is not None:
        share = tried(partial(choose_share, job, runtime))
        tried(partial(_check_environment, job, runtime))
    if runtime and queue and share and not problems:
        return Choice(runtime=runtime, queue=queue, share=share)
    if len(problems) == 1:
        raise problems[0]
    raise InputError(
        "\n  ".join([f"{len(problems)} mistakes", *(p.problem for p in problems)]),
        remedy="; ".join(dict.fromkeys(p.remedy for p in problems)),
    )


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
    return added | job.env


def make_plan(
    job: JobFile,
    files: tuple[Payload, ...],
    contract: ClusterContract,
    runtime_object: dict[str, Any],
) -> Plan:
    """Decide everything about a job.

    Args:
        job: the job file.
        files: its local files.
        contract: the cluster's contract.
        runtime_object: the ClusterTrainingRuntime, as the cluster has it.

    Raises:
        InputError: the job asks for what this cluster does not have.
        PrerequisiteError: contract and cluster do not agree.
    """
    choice = check_job(job, contract)
    runtime, queue, share = choice.runtime, choice.queue, choice.share
    container = _container(runtime_object, runtime)
    gpus = share.gpus
    processes = job.processes_per_node if job.processes_per_node is not None else gpus
    if len(job.command) == 1 and container.get("args"):
        raise InputError(
            f"command: {job.command[0]!r} alone would be given the runtime's own arguments "
            f"{container['args']!r}",
            remedy="write at least one argument, such as --",
        )
    mount, pool = runtime.checkpoint, contract.pool(runtime)
    notes = []
    if job.nodes > 1 and gpus < pool.gpus_per_node:
        notes.append(
            f"{gpus} of a machine's {pool.gpus_per_node} GPUs a node: several of this job's nodes "
            "may share one machine; ask for all of them to have each machine whole"
        )
    return Plan(
        name=job.name,
        namespace=queue.namespace,
        queue=queue.name,
        cluster_queue=queue.cluster_queue,
        runtime=runtime.name,
        container=runtime.container,
        nodes=job.nodes,
        processes_per_node=processes,
        gpus_per_node=gpus,
        pool=pool,
        flavor=queue.flavors[queue.pools.index(pool.name)],
        image=job.image,
        command=job.command,
        env=_environment(
            job,
            nodes=job.nodes,
            processes=processes,
            directory=f"{mount.path.rstrip('/')}/{job.name}" if mount else None,
        ),
        files=files,
        resources=complete_resources(container.get("resources") or {}, share),
        resized=gpus != runtime.gpus_per_node,
        placement_field=placement_field(contract.versions),
        checkpoint_claim=mount.claim if mount else None,
        notes=tuple(notes),
    )
