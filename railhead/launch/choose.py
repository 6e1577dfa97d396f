"""Chooses what a job uses of a cluster, by its job file and the cluster's defaults."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.errors import InputError, did_you_mean
from railhead.base.names import (
    GROUPED_TOPOLOGY,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from railhead.contract import ClusterContract, Queue, Runtime, Share
from railhead.framework import FRAMEWORKS
from railhead.framework.base import Framework
from railhead.launch.job import JobFile


def framework_of(runtime: Runtime) -> Framework | None:
    """Return the row of a runtime's framework; None for one that Railhead does not know."""
    return FRAMEWORKS.get(runtime.framework)


def _is(runtime: Runtime, framework: str | None) -> bool:
    """Return whether a runtime is of a framework, which may be named by its launcher, too."""
    row = framework_of(runtime)
    # Its launcher's name is one of the framework that has no other: its own is the launcher's.
    plain = row is not None and row.launcher == framework and row.label in (row.name, None)
    return framework in (None, runtime.framework) or plain


def _carried(framework: str | None, contract: ClusterContract) -> Iterator[Runtime]:
    """Yield runtimes that carry jobs of a framework that is not their own.

    One whose framework has the same launcher and rendezvous needs no change; one that sets little
    does if a job can set all of its wiring.
    """
    row = FRAMEWORKS.get(framework or "")
    if row is None:
        return
    for runtime in contract.runtimes:
        own = framework_of(runtime)
        if own is None:
            continue
        if (own.launcher, own.rendezvous) == (row.launcher, row.rendezvous):
            yield runtime.model_copy(update={"framework": row.name})
        elif own.carries and row.job_sets_all:
            yield _rewired(runtime, own, row)


def _rewired(runtime: Runtime, own: Framework, row: Framework) -> Runtime:
    """Return a runtime for a framework whose wiring its jobs set."""
    pinned = {name: who for name, who in runtime.reserved.items() if name not in own.reserved}
    return runtime.model_copy(
        update={
            "framework": row.name,
            "processes_per_node": 1 if row.one_process else runtime.gpus_per_node,
            "reserved": pinned | row.reserved,
            "told": row.set_by_job,
            "launcher": row.launcher,
            "launches": row.launches,
            "alone": row.alone,
        }
    )


def choose_runtime(job: JobFile, contract: ClusterContract) -> Runtime:
    """Return the job's runtime. Raises as :func:`named_runtime`."""
    return named_runtime(job.runtime, contract, job.framework)


def named_runtime(
    name: str | None, contract: ClusterContract, framework: str | None = None
) -> Runtime:
    """Return the runtime of that name, the only one of a framework, or the cluster's first.

    A framework without a runtime gets the first that carries its jobs; a name may be of any that
    does.

    Raises:
        InputError: the cluster has no runtime, several of the framework, or not the named one.
    """
    of_framework = [runtime for runtime in contract.runtimes if _is(runtime, framework)]
    fitting = [*of_framework, *_carried(framework, contract)]
    names = [runtime.name for runtime in contract.runtimes]
    if framework is not None and not fitting:
        frameworks = list(dict.fromkeys(runtime.framework for runtime in contract.runtimes))
        raise InputError(
            f"framework: {framework!r} has no runtime in cluster {contract.cluster!r}; there "
            f"are runtimes of: {', '.join(frameworks) or 'none'}"
            + did_you_mean(framework, frameworks),
            remedy="name one of them, or add a runtime of it to the cluster's stack",
        )
    if name is None and framework is not None and len(of_framework) > 1:
        raise InputError(
            f"runtime: missing, and cluster {contract.cluster!r} has several of framework "
            f"{framework!r}: {', '.join(runtime.name for runtime in of_framework)}",
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
        f"runtime: {name!r} is not in cluster {contract.cluster!r}; there are: {', '.join(names)}"
        + did_you_mean(str(name), names),
        remedy="name one of them in the job file",
    )


