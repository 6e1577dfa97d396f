"""Spoils single fields of shipped stacks' plans, and counts what a review says of each.

``python -m tests.engine.review_mutations [COUNT] [SEED]`` prints how many are refused, asked about,
noted and passed in silence, and the last two by type and field.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.lab.stack_plans import stack_plans
from railhead.review.compare import Planned, compare, resources
from railhead.review.judge import judged
from railhead.review.model import Level
from railhead.review.rows import flat

REPO = Path(__file__).resolve().parents[2]
#: Fields by which nothing is lost: names for people, and what others read alone.
NAMES = ("tags", "description", "annotations", "messageExpression", "message", "reason", "labels")
LEVELS: tuple[Level, ...] = ("refuse", "unjudged", "ask", "note")


def _matters(resource: Planned, path: str) -> bool:
    parts = path.split(".")
    return not resource.type.startswith("pulumi:") and not any(p in NAMES for p in parts)


def spoilt(value: Any, chance: random.Random) -> Any:
    """Return another value of the same kind: the contrary, half, nothing, or one row fewer."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return type(value)(value // 2) if value > 1 else value + 1
    if isinstance(value, list):
        gone = chance.randrange(len(value))
        return [row for index, row in enumerate(value) if index != gone]
    return f"{value}-other" if value else "other"


def _replaced(value: Mapping[str, Any], path: str, leaf: Any) -> dict[str, Any]:
    """Return a mapping with another leaf; keys may have dots."""
    result = dict(value)
    for key, inner in value.items():
        if key == path:
            result[key] = leaf
            return result
        if path.startswith(f"{key}.") and isinstance(inner, Mapping):
            result[key] = _replaced(inner, path[len(key) + 1 :], leaf)
            return result
    raise KeyError(path)


def mutations(
    plan: Mapping[str, Planned], count: int, chance: random.Random
) -> Iterator[tuple[str, str, dict[str, Planned]]]:
    """Yield (type, field, plan) with one field of one resource spoilt, or one resource gone."""
    fields = [
        (urn, path, value)
        for urn, resource in plan.items()
        for path, value in flat(resource.inputs)
        if _matters(resource, path) and value not in (None, [], {})
    ]
    for urn, path, value in chance.sample(fields, min(count, len(fields))):
        resource = plan[urn]
        if chance.random() < 0.1:
            yield resource.type, "(deleted)", {u: r for u, r in plan.items() if u != urn}
            continue
        inputs = _replaced(resource.inputs, path, spoilt(value, chance))
        yield resource.type, path, {**plan, urn: replace(resource, inputs=inputs)}


def level(before: Mapping[str, Planned], after: Mapping[str, Planned]) -> Level | None:
    """Return the gravest verdict on a change of code that does this; None for silence."""
    levels = {
        result.level
        for change in compare(before, after)
        for _, result in judged(change, after, code=True, named=())
    }
    return next((verdict for verdict in LEVELS if verdict in levels), None)


def counted(count: int, seed: int) -> tuple[Counter[str], Counter[tuple[str, str, str]]]:
    """Return verdicts with how often each was given, and the fields of notes and silence."""
    chance = random.Random(seed)
    files = sorted((REPO / "stacks").glob("Pulumi.*.yaml"))
    verdicts: Counter[str] = Counter()
    rest: Counter[tuple[str, str, str]] = Counter()
    for side in stack_plans(files, code=REPO).values():
        assert side.plan is not None, side.failed
        plan = resources(side.plan, str(REPO))
        for type_, path, after in mutations(plan, count // len(files) + 1, chance):
            verdict = level(plan, after) or "silent"
            verdicts[verdict] += 1
            if verdict in ("note", "silent"):
                rest[verdict, type_, path] += 1
    return verdicts, rest


def main() -> None:
    """Print the table."""
    count, seed = (int(word) for word in (*sys.argv[1:], "1000", "1")[:2])
    verdicts, rest = counted(count, seed)
    total = sum(verdicts.values())
    seen = verdicts["refuse"] + verdicts["ask"] + verdicts["unjudged"]
    rows = [f"{total} mutations: {dict(verdicts)}; refused or warned of: {seen / total:.1%}"]
    rows += [f"{n:4} {' '.join(row)}" for row, n in rest.most_common()]
    sys.stdout.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
