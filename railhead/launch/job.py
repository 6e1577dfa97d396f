"""The job file: ten lines of YAML, read strictly, every mistake reported at once.

Text fields take the text that was written: ``lr: 0.10`` reaches the process as ``0.10``, ``yes`` as
``yes``. Only ``nodes``, ``min_nodes``, ``gpus_per_node``, ``processes_per_node`` and
``restarts`` are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from railhead.base.errors import InputError, did_you_mean
from railhead.base.mistakes import shown, told_by_rule
from railhead.base.reading import read_bytes, read_text

# JobSet names a pod `<name>-node-0-<index>-<5 characters>`, at most 63 (jobset_webhook.go).
MAX_NAME = 45
MAX_NODES = 10_000
MAX_PROCESSES = 512
# As in a stack's file (railhead.model.restarts).
MAX_RESTARTS = 1000
MAX_JOB_FILE_BYTES = 1 << 20
# What the API server takes in one ConfigMap, all values together (validation, MaxSecretSize).
MAX_FILES_BYTES = 1 << 20
# Eight ConfigMaps: kubelets fetch them again for every pod, so they carry code, not data.
MAX_WORKSPACE_BYTES = 8 << 20
# Folders that are recreated on every machine where the code runs.
SKIPPED = frozenset({"__pycache__", "node_modules", "venv"})
MAX_DEPTH = 20
WORKSPACE = "/workspace"

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
FILE_NAME = re.compile(r"[-._a-zA-Z0-9]{1,253}")
ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
OBJECT_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
# A label's key, or what stands behind its slash.
LEVEL = re.compile(r"[-._/a-zA-Z0-9]{1,316}")
# distribution/reference: [host[:port]/]path[:tag][@digest]
IMAGE = re.compile(
    r"(?:(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)"
    r"(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*(?::[0-9]{1,5})?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)

# 8e9, 70B, 0.5, 1_000
AMOUNT = re.compile(r"([0-9][0-9_]{0,17}(?:\.[0-9]{1,9})?(?:[eE][-+]?[0-9]{1,2})?)([kKMBT]?)")
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
MOST = 1e18
DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")
SIZE = re.compile(r"[1-9][0-9]{0,5}[MGT]i")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# An argument or a variable with its name (linux, include/uapi/linux/binfmts.h, MAX_ARG_STRLEN).
MAX_WORD_BYTES = (128 << 10) - 512
# First parts of paths that a pod's own files, Kubernetes, the runtime or launch have.
TAKEN = frozenset(
    {"bin", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr", "var"}
) | {WORKSPACE.strip("/")}

# Set by Kubernetes and by launch, whatever the framework; a value of the user's would be a lie.
RESERVED_ENV = frozenset({"JOB_COMPLETION_INDEX"})
RESERVED_PREFIX = "RAILHEAD_"
# Fields of named values, and fields that one value cannot say.
INNER = ("env", "secrets", "mounts", "checkpoint", "sizing")
WHOLE = ("command", "files", "datasets", "avoid")
NUMBER_FIELDS = frozenset({"nodes", "min_nodes", "gpus_per_node", "processes_per_node", "restarts"})


class _AllowedError(ValueError):
    """A value that is not allowed; the text says what is."""


def _name(value: str) -> str:
    if not NAME.fullmatch(value) or len(value) > MAX_NAME:
        raise _AllowedError(
            f"lower-case letters, digits and '-', starting with a letter, at most {MAX_NAME}"
        )
    return value


def _object_name(value: str) -> str:
    if not OBJECT_NAME.fullmatch(value) or len(value) > 253:
        raise _AllowedError("a Kubernetes name: lower-case letters, digits, '-' and '.'")
    return value


_PLACES = rf"(?:prefer\s+|[1-9][0-9]{{0,3}}\s+in\s+)?{LEVEL.pattern}"


def _topology(value: str) -> str:
    words = " ".join(value.split())
    if not re.fullmatch(_PLACES, words) or words.endswith("prefer"):
        raise _AllowedError(
            "a level of the cluster's topology, such as rack; prefer and a level; a number and a "
            "level, such as 4 in rack; or any"
        )
    return words


def _image(value: str) -> str:
    if len(value) > 500 or not IMAGE.fullmatch(value):
        raise _AllowedError(
            "an image reference: [registry[:port]/]repository[:tag][@sha256:...], lower-case"
        )
    return value


def _word(value: str) -> str:
    if "\0" in value:
        raise _AllowedError("text without NUL characters")
    if len(value.encode(errors="replace")) > MAX_WORD_BYTES:
        raise _AllowedError(
            f"text of at most {MAX_WORD_BYTES} bytes, for Linux starts no program with a longer one"
        )
    return value


def _program(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value[0].strip():
        raise _AllowedError("a program as the first word")
    return value


def _env_name(value: str) -> str:
    if not ENV_NAME.fullmatch(value):
        raise _AllowedError(
            "a name of letters, digits, '_', '-' and '.', not starting with a digit"
        )
    if value in RESERVED_ENV or value.startswith(RESERVED_PREFIX):
        raise _AllowedError(
            "a variable that is not set already; this one comes from Kubernetes or from launch"
        )
    return value


def _file(value: str) -> str:
    name = Path(value).name
    if value == ".":
        return value
    if not FILE_NAME.fullmatch(name) or name == ".." or "\0" in value:
        raise _AllowedError("a path whose last part is letters, digits, '.', '_' and '-'")
    return value


def _duration(value: str) -> str:
    seconds(value)
    return value


def seconds(text: str) -> int:
    """Return the seconds in ``90s``, ``30m``, ``12h`` or ``2d``; a bare number is seconds.

    Raises:
        ValueError: it is not a duration, less than a second, or more than a label's integer holds.
    """
    match = DURATION.fullmatch(text)
    total = int(match[1]) * UNITS[match[2]] if match else 0
    # int32 in Kueue's Workload (spec.maximumExecutionTimeSeconds).
    if not 1 <= total < 2**31:
        raise _AllowedError("a duration from 1s on, such as 90s, 30m, 12h or 2d")
    return total


def _size(value: str) -> str:
    if not SIZE.fullmatch(value):
        raise _AllowedError("a whole number of Mi, Gi or Ti, such as 16Gi")
    return value


def _amount(value: Any) -> Any:
    """Return a number of one of these forms: ``8e9``, ``70B``, ``0.5``."""
    rule = "a number above 0, such as 8e9, 70B or 0.5"
    if value is None:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    else:
        match = AMOUNT.fullmatch(value) if isinstance(value, str) else None
        number = float(match[1].replace("_", "")) * PREFIXES[match[2]] if match else 0.0
    if not 0 < number <= MOST:
        raise _AllowedError(rule)
    return number


def _count(value: Any) -> Any:
    try:
        number = _amount(value)
    except _AllowedError:
        number = 0.5
    if number is not None and number != int(number):
        raise _AllowedError("a whole number from 1, such as 1024 or 4M")
    return number if number is None else int(number)


def _yes(value: Any) -> Any:
    """Parse ``true`` or ``false``, as YAML has them, or a boolean."""
    texts = {"true": True, "false": False}
    if isinstance(value, str):
        value = texts.get(value.lower())
    if not isinstance(value, bool):
        raise _AllowedError("true or false")
    return value


def _secret(value: str) -> str:
    name, _, key = value.partition("/")
    if not OBJECT_NAME.fullmatch(name) or not FILE_NAME.fullmatch(key):
        raise _AllowedError("SECRET/KEY: the name of a Secret of the namespace, and a key of it")
    return value


def _mount_path(value: str) -> str:
    parts = Path(value).parts
    if (
        not re.fullmatch(r"/[-._a-zA-Z0-9/]+", value)
        or ".." in parts
        or "." in value.split("/")
        or len(parts) < 2
        or parts[1] in TAKEN
    ):
        raise _AllowedError(
            "an absolute path of letters, digits, '.', '_', '-' and '/', outside of "
            + ", ".join(f"/{name}" for name in sorted(TAKEN))
        )
    return value


def _claim(value: str) -> str:
    name, _, mode = value.partition(":")
    if not OBJECT_NAME.fullmatch(name) or mode not in ("", "ro") or value.endswith(":"):
        raise _AllowedError("the name of a claim of the namespace, or NAME:ro to read only")
    return value


def _directory(value: str) -> str:
    parts = value.split("/")
    if not all(FILE_NAME.fullmatch(part) and part not in (".", "..") for part in parts):
        raise _AllowedError(
            "a path inside the claim, such as llama-8b or team/llama-8b: letters, digits, '.', "
            "'_', '-' and '/'"
        )
    return value


def _once(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) != len(value):
        raise _AllowedError("each data set once")
    return value


def _distinct(value: tuple[str, ...]) -> tuple[str, ...]:
    names = [Path(entry).name for entry in value]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _AllowedError(
            f"files of different names, for all land in {WORKSPACE}; twice: {', '.join(twice)}"
        )
    return value


def _text(pattern: re.Pattern[str] | str, longest: int | None = None) -> WithJsonSchema:
    """Return the schema of a text; numbers and booleans match too, for they are text as written."""
    source = pattern if isinstance(pattern, str) else pattern.pattern
    texts: dict[str, Any] = {"type": ["string", "number", "boolean"], "pattern": f"^(?:{source})$"}
    return WithJsonSchema(texts | ({"maxLength": longest} if longest else {}))


_FILE_WORDS = FILE_NAME.pattern
Name = Annotated[str, AfterValidator(_name), _text(NAME, MAX_NAME)]
Word = Annotated[str, AfterValidator(_word), _text(r"[^\x00]*")]
EnvName = Annotated[
    str,
    AfterValidator(_env_name),
    _text(f"(?!{RESERVED_PREFIX}|(?:{'|'.join(sorted(RESERVED_ENV))})$){ENV_NAME.pattern}"),
]
File = Annotated[str, AfterValidator(_file), _text(rf"(?:[^\x00]*/)?{_FILE_WORDS}(?:/\.?)*")]
ObjectName = Annotated[str, AfterValidator(_object_name), _text(OBJECT_NAME, 253)]
MountPath = Annotated[str, AfterValidator(_mount_path), _text(r"/[-._a-zA-Z0-9/]+")]
Image = Annotated[str, AfterValidator(_image), _text(IMAGE, 500)]
Duration = Annotated[str, AfterValidator(_duration), _text(DURATION)]
Size = Annotated[str, AfterValidator(_size), _text(SIZE)]
SecretKey = Annotated[str, AfterValidator(_secret), _text(rf"{OBJECT_NAME.pattern}/{_FILE_WORDS}")]
Claim = Annotated[str, AfterValidator(_claim), _text(rf"{OBJECT_NAME.pattern}(?::ro)?")]
Topology = Annotated[str, AfterValidator(_topology), _text(rf"\s*{_PLACES}\s*")]
Directory = Annotated[
    str,
    Field(max_length=500),
    AfterValidator(_directory),
    _text(rf"{_FILE_WORDS}(?:/{_FILE_WORDS})*", 500),
]


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


_NUMBER = WithJsonSchema({"type": ["string", "number"], "pattern": f"^(?:{AMOUNT.pattern})$"})
Amount = Annotated[float, BeforeValidator(_amount), _NUMBER]
Count = Annotated[int, BeforeValidator(_count), _NUMBER]


#: None is ``required``: a job is held to the fabric unless it says otherwise.
Fabric = Annotated[
    Literal["none"] | None,
    BeforeValidator(lambda value: None if value == "required" else value),
    WithJsonSchema({"type": "string", "enum": ["none", "required", None]}),
]

_YES = WithJsonSchema(
    {"type": ["boolean", "string"], "pattern": "^(?:[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"}
)
Yes = Annotated[bool, BeforeValidator(_yes), _YES]


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
        sizing: the model, its batch and its machines, for the figures of `--explain` alone.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: Name
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES)]
    command: Annotated[
        tuple[Word, ...], Field(min_length=1, max_length=128), AfterValidator(_program)
    ]
    min_nodes: Annotated[int, Field(ge=1, le=MAX_NODES)] | None = None
    gpus_per_node: Annotated[int, Field(ge=1, le=MAX_PROCESSES)] | None = None
    processes_per_node: Annotated[int, Field(ge=1, le=MAX_PROCESSES)] | None = None
    env: Annotated[dict[EnvName, Word], Field(max_length=100)] = Field(default_factory=dict)
    files: Annotated[tuple[File, ...], Field(max_length=100), AfterValidator(_distinct)] = ()
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
    datasets: Annotated[tuple[ObjectName, ...], Field(max_length=20), AfterValidator(_once)] = ()
    checkpoint: CheckpointFile | None = None
    namespace: ObjectName | None = None
    priority: ObjectName | None = None
    topology: Topology | None = None
    avoid: Annotated[tuple[ObjectName, ...], Field(max_length=50), AfterValidator(_once)] = ()
    verify: Yes | None = None
    logs: Literal["kept", "pods", "bare"] | None = None
    sizing: SizingFile | None = None


@dataclass(frozen=True, kw_only=True)
class Payload:
    """A local file that travels with the job: its path below /workspace and its bytes."""

    name: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One thing wrong with a job file; ``line`` is 0 when it is not about a line."""

    line: int
    text: str


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
    "sizing": "lines of params: 8e9, global_batch: 1024 and their like",
    "sizing.dtype": "bf16, fp16 or fp32",
    "sizing.optimizer": "adamw or sgd",
    "sizing.tensor": "a whole number from 1",
    "sizing.pipeline": "a whole number from 1",
}


