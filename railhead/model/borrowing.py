"""Computes what each team has and may borrow from others, in words and in nodes."""

from __future__ import annotations

from typing import Any

from railhead.base.quantity import parse
from railhead.model.capacity import left, promised, quantities
from railhead.model.cluster import Cluster, Pool
from railhead.model.teams import ShareConfig, TeamConfig


def _lent(share: ShareConfig) -> int:
    return share.nodes if share.lend is None else share.lend


def _unpromised(cluster: Cluster, pool: Pool) -> float:
    """Return the whole nodes' worth of a pool that no team is promised."""
    each, rest = quantities(cluster, pool), left(cluster, pool)
    return min(float(parse(rest[name]) / parse(each[name])) for name in each if parse(each[name]))


def sources(cluster: Cluster, team: TeamConfig, pool: Pool) -> dict[str, float]:
    """Return from whom a team may borrow of a pool, in nodes' worth; the key of nobody is empty."""
    lenders = {
        other.name: float(_lent(share))
        for other in cluster.teams
        for share in other.shares
        if other.name != team.name and share.pool == pool.name and _lent(share)
    }
    spare = _unpromised(cluster, pool)
    return ({"": spare} if spare else {}) | lenders


def borrowable(cluster: Cluster, team: TeamConfig, share: ShareConfig) -> float:
    """Return the most nodes' worth of a pool that a team may have beyond its own share."""
    pool = next(pool for pool in cluster.pools if pool.name == share.pool)
    there = sum(sources(cluster, team, pool).values())
    return there if share.borrow is None else min(there, share.borrow)


def _nodes(count: float) -> str:
    return f"{count:g} node" + ("" if count == 1 else "s")


def borrowing(cluster: Cluster, team: TeamConfig) -> tuple[str, ...]:
    """Return a sentence for each of a team's shares."""
    pools = {pool.name: pool for pool in cluster.pools}
    return tuple(_sentence(cluster, team, share, pools[share.pool]) for share in team.shares)


def _sentence(cluster: Cluster, team: TeamConfig, share: ShareConfig, pool: Pool) -> str:
    from_whom = [
        f"{count:g} " + (f"of {name}" if name else "that nobody is promised")
        for name, count in sources(cluster, team, pool).items()
    ]
    most = borrowable(cluster, team, share)
    has = f"is promised {_nodes(share.nodes)} of {pool.nodes} in pool {pool.name}"
    if share.quota:
        amounts = promised(cluster, share, pool)
        has += " (" + ", ".join(f"{amounts[name]} {name}" for name in share.quota) + ")"
    if not most:
        why = "its own limit is 0" if from_whom else "no other lends any"
        return f"{has}, and may borrow none: {why}"
    limit = "" if share.borrow is None else f", by its own limit of {share.borrow}"
    return f"{has}, and may borrow up to {most:g}{limit}: {', '.join(from_whom)}"


def table(cluster: Cluster) -> list[dict[str, Any]]:
    """Return the table of `railhead config check --json`: by team and share, in nodes' worth."""
    pools = {pool.name: pool for pool in cluster.pools}
    return [
        {
            "team": team.name,
            "pool": share.pool,
            "nodes": share.nodes,
            "borrows_up_to": borrowable(cluster, team, share),
            "of": {
                name or "nobody": count
                for name, count in sources(cluster, team, pools[share.pool]).items()
            },
            "lends": _lent(share),
            "quota": promised(cluster, share, pools[share.pool]),
        }
        for team in cluster.teams
        for share in team.shares
    ]
