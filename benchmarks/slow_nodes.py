"""10,000 made-up fleets through the search for slow nodes: found, false alarms, tests used.

    .venv/bin/python benchmarks/slow_nodes.py --fleets 10000 --seed 1

Each fleet has 1 to 300 nodes of which some are slow, lie, say nothing or run over TCP, some pairs
that are slow with each other, and figures that scatter. No time is measured: this is about the
decisions. What the figures must be is held by tests/unit/accept/test_search.py on fewer fleets.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from railhead.accept.search import (
    GOOD,
    SLOW,
    SUSPECT,
    Answer,
    Outcome,
    Search,
    SearchResult,
    outcome,
)

RATE = 48.0
SIZE = 8 << 30
REPEATS = 3
KINDS = ("slow", "lies", "silent", "tcp")
LIES = ("fast", "backwards", "nan", "two clocks")


@dataclass(frozen=True)
class Fleet:
    """The truth: bad nodes and their faults, and how much figures scatter."""

    nodes: tuple[str, ...]
    bad: dict[str, str]
    factor: dict[str, float]
    lie: dict[str, str]
    pairs: dict[frozenset[str], float]
    scatter: float
    known_rate: bool
    source: random.Random = field(compare=False)

    def answers(self, group: tuple[str, ...]) -> dict[str, Answer]:
        """Return the answers of a group's nodes to one test: all end with the slowest."""
        if any(self.bad.get(node) == "silent" for node in group):
            return {}
        pace = min(self.factor.get(node, 1.0) for node in group)
        for pair, factor in self.pairs.items():
            if pair <= set(group):
                pace = min(pace, factor)
        # Larger groups are a little slower.
        pace *= 1 - 0.01 * (len(group)).bit_length()
        texts = {}
        for node in group:
            seconds = tuple(
                SIZE / 1e9 / (RATE * pace) / (1 + self.source.gauss(0, self.scatter))
                for _ in range(REPEATS)
            )
            texts[node] = Answer(seconds, seconds, proven=True)
            if self.bad.get(node) == "tcp":
                texts[node] = Answer(seconds, seconds, proven=False)
            elif node in self.lie:
                texts[node] = _lie(self.lie[node], seconds)
        return texts

    def test(self, group: tuple[str, ...]) -> Outcome:
        """Return the outcome of one test, as the search gets it."""
        ceiling = RATE * 1.04 if self.known_rate else None
        return outcome(group, self.answers(group), size=SIZE, repeats=REPEATS, ceiling=ceiling)


def _lie(how: str, seconds: tuple[float, ...]) -> Answer:
    if how == "fast":
        quick = tuple(value / 20 for value in seconds)
        return Answer(quick, quick, proven=True)
    if how == "backwards":
        return Answer((*seconds[:-1], -seconds[-1]), seconds, proven=True)
    if how == "nan":
        return Answer((*seconds[:-1], float("nan")), seconds, proven=True)
    return Answer(seconds, tuple(value * 3 for value in seconds), proven=True)


def draw(source: random.Random) -> Fleet:
    """Return a fleet at random: most have few bad nodes, some none, some a third."""
    count = source.choice((source.randint(1, 12), source.randint(4, 64), source.randint(32, 300)))
    nodes = tuple(f"node-{index}" for index in range(count))
    share = source.choice((0.0, 0.0, 0.01, 0.02, 0.05, 0.1, 0.33))
    bad = {node: source.choice(KINDS) for node in nodes if source.random() < share}
    factor = {
        node: source.uniform(0.02, 0.1) if how == "tcp" else source.uniform(0.2, 0.75)
        for node, how in bad.items()
        if how in ("slow", "tcp")
    }
    lie = {node: source.choice(LIES) for node, how in bad.items() if how == "lies"}
    good = [node for node in nodes if node not in bad]
    pairs = {}
    if len(good) > 8 and source.random() < 0.2:
        for _ in range(source.randint(1, 2)):
            pairs[frozenset(source.sample(good, 2))] = source.uniform(0.2, 0.75)
    return Fleet(
        nodes=nodes,
        bad=bad,
        factor=factor,
        lie=lie,
        pairs=pairs,
        scatter=source.choice((0.002, 0.01, 0.02)),
        known_rate=source.random() < 0.7,
        source=random.Random(source.random()),
    )


