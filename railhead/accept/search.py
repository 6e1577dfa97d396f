"""The search for slow nodes: which groups to test next, and what their figures say of each node.

Two rounds of pools of about the square root of the fleet, the second drawn at random across the
first, so that every node is in two pools with other company each time. A node that was in one fast
pool is good. The others, few, are halved or tested one by one with a partner known to be good, and
a second time with another partner: slow with both is a slow node, slow with one of them is a bad
pair. A pool that is slow although each of its nodes was fast elsewhere has a bad link, which is
looked for between its halves.

232 healthy nodes take 30 tests in two rounds, where all pairs would be 26,796 (NVIDIA's cluster
readiness engine, docs/designs/055-adaptive-fault-isolation.md, from which the size of the pools
and the halving are; 056 of the same, the search between halves that are both fast).

Limit: a bad link between two good nodes is found only where they shared a pool.

A pod's program takes this file along: standard library only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

GOOD, SLOW, SUSPECT = "good", "slow", "suspect"

# Suspects of one pool that are tested one by one at once; more are halved first.
DIRECT = 8
# Figures this near to each other are of one kind.
ALIKE = 0.15
# What is this much below the fleet's own figure is slow, whatever the noise ...
LEAST_DROP = 0.10
# ... and what is this much below is slow, however noisy the fleet.
MOST_DROP = 0.25
# In standard deviations, estimated from the median of the absolute deviations.
NOISE = 4.0
MAD_TO_SIGMA = 1.4826
# Two clocks of one node, or the times of two nodes for one collective, may differ by this much.
CLOCKS = 0.25
CLOCK_SLACK_SECONDS = 0.005
# A rate may be this much above the line: figures are rounded, rates are nominal.
ABOVE_LINE = 1.05
RE_PAIRINGS = 3
MAX_ROUNDS = 60

# What is wrong with an answer whose times may still be true; all other faults are of its times.
SILENT, UNSHOWN = "said nothing", "its log does not prove the fabric's transport"

Group = tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """The answer of one node to one test.

    Args:
        seconds: of each repeat, by the clock that cannot be set.
        wall: the same by the clock that tells the time.
        proven: whether its own log shows the transport that the fabric must have.
    """

    seconds: tuple[float, ...]
    wall: tuple[float, ...]
    proven: bool


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test: a figure in GB/s, or what is wrong with it, by node."""

    figure: float | None
    faults: Mapping[str, str] = field(default_factory=dict)


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _plausible(answer: Answer, repeats: int) -> bool:
    every = (*answer.seconds, *answer.wall)
    if len(answer.seconds) != repeats or len(answer.wall) != repeats:
        return False
    if not all(_is_time(value) for value in every):
        return False
    item, other = sum(answer.seconds), sum(answer.wall)
    return abs(item - other) <= CLOCKS * max(item, other) + CLOCK_SLACK_SECONDS


def outcome(
    group: Sequence[str],
    answers: Mapping[str, Answer],
    *,
    size: int,
    repeats: int,
    ceiling: float | None = None,
) -> Outcome:
    """Read the answers to one test; all members time the same collective, begin and end together.

    Args:
        group: the nodes that were asked.
        answers: by node; a node that is missing said nothing.
        size: bytes that each node sends in one repeat.
        repeats: how many were asked for.
        ceiling: GB/s that no node can send; None where nothing is known.

    Returns:
        The figure of the slowest member, and no figure where any member's answer is missing,
        impossible or over another transport: that can be the fault of any of them.
    """
    faults: dict[str, str] = {}
    times: dict[str, float] = {}
    for node in group:
        answer = answers.get(node)
        if answer is None:
            faults[node] = SILENT
        elif not _plausible(answer, repeats):
            faults[node] = "its clock lies, or its answer is cut off"
        elif not answer.proven:
            faults[node] = UNSHOWN
        else:
            times[node] = median(answer.seconds)
    if times:
        slowest = max(times.values())
        for node, seconds in times.items():
            if ceiling is not None and size / seconds / 1e9 > ceiling * ABOVE_LINE:
                faults[node] = f"says {size / seconds / 1e9:.3g} GB/s, above the line rate"
            elif seconds < slowest * (1 - CLOCKS) - CLOCK_SLACK_SECONDS:
                faults[node] = "ended long before the others of one collective: a clock lies"
    if faults or not times:
        return Outcome(figure=None, faults=faults)
    return Outcome(figure=size / max(times.values()) / 1e9)


