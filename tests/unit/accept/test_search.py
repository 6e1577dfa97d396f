"""The search for slow nodes on fleets whose truth is known."""

from __future__ import annotations

import random

import pytest

from benchmarks.slow_nodes import RATE, REPEATS, SIZE, Fleet, cost, figures, look
from railhead.accept.search import (
    GOOD,
    SLOW,
    SUSPECT,
    Answer,
    Outcome,
    Search,
    SearchResult,
    outcome,
    reference,
)


def fleet(
    count: int,
    bad: dict[int, str] | None = None,
    *,
    pairs: dict[tuple[int, int], float] | None = None,
    factor: float = 0.5,
    known_rate: bool = True,
) -> Fleet:
    nodes = tuple(f"node-{index}" for index in range(count))
    named = {nodes[index]: how for index, how in (bad or {}).items()}
    return Fleet(
        nodes=nodes,
        bad=named,
        factor={n: factor for n, how in named.items() if how in ("slow", "tcp")},
        lie={n: how for n, how in named.items() if how not in ("slow", "tcp", "silent")},
        pairs={frozenset((nodes[a], nodes[b])): f for (a, b), f in (pairs or {}).items()},
        scatter=0.01,
        known_rate=known_rate,
        source=random.Random(4),
    )


def searched(made: Fleet, seed: int = 3) -> SearchResult:
    return look(made, seed)[0]


def statuses(found: SearchResult) -> dict[str, set[str]]:
    reported: dict[str, set[str]] = {}
    for node, status in found.nodes.items():
        reported.setdefault(status, set()).add(node)
    return reported


# -- whole fleets ---------------------------------------------------------------------------------


def test_a_healthy_fleet_of_232_takes_30_tests_in_two_rounds() -> None:
    assert cost(232, 0, fleets=5) == (30, 30, 2)


def test_one_slow_node_of_232_takes_some_35_tests() -> None:
    middle, most, rounds = cost(232, 1, fleets=10)
    assert middle <= 36
    assert most <= 40
    assert rounds <= 4


@pytest.mark.parametrize(
    "how", ["slow", "silent", "tcp", "fast", "backwards", "nan", "two clocks"], ids=str
)
@pytest.mark.parametrize("known_rate", [True, False])
def test_a_bad_node_is_found_whatever_is_wrong_with_it(how: str, known_rate: bool) -> None:
    result = searched(fleet(40, {17: how}, known_rate=known_rate))
    assert statuses(result) == {
        GOOD: {f"node-{i}" for i in range(40)} - {"node-17"},
        SLOW: {"node-17"},
    }
    assert set(result.reasons) == {"node-17"}
    assert result.pairs == result.links == ()


def test_150_fleets_at_random() -> None:
    reported = figures(150, seed=1)
    bad, result, pairs = reported["bad_nodes"], reported["found_slow"], reported["bad_pairs_found"]
    assert isinstance(bad, int)
    assert isinstance(result, int)
    assert isinstance(pairs, int)
    assert bad > 600
    # The rest are suspects of fleets of one or two.
    assert result >= 0.99 * bad
    assert (reported["missed"], reported["false_alarms"], reported["pairs_wrongly_accused"]) == (
        0,
        0,
        0,
    )
    assert pairs >= 6


def test_bad_pair_is_not_a_bad_host() -> None:
    """The link of two nodes is slow; both are good with all others."""
    for seed in range(40):
        made = fleet(9, pairs={(2, 6): 0.5})
        result, met = look(made, seed)
        assert set(result.nodes.values()) == {GOOD}, seed
        if met:
            assert result.pairs == (("node-2", "node-6"),), seed
            break
    else:
        pytest.fail("they never met")


def test_a_slow_node_beside_a_bad_pair() -> None:
    reported = []
    for seed in range(12):
        made = fleet(16, {5: "slow"}, pairs={(2, 6): 0.4})
        result, met = look(made, seed)
        assert result.nodes["node-5"] == SLOW
        assert {n for n, s in result.nodes.items() if s == GOOD} == set(made.nodes) - {"node-5"}
        reported.append((met > 0, result.pairs == (("node-2", "node-6"),)))
    assert any(met and pair for met, pair in reported)


# -- fleets that prove nothing --------------------------------------------------------------------


def test_empty_fleet_is_refused() -> None:
    result = searched(fleet(0))
    assert (result.nodes, result.tests) == ({}, 0)


def test_one_node_is_never_good() -> None:
    result = searched(fleet(1))
    assert result.nodes == {"node-0": SUSPECT}
    assert result.tests == 0
    assert "no other node" in result.reasons["node-0"]


def test_two_nodes_are_good_by_an_absolute_figure_alone() -> None:
    assert set(searched(fleet(2)).nodes.values()) == {GOOD}
    result = searched(fleet(2, known_rate=False))
    assert set(result.nodes.values()) == {SUSPECT}
    assert "no figure to hold its own against" in result.reasons["node-0"]


def test_slow_pair_of_two_nodes_is_ambiguous() -> None:
    result = searched(fleet(2, {1: "slow"}))
    assert set(result.nodes.values()) == {SUSPECT}
    assert "GB/s" in result.reasons["node-0"]


