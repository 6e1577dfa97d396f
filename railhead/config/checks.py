"""Checks that span several fields of a stack's configuration.

They read the cluster as far as it is well-formed (:mod:`railhead.base.sections`; the models report
the rest), so that one run shows every mistake, of either kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from railhead.base.errors import choices
from railhead.base.sections import Problem, knowing, taken, told, twice
from railhead.catalog.switches import SWITCHES
from railhead.catalog.versions import COMBINATIONS
from railhead.config import access, served, teams, volcano, volumes
from railhead.fabric.checks import UNIVERSAL, left
from railhead.fabric.kinds import FABRICS
from railhead.machines import MACHINES
from railhead.model.cluster import HOSTNAME_LEVEL, Cluster, Pool, RuntimeConfig
from railhead.model.queueing import KueueConfig
from railhead.platform.registry import PLATFORMS


def _reference(
    rows: Iterable[Any], path: str, field: str, known: Sequence[str], what: str
) -> Iterator[Problem]:
    for where, _, value in knowing(rows, path, attrgetter(field)):
        if value is not None and value not in known:
            yield f"{where}.{field}", f"{value!r} is not one of {what}{choices(value, known)}"


def _names(rows: Iterable[Any]) -> list[str]:
    return [row.name for row in rows]


def _somewhere(cluster: Cluster) -> Iterator[Problem]:
    """Yield what is missing for jobs: a namespace and a queue, the stack's own or a team's."""
    if not cluster.teams:
        for field in ("namespaces", "queues"):
            if not getattr(cluster, field):
                yield field, "is missing; give it, or teams, which have their own"


def _queue_pools(cluster: Cluster) -> Iterator[Problem]:
    known = _names(cluster.pools)
    for path, _, pools in knowing(cluster.queues, "queues", lambda queue: queue.pools):
        for where, _, pool in knowing(pools, f"{path}.pools", str):
            if pool not in known:
                yield where, f"{pool!r} is not one of pools{choices(pool, known)}"


def _queued(cluster: Cluster) -> Iterator[Problem]:
    known = _names(cluster.pools)
    queued = {pool for queue in cluster.local_queues for pool in queue.pools}
    for path, _, pool in knowing(cluster.runtimes, "runtimes", lambda runtime: runtime.pool):
        if pool in known and pool not in queued:
            yield f"{path}.pool", f"no queue covers pool {pool!r}; add it to a queue's pools"


def _claimed(cluster: Cluster) -> Iterator[Problem]:
    claims = [(claim.name, claim.namespace) for claim in cluster.checkpoints]
    for path, _, name in knowing(cluster.runtimes, "runtimes", lambda row: row.checkpoint):
        have = [namespace for claim, namespace in claims if claim == name]
        for missing in (n for n in cluster.training_namespaces if have and n not in have):
            yield (
                f"{path}.checkpoint",
                f"namespace {missing!r} has no checkpoint claim {name!r}, and jobs there "
                "would never start; add it to checkpoints",
            )


def _retained(cluster: Cluster) -> Iterator[Problem]:
    queued = {queue.namespace for queue in cluster.local_queues}
    for path, claim, namespace in knowing(
        cluster.checkpoints, "checkpoints", lambda claim: claim.namespace
    ):
        if claim.retention is not None and namespace not in queued:
            yield (
                f"{path}.retention",
                f"no queue is in namespace {namespace!r}, in which its jobs wait: add one to "
                "queues, or leave retention out",
            )


def _cluster_queues(cluster: Cluster) -> Iterator[Problem]:
    firsts: dict[str, tuple[str, list[str]]] = {}
    # Two cluster queues over one pool would each hand out the whole of it.
    owner: dict[str, str] = {}
    queues = knowing(cluster.queues, "queues", lambda row: (row.cluster_queue, _texts(row.pools)))
    for path, _, (name, pools) in queues:
        first, first_pools = firsts.setdefault(name, (path, pools))
        if pools != first_pools:
            yield (
                f"{path}.pools",
                f"cluster queue {name!r} has pools {first_pools} in {first} and {pools} here; "
                "a cluster queue has one list of pools",
            )
        for index, pool in enumerate(pools):
            if owner.setdefault(pool, name) != name:
                yield (
                    f"{path}.pools[{index}]",
                    f"pool {pool!r} belongs to cluster queue {owner[pool]!r} already; two queues "
                    "over one pool would admit twice what it has",
                )


def _texts(given: Iterable[str]) -> list[str]:
    return [str(text) for text in given]


def _told_apart(cluster: Cluster) -> Iterator[Problem]:
    """Yield pools that share all labels, by which pods find their pool.

    Kueue passes over a flavor only for a label that both have (since 0.19 it looks at a flavor's
    own labels alone, pkg/scheduler/flavorassigner), and a node may carry labels of two pools.
    """
    seen: list[tuple[str, Mapping[str, str]]] = []
    for path, pool, labels in knowing(cluster.pools, "pools", lambda p: dict(p.node_selector)):
        for name, others in seen:
            if not any(labels[key] != others[key] for key in labels.keys() & others.keys()):
                yield (
                    f"{path}.node_selector",
                    f"{labels} may be nodes of pool {name!r} as well, which has {others}; give "
                    "both a label of one name with different values",
                )
        if labels:
            seen.append((pool.name, labels))


def _mounts(cluster: Cluster) -> Iterator[Problem]:
    """Yield claims whose name or path differs: a runtime mounts one claim in all namespaces."""
    mounted = {name for *_, name in knowing(cluster.runtimes, "runtimes", lambda r: r.checkpoint)}
    for field, reads in (("mount_path", "mount_path"), ("claim", "claim_name")):
        firsts: dict[str, tuple[str, str]] = {}
        pairs = knowing(cluster.checkpoints, "checkpoints", attrgetter("name", reads))
        for path, _, (name, at) in pairs:
            where, first = firsts.setdefault(name, (path, at))
            if at != first and name in mounted:
                yield (
                    f"{path}.{field}",
                    f"{at!r} differs from {first!r} of {where}; a runtime mounts claim {name!r} at "
                    "one path and by one name in every namespace",
                )


def _machines(cluster: Cluster) -> Iterator[Problem]:
    platform = cluster.platform.kind
    for path, _, machine in knowing(cluster.pools, "pools", lambda p: MACHINES[p.instance_type]):
        if platform not in machine.platforms:
            yield (
                f"{path}.instance_type",
                f"{machine.name!r} is not on platform {platform!r}; it is on: "
                f"{', '.join(sorted(machine.platforms))}",
            )


def _machines_fabric(cluster: Cluster) -> Iterator[Problem]:
    kind = cluster.fabric.kind
    for path, _, machine in knowing(cluster.pools, "pools", lambda p: MACHINES[p.instance_type]):
        fabrics = machine.fabrics | UNIVERSAL
        if kind not in fabrics:
            yield (
                f"{path}.instance_type",
                f"{machine.name!r} cannot do fabric {kind!r}; it can: {', '.join(sorted(fabrics))}",
            )


def _runtimes(cluster: Cluster) -> Iterator[Problem]:
    pools = {name: pool for _, pool, name in knowing(cluster.pools, "pools", lambda p: p.name)}
    for path, runtime, pool in knowing(cluster.runtimes, "runtimes", lambda r: pools.get(r.pool)):
        if pool is not None:
            yield from told(_gpus, path, runtime, pool)
            yield from told(_nodes, path, runtime, pool)


def _gpus(path: str, runtime: RuntimeConfig, pool: Pool) -> Iterator[Problem]:
    machine, gpus = MACHINES[pool.instance_type], runtime.gpus_per_node or 0
    if gpus > machine.gpus:
        yield (
            f"{path}.gpus_per_node",
            f"{gpus} is more than the {machine.gpus} of a {machine.name!r}",
        )


def _nodes(path: str, runtime: RuntimeConfig, pool: Pool) -> Iterator[Problem]:
    if runtime.nodes > pool.nodes:
        yield (
            f"{path}.nodes",
            f"{runtime.nodes} is more than the {pool.nodes} of pool {runtime.pool!r}",
        )


def _switched(cluster: Cluster) -> Iterator[Problem]:
    """Yield variables by which a runtime takes its jobs off the network, or off part of it."""
    rows = knowing(cluster.runtimes, "runtimes", lambda row: dict(row.environment))
    for path, _, environment in rows:
        for name in (name for name in environment if name in SWITCHES):
            yield (
                f"{path}.environment.{name}",
                f"{environment[name]!r} would take every job of the runtime off the fabric, or "
                f"off part of it ({SWITCHES[name].reason}); remove it: the fabric sets what it "
                "needs, and a single job that wants no fabric says `fabric: none` in its file",
            )


def _pinned(cluster: Cluster) -> Iterator[Problem]:
    """Yield variables of runtimes that would replace what the fabric's row sets."""
    reads = attrgetter("name", "instance_type")
    machines = dict(row for *_, row in knowing(cluster.pools, "pools", reads))
    fabric, row = cluster.fabric, FABRICS[cluster.fabric.kind]
    for path, runtime, own in knowing(cluster.runtimes, "runtimes", lambda r: dict(r.environment)):
        pinned = {v.name: v for v in row.environment_on(machines.get(runtime.pool, ""))}
        for name in (n for n in own if n in pinned and n not in SWITCHES):
            if own[name] != pinned[name].value and not left(fabric, pinned[name], own[name]):
                yield (
                    f"{path}.environment.{name}",
                    f"{own[name]!r} is in place of {pinned[name].value!r}, which fabric "
                    f"{row.name!r} sets: {pinned[name].reason}; remove it",
                )