def _answer(timings: Sequence[object], proven: bool) -> Answer | None:
    """Return the times of a node's processes as one: each repeat ends with the last of them."""
    columns: dict[str, list[list[float]]] = {"seconds": [], "wall": []}
    for timing in timings:
        if not isinstance(timing, Mapping):
            return None
        for name, column in columns.items():
            values = timing.get(name)
            if not isinstance(values, list) or not all(_is_number(value) for value in values):
                return None
            column.append([float(value) for value in values])
    if not timings or len({len(values) for rows in columns.values() for values in rows}) != 1:
        return None
    seconds, wall = (
        tuple(_last(row) for row in zip(*rows, strict=True)) for rows in columns.values()
    )
    return Answer(seconds, wall, proven)


def _last(times: Sequence[float]) -> float:
    """Return the longest; one that is no time is not covered by another that is."""
    return next((value for value in times if not _is_time(value)), max(times))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def answers(
    test: str, reports: Iterable[Mapping[str, object]], *, proofs: bool
) -> dict[str, Answer]:
    """Return the answers to one test among pods' reports, by node.

    Args:
        test: its name.
        reports: what pods said, of this and of other tests.
        proofs: whether their logs must prove the fabric.
    """
    results: dict[str, Answer] = {}
    for report in reports:
        processes = report.get("processes")
        if report.get("test") != test or not isinstance(processes, list):
            continue
        timings = [
            process.get("exchange") if isinstance(process, Mapping) else None
            for process in processes
        ]
        answer = _answer(timings, report.get("proven") is True or not proofs)
        if answer is not None:
            results[str(report.get("node"))] = answer
    return results


def alone(what: str, reports: Iterable[Mapping[str, object]], *, repeats: int) -> dict[str, Answer]:
    """Return what each node measured alone, ``compute`` or ``exchange``, where its clocks agree."""
    results: dict[str, Answer] = {}
    for report in reports:
        processes = report.get("processes")
        if report.get("do") != "alone" or not isinstance(processes, list):
            continue
        timings = [
            process.get(what) if isinstance(process, Mapping) else None
            for process in processes
            if not isinstance(process, Mapping) or what in process or "error" in process
        ]
        answer = _answer(timings, True)
        if answer is not None and _plausible(answer, repeats):
            results[str(report.get("node"))] = answer
    return results


def loopbacks(
    reports: Iterable[Mapping[str, object]], *, size: int, repeats: int
) -> dict[str, float]:
    """GB/s that two processes of each node exchange over its loopback."""
    each = alone("exchange", reports, repeats=repeats)
    return {node: size / median(answer.seconds) / 1e9 for node, answer in each.items()}


def loopback_floor(figures: Mapping[str, float], share: float) -> float | None:
    """Return the least that nodes must exchange where their fabric has no line rate."""
    return median(figures.values()) * share if figures else None


def reference(figures: Sequence[float]) -> tuple[float, float] | None:
    """Return the fleet's own figure and the least that counts as equal to it.

    A group is as fast as its slowest member, so slow nodes only ever pull figures down: what is
    taken is the highest level on which at least two groups agree, its median, and the spread
    around it. None where no two agree, for then there is nothing to compare with.
    """
    ordered = sorted(figures, reverse=True)
    for index, top in enumerate(ordered):
        level = [value for value in ordered[index:] if value >= top * (1 - ALIKE)]
        if len(level) >= 2:
            middle = median(level)
            sigma = MAD_TO_SIGMA * median(abs(value - middle) for value in level)
            drop = min(MOST_DROP, max(LEAST_DROP, NOISE * sigma / middle))
            return middle, middle * (1 - drop)
    return None


