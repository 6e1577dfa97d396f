"""Gangs that compete for places: what a record of them shows, and contests made from a seed."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from railhead.accept.record import Row

# Seconds between two looks of Kueue at its queues, and then some.
MOMENT = 2.0
# The longest that the scheduler waits before it tries a pod again that it had no place for
# (kubernetes v1.35.8, pkg/scheduler/apis/config/v1/defaults.go: PodMaxBackoffSeconds).
BACKOFF = 10.0


@dataclass
class GangState:
    """A gang as far as the record has been read."""

    size: int = 0
    priority: int = 0
    created: str = ""
    since: float = -1.0
    reserved: bool = False
    finished: bool = False
    whole: bool = False
    bound: set[str] = field(default_factory=set)
    placed: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    #: since when some of its pods are on nodes and the scheduler has no place for others
    short: float = math.inf

    @property
    def live(self) -> int:
        """Pods that hold a place on a node."""
        return len(self.bound)

    @property
    def holds(self) -> int:
        """Places that its quota is for still: Kueue takes back those of pods that ended well."""
        return max(0, self.size - len(self.ended)) if self.reserved else 0


@dataclass
class ContestFaults:
    """The faults in a record; every list is empty where the cluster keeps its promise."""

    half_placed: list[str] = field(default_factory=list)
    overfull: list[str] = field(default_factory=list)
    unpaid: list[str] = field(default_factory=list)
    partly_charged: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    never_whole: list[str] = field(default_factory=list)
    evictions: dict[str, int] = field(default_factory=dict)
    pods: int = 0
    most_at_once: int = 0
    #: gangs that waited while others of theirs held places
    waited: set[str] = field(default_factory=set)

    @property
    def wrong(self) -> list[str]:
        """Everything that must not be, in words."""
        kinds = (
            "half_placed", "overfull", "unpaid", "partly_charged", "out_of_order", "never_whole"
        )  # fmt: skip
        return [f"{what}: {item}" for what in kinds for item in getattr(self, what)]

    def to_json(self) -> dict[str, Any]:
        """Return the figures for a benchmark's file."""
        return asdict(self) | {"waited": sorted(self.waited)}


def judge(
    rows: Sequence[Row],
    *,
    places: int,
    sizes: Mapping[str, int] | None = None,
    held: Collection[str] = (),
    any_order: bool = False,
) -> ContestFaults:
    """Read a record in the server's order, one resource version after the other.

    * half placed: two gangs of an arena hold places, neither is whole, and what both want together
      is more than the arena has, so that each would wait for the other's places; or one has pods
      on nodes while the scheduler finds no place for its others, none is about to be free, and
      that lasts longer than :data:`BACKOFF`.
    * overfull: admitted gangs of an arena want more than it has.
    * unpaid: a pod is bound while its gang has no quota.
    * partly charged: quota is reserved for another number of pods than the gang has, or the gang
      has another number than was asked for.
    * out of order: a gang is admitted while a more important one of its arena waits that had been
      there before and does not fit beside it; of gangs that were held together, of equal
      importance the older goes first.
    * never whole: a gang that ended without having had places for all of its pods at one time.

    Args:
        rows: the record.
        places: of each arena.
        sizes: pods that were asked for, by gang; gangs without a row here are not compared.
        held: gangs that were all there before the first was let in.
        any_order: a small gang may go before a more important one that does not fit (Kueue's
            BestEffortFIFO): an order is wrong then only where the other would have fitted.
    """
    verdict = ContestFaults()
    reader = _Reader(
        verdict=verdict,
        places=places,
        sizes=sizes or {},
        held=frozenset(held),
        any_order=any_order,
    )
    ordered = sorted(rows, key=lambda row: row.rv)
    for row in ordered:
        reader.read(row)
    for gangs in reader.arenas.values():
        reader.report_half_placed(gangs, ordered[-1].t)
    verdict.pods = len(reader.everyone)
    verdict.never_whole = [
        name
        for gangs in reader.arenas.values()
        for name, seen in gangs.items()
        if seen.finished and not seen.whole
    ]
    return verdict