def _topology(cluster: Cluster) -> Iterator[Problem]:
    *_, last = cluster.topology or (HOSTNAME_LEVEL,)
    if last != HOSTNAME_LEVEL:
        yield (
            f"topology[{len(cluster.topology) - 1}]",
            f"the last level is {last!r}; it must be {HOSTNAME_LEVEL!r}, or the pods of a "
            "gang are counted into a level without being bound to nodes",
        )


def _lost_pods(cluster: Cluster) -> Iterator[Problem]:
    queueing, combination = cluster.queueing, COMBINATIONS[cluster.versions]
    asked = isinstance(queueing, KueueConfig) and queueing.end_lost_pods
    if asked and combination.lost_pods is None:
        able = ", ".join(name for name, row in COMBINATIONS.items() if row.lost_pods is not None)
        yield (
            "queueing.end_lost_pods",
            f"true: Kueue {combination.kueue.version} of versions {cluster.versions!r} leaves pods "
            f"on a lost node as they are; leave it out, or take versions with a newer one: {able}",
        )


def _acceptance(cluster: Cluster) -> Iterator[Problem]:
    wanted = cluster.watching.acceptance
    name = wanted.namespace if wanted is not None else None
    if name is not None and name not in cluster.training_namespaces:
        known = choices(name, cluster.training_namespaces)
        yield "watching.acceptance.namespace", f"{name!r} is no namespace that jobs run in{known}"