@dataclass
class Test:
    """One group that was asked for, why, and what became of it."""

    __test__ = False

    group: Group
    why: str
    round: int
    outcome: Outcome | None = None


@dataclass(frozen=True)
class SearchResult:
    """The conclusions of the search.

    Args:
        nodes: ``good``, ``slow`` (with two partners that are good) or ``suspect`` (never seen
            fast, and no partner known to be good to tell whose fault it is).
        reasons: of each node that is not good.
        pairs: good nodes that are slow with each other.
        links: groups of good nodes with a bad link that could not be narrowed down to a pair.
        tests: how many groups were tested, in so many ``rounds`` side by side.
        expected: GB/s of the fleet's own good pairs and pools, and the least that passed.
    """

    nodes: Mapping[str, str]
    reasons: Mapping[str, str]
    pairs: tuple[Group, ...]
    links: tuple[Group, ...]
    tests: int
    rounds: int
    expected: Mapping[str, tuple[float, float]]


def _halves(group: Sequence[str]) -> tuple[Group, Group]:
    middle = (len(group) + 1) // 2
    return tuple(group[:middle]), tuple(group[middle:])


def _kind(group: Sequence[str]) -> str:
    """Figures are compared with those of groups of their kind."""
    return "pair" if len(group) == 2 else "pool"


def _key(group: Sequence[str]) -> frozenset[str]:
    return frozenset(group)


@dataclass
class _Hunt:
    """A bad link somewhere in ``left``, or between ``left`` and ``right``."""

    left: Group
    right: Group = ()
    stage: int = 0
    tests: list[Test] = field(default_factory=list)