def look(fleet: Fleet, seed: int) -> tuple[SearchResult, int]:
    """Search a fleet; what was found, and how many bad pairs ever shared a group."""
    floor = RATE * 0.7 if fleet.known_rate else None
    search = Search(fleet.nodes, seed=seed, floor=floor)
    while groups := search.ask():
        together = [node for group in groups for node in group]
        if len(together) != len(set(together)):
            raise AssertionError("a node is in two groups of one round")
        search.tell([fleet.test(group) for group in groups])
    met = sum(any(p <= set(t.group) for t in search.tests) for p in fleet.pairs)
    return search.found(), met


def figures(fleets: int, seed: int) -> dict[str, object]:
    """Search so many fleets; counts by kind of node and of test."""
    source = random.Random(seed)
    bad: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    good = alarms = doubts = pairs = met_pairs = told_pairs = wrong_pairs = 0
    costs: dict[str, list[tuple[int, int]]] = {}
    for number in range(fleets):
        fleet = draw(source)
        result, met = look(fleet, number)
        for node, status in result.nodes.items():
            how = fleet.bad.get(node)
            if how is None:
                good += 1
                alarms += status == SLOW
                doubts += status == SUSPECT
            else:
                bad[how] += 1
                reported[how] += status == SLOW
                missed[how] += status == GOOD
        pairs += len(fleet.pairs)
        met_pairs += met
        told_pairs += sum(frozenset(pair) in fleet.pairs for pair in result.pairs)
        wrong_pairs += sum(frozenset(pair) not in fleet.pairs for pair in result.pairs)
        if len(fleet.nodes) >= 200:
            key = min(len(fleet.bad), 10)
            label = "10 and more" if key == 10 else str(key)
            costs.setdefault(label, []).append((result.tests, result.rounds))
    return {
        "fleets": fleets,
        "bad_nodes": sum(bad.values()),
        "found_slow": sum(reported.values()),
        "missed": sum(missed.values()),
        "left_suspect": sum(bad.values()) - sum(reported.values()) - sum(missed.values()),
        "found_of_all_by_kind": {kind: [reported[kind], bad[kind]] for kind in KINDS},
        "good_nodes": good,
        "false_alarms": alarms,
        "good_left_suspect": doubts,
        "bad_pairs": pairs,
        "bad_pairs_that_shared_a_group": met_pairs,
        "bad_pairs_found": told_pairs,
        "pairs_wrongly_accused": wrong_pairs,
        "tests_and_rounds_of_200_to_300_nodes_by_bad_nodes": {
            label: {
                "fleets": len(rows),
                "tests_median": statistics.median(tests for tests, _ in rows),
                "tests_most": max(tests for tests, _ in rows),
                "rounds_median": statistics.median(rounds for _, rounds in rows),
            }
            for label, rows in sorted(costs.items(), key=lambda row: int(row[0].split()[0]))
        },
    }


def cost(nodes: int, bad: int, fleets: int = 200) -> tuple[float, int, float]:
    """Tests (median and most) and rounds (median) of one size of fleet with so many slow nodes."""
    tests, rounds = [], []
    for number in range(fleets):
        source = random.Random(number)
        names = tuple(f"node-{index}" for index in range(nodes))
        slow = dict.fromkeys(source.sample(names, bad), "slow")
        factor = {node: source.uniform(0.2, 0.75) for node in slow}
        fleet = Fleet(names, slow, factor, {}, {}, 0.01, True, source)
        result, _ = look(fleet, number)
        tests.append(result.tests)
        rounds.append(result.rounds)
    return statistics.median(tests), max(tests), statistics.median(rounds)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleets", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    begin = time.monotonic()
    print(json.dumps(figures(given.fleets, given.seed), indent=1))
    print(f"{time.monotonic() - begin:.0f} s")
    for bad in (0, 1, 2, 3, 5, 10):
        middle, most, rounds = cost(232, bad)
        print(f"232 nodes, {bad} slow: {middle:g} tests (at most {most}) in {rounds:g} rounds")


if __name__ == "__main__":
    main()