def _platforms(cluster: Cluster) -> Iterator[Problem]:
    for platform in PLATFORMS.values():
        if isinstance(cluster, platform.cluster):
            yield from platform.problems(cluster)


_CHECKS: tuple[Callable[[Cluster], Iterator[Problem]], ...] = (
    lambda c: taken(c.pools, "pools", lambda row: (row.name,)),
    lambda c: taken(c.runtimes, "runtimes", lambda row: (row.name,)),
    lambda c: taken(c.queues, "queues", lambda row: (row.namespace, row.name)),
    lambda c: taken(c.checkpoints, "checkpoints", lambda row: (row.namespace, row.name)),
    lambda c: taken(c.checkpoints, "checkpoints", lambda row: (row.namespace, row.claim_name)),
    lambda c: taken(c.datasets, "datasets", lambda row: (row.namespace, row.name)),
    lambda c: taken(c.datasets, "datasets", lambda row: (row.namespace, row.claim_name)),
    lambda c: taken(c.removals, "removals", lambda row: (row.kind, row.name)),
    lambda c: twice(c.namespaces, "namespaces"),
    lambda c: twice(c.topology, "topology"),
    lambda c: _reference(c.queues, "queues", "namespace", c.namespaces, "namespaces"),
    lambda c: _reference(
        c.checkpoints, "checkpoints", "namespace", c.training_namespaces, "namespaces"
    ),
    lambda c: _reference(c.datasets, "datasets", "namespace", c.training_namespaces, "namespaces"),
    lambda c: _reference(c.runtimes, "runtimes", "pool", _names(c.pools), "pools"),
    lambda c: _reference(
        c.runtimes, "runtimes", "checkpoint", _names(c.checkpoints), "checkpoints"
    ),
    _somewhere,
    _queue_pools,
    _queued,
    _claimed,
    _retained,
    _cluster_queues,
    _told_apart,
    _mounts,
    _machines,
    _machines_fabric,
    _runtimes,
    _switched,
    _pinned,
    _topology,
    _lost_pods,
    _acceptance,
    _platforms,
    served.problems,
    teams.problems,
    access.problems,
    volumes.problems,
    volcano.problems,
)


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message) that spans several fields; none of a consistent cluster."""
    for check in _CHECKS:
        yield from told(check, cluster)