class _Reader:
    """Turns YAML nodes into plain values, and notes lines and mistakes on the way."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.mistakes: list[Mistake] = []

    def _mistake(self, node: yaml.Node, text: str) -> None:
        self.mistakes.append(Mistake(line=node.start_mark.line + 1, text=text))

    def scalar(self, node: yaml.ScalarNode, path: str) -> str | int | None:
        """Return the text as written, except for numbers where numbers belong."""
        if node.tag == "tag:yaml.org,2002:null":
            return None
        field = path.partition(".")[0].partition("[")[0]
        text = str(node.value)
        if any("\ud800" <= c <= "\udfff" for c in text):
            self._mistake(node, f"{path}: half of a surrogate pair is not text")
            return "x"
        if field in NUMBER_FIELDS and node.style is None and re.fullmatch(r"[-+]?[0-9]{1,9}", text):
            return int(text)
        return text

    def value(self, node: yaml.Node, path: str) -> Any:
        """Return a node as text, number, list or mapping."""
        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path)
        if isinstance(node, yaml.SequenceNode):
            return tuple(
                self.value(child, f"{path}[{index}]") for index, child in enumerate(node.value)
            )
        result: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._mistake(key, f"{path or 'the file'}: a key must be text")
                continue
            name = str(key.value)
            inner = f"{path}.{name}" if path else name
            if any("\ud800" <= c <= "\udfff" for c in name):
                self._mistake(key, f"{path or 'the file'}: half of a surrogate pair is not text")
            elif name in result:
                self._mistake(key, f"{inner}: given twice")
            else:
                result[name] = self.value(child, inner)
        return result


def _check_events(text: str, where: str) -> None:
    """Refuse what lets a small file grow without bound or asks for objects."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        mark = event.start_mark
        line = f"{where}:{mark.line + 1}" if mark else where
        if getattr(event, "anchor", None):
            raise InputError(
                f"{line}: anchors and aliases are not used in a job file",
                remedy="write the value out",
            )
        if getattr(event, "tag", None):
            raise InputError(
                f"{line}: tags such as !!x are not used in a job file",
                remedy="write the plain value",
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise InputError(
                f"{line}: nested more than {MAX_DEPTH} levels deep",
                remedy="a job file is two levels deep at most",
            )


def _compose(text: str, where: str) -> yaml.Node:
    try:
        _check_events(text, where)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"{where}{line}: not YAML: {problem}",
            remedy="mend that line; `railhead launch --help` shows a complete job file",
        ) from None
    # Of \U00110000 the one, of \UFFFFFFFF the other.
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: not YAML: an escape that is no character",
            remedy="write the character itself",
        ) from None
    if not isinstance(node, yaml.MappingNode):
        raise InputError(
            f"{where}: a job file is a list of `field: value` lines",
            remedy="`railhead launch --help` shows a complete job file",
        )
    return node


