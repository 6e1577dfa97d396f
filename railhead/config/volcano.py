"""Refuses what Volcano cannot express, rather than leave it out, with the reason.

Read at v1.15.1: pkg/scheduler/plugins/capacity/capacity.go, pkg/scheduler/actions/gangreclaim and
gangpreempt, staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.sections import Problem, each, knowing, told
from railhead.catalog.versions import COMBINATIONS
from railhead.framework import FRAMEWORKS
from railhead.model.cluster import Cluster
from railhead.model.queueing import RequeueConfig, VolcanoConfig
from railhead.model.teams import PreemptionConfig
from railhead.platform.registry import platform_of

# admission.go of the API server's Priority plugin: what is above is the system's own.
_HIGHEST_PRIORITY = 1_000_000_000
_INSTEAD = "leave it out, or take `scheduler: kueue` under `queueing`"
# Queues that Volcano makes for itself (pkg/webhooks/admission/queues/validate).
_TAKEN = ("default", "root")


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message); none where Kueue admits gangs."""
    if not isinstance(cluster.queueing, VolcanoConfig):
        return
    for check in (_stack, _pools, _names, _teams, _priorities, _retention, _runtimes):
        yield from told(check, cluster)


def _stack(cluster: Cluster) -> Iterator[Problem]:
    if cluster.default_queue:
        yield (
            "default_queue",
            "Volcano gives a job that names no queue its own queue `default`, which is no team's, "
            f"so every job must name one; {_INSTEAD}",
        )
    if cluster.pod_groups:
        yield "pod_groups", f"Kueue admits pods that no job owns, and Volcano is there; {_INSTEAD}"
    if cluster.requeue != RequeueConfig() or "ready_timeout_seconds" in cluster.model_fields_set:
        field = "requeue" if cluster.requeue != RequeueConfig() else "ready_timeout_seconds"
        yield field, f"Volcano puts no gang back whose pods do not become ready; {_INSTEAD}"
    if cluster.fair.half_life_hours is not None:
        yield "fair.half_life_hours", f"Volcano keeps no account of past use; {_INSTEAD}"
    if COMBINATIONS[cluster.versions].gang_charge == "template":
        yield "versions", f"{cluster.versions!r} is there for what its Kueue does; take another"


def _pools(cluster: Cluster) -> Iterator[Problem]:
    if len(cluster.pools) > 1:
        names = ", ".join(pool.name for pool in cluster.pools)
        yield (
            "pools",
            f"a Queue of Volcano counts a resource whatever the pool, so shares of {names} cannot "
            "be kept apart; give the stack one pool, or take `scheduler: kueue` under `queueing`",
        )
    for pool in platform_of(cluster).queued_pools(cluster):
        yield "pools", f"nodes of pool {pool!r} come when Kueue asks for them; {_INSTEAD}"


def _names(cluster: Cluster) -> Iterator[Problem]:
    rows = (
        *knowing(cluster.queues, "queues", lambda row: row.cluster_queue),
        *knowing(cluster.teams, "teams", lambda row: row.name),
    )
    for path, _, name in rows:
        if name in _TAKEN:
            field = "cluster_queue" if path.startswith("queues") else "name"
            yield f"{path}.{field}", f"{name!r} is a queue that Volcano makes for itself"


def _teams(cluster: Cluster) -> Iterator[Problem]:
    for path, team in each(cluster.teams, "teams"):
        stops = f"{path}.preemption"
        if team.order == "strict":
            yield (
                f"{path}.order",
                "'strict': Volcano's scheduler does not read its queues' dequeueStrategy, and "
                f"passes over a gang that does not fit; {_INSTEAD}",
            )
        if team.weight != 1:
            yield (
                f"{path}.weight",
                f"{team.weight}: Volcano's capacity plugin divides what is unused by how much of "
                f"its own each queue has, and reads no weight; {_INSTEAD}",
            )
        if team.preemption.within == "lower-or-newer-equal":
            yield f"{stops}.within", f"{team.preemption.within!r}: Volcano stops lower ones only"
        if team.preemption.reclaim == "lower":
            yield (
                f"{stops}.reclaim",
                "'lower': Volcano takes a share back whatever the priorities are; take "
                "'any' or 'never'",
            )
        if team.preemption.borrow != "never":
            why = f"Volcano stops no other team's for one that borrows; {_INSTEAD}"
            yield f"{stops}.borrow", why
        first: PreemptionConfig = cluster.teams[0].preemption
        for field in ("within", "reclaim"):
            own, others = getattr(team.preemption, field), getattr(first, field)
            if own != others:
                yield (
                    f"{stops}.{field}",
                    f"{own!r}, and teams[0] has {others!r}: it is an action of Volcano's scheduler "
                    "for all queues or for none; give all teams the same",
                )


def _priorities(cluster: Cluster) -> Iterator[Problem]:
    for path, _, row in knowing(cluster.priorities, "priorities", lambda one: one):
        if row.value > _HIGHEST_PRIORITY:
            yield (
                f"{path}.value",
                f"{row.value}: with Volcano it is a PriorityClass of pods, whose values end at "
                f"{_HIGHEST_PRIORITY}",
            )
        if row.name.startswith("system-"):
            yield f"{path}.name", f"{row.name!r}: names of PriorityClasses that begin so are taken"


def _retention(cluster: Cluster) -> Iterator[Problem]:
    for path, _, kept in knowing(cluster.checkpoints, "checkpoints", lambda one: one.retention):
        if kept is not None:
            yield (
                f"{path}.retention",
                f"what removes checkpoints is a Job of one pod that Kueue admits; {_INSTEAD}",
            )


def _runtimes(cluster: Cluster) -> Iterator[Problem]:
    for path, _, name in knowing(cluster.runtimes, "runtimes", lambda runtime: runtime.framework):
        if FRAMEWORKS[name].servers:
            yield (
                f"{path}.framework",
                f"{name!r} makes its launcher once its nodes run, and Volcano starts no pod of a "
                "gang before all of them are there (minMember counts the launcher), so its jobs "
                f"would wait for ever; {_INSTEAD}",
            )
