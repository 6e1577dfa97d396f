"""From a job file and a cluster's contract to a plan: every choice made, nothing created."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from railhead.base.errors import InputError, PrerequisiteError, did_you_mean
from railhead.catalog.versions import COMBINATIONS
from railhead.contract import ClusterContract, Queue, Runtime
from railhead.launch.job import JobFile, Payload

GPU_RESOURCE = "nvidia.com/gpu"
PlacementField = Literal["podTemplateOverrides", "runtimePatches"]
# A user may ask NCCL to talk more; what it talks over is the cluster's to say.
FREE_FABRIC_ENV = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job with every choice made.

    Attributes:
        resources: the trainer container's complete ``requests`` and ``limits``. Complete because
            Trainer replaces the runtime's by them (its pkg/runtime/framework/plugins/jobset).
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
    gpu_resource: str
    image: str | None
    command: tuple[str, ...]
    env: dict[str, str]
    files: tuple[Payload, ...]
    resources: dict[str, dict[str, str]]
    placement_field: PlacementField
    checkpoint_claim: str | None
    notes: tuple[str, ...]

    @property
    def world_size(self) -> int:
        """Processes in the whole job."""
        return self.nodes * self.processes_per_node


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


def gpu_resource(contract: ClusterContract) -> str:
    """The GPUs' resource name in the pools' capacity, such as ``nvidia.com/gpu``."""
    for pool in contract.node_pools:
        for name in sorted(pool.capacity):
            if name.endswith("/gpu"):
                return name
    return GPU_RESOURCE


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


def choose_queue(job: JobFile, contract: ClusterContract) -> Queue:
    """The job's queue, or the cluster's first.

    Raises:
        InputError: the cluster has none, or not the one that is named.
    """
    for queue in contract.queues:
        if job.queue in (None, queue.name):
            return queue
    names = [queue.name for queue in contract.queues]
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


def complete_resources(
    base: dict[str, Any], *, gpus: int, gpu: str, devices: dict[str, int]
) -> dict[str, dict[str, str]]:
    """The runtime's own resources with this job's GPUs and the fabric's devices.

    Args:
        base: the runtime container's ``resources``.
        gpus: GPUs a pod; 0 asks for none.
        gpu: the GPUs' resource name.
        devices: the fabric's device resources a pod, by name.
    """
    result: dict[str, dict[str, str]] = {}
    for side in ("requests", "limits"):
        values = {str(k): str(v) for k, v in (base.get(side) or {}).items()}
        # Extended resources must be equal on both sides (core validation).
        values.pop(gpu, None)
        if gpus:
            values[gpu] = str(gpus)
        for name, count in devices.items():
            values[name] = str(count)
        if values:
            result[side] = dict(sorted(values.items()))
    return result


def _check_environment(job: JobFile, contract: ClusterContract) -> None:
    pinned = [
        name
        for name in job.env
        if name in contract.fabric.environment and name not in FREE_FABRIC_ENV
    ]
    if pinned:
        raise InputError(
            f"env: {', '.join(pinned)}: set by the cluster's fabric "
            f"({', '.join(f'{n}={contract.fabric.environment[n]}' for n in pinned)}), not by a job",
            remedy="leave it out; the runtime carries it",
        )


def check_job(job: JobFile, contract: ClusterContract) -> Runtime:
    """Compare what a job names with what the cluster has; returns the job's runtime.

    Raises:
        InputError: with everything that the cluster does not have, or does not leave to a job.
    """
    problems: list[InputError] = []
    for check in (choose_runtime, choose_queue, _check_environment):
        try:
            check(job, contract)
        except InputError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InputError(
            "\n  ".join([f"{len(problems)} mistakes", *(p.problem for p in problems)]),
            remedy="; ".join(dict.fromkeys(p.remedy for p in problems)),
        )
    return choose_runtime(job, contract)


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
    runtime = check_job(job, contract)
    queue = choose_queue(job, contract)
    container = _container(runtime_object, runtime)
    gpus = runtime.gpus_per_node if job.gpus_per_node is None else job.gpus_per_node
    processes = job.processes_per_node if job.processes_per_node is not None else gpus
    if processes < 1:
        raise InputError(
            "processes_per_node: missing, and without GPUs there is no number to take",
            remedy="say how many processes each node runs",
        )
    if len(job.command) == 1 and container.get("args"):
        raise InputError(
            f"command: {job.command[0]!r} alone would be given the runtime's own arguments "
            f"{container['args']!r}",
            remedy="write at least one argument, such as --",
        )
    claims = [c for c in contract.checkpoints if c.namespace == queue.namespace]
    claim = claims[0] if claims else None
    gpu = gpu_resource(contract)
    largest = max((p.gpus_per_node for p in contract.node_pools), default=0)
    notes = []
    if job.nodes > 1 and 0 < gpus < largest:
        notes.append(
            f"{gpus} of a machine's {largest} GPUs a node: several of this job's nodes may share "
            "one machine; ask for all of them to have each machine whole"
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
        gpu_resource=gpu,
        image=job.image,
        command=job.command,
        env=_environment(
            job,
            nodes=job.nodes,
            processes=processes,
            directory=f"{claim.mount_path.rstrip('/')}/{job.name}" if claim else None,
        ),
        files=files,
        resources=complete_resources(
            container.get("resources") or {},
            gpus=gpus,
            gpu=gpu,
            devices=dict(contract.fabric.device_resources),
        ),
        placement_field=placement_field(contract.versions),
        checkpoint_claim=claim.claim if claim else None,
        notes=tuple(notes),
    )