@pytest.mark.parametrize("known_rate", [True, False])
def test_slow_node_of_three_is_named(known_rate: bool) -> None:
    assert set(searched(fleet(3, known_rate=known_rate)).nodes.values()) == {GOOD}
    result = searched(fleet(3, {1: "silent"}, known_rate=True))
    assert result.nodes["node-1"] != GOOD
    assert result.nodes["node-0"] == result.nodes["node-2"] == GOOD


def test_the_absolute_figure_finds_a_fleet_that_is_slow_alike() -> None:
    everybody = dict.fromkeys(range(30), "slow")
    result = searched(fleet(30, everybody))
    assert GOOD not in result.nodes.values()
    # Without one it is a fleet of slower machines, and nothing tells it from that.
    assert set(searched(fleet(30, everybody, known_rate=False)).nodes.values()) == {GOOD}


@pytest.mark.parametrize("how", ["silent", "tcp", "backwards"])
def test_no_good_node_means_no_good_verdict(how: str) -> None:
    result = searched(fleet(20, dict.fromkeys(range(20), how)))
    assert set(result.nodes.values()) == {SUSPECT}
    assert set(result.reasons) == set(result.nodes)


def test_two_good_nodes_among_many_bad_are_found() -> None:
    bad = dict.fromkeys(range(2, 12), "slow")
    result = searched(fleet(12, bad))
    assert statuses(result) == {
        GOOD: {"node-0", "node-1"},
        SLOW: {f"node-{i}" for i in range(2, 12)},
    }


# -- one test's answers ---------------------------------------------------------------------------

PACE = SIZE / 1e9 / RATE


def said(*seconds: float, wall: tuple[float, ...] = (), proven: bool = True) -> Answer:
    return Answer(seconds, wall or seconds, proven)


def told(**answers: Answer) -> Outcome:
    return outcome(tuple("abc"), answers, size=SIZE, repeats=REPEATS, ceiling=RATE * 1.04)


FINE = said(PACE, PACE, PACE)


def test_the_slowest_members_median_is_the_figure() -> None:
    got = told(a=FINE, b=said(PACE, PACE * 1.1, PACE * 9, wall=()), c=FINE)
    assert got.faults == {}
    assert got.figure == pytest.approx(RATE / 1.1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said(PACE, PACE), "cut off"),
        (said(PACE, PACE, PACE, PACE), "cut off"),
        (said(PACE, PACE, 0.0), "clock lies"),
        (said(PACE, PACE, -PACE), "clock lies"),
        (said(PACE, PACE, float("nan")), "clock lies"),
        (said(PACE, PACE, float("inf")), "clock lies"),
        (said(PACE, PACE, PACE, wall=(PACE, PACE, PACE * 5)), "clock lies"),
        (said(PACE, PACE, PACE, wall=(PACE, PACE, -PACE)), "clock lies"),
        (said(PACE, PACE, PACE, proven=False), "does not prove"),
        (said(PACE / 2, PACE / 2, PACE / 2), "above the line rate"),
    ],
)
def test_an_answer_that_is_wrong_leaves_no_figure(answer: Answer, reason: str) -> None:
    got = told(a=FINE, b=answer, c=FINE)
    assert got.figure is None
    assert reason in got.faults["b"]


def test_one_who_ends_before_the_others_lies() -> None:
    slow = said(PACE * 4, PACE * 4, PACE * 4)
    got = told(a=slow, b=FINE, c=slow)
    assert got.figure is None
    assert got.faults == {"b": "ended long before the others of one collective: a clock lies"}


def test_a_member_that_is_missing_leaves_no_figure() -> None:
    got = told(a=FINE, b=FINE)
    assert got.figure is None
    assert got.faults == {"c": "said nothing"}


def test_the_reference_is_the_highest_level_that_two_reach() -> None:
    assert reference([]) is None
    assert reference([48.0]) is None
    assert reference([48.0, 20.0]) is None
    level = reference([70.0, 48.0, 47.0, 47.5, 20.0, 20.0, 20.0, 20.0, 20.0, 20.0])
    assert level is not None
    assert level[0] == pytest.approx(47.5)
    assert level[1] == pytest.approx(47.5 * 0.9)


# -- its manners ----------------------------------------------------------------------------------


def test_a_record_is_judged_again_the_same_way() -> None:
    made = fleet(50, {3: "slow", 20: "silent", 31: "tcp"})
    first = Search(made.nodes, seed=9, floor=RATE * 0.7)
    rounds = []
    while groups := first.ask():
        outcomes = [made.test(group) for group in groups]
        rounds.append((groups, outcomes))
        first.tell(outcomes)
    again = Search(made.nodes, seed=9, floor=RATE * 0.7)
    for groups, outcomes in rounds:
        assert again.ask() == groups
        again.tell(outcomes)
    assert again.ask() == ()
    assert again.found() == first.found()


def test_a_round_needs_all_outcomes() -> None:
    search = Search(("a", "b", "c", "d"))
    groups = search.ask()
    with pytest.raises(ValueError, match="outcomes of the last round are missing"):
        search.ask()
    with pytest.raises(ValueError, match=f"{len(groups)} groups"):
        search.tell([])
    with pytest.raises(ValueError, match="twice"):
        Search(("a", "a"))
