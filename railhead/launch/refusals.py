"""Refusals: everything in a job file that a cluster cannot do, before anything is created."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath as Path
from typing import TypeVar

from railhead.base import quantity
from railhead.base.errors import InputError, PrerequisiteError, choices
from railhead.base.switching import changed
from railhead.contract import ClusterContract, Queue, Runtime, Share, Switch
from railhead.framework import FRAMEWORKS
from railhead.framework.base import Framework, Gang
from railhead.launch.choose import (
    choose_placement,
    choose_priority,
    choose_queue,
    choose_runtime,
    choose_share,
    framework_of,
)
from railhead.launch.job import JobFile
from railhead.launch.patches import PlacementField
from railhead.launch.proof import PROGRAM

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The parts of a cluster that a job uses."""

    runtime: Runtime
    queue: Queue
    share: Share
    placement_field: PlacementField
    priority: str | None
    annotations: dict[str, str] | None
    datasets: dict[str, str]


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
        tried(partial(_check_elastic, job, runtime))
        tried(partial(_check_environment, job, runtime, contract.fabric.switches))
        tried(partial(_check_launcher, job, runtime))
        tried(partial(_check_verify, job, runtime))
        tried(partial(_check_extras, job, runtime))
        tried(partial(_check_shm, job, runtime))
    datasets = tried(partial(_datasets, job, contract, queue)) if queue else None
    tried(partial(_check_words, job, contract.fabric.switches))
    tried(partial(_check_unsaid, job, contract))
    if runtime and queue:
        annotations = tried(partial(_mounting, job, contract, runtime, queue, annotations))
    if runtime and queue and share and not problems:
        taken = mounted(runtime)
        return Choice(
            runtime=runtime,
            queue=queue,
            # The runtime may mount some of them for every job.
            datasets={p: c for p, c in (datasets or {}).items() if p not in taken},
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


def _check_nodes(job: JobFile, runtime: Runtime) -> None:
    if runtime.only_nodes not in (None, job.nodes):
        raise InputError(
            f"nodes: {job.nodes} is not allowed with runtime {runtime.name!r}; allowed: "
            f"{runtime.only_nodes}",
            remedy=f"ask for {runtime.only_nodes}: this cluster's queue charges the runtime's own "
            "number of nodes, whatever a job asks for; or name a runtime of another size",
        )


def _check_elastic(job: JobFile, runtime: Runtime) -> None:
    """Check that the run can go on with fewer nodes, and may have fewer."""
    if job.min_nodes is None:
        return
    framework = framework_of(runtime)
    if framework is None or not framework.elastic:
        can = [name for name, item in FRAMEWORKS.items() if item.elastic]
        raise InputError(
            f"min_nodes: runtime {runtime.name!r} is of framework {runtime.framework!r}, whose "
            f"gangs have one size; it is possible with: {', '.join(can)}",
            remedy="leave it out: a gang that loses a node is recreated from its last checkpoint",
        )
    if job.min_nodes >= job.nodes:
        raise InputError(
            f"min_nodes: {job.min_nodes} is not allowed with nodes: {job.nodes}; allowed: fewer",
            remedy="leave it out if the run needs all of its nodes",
        )
    if job.verify:
        raise InputError(
            "verify: contradicts `min_nodes`: the proof runs in a world of all nodes, and a pod "
            "that comes later would wait there for the others",
            remedy="leave one of the two out",
        )


def _check_environment(job: JobFile, runtime: Runtime, switches: Mapping[str, Switch]) -> None:
    """Refuse variables that the runtime sets, or that would take the job off its network."""
    leaves = job.fabric == "none"
    texts = {
        name: f" ({name}={runtime.environment[name]})" if name in runtime.environment else ""
        for name in (*job.env, *job.secrets)
        if name in runtime.reserved and not (leaves and name in switches)
    }
    if texts:
        text = "; ".join(f"{n}: set by {runtime.reserved[n]}{value}" for n, value in texts.items())
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
    """Check that there is something to prove, and that it can be proven."""
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
    framework = framework_of(runtime)
    if framework is None or framework.proving(PROGRAM) is None:
        can = [name for name, item in FRAMEWORKS.items() if item.proving(PROGRAM) is not None]
        starter = (
            f"{framework.launcher} starts none" if framework else "no known launcher starts one"
        )
        raise InputError(
            f"verify: runtime {runtime.name!r} is of framework {runtime.framework!r}: what proves "
            f"the fabric is a program of PyTorch, and {starter} in the job's world "
            f"before its command; it is possible with: {', '.join(can)}",
            remedy="leave it out; `railhead accept --only rdma` proves the fabric by a job of its "
            "own",
        )


def _check_words(job: JobFile, switches: Mapping[str, Switch]) -> None:
    """Refuse a command that sets what `env:` may not set."""
    pinned = [name for name, switch in switches.items() if switch.allowed]
    match = re.search(changed(switches, pinned), " ".join(job.command)) if switches else None
    if match and job.fabric != "none":
        name = match[1] or match[2]
        how = f"sets {name}" if match[1] else f"takes {name or 'every variable'} away"
        reason = switches[name].reason if name else "the fabric's are among them"
        raise InputError(
            f"command: {how}: {reason}; the job would leave its fabric and still complete",
            remedy="leave it out, or write `fabric: none` if the job wants no fabric",
        )


def _check_launcher(job: JobFile, runtime: Runtime) -> None:
    """Refuse a command without a launcher, by which every node would train alone and complete."""
    if job.nodes == 1 or job.launcher or runtime.launches is None:
        return
    framework = framework_of(runtime)
    item = Gang(job=job.name, hosts=(job.name,) * job.nodes, processes=1)
    started = framework.start(job.command, item) if framework else job.command
    words, shown = " ".join(started), repr(job.command[0])
    alone = re.search(runtime.alone, words) if runtime.alone else None
    same = re.search(framework.same, words) if framework and framework.same else None
    variables = f" (by {', '.join(framework.rendezvous)})" if framework else ""
    remedy = (
        f"{_instead(framework, job.command, runtime)}; or write `launcher: own` if it starts its "
        f"processes in a way that cannot be seen from here{variables}, or `launcher: none` if each "
        "node is to work by itself; or ask for one node"
    )
    if same is not None:
        raise InputError(
            f"command: has {same[1]!r}, which is the same on all {job.nodes} nodes: each would "
            "wait for the others in vain",
            remedy=remedy,
        )
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
        remedy=remedy,
    )


