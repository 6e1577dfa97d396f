"""Checks of a stack's teams: what is promised to them all is what the pools really have."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from railhead.base.errors import choices
from railhead.base.quantity import parse, show
from railhead.base.sections import Problem, each, knowing, taken, told
from railhead.model.capacity import promised, quantities
from railhead.model.cluster import Cluster, Pool
from railhead.model.teams import ShareConfig, TeamConfig


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message) about teams and priorities; none of a consistent cluster."""
    for check in _CHECKS:
        yield from told(check, cluster)


def _namespaces(cluster: Cluster) -> Iterator[Problem]:
    """Yield namespaces of two teams: a namespace is one team's, which is charged for its jobs."""
    owner = {name: f"namespaces[{index}]" for index, name in enumerate(cluster.namespaces)}
    for path, team in each(cluster.teams, "teams"):
        for where, _, name in knowing(team.namespaces, f"{path}.namespaces", str):
            if owner.setdefault(name, where) != where:
                yield where, f"{name!r} is at {owner[name]} already; a namespace is one team's"


def _queue_names(cluster: Cluster) -> Iterator[Problem]:
    queues = {queue.cluster_queue for queue in cluster.queues}
    for path, _, name in knowing(cluster.teams, "teams", lambda team: team.name):
        if name in queues:
            yield (
                f"{path}.name",
                f"{name!r} is a cluster queue of `queues` as well, and a team's has its name",
            )


def _priorities(cluster: Cluster) -> Iterator[Problem]:
    known = [priority.name for priority in cluster.priorities]
    for path, _, name in knowing(cluster.teams, "teams", lambda team: team.priority):
        if name not in known:
            yield f"{path}.priority", f"{name!r} is not one of priorities{choices(name, known)}"


def _stops(cluster: Cluster) -> Iterator[Problem]:
    """Refuse ``borrow`` with fair sharing, which decides itself whom a borrower may stop."""
    if cluster.fair.sharing:
        for path, _, borrow in knowing(cluster.teams, "teams", lambda t: t.preemption.borrow):
            if borrow != "never":
                yield (
                    f"{path}.preemption.borrow",
                    f"{borrow!r} has no effect with fair sharing; write `sharing: false` under "
                    "`fair`, or leave it out",
                )


def _shares(cluster: Cluster) -> Iterator[Problem]:
    pools = {pool.name: pool for pool in cluster.pools}
    alone = {pool: queue.cluster_queue for queue in cluster.queues for pool in queue.pools}
    for path, team in each(cluster.teams, "teams"):
        seen: dict[str, str] = {}
        for where, share, name in knowing(team.shares, f"{path}.shares", lambda row: row.pool):
            if name not in pools:
                yield f"{where}.pool", f"{name!r} is not one of pools{choices(name, list(pools))}"
                continue
            if seen.setdefault(name, where) != where:
                yield f"{where}.pool", f"{name!r} is at {seen[name]} already; put both together"
            if name in alone:
                yield (
                    f"{where}.pool",
                    f"pool {name!r} belongs to cluster queue {alone[name]!r} of `queues`, which "
                    "has all of it; take it from there, or make that queue a team too",
                )
            yield from told(_known_resources, where, cluster, share, pools[name])


def _known_resources(
    where: str, cluster: Cluster, share: ShareConfig, pool: Pool
) -> Iterator[Problem]:
    has = quantities(cluster, pool)
    for resource in share.quota:
        if resource not in has:
            yield (
                f"{where}.quota.{resource}",
                f"nodes of pool {pool.name!r} have no {resource!r}{choices(resource, list(has))}",
            )


def _capacity(cluster: Cluster) -> Iterator[Problem]:
    """Yield what is promised twice: Kueue adds up the quotas of a cohort, and trusts them."""
    for pool in cluster.pools:
        sharing = [
            (f"{path}.shares[{index}]", team, share)
            for path, team in each(cluster.teams, "teams")
            for index, share in enumerate(team.shares)
            if share.pool == pool.name
        ]
        if sharing:
            yield from told(_sums, cluster, pool, sharing)


def _sums(
    cluster: Cluster, pool: Pool, sharing: list[tuple[str, TeamConfig, ShareConfig]]
) -> Iterator[Problem]:
    last, *_ = sharing[-1]
    nodes = sum(share.nodes for *_, share in sharing)
    listed = ", ".join(f"{team.name} {share.nodes}" for _, team, share in sharing)
    if nodes > pool.nodes:
        yield (
            f"{last}.nodes",
            f"the teams are promised {nodes} nodes of pool {pool.name!r} together ({listed}), and "
            f"it has {pool.nodes}; promise less, and let them borrow what others leave",
        )
        return
    for resource, text in quantities(cluster, pool, pool.nodes).items():
        each_one = [
            (team, parse(promised(cluster, share, pool)[resource])) for _, team, share in sharing
        ]
        total = sum((amount for _, amount in each_one), Decimal(0))
        if total > parse(text):
            listed = ", ".join(f"{team.name} {show(amount)}" for team, amount in each_one)
            yield (
                f"{last}.quota.{resource}",
                f"the teams are promised {show(total)} {resource} of pool {pool.name!r} together "
                f"({listed}), and its {pool.nodes} nodes have {show(parse(text))}",
            )


_CHECKS = (
    lambda c: taken(c.teams, "teams", lambda row: (row.name,)),
    lambda c: taken(c.priorities, "priorities", lambda row: (row.name,)),
    _namespaces,
    _queue_names,
    _priorities,
    _stops,
    _shares,
    _capacity,
)