@dataclass
class _Reader:
    """A record up to one of its rows."""

    verdict: ContestFaults
    places: int
    sizes: Mapping[str, int]
    held: frozenset[str]
    any_order: bool
    arenas: dict[str, dict[str, GangState]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(GangState))
    )
    everyone: set[str] = field(default_factory=set)

    def read(self, row: Row) -> None:
        """Take in one row, and look at what is so from then on."""
        gangs = self.arenas[row.arena]
        seen = gangs[row.gang]
        if row.kind == "gang":
            self._gang(row, gangs, seen)
        else:
            self._pod(row, seen)
        self._look(row, gangs)
        total = sum(item.live for every in self.arenas.values() for item in every.values())
        self.verdict.most_at_once = max(self.verdict.most_at_once, total)

    def _pod(self, row: Row, seen: GangState) -> None:
        self.everyone.add(f"{row.arena}/{row.pod}")
        gone = row.event == "DELETED"
        alive = bool(row.node) and not row.going and not gone
        starting = alive and row.pod not in seen.bound and row.pod not in seen.placed
        put(seen.bound, row.pod, alive and row.phase not in ("Failed", "Succeeded"))
        put(seen.refused, row.pod, row.refused and not row.going and not gone)
        put(seen.leaving, row.pod, row.going and not gone and bool(row.node))
        if row.phase == "Succeeded":
            seen.ended.add(row.pod)
        if starting and not seen.reserved and not seen.finished:
            self.verdict.unpaid.append(f"{row.gang} at {row.t}: {row.pod}")
        if starting:
            seen.placed.add(row.pod)
        elif row.going or gone or row.phase == "Failed":
            seen.placed.discard(row.pod)
        seen.whole = seen.whole or (seen.size > 0 and len(seen.placed) >= seen.size)

    def _gang(self, row: Row, gangs: dict[str, GangState], seen: GangState) -> None:
        seen.size, seen.priority, seen.created = row.size, row.priority, row.created
        self._charge(row)
        if row.evicted and seen.reserved and not row.reserved:
            evictions = self.verdict.evictions
            evictions[row.evicted] = evictions.get(row.evicted, 0) + 1
        if seen.since < 0 or (seen.reserved and not row.reserved):
            seen.since = row.t
        # A record had Kueue preempt what ended 0.1 s before, and take back that it had ended.
        admitted = row.reserved and not (seen.reserved or seen.finished or row.finished)
        if admitted:
            seen.placed.clear()
            seen.ended.clear()
            self._order(row, gangs, seen)
        seen.reserved = row.reserved and row.event != "DELETED"
        seen.finished = seen.finished or bool(row.finished) or row.event == "DELETED"
        if seen.finished:
            seen.reserved = False

    def _charge(self, row: Row) -> None:
        asked = self.sizes.get(row.gang, row.size)
        if row.size != asked:
            text = f"{row.gang} at {row.t}: {row.size} pods are counted, {asked} were asked for"
        elif row.reserved and row.charged not in (None, row.size):
            text = f"{row.gang} at {row.t}: quota for {row.charged} of {row.size} pods"
        else:
            return
        if text.partition(": ")[2] not in {
            item.partition(": ")[2] for item in self.verdict.partly_charged
        }:
            self.verdict.partly_charged.append(text)

    def _order(self, row: Row, gangs: dict[str, GangState], seen: GangState) -> None:
        room = self.places - sum(item.holds for item in gangs.values())
        for name, other in gangs.items():
            waiting = other.size and not other.reserved and not other.finished and name != row.gang
            if not waiting:
                continue
            if row.gang in self.held and name in self.held:
                # Of one second nobody can say which is older.
                before = (-other.priority, other.created) < (-seen.priority, seen.created)
            else:
                # One that came a moment ago may have come after the decision.
                before = other.priority > seen.priority and row.t - other.since > MOMENT
            if self.any_order and other.size > room:
                before = False
            # Kueue writes down in any order what it let in at once (pkg/scheduler/scheduler.go,
            # admit): who still fits was not passed over.
            if before and other.size > room - row.size:
                self.verdict.out_of_order.append(f"{row.gang} at {row.t} before {name}")

    def _look(self, row: Row, gangs: Mapping[str, GangState]) -> None:
        paid = [seen for seen in gangs.values() if seen.reserved]
        if sum(seen.holds for seen in paid) > self.places:
            self.verdict.overfull.append(f"{row.arena} at {row.t}")
        partly = [s for s in paid if 0 < len(s.placed) < s.size]
        if len(partly) > 1 and sum(seen.size for seen in partly) > self.places:
            self.verdict.half_placed.append(f"{row.arena} at {row.t}")
        self.report_half_placed(gangs, row.t)
        # A place that a pod is about to leave is refused for a moment, to whom it was promised.
        vacant = any(other.leaving for other in gangs.values())
        for seen in gangs.values():
            if not (seen.refused and seen.live) or vacant:
                seen.short = math.inf
            elif seen.short == math.inf:
                seen.short = row.t
        if any(item.live for item in gangs.values()):
            self.verdict.waited |= {
                name
                for name, item in gangs.items()
                if item.size and not item.reserved and not item.finished
            }

    def report_half_placed(self, gangs: Mapping[str, GangState], now: float) -> None:
        """Report gangs that have been half placed for too long by then."""
        for name, seen in gangs.items():
            if now - seen.short > BACKOFF:
                self.verdict.half_placed.append(
                    f"{name} at {seen.short}: {seen.live} of {seen.size} pods are on nodes, and "
                    f"for {now - seen.short:.1f} s there is no place for {len(seen.refused)}"
                )
                seen.short = now


def put(into: set[str], name: str, belongs: bool) -> None:
    """Have a name in a set, or not."""
    if belongs:
        into.add(name)
    else:
        into.discard(name)


@dataclass(frozen=True, kw_only=True)
class Gang:
    """A number of pods that start together or not at all; ``after`` is seconds into its contest.

    ``rank`` is which of the cluster's priorities it takes, 0 the lowest.
    """

    stem: str
    size: int
    after: float
    rank: int = 0


def draw(seed: int, *, places: int, rounds: int, ranks: int = 1) -> tuple[tuple[Gang, ...], ...]:
    """Contests of three or four gangs each that want more than ``places`` together.

    The first gang of each is small and the last wants all there is, so that an eager scheduler
    would always have a part to give away; what is between comes by chance.
    """
    source = random.Random(seed)  # noqa: S311 - chance that comes again, no secret
    results = []
    for turn in range(rounds):
        sizes = [source.randint(1, max(1, places // 2)), places]
        sizes += [source.randint(1, places) for _ in range(source.randint(1, 2))]
        source.shuffle(sizes)
        results.append(
            tuple(
                Gang(
                    stem=f"gang-{turn}-{index}",
                    size=size,
                    after=round(source.uniform(0, 2), 2),
                    rank=source.randrange(ranks),
                )
                for index, size in enumerate(sizes)
            )
        )
    return tuple(results)