def _instead(framework: Framework | None, words: Sequence[str], runtime: Runtime) -> str:
    """Return what to write in place of a command that starts no world of the job's size."""
    command = framework.instead(words) if framework else ()
    if not command:
        return f"begin it with {runtime.launcher} and leave size and addresses to the runtime"
    return f"write `{shlex.join(command)}`, and leave size and addresses to the runtime"


def mounted(runtime: Runtime) -> list[str]:
    """Return the paths at which the container that trains has mounts of its runtime."""
    return [str(mount["mountPath"]) for mount in runtime.trainer.get("volumeMounts", ())]


def _check_unsaid(job: JobFile, contract: ClusterContract) -> None:
    """Refuse fields that the cluster's scheduler has no word for, and that would be lost."""
    texts = {name: why for name, why in contract.unsaid.items() if getattr(job, name) is not None}
    if texts:
        raise InputError(
            "\n  ".join(f"{name}: {why}" for name, why in texts.items()),
            remedy=f"leave {', '.join(texts)} out",
        )


def _check_extras(job: JobFile, runtime: Runtime) -> None:
    """Refuse secrets, mounts and checkpoints that clash with the job's or the runtime's own."""
    if twice := sorted(set(job.env) & set(job.secrets)):
        raise InputError(f"secrets: {', '.join(twice)}: given in env too", remedy="give each once")
    taken = mounted(runtime)
    taken += [runtime.checkpoint.path] if runtime.checkpoint else []
    for path in job.mounts:
        if Path(path).name == ".nccl.conf":
            raise InputError(
                f"mounts: {path!r} is a file of NCCL's variables, which nobody reads here",
                remedy="leave it out, and set what the job needs in env",
            )
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


def _mounting(
    job: JobFile,
    contract: ClusterContract,
    runtime: Runtime,
    queue: Queue,
    placed: dict[str, str] | None,
) -> dict[str, str] | None:
    """Return the pods' annotations with what the job's mounts need; None for the runtime's own.

    Raises:
        InputError: two claims are of one file system.
    """
    known = {row.claim: row for row in contract.checkpoints if row.namespace == queue.namespace}
    claims = claims_of(runtime, job.mounts).values()
    used = [known[claim] for claim in dict.fromkeys(claims) if claim in known]
    first: dict[str, str] = {}
    for row in used:
        if row.file_system and first.setdefault(row.file_system, row.claim) != row.claim:
            raise InputError(
                f"mounts: claims {first[row.file_system]!r} and {row.claim!r} are both of "
                f"{row.file_system!r}, which a pod mounts once: it would never start",
                remedy="mount one of them, and use folders of it: each shows the whole file system",
            )
    own = (runtime.pod.get("metadata") or {}).get("annotations") or {}
    needed = {key: value for row in used for key, value in row.annotations.items()}
    base = own if placed is None else placed
    return placed if needed.items() <= base.items() else base | needed


def claims_of(runtime: Runtime, mounts: Mapping[str, str]) -> dict[str, str]:
    """Return path -> claim for all that the container mounts; ``mounts`` are the job's."""
    volumes = (runtime.pod.get("spec") or {}).get("volumes") or ()
    claims = {v["name"]: (v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes}
    named = (
        (m["mountPath"], claims.get(m["name"])) for m in runtime.trainer.get("volumeMounts", ())
    )
    results = {path: claim for path, claim in named if claim}
    return results | {path: given.partition(":")[0] for path, given in mounts.items()}


def _check_shm(job: JobFile, runtime: Runtime) -> None:
    """Refuse a size below what a container has anyway, or above the pod's memory."""
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
    """Return the claims of the job's data sets, in its queue's namespace, by path.

    Raises:
        InputError: the namespace has no such data set, or something else is mounted there.
    """
    known = {
        dataset.name: dataset
        for dataset in contract.datasets
        if dataset.namespace == queue.namespace
    }
    results = {}
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
        results[path] = f"{known[name].claim}:ro"
    return results