class Search:
    """Asks for rounds of groups that share no node, takes their outcomes, and concludes.

    The same nodes, seed and outcomes give the same groups, so that a record can be judged again.

    Args:
        nodes: names, each once.
        seed: of the random pools and partners.
        floor: GB/s that every group must reach, whatever the rest of the fleet does; None where
            nothing absolute is known, and then a fleet that is slow alike is not told.
    """

    def __init__(self, nodes: Sequence[str], *, seed: int = 0, floor: float | None = None) -> None:
        if len(set(nodes)) != len(nodes):
            raise ValueError("a node is named twice")
        self._nodes = tuple(nodes)
        self._random = random.Random(seed)  # noqa: S311 -- draws pools, keeps no secret
        self._floor = floor
        self._tests: list[Test] = []
        self._asked: list[Test] = []
        self._round = 0
        self._pairs: list[Group] = []
        self._links: list[Group] = []
        self._hunts: list[_Hunt] = []
        self._hunted: set[int] = set()
        self._re_pairings = 0
        # What follows from the tests, until there are more of them.
        self._expected: dict[str, tuple[float, float] | None] = {}
        self._fast: list[str] | None = None

    # -- what is known ----------------------------------------------------------------------------

    def _threshold(self, kind: str) -> tuple[float, float] | None:
        """Return the limit of tests of a kind: from those of their kind, or else of any."""
        if kind not in self._expected:
            own = reference(self._figures(kind)) or reference(self._figures(None))
            if self._floor is not None:
                own = (own[0], max(own[1], self._floor)) if own else (self._floor, self._floor)
            self._expected[kind] = own
        return self._expected[kind]

    def _figures(self, kind: str | None) -> list[float]:
        return [
            test.outcome.figure
            for test in self._tests
            if test.outcome is not None
            and test.outcome.figure is not None
            and kind in (None, _kind(test.group))
        ]

    def _good(self, test: Test) -> bool | None:
        """Return whether a test was fast; None where nothing says what fast is."""
        if test.outcome is None or test.outcome.figure is None:
            return False
        if self._floor is not None and test.outcome.figure < self._floor:
            return False
        least = self._threshold(_kind(test.group))
        return None if least is None else test.outcome.figure >= least[1]

    def _cleared(self) -> list[str]:
        """Nodes that were in a fast group."""
        if self._fast is None:
            fast = {node for test in self._tests if self._good(test) for node in test.group}
            self._fast = [node for node in self._nodes if node in fast]
        return self._fast

    def _slow(self) -> list[str]:
        """Nodes that were in no fast group, and slow with two partners that are good."""
        cleared = set(self._cleared())
        rest = [node for node in self._nodes if node not in cleared]
        return [node for node in rest if len(self._failed_with(node, cleared)) >= 2]

    def _failed_with(self, node: str, cleared: set[str]) -> set[str]:
        """Good partners with which it alone was slow."""
        return {
            other
            for test in self._tests
            if len(test.group) == 2 and node in test.group and self._good(test) is False
            for other in test.group
            if other != node and other in cleared
        }

    def _suspects(self) -> list[str]:
        known = {*self._cleared(), *self._slow()}
        return [node for node in self._nodes if node not in known]

    # -- rounds -----------------------------------------------------------------------------------

    def ask(self) -> tuple[Group, ...]:
        """Return the groups of the next round; none once nothing more can be learnt."""
        if self._asked:
            raise ValueError("the outcomes of the last round are missing")
        if len(self._nodes) > 1 and self._round < MAX_ROUNDS:
            if self._round == 0:
                self._asked = self._pools(self._nodes, "pool")
            elif self._round == 1:
                self._asked = self._across()
            if not self._asked:
                self._asked = self._refine()
        return tuple(test.group for test in self._asked)

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        """Take the outcomes of the round's groups, in their order."""
        if len(outcomes) != len(self._asked):
            raise ValueError(f"{len(self._asked)} groups were asked for, {len(outcomes)} told")
        for test, what in zip(self._asked, outcomes, strict=True):
            test.outcome = what
        self._tests += self._asked
        self._asked = []
        self._round += 1
        self._expected, self._fast = {}, None
        self._conclude()

    def _test(self, group: Sequence[str], why: str) -> Test:
        return Test(group=tuple(group), why=why, round=self._round)

    def _pools(self, nodes: Sequence[str], why: str) -> list[Test]:
        count = len(nodes)
        size = max(2, math.isqrt(count - 1) + 1)
        pools = max(1, min(-(-count // size), count // 2))
        mixed = self._random.sample(list(nodes), count)
        return [self._test(mixed[start::pools], why) for start in range(pools)]

    def _across(self) -> list[Test]:
        """Pools drawn across the first ones, so that two nodes meet but once, where that can be."""
        first = [list(test.group) for test in self._tests]
        if len(first) < 2:
            return []
        for pool in first:
            self._random.shuffle(pool)
        self._random.shuffle(first)
        mixed = [node for pool in first for node in pool]
        pools = len(first)
        # Neighbours of one pool go to pools after each other, and so to different ones.
        return [self._test(mixed[start::pools], "across") for start in range(pools)]

    def _refine(self) -> list[Test]:
        cleared, suspects = self._cleared(), self._suspects()
        if doubted := self._doubted():
            return [self._test(group, "again") for group in doubted]
        if not cleared:
            return self._in_the_dark(suspects)
        asked: list[Test] = []
        partners = self._random.sample(cleared, len(cleared))
        free = set(self._nodes)
        for group in self._suspected(suspects):
            halves = _halves(group) if len(group) > DIRECT else tuple((item,) for item in group)
            for half in halves:
                if len(half) > 1:
                    self._add(asked, free, half, "half")
                elif partner := self._partner(half[0], partners, free):
                    self._add(asked, free, (half[0], partner), "confirm")
        if any(test.why == "confirm" for test in asked):
            self._references(asked, free, cleared)
        for hunt in self._hunts:
            self._pursue(hunt, asked, free)
        return asked

    def _doubted(self) -> list[Group]:
        """Return a group much faster than all others, to test it again: the others may be slow."""
        for kind in ("pool", "pair"):
            figures = sorted(self._figures(kind), reverse=True)
            if len(figures) > 1 and figures[0] * (1 - ALIKE) > figures[1]:
                top = next(
                    test.group
                    for test in self._tests
                    if test.outcome is not None and test.outcome.figure == figures[0]
                )
                if sum(_key(test.group) == _key(top) for test in self._tests) == 1:
                    return [top]
        return []

    def _add(self, asked: list[Test], free: set[str], group: Sequence[str], why: str) -> bool:
        if not free.issuperset(group):
            return False
        free.difference_update(group)
        asked.append(self._test(group, why))
        return True

    def _suspected(self, suspects: Sequence[str]) -> list[Group]:
        """Suspects by the smallest slow group that they share; alone once halved so far."""
        groups: dict[int, list[str]] = {}
        for node in suspects:
            own = [i for i, test in enumerate(self._tests) if node in test.group]
            smallest = min(own, key=lambda i: (len(self._tests[i].group), -i))
            groups.setdefault(smallest, []).append(node)
        return [tuple(group) for group in groups.values()]

    def _partner(self, node: str, partners: Sequence[str], free: set[str]) -> str | None:
        """Return a good node that it was not tested with alone."""
        met = {
            other for t in self._tests if node in t.group and len(t.group) == 2 for other in t.group
        }
        return next((p for p in partners if p in free and p not in met), None)

    def _references(self, asked: list[Test], free: set[str], cleared: Sequence[str]) -> None:
        """Add two pairs of good nodes, which other pairs are compared with."""
        known = [t for t in self._tests if _kind(t.group) == "pair" and self._good(t)]
        spare = [node for node in cleared if node in free]
        for _ in range(2 - min(2, len(known))):
            if len(spare) >= 2:
                self._add(asked, free, (spare.pop(0), spare.pop(0)), "reference")

    def _in_the_dark(self, suspects: Sequence[str]) -> list[Test]:
        """Halve slow groups while no node is known to be good, and at last try other pairs."""
        done = {_key(test.group) for test in self._tests}
        asked: list[Test] = []
        free = set(suspects)
        for group in self._suspected(suspects):
            if len(group) >= 4:
                for half in _halves(group):
                    if _key(half) not in done:
                        self._add(asked, free, half, "half")
        if asked or self._re_pairings >= RE_PAIRINGS:
            return asked
        self._re_pairings += 1
        mixed = self._random.sample(list(suspects), len(suspects))
        while len(mixed) > 1:
            item = mixed.pop()
            fresh = next((other for other in mixed if _key((item, other)) not in done), None)
            if fresh is not None:
                mixed.remove(fresh)
                self._add(asked, free, (item, fresh), "pair")
        return asked

    # -- bad links --------------------------------------------------------------------------------

    def _pursue(self, hunt: _Hunt, asked: list[Test], free: set[str]) -> None:
        """Ask what the hunt needs next, as far as its nodes are free."""
        if not hunt.tests:
            hunt.tests = [self._test(group, "link") for group in self._next_groups(hunt)]
        for test in hunt.tests:
            if test.outcome is None and free.issuperset(test.group):
                free.difference_update(test.group)
                test.round = self._round
                asked.append(test)

    def _next_groups(self, hunt: _Hunt) -> list[Group]:
        if hunt.stage == 0:
            return [hunt.left + hunt.right]
        if not hunt.right:
            return [half for half in _halves(hunt.left) if len(half) > 1]
        ones = [half for half in _halves(hunt.left) if half]
        others = [half for half in _halves(hunt.right) if half]
        return [item + other for item in ones for other in others]

    def _follow(self, hunt: _Hunt) -> list[_Hunt]:
        """Return the hunts that a finished one leaves, none where it has ended."""
        slow = [test.group for test in hunt.tests if not self._good(test)]
        if hunt.stage == 0:
            # Slow once and fast the second time is no lasting fault of anything.
            if not slow:
                return []
            if len(hunt.left + hunt.right) == 2:
                self._pairs.append(hunt.left + hunt.right)
                return []
            return [_Hunt(hunt.left, hunt.right, stage=1)]
        if not hunt.right:
            left, right = _halves(hunt.left)
            if slow:
                self._pairs += [group for group in slow if len(group) == 2]
                return [_Hunt(group, stage=1) for group in slow if len(group) > 2]
            return [_Hunt(left, right, stage=1)]
        if not slow:
            self._links.append(hunt.left + hunt.right)
            return []
        results = []
        for group in slow:
            left = tuple(node for node in group if node in hunt.left)
            right = tuple(node for node in group if node in hunt.right)
            if len(group) == 2:
                self._pairs.append(group)
            else:
                results.append(_Hunt(left, right, stage=1))
        return results

    # -- conclusions ------------------------------------------------------------------------------

    def _conclude(self) -> None:
        if self._round < 2 and len(self._tests) > 1:
            return
        going = []
        for hunt in self._hunts:
            if hunt.tests and all(test.outcome is not None for test in hunt.tests):
                going += self._follow(hunt)
            else:
                going.append(hunt)
        self._hunts = going
        cleared, known = set(self._cleared()), [*self._pairs, *self._links]
        for index, test in enumerate(self._tests):
            if (
                index in self._hunted
                or test.why in ("link", "again")
                or self._good(test) is not False
            ):
                continue
            # Each of its nodes is fast in other company: it must be what joins them.
            if cleared.issuperset(test.group):
                self._hunted.add(index)
                if not any(set(pair) <= set(test.group) for pair in known):
                    self._hunts.append(_Hunt(test.group))

    def _reason(self, node: str) -> str:
        own = [test for test in self._tests if node in test.group and not self._good(test)]
        last = min(reversed(own), key=lambda test: len(test.group))
        if last.outcome is not None and node in last.outcome.faults:
            return last.outcome.faults[node]
        if last.outcome is not None and last.outcome.figure is not None:
            least = self._threshold(_kind(last.group))
            asked = f", {least[1]:.3g} asked" if least else ""
            return f"{last.outcome.figure:.3g} GB/s with {len(last.group) - 1} other{asked}"
        return "no figure came of any test with it"

    @property
    def tests(self) -> tuple[Test, ...]:
        """All tests with an outcome, in order."""
        return tuple(self._tests)

    def found(self) -> SearchResult:
        """Return the conclusions; call it once :meth:`ask` returns nothing more."""
        cleared, slow = set(self._cleared()), set(self._slow())
        nodes = {
            node: SLOW if node in slow else GOOD if node in cleared else SUSPECT
            for node in self._nodes
        }
        pairs = {tuple(sorted(pair)) for pair in self._pairs if cleared.issuperset(pair)}
        reasons = {node: self._reason(node) for node in self._nodes if node in slow}
        for node in cleared:
            others = sorted({item for pair in pairs if node in pair for item in pair} - {node})
            if len(others) > 1:
                # Not the fault of each of them, though it was fast once.
                nodes[node] = SUSPECT
        unsteady = {node for node in cleared if nodes[node] == SUSPECT}
        pairs = {pair for pair in pairs if not unsteady.intersection(pair)}
        for node, status in nodes.items():
            if status == SUSPECT:
                tested = any(node in test.group for test in self._tests)
                judged = any(
                    node in test.group and self._good(test) is not None for test in self._tests
                )
                if node in unsteady:
                    reasons[node] = "was fast once, and slow with several that are good"
                elif not tested:
                    reasons[node] = "there is no other node to test it with"
                elif not judged:
                    reasons[node] = "there is no figure to hold its own against"
                else:
                    reasons[node] = self._reason(node)
        expected = {
            kind: own
            for kind in ("pair", "pool")
            if (own := reference(self._figures(kind))) is not None
        }
        return SearchResult(
            nodes=nodes,
            reasons=reasons,
            pairs=tuple(sorted(pairs)),
            links=tuple(link for link in dict.fromkeys(self._links) if cleared.issuperset(link)),
            tests=len(self._tests),
            rounds=self._round,
            expected=expected,
        )
