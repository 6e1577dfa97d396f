"""The fields of a job file, and what each may be in the words of an error."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from railhead.launch.job.values import (
    Amount,
    Claim,
    Command,
    Count,
    Directory,
    Duration,
    EnvName,
    Fabric,
    FieldPath,
    Files,
    Image,
    MountPath,
    Name,
    ObjectName,
    Once,
    RoleName,
    SecretKey,
    Size,
    Topology,
    Word,
    Yes,
)

MAX_NODES = 10_000
MAX_PROCESSES = 512
# As in a stack's file (railhead.model.restarts).
MAX_RESTARTS = 1000

_Nodes = Annotated[int, Field(ge=1, le=MAX_NODES)]
_PerNode = Annotated[int, Field(ge=1, le=MAX_PROCESSES)]
_Env = Annotated[dict[EnvName, Word], Field(max_length=100)]
_Values = Annotated[tuple[Word, ...], Field(min_length=1, max_length=100)]


class CheckpointFile(BaseModel):
    """The place of a job's checkpoints, and whether the job resumes from what it finds there.

    Attributes:
        path: the directory inside the runtime's claim; the job's name when absent.
        resume: ``auto`` resumes from what is there; ``never`` gives each launch a new directory, so
            that there is nothing to resume from. Restarts of one launch resume either way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    path: Directory | None = None
    resume: Literal["auto", "never"] = "auto"


class SizingFile(BaseModel):
    """The input of `--explain`: the model, the batch, the machines. The job itself gets none of it.

    Attributes:
        params: parameters of the whole model, such as ``8e9`` or ``70B``.
        dtype: the type that the model computes in; ``bf16`` and ``fp16`` keep a copy of it in fp32.
        optimizer: ``adamw`` has two moments a parameter, ``sgd`` the momentum alone.
        global_batch: samples in one optimizer step over the whole job.
        micro_batch: samples that a replica takes at once.
        accumulation: micro batches that a replica adds up before the optimizer step.
        seq_len: tokens of a sample.
        tensor: GPUs over which each layer is cut.
        pipeline: stages of layers, each on GPUs of its own.
        base_batch: the global batch for which `base_lr` was found.
        base_lr: the learning rate at `base_batch`.
        tflops: the speed of one GPU in this model, in 10^12 operations a second.
        step_seconds: seconds that one step computes, without communication, if measured.
        gpu_memory_gb: memory of one GPU in GB, to check what fits.
        checkpoint_gbs: GB/s at which the whole job writes to its claim.
        gpu_mtbf_hours: hours that one GPU runs between interruptions of its job; published ones
            when absent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    params: Amount | None = None
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    optimizer: Literal["adamw", "sgd"] = "adamw"
    global_batch: Count | None = None
    micro_batch: Count | None = None
    accumulation: Count | None = None
    seq_len: Count | None = None
    tensor: Count = 1
    pipeline: Count = 1
    base_batch: Count | None = None
    base_lr: Amount | None = None
    tflops: Amount | None = None
    step_seconds: Amount | None = None
    gpu_memory_gb: Amount | None = None
    checkpoint_gbs: Amount | None = None
    gpu_mtbf_hours: Amount | None = None


class RoleFile(BaseModel):
    """Pods of a job's gang beside its own, such as inference servers beside a trainer.

    What is not a field of a role is as the job says, and so are its image, framework, runtime and
    GPUs when absent.

    Attributes:
        nodes: machines of this role, one pod each.
        command: the program and its arguments, exactly as they reach the process; no shell.
        gpus_per_node: GPUs that each pod requests.
        processes_per_node: processes that are started in each pod; one for each GPU when absent.
        env: environment variables beside the job's.
        image: the container image.
        framework: what starts the processes.
        runtime: the ClusterTrainingRuntime.
        launcher: as the job's, for this command; the job's does not hold for it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    nodes: _Nodes
    command: Command
    gpus_per_node: _PerNode | None = None
    processes_per_node: _PerNode | None = None
    env: _Env = Field(default_factory=dict)
    image: Image | None = None
    framework: ObjectName | None = None
    runtime: ObjectName | None = None
    launcher: Literal["own", "none"] | None = None