def choose_queue(job: JobFile, contract: ClusterContract, runtime: Runtime | None) -> Queue:
    """Return the job's queue, or the first one over its runtime's pool; any where that is unknown.

    Raises:
        InputError: the cluster has no queue, or the named one is missing or over other pools.
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
    if job.queue is None:
        over = f" over pool {runtime.pool!r}, where {runtime.name!r} runs" if runtime else ""
        raise InputError(
            f"queue: cluster {contract.cluster!r} has none{over}",
            remedy="name another runtime, or add one to the cluster's stack",
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
        f"there are: {', '.join(names) or 'none'}" + did_you_mean(job.queue, names),
        remedy="name one of them, in the job file or with --queue",
    )


def choose_share(job: JobFile, runtime: Runtime) -> Share:
    """Return what a pod requests with the job's GPUs, or with the runtime's own number of them.

    Raises:
        InputError: the runtime serves no pods with that many GPUs.
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
    """Return the job's priority, or what the queue gives to jobs that name none.

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


def grouped(level: str, roles: bool) -> dict[str, str]:
    """Return the annotations that keep all pods within one value of ``level``, also of two roles.

    Kueue places each role for itself unless they are a group (v0.16.2,
    pkg/cache/scheduler/tas_flavor_snapshot.go, FindTopologyAssignmentsForFlavor).
    """
    group = {GROUPED_TOPOLOGY: "gang"} if roles else {}
    return {REQUIRED_TOPOLOGY: level} | group


def of_leader(annotations: dict[str, str], api: str) -> None:
    """Keep a job's first pod, a pod set of its own, with the others; changes the annotations.

    Args:
        annotations: of both pod sets.
        api: the kind of job, as `--api` names it.

    Raises:
        InputError: they ask for slices. Kueue admits none that is larger than a pod set, nor one of
            two pod sets (v0.16.2 to v0.18.4, pkg/controller/jobframework/tas_validation.go,
            ValidateSliceSizeAnnotationUpperBound and ValidateTASPodSetRequest).
    """
    if SLICE_TOPOLOGY in annotations:
        level = annotations[SLICE_TOPOLOGY].rpartition("/")[2]
        raise InputError(
            f"topology: {annotations[SLICE_SIZE]} in {level} is not possible with --api {api}: "
            "Kueue takes its first pod by itself, and a pod alone is no such group",
            remedy=f"name a level, such as `topology: {level}`, or have the job written as a kind "
            "whose pods are all alike: leave --api out, or --api jobset",
        )
    if REQUIRED_TOPOLOGY in annotations:
        annotations |= grouped(annotations[REQUIRED_TOPOLOGY], roles=True)


def sliced(job: JobFile, size: int, level: str, roles: bool) -> dict[str, str]:
    """Return the annotations that keep each ``size`` nodes, by rank, within one value of ``level``.

    Kueue places whole slices alone, and each role's by themselves (v0.16.2,
    pkg/cache/scheduler/tas_flavor_snapshot.go, findLevelWithFitDomains).

    Raises:
        InputError: the job's nodes are no multiple, may become fewer, or have two roles.
    """
    if roles or job.min_nodes is not None or job.nodes % size:
        raise InputError(
            f"topology: {job.topology!r} is not for this job: its nodes are of one role, do not "
            f"become fewer, and are a multiple of {size}, not {job.nodes}",
            remedy="name a number that divides `nodes`, leave `min_nodes` out, or name a level",
        )
    return {SLICE_TOPOLOGY: level, SLICE_SIZE: str(size)}


def choose_placement(
    job: JobFile, contract: ClusterContract, runtime: Runtime
) -> dict[str, str] | None:
    """Return the annotations with the job's placement for the runtime's; None without one.

    Raises:
        InputError: the topology has no such level, or several of that name, the pool's nodes come
            for each gang, or the job has no such slices.
    """
    if job.topology is None:
        return None
    if (pool := contract.pool(runtime)).queued:
        raise InputError(
            f"topology: {job.topology!r} is not for runtime {runtime.name!r}: nodes of its pool "
            f"{pool.name!r} come for each gang, from any part of the zone",
            remedy="leave it out, or name a runtime of another pool",
        )
    own = (runtime.pod.get("metadata") or {}).get("annotations") or {}
    kept = {key: value for key, value in own.items() if key not in _PLACEMENTS}
    *how, wanted = job.topology.split()
    if not how and wanted == "any":
        return kept | {UNCONSTRAINED_TOPOLOGY: "true"}
    levels, framework = contract.topology_levels, framework_of(runtime)
    results = [level for level in levels if wanted in (level, level.rpartition("/")[2])]
    roles = framework is not None and bool(framework.servers)
    if len(results) == 1 and how == ["prefer"]:
        return kept | {PREFERRED_TOPOLOGY: results[0]}
    if len(results) == 1 and how:
        return kept | sliced(job, int(how[0]), results[0], roles)
    if len(results) == 1:
        return kept | grouped(results[0], roles)
    short = [level.rpartition("/")[2] for level in levels]
    names = [s if short.count(s) == 1 else level for s, level in zip(short, levels, strict=True)]
    raise InputError(
        f"topology: {wanted!r} is {'no level' if not results else 'several levels'} of cluster "
        f"{contract.cluster!r}; from the widest: {', '.join(names)}" + did_you_mean(wanted, names),
        remedy="name one of them, `prefer` and one of them, `4 in` one of them, or `any`",
    )
