"""Could the gang be within one domain of the level that it requires? Else it waits for ever."""

from __future__ import annotations

from collections import Counter

from railhead.base.finding import Finding
from railhead.base.names import REQUIRED_TOPOLOGY, SLICE_SIZE, SLICE_TOPOLOGY
from railhead.base.quantity import parse
from railhead.launch.asked import Asked
from railhead.launch.plan import Plan

ORDER = 25


def check(asked: Asked) -> list[Finding]:
    """Check the room in one domain, where a level is required and nodes are there all the time."""
    plan, contract = asked.plan, asked.contract
    level, each = _required(plan)
    if level is None or not contract.standing or level not in contract.topology_levels:
        return []
    live = asked.live
    if isinstance(live, str):
        text = f"nodes may not be listed: room in a {level} for {plan.nodes} is not known"
        return [Finding(name="topology", passed=None, text=text)]
    # A domain is named by all levels from the widest (Kueue's topology_types.go).
    levels = contract.topology_levels[: contract.topology_levels.index(level) + 1]
    room: Counter[tuple[str, ...]] = Counter()
    for node in live:
        labels = node["metadata"].get("labels") or {}
        if plan.pool.node_selector.items() <= labels.items() and set(levels) <= labels.keys():
            room[tuple(labels[item] for item in levels)] += _each(plan)
    # With no node at all `nodes` says more.
    if not room:
        return []
    (largest, most), *_ = room.most_common(1)
    result = f"{level} {'/'.join(largest)} has room for {most} of pool {plan.pool.name}"
    fit = sum(n // each for n in room.values()) * each if each else most
    if plan.nodes <= fit:
        return [Finding(name="topology", passed=True, text=result)]
    short = level.rpartition("/")[2]
    fewer = f"at most {fit} nodes" if fit else f"groups of {most} nodes"
    return [
        Finding(
            name="topology",
            passed=False,
            text=f"topology: {f'each {each} of ' if each else ''}{plan.nodes} nodes must be within "
            f"one {short}, and the largest, {result}; the job would wait for ever",
            remedy=f"take {fewer}, a wider level, or `topology: prefer {short}`",
        )
    ]


def _required(plan: Plan) -> tuple[str | None, int]:
    """Return the level within one domain of which pods must be: all, or so many at a time."""
    own = (plan.template.get("metadata") or {}).get("annotations") or {}
    annotations = own if plan.annotations is None else plan.annotations
    if SLICE_TOPOLOGY in annotations:
        return annotations[SLICE_TOPOLOGY], int(annotations[SLICE_SIZE])
    return annotations.get(REQUIRED_TOPOLOGY), 0


def _each(plan: Plan) -> int:
    """Return how many of the job's pods an empty machine of the pool holds."""
    capacity, wanted = plan.pool.capacity, plan.resources.get("requests") or {}
    fits = [
        int(parse(capacity[name]) // parse(amount))
        for name, amount in wanted.items()
        if name in capacity and parse(amount) > 0
    ]
    return max(1, min(fits, default=1))