class JobFile(BaseModel):
    """The contents of a job file.

    Attributes:
        name: the job's name; pods, logs and the checkpoint directory carry it.
        nodes: machines, one pod each.
        min_nodes: the fewest nodes with which the run goes on after losing some, until others join
            (torchrun's elastic agent). When absent, the run needs all of them, and the whole gang
            is recreated. Only a PyTorchJob has this field: ``--api pytorchjob``.
        gpus_per_node: GPUs that each pod requests; the runtime's own number when absent.
        processes_per_node: processes that are started in each pod; one for each GPU when absent.
        command: the program and its arguments, exactly as they reach the process; no shell.
        env: environment variables, exactly as they reach the process.
        files: small local files and folders, relative to the job file, that appear in /workspace.
        image: the container image; the runtime's when absent.
        framework: what starts the processes; it chooses among the cluster's runtimes.
        runtime: the ClusterTrainingRuntime; the first of the cluster's when absent.
        queue: the LocalQueue; the cluster's first one when absent.
        fabric: ``none`` for a job that may leave the training fabric: `env` may then set the
            variables that choose a network, and NCCL uses TCP unless they say otherwise;
            ``required`` is the default.
        launcher: ``own`` for a command that starts its processes itself, in a way that cannot be
            seen from outside; ``none`` where each node is to work alone.
        timeout: how long it may run once it is admitted, such as ``12h``; for ever when absent.
        restarts: how often the whole gang is recreated when it fails; the runtime's own number when
            absent. A TrainJob has no field for it, so another number is refused, except with
            ``--api`` and a kind of job that has one.
        shm: size of `/dev/shm`, such as ``16Gi``, a limit that counts as memory of the pod; the
            runtime's when absent: half of the memory that goes with its GPUs, as on Linux itself,
            unless the stack says another.
        secrets: environment variables from Secrets of the namespace, ``NAME: secret/key``.
        mounts: claims of the namespace, ``/path: claim``, or ``/path: claim:ro``.
        datasets: data sets of the cluster, each mounted read-only where the cluster says.
        checkpoint: where checkpoints lie; the job's name in the runtime's claim when absent.
        namespace: the namespace of the queue, if several have that name; the first when absent.
        priority: one of the cluster's priorities; the queue's own when absent.
        topology: how near to each other the nodes must be: a level such as ``rack``, all within one
            or the job waits; ``prefer rack``, within one where that is possible; ``4 in rack``,
            each four nodes within one, by rank; ``any``, anywhere with room. When absent, the
            runtime's own preference.
        avoid: machines that its pods do not get, by the names that `status` gives them.
        verify: ``true`` to run a short all-reduce in the job's own gang and environment first, and
            the command only if that proves the fabric; otherwise the job stops.
        logs: ``kept`` copies the output to the runtime's claim, so that the logs of pods that are
            gone can be read; ``pods`` leaves it with the pods; ``bare`` does too, and puts nothing
            before the command, for an image without ``sh``. When absent: ``kept``, if there is a
            claim.
        roles: other pods of the same gang, by name, each with its own size, image and command: the
            queue admits all of them or none, and the job is complete when its own command is. It
            is submitted as a JobSet.
        matrix: a sweep, ``env.LR: [1e-3, 1e-4]``: `railhead launch` makes one job for each value,
            with several fields one for each combination.
        sizing: the model, its batch and its machines, for the figures of `--explain` alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Name
    nodes: _Nodes
    command: Command
    min_nodes: _Nodes | None = None
    gpus_per_node: _PerNode | None = None
    processes_per_node: _PerNode | None = None
    env: _Env = Field(default_factory=dict)
    files: Files = ()
    image: Image | None = None
    framework: ObjectName | None = None
    runtime: ObjectName | None = None
    queue: ObjectName | None = None
    fabric: Fabric = None
    launcher: Literal["own", "none"] | None = None
    timeout: Duration | None = None
    restarts: Annotated[int, Field(ge=0, le=MAX_RESTARTS)] | None = None
    shm: Size | None = None
    secrets: Annotated[dict[EnvName, SecretKey], Field(max_length=100)] = Field(
        default_factory=dict
    )
    mounts: Annotated[dict[MountPath, Claim], Field(max_length=20)] = Field(default_factory=dict)
    datasets: Annotated[tuple[ObjectName, ...], Field(max_length=20), Once] = ()
    checkpoint: CheckpointFile | None = None
    namespace: ObjectName | None = None
    priority: ObjectName | None = None
    topology: Topology | None = None
    avoid: Annotated[tuple[ObjectName, ...], Field(max_length=50), Once] = ()
    verify: Yes | None = None
    logs: Literal["kept", "pods", "bare"] | None = None
    # Kueue takes eight PodSets (v0.16.2, apis/kueue/v1beta2/workload_types.go).
    roles: Annotated[dict[RoleName, RoleFile], Field(max_length=7)] = Field(default_factory=dict)
    matrix: Annotated[dict[FieldPath, _Values], Field(max_length=10)] = Field(default_factory=dict)
    sizing: SizingFile | None = None


#: Field -> what it may be.
EXPECTED = {
    "name": "text",
    "nodes": f"a whole number from 1 to {MAX_NODES}",
    "min_nodes": f"a whole number from 1 to {MAX_NODES}",
    "gpus_per_node": f"a whole number from 1 to {MAX_PROCESSES}",
    "processes_per_node": f"a whole number from 1 to {MAX_PROCESSES}",
    "command": "a list of 1 to 128 words, such as [torchrun, /workspace/train.py]",
    "env": "at most 100 lines of NAME: value",
    "files": "a list of at most 100 files and folders, such as [train.py, src]",
    "image": "text",
    "framework": "text",
    "runtime": "text",
    "queue": "text",
    "fabric": "none, for a job that may leave the training fabric, or required, as without it",
    "launcher": "own, for a command that starts its processes itself, or none, where each node is "
    "to work alone; otherwise leave it out",
    "timeout": "a duration, such as 90s, 30m, 12h or 2d",
    "restarts": f"a whole number from 0 to {MAX_RESTARTS}",
    "shm": "a size, such as 500Mi or 16Gi",
    "secrets": "at most 100 lines of NAME: SECRET/KEY",
    "mounts": "at most 20 lines of /path: CLAIM or /path: CLAIM:ro",
    "datasets": "a list of at most 20 names of data sets, each once",
    "checkpoint": "lines of path: DIRECTORY and resume: auto or never",
    "checkpoint.resume": "auto or never",
    "namespace": "text",
    "priority": "text",
    "topology": "text, such as rack, prefer rack, 4 in rack or any",
    "avoid": "a list of at most 50 names of machines, each once",
    "verify": "true or false",
    "logs": "kept, on the runtime's claim too, pods or bare",
    "roles": "at most 7 names, each with nodes, command and its like",
    "matrix": "at most 10 lines of FIELD: [VALUE, VALUE], such as env.LR: [1e-3, 1e-4]",
    "sizing": "lines of params: 8e9, global_batch: 1024 and their like",
    "sizing.dtype": "bf16, fp16 or fp32",
    "sizing.optimizer": "adamw or sgd",
    "sizing.tensor": "a whole number from 1",
    "sizing.pipeline": "a whole number from 1",
}