def _override(values: dict[str, Any], sets: Iterable[str], lines: dict[str, int]) -> list[Mistake]:
    """Apply ``field=value``, ``env.NAME=value`` and their like; returns what is wrong with them.

    What is overridden is no longer about a line of the file, and leaves ``lines``.
    """
    mistakes = []
    for item in sets:
        key, equals, text = item.partition("=")
        field, dot, name = key.partition(".")
        lines.pop(key, None)
        if not equals or (dot and (field not in INNER or not name)) or field in WHOLE:
            mistakes.append(
                Mistake(
                    line=0,
                    text=f"--set {item!r}: allowed: FIELD=VALUE of a single value, "
                    + ", ".join(f"{inner}.NAME=VALUE" for inner in INNER),
                )
            )
        elif dot:
            inner = values.get(field) or {}
            if isinstance(inner, dict):
                values[field] = inner | {name: text}
        elif field in NUMBER_FIELDS and re.fullmatch(r"[-+]?[0-9]{1,9}", text):
            values[field] = int(text)
        else:
            values[field] = text
    return mistakes


def override_values(values: dict[str, Any], sets: Iterable[str]) -> list[str]:
    """Return the same for values that come from no file, in place; what is wrong, in words."""
    return [mistake.text for mistake in _override(values, sets, {})]


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A job file as far as it could be read: ``job`` is None if the text alone has mistakes."""

    job: JobFile | None
    files: tuple[str, ...]
    lines: dict[str, int]
    mistakes: list[Mistake]


def _read(text: str, *, where: str, sets: Iterable[str]) -> _Read:
    reader = _Reader()
    values = reader.value(_compose(text, where), "")
    mistakes = reader.mistakes + _override(values, sets, reader.lines)
    return _judge(values, lines=reader.lines, mistakes=mistakes)


def _judge(values: Mapping[str, Any], *, lines: dict[str, int], mistakes: list[Mistake]) -> _Read:
    # An optional field without a value means that it was left out.
    optional = [n for n, f in JobFile.model_fields.items() if not f.is_required()]
    given = {k: v for k, v in values.items() if not (v is None and k in optional)}
    job: JobFile | None = None
    bad_files = False
    try:
        job = JobFile.model_validate(given)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            path, wrong = told_by_rule(JobFile, item, EXPECTED)
            bad_files = bad_files or path.startswith("files")
            mistakes.append(Mistake(line=lines.get(path, 0), text=f"{path}: {wrong}"))
    files = () if bad_files else given.get("files", ())
    return _Read(job=job, files=files, lines=lines, mistakes=mistakes)


def job_of(
    values: Mapping[str, Any], *, folder: Path, where: str
) -> tuple[JobFile, tuple[Payload, ...]]:
    """Return a job from values instead of a file's text, by the same rules.

    Args:
        values: the fields of a job file; sequences may be lists.
        folder: what `files` are relative to.
        where: how errors call it.

    Raises:
        InputError: as :func:`read_job`.
    """
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    read = _judge(given, lines={}, mistakes=[])
    payloads = _payloads(read, folder / "job")
    return _accept(read, where), payloads


def parse_job(text: str, *, where: str, sets: Iterable[str] = ()) -> JobFile:
    """Read a job file's text.

    Args:
        text: the YAML.
        where: how errors call it, such as the file's name.
        sets: overrides, ``field=value`` or ``env.NAME=value``, applied before checking.

    Raises:
        InputError: with every mistake, each on its own line with line number, field, value and
            what is allowed.
    """
    read = _read(text, where=where, sets=sets)
    return _accept(read, where)


def _accept(read: _Read, where: str) -> JobFile:
    if read.job is None or read.mistakes:
        raise InputError(
            _report(where, read.mistakes),
            remedy="nothing was created; `railhead launch --help` shows a complete job file",
        )
    return read.job


def _report(where: str, mistakes: Sequence[Mistake]) -> str:
    ordered = sorted(mistakes, key=lambda m: m.line)
    count = "1 mistake" if len(ordered) == 1 else f"{len(ordered)} mistakes"
    lines = [f"  line {m.line}: {m.text}" if m.line else f"  {m.text}" for m in ordered]
    return "\n".join([f"{where}: {count}", *lines])


def read_job(path: Path, *, sets: Iterable[str] = ()) -> tuple[JobFile, tuple[Payload, ...]]:
    """Read a job file and the local files that it names.

    Raises:
        InputError: as :func:`parse_job`; or the job file or one of its files is missing,
            unreadable, larger than a ConfigMap may be or, all together, than eight of them.
    """
    read = _read(_read_text(path), where=str(path), sets=sets)
    payloads = _payloads(read, path)
    return _accept(read, str(path)), payloads


def _read_text(path: Path) -> str:
    remedy = "name a job file, such as examples/torch-ddp.yaml; `railhead init job.yaml` writes one"
    try:
        if path.is_dir():
            raise InputError(f"{path}: a folder", remedy=remedy)
        if not path.is_file():
            near = did_you_mean(path.name, _siblings(path.parent))
            raise InputError(f"{path}: no such file{near}", remedy=remedy)
        if path.stat().st_size > MAX_JOB_FILE_BYTES:
            raise InputError(f"{path}: larger than a job file can be (1 MiB)", remedy=remedy)
        return read_text(path, MAX_JOB_FILE_BYTES)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", remedy=remedy) from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text", remedy=remedy) from None


def _siblings(directory: Path) -> list[str]:
    try:
        return [p.name for p in directory.iterdir()]
    except OSError:
        return []


def _folder(folder: Path, under: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder's files, each with its place in the workspace; no caches, no hidden ones."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name in SKIPPED or entry.suffix == ".pyc":
            continue
        if entry.is_dir():
            # A link to a folder may lead round in a circle.
            if not entry.is_symlink():
                yield from _folder(entry, under / entry.name)
        elif entry.is_file():
            yield entry, under / entry.name


def _sources(source: Path, entry: str) -> Iterator[tuple[Path, Path]]:
    if source.is_dir():
        # `.` is the job file's own folder: its files lie in the workspace itself.
        yield from _folder(source, Path() if entry == "." else Path(source.name))
    else:
        yield source, Path(source.name)


def _payloads(read: _Read, path: Path) -> tuple[Payload, ...]:
    """Return the files' bytes; what is wrong with them joins the other mistakes."""
    payloads: dict[str, Payload] = {}
    total = 0

    def wrong(field: str, text: str) -> None:
        read.mistakes.append(Mistake(line=read.lines.get(field, 0), text=f"{field}: {text}"))

    for index, entry in enumerate(read.files):
        field, source = f"files[{index}]", path.parent / entry
        try:
            if not source.exists():
                near = did_you_mean(source.name, _siblings(source.parent))
                wrong(field, f"{shown(entry)}: no such file beside the job file{near}")
                continue
            sources = list(_sources(source, entry))
            for file, place in sources:
                size = file.stat().st_size
                total += size
                if size > MAX_FILES_BYTES:
                    wrong(
                        field,
                        f"{shown(str(place))}: {size} bytes; allowed: {MAX_FILES_BYTES}"
                        " a file (one ConfigMap); put larger ones into the image or on a claim",
                    )
                elif total <= MAX_WORKSPACE_BYTES:
                    payloads[str(place)] = Payload(name=str(place), data=read_bytes(file))
            if not sources:
                wrong(field, f"{shown(entry)}: a folder without a file that would be taken along")
        except (OSError, RecursionError) as error:
            wrong(field, f"{shown(entry)}: {getattr(error, 'strerror', None) or error}")
    if total > MAX_WORKSPACE_BYTES:
        wrong(
            "files",
            f"{total} bytes together; allowed: {MAX_WORKSPACE_BYTES};"
            " put larger ones into the image or on a claim",
        )
    return tuple(payloads.values())
