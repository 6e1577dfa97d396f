"""Tests that the judge of contests reports each violation, in records that are made up."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from railhead.accept.record import Row
from tests.lab.contests import PLACES, PRIORITIES, Contest, Gang, draw, judge

Rows = list[Row]
_versions = itertools.count(1)


def gang(name: str, size: int, t: float, **what: Any) -> Row:
    row: dict[str, Any] = {
        "rv": next(_versions),
        "t": t,
        "kind": "gang",
        "event": "MODIFIED",
        "arena": "arena-0",
    }
    row |= {
        "event": "MODIFIED",
        "gang": name,
        "size": size,
        "priority": 0,
        "created": "2026-01-01T00:00:00Z",
    }
    return Row.model_validate(row | what)


def pod(name: str, t: float, node: str = "n", **what: Any) -> Row:
    row: dict[str, Any] = {
        "rv": next(_versions),
        "t": t,
        "kind": "pod",
        "event": "MODIFIED",
        "arena": "arena-0",
    }
    row |= {
        "event": "MODIFIED",
        "gang": name.partition("/")[0],
        "pod": name,
        "node": node,
        "phase": "Running",
    }
    return Row.model_validate(row | what)


def contest(*names: str, held: bool = False) -> Contest:
    gangs = tuple(Gang(name=name, size=3, priority="research", after=0) for name in names)
    return Contest(number=0, arena=0, gangs=gangs, held=held, loses_node=False, simulated=False)


def run(name: str, size: int, t: float, **what: Any) -> Rows:
    pods = [f"{name}/{index}" for index in range(size)]
    return [
        gang(name, size, t, reserved=True, **what),
        *(pod(item, t) for item in pods),
        *(pod(item, t + 1, phase="Succeeded") for item in pods),
        gang(name, size, t + 1, reserved=True, finished="Succeeded", **what),
    ]


def test_one_after_another_is_right() -> None:
    waiting = [gang("a", 3, 0), gang("b", 3, 0)]
    assert judge([*waiting, *run("a", 3, 1), *run("b", 3, 3)], [contest("a", "b")]).wrong == []


def test_two_that_hold_parts_of_each_others_places() -> None:
    rows = [gang("a", 3, 0, reserved=True), gang("b", 3, 0, reserved=True)]
    rows += [pod("a/0", 1), pod("b/0", 1), pod("b/1", 1)]
    verdict = judge(rows, [contest("a", "b")])
    assert verdict.half_placed
    assert verdict.overfull


def test_a_pod_without_quota() -> None:
    assert judge([gang("a", 1, 0), pod("a/0", 1)], [contest("a")]).unpaid


def test_gang_that_never_had_all_its_places_is_reported() -> None:
    rows = run("a", 3, 0)
    assert judge(rows, [contest("a")]).never_whole == []
    fewer = [row for row in rows if row.pod != "a/2"]
    assert judge(fewer, [contest("a")]).never_whole == ["a"]


@pytest.mark.parametrize(("since", "wrong"), [(0.0, True), (9.5, False)])
def test_a_less_important_one_goes_first(since: float, wrong: bool) -> None:
    """One that came half a second ago may have come after the decision."""
    rows = [gang("a", 3, 0), gang("b", 3, since, priority=1000), *run("a", 3, 10)]
    assert bool(judge(rows, [contest("a", "b")]).out_of_order) is wrong


def test_gang_that_fits_beside_another_is_in_order() -> None:
    """Kueue writes down what it let in together in any order, on a busy machine seconds apart."""
    waiting = [gang("a", 1, 0), gang("b", 2, 0, priority=1000)]
    later = [*run("a", 1, 10), *run("b", 2, 13, priority=1000)]
    assert judge([*waiting, *later], [contest("a", "b")]).out_of_order == []
    larger = [row.model_copy(update={"size": 4}) if row.gang == "b" else row for row in waiting]
    assert judge([*larger, *later], [contest("a", "b")]).out_of_order


def test_finished_gang_is_not_admitted_again() -> None:
    """Kueue preempts what ended a moment ago, and writes over that it has ended."""
    over = gang("a", 3, 11.2, reserved=True, evicted="Preempted")
    rows = [*run("a", 3, 10), gang("b", 3, 4, priority=1000), over]
    assert judge(rows, [contest("a", "b")]).out_of_order == []


def test_older_of_two_equal_gangs_goes_first() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-01T00:00:03Z"
    waiting = [gang("a", 3, 0, created=old), gang("b", 3, 3, created=new)]
    held = [contest("a", "b", held=True)]
    assert judge([*waiting, *run("b", 3, 4, created=new)], held).out_of_order
    assert not judge([*waiting, *run("a", 3, 4, created=old)], held).out_of_order


def test_contests_come_from_their_seed_and_never_all_fit() -> None:
    result = draw(11, 200, 20)
    assert result == draw(11, 200, 20)
    assert result != draw(12, 200, 20)
    assert all(sum(g.size for g in item.gangs) > PLACES for item in result)
    assert {len(item.gangs) for item in result} == {2, 3, 4, 5}
    assert {g.priority for item in result for g in item.gangs} == set(PRIORITIES)
    losing = [item for item in result if item.loses_node]
    assert len(losing) == 20
    assert not any(item.simulated for item in losing)
