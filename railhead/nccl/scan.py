"""One streaming pass over any amount of log, for any number of signs.

Most lines of a big log say nothing new. A native matcher of many literals (Hyperscan, where it is
installed) finds the lines that can matter while the next block is read; only those are parsed in
Python. A literal that turns out to be on nearly every line is sampled from then on, evenly, so that
the time per byte stays bounded; the count of its signs is then marked as a lower bound.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Lock

from railhead.nccl import engines
from railhead.nccl.engines import WINDOW, Needle
from railhead.nccl.lines import TEXT_BYTES, Line, parse
from railhead.nccl.signs import MOST_KEPT, Evidence, Hit, Hits, Sign
from railhead.nccl.sources import BLOCK, LONGEST_LINE, Block, CutError, Source, blocks, resolve

MAX_NAMES = 4096
# A message is matched up to here: NCCL's are below 1 KiB, and no regex meets an endless line.
MESSAGE_BYTES = 4096
# Below this a native engine costs more to build than it saves.
NATIVE_FROM_BYTES = 1 << 19
# A literal seen this often, and more than once in so many bytes, is sampled from then on. Lines of
# communicators are worth more: they tell each rank.
HEAVY_COUNT, EXACT_COUNT, HEAVY_EVERY = 2000, 10_000, 1 << 19
# Of inputs that are together so big, fewer lines of each kind are taken apart.
BIG_BYTES, BIG_HEAVY_COUNT = 1 << 28, 150
# Matches of sampled literals that the engine reports before it is rebuilt without them, which
# costs some 30 ms, about as much as recording this many.
STALE = 15_000
# From so many matches of a sign on, its lines are no longer taken apart: they are counted.
FULL, FULL_COUNTED = 100, 300
# Lines a block of a sampled literal, and of one of a sign whose rare variants matter.
SAMPLES, SAMPLES_DENSE = 1, 8
LAST_BYTES = 1 << 13
SAMPLE_WINDOW = 1 << 14
# Threads that search blocks, which the native engine does without Python's lock.
SCANNERS = max(2, min(8, os.cpu_count() or 2))
IN_FLIGHT = SCANNERS + 1
# Of big inputs a sampled literal is looked for in one of so many blocks.
SAMPLED_EVERY = 4
# Lines of a bigger file are counted only as far as the last line that is kept.
COUNTED_BYTES = 1 << 26


class _Numbers:
    """Line numbers of one source, in order, counted when one is asked for.

    Args:
        source: read again for the lines between two that are kept, where that can be done.
    """

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self._path = source.path
        self._block: Block | None = None
        # Newlines before this offset: of the file, or of the block where it cannot be read again.
        self._at = 0
        self._newlines = 0
        self._end = 0

    def enter(self, block: Block) -> None:
        """Switch to a block: positions from here on are in it."""
        self._block = block
        if block.offset is None:
            self._at = 0

    def leave(self) -> None:
        """Leave the block, whose bytes are about to go."""
        block = self._block
        if block is None:
            return
        if block.offset is None:
            self._newlines += block.data.count(b"\n", self._at, block.size)
        else:
            self._end = block.offset + block.size
            if self._end <= COUNTED_BYTES:
                self.at(block.size)
        self._block = None

    def at(self, position: int) -> int:
        """Return the number of the line that holds a position of the block; positions only grow."""
        block = self._block
        if block is None:
            return self._newlines + 1
        base = block.offset or 0
        if self._at < base:
            self._catch_up(base)
        if position > self._at - base:
            self._newlines += block.data.count(b"\n", self._at - base, position)
            self._at = base + position
        return self._newlines + 1

    def _catch_up(self, to: int) -> None:
        if self._path is not None:
            with self._path.open("rb", buffering=0) as file:
                file.seek(self._at)
                while self._at < to and (data := file.read(min(BLOCK, to - self._at))):
                    self._newlines += data.count(b"\n")
                    self._at += len(data)
        self._at = to

    def total(self) -> int | None:
        """Lines of the source; None when not all were counted."""
        return self._newlines if self._at >= self._end else None


class Spot:
    """A line and its place; it becomes evidence only when it is kept."""

    __slots__ = ("_at", "_numbers", "line", "rank")

    def __init__(self, line: Line, numbers: _Numbers, at: int) -> None:
        self.line = line
        self.rank = line.rank
        self._numbers = numbers
        self._at = at

    def evidence(self, match: re.Match[bytes] | None = None) -> Evidence:
        """Return the line as evidence, with the named groups of a match."""
        groups = match.groupdict() if match else {}
        return Evidence(
            file=self._numbers.name,
            line=self._numbers.at(self._at),
            text=self.line.message[:TEXT_BYTES].decode("utf-8", "replace"),
            rank=self.rank,
            node=self.line.node,
            time=self.line.time,
            groups={
                key: value[:TEXT_BYTES].decode("utf-8", "replace")
                for key, value in groups.items()
                if value is not None
            },
        )


Sink = Callable[[Spot, "re.Match[bytes]"], None]


@dataclass(kw_only=True)
class _Tally:
    count: int = 0
    exact: bool = True
    evidence: list[Evidence] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Scan:
    """The result of a pass.

    Attributes:
        hits: by the sign's id.
        lines: of all inputs; None when they were not all counted.
        bytes: of all inputs, after decompression.
        files: the inputs' names, at most :data:`MAX_NAMES`.
        cut: inputs that ended early, with the reason.
        engine: ``hyperscan`` where the native matcher was used, else ``re``.
        sampled: ids of signs of which only a sample was looked at.
        last: the last message of the last input, as far as :data:`TEXT_BYTES`.
        tail: the last lines of the last input, oldest first.
    """

    hits: Hits = field(default_factory=Hits)
    lines: int | None = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    engine: str = "re"
    sampled: frozenset[str] = frozenset()
    last: str = ""
    tail: tuple[Line, ...] = ()


Found = list[tuple[int, int]]
# A sign's id, its search, and what takes its further lines.
_Counting = tuple[
    str,
    "Callable[[bytearray, int, int], re.Match[bytes] | None]",
    "Callable[[re.Match[bytes]], bool] | None",
]
_PLACE = itemgetter(0, 1)
# A block's number, what was found in it or None at the end, and why it could not be read.
_Searched = tuple[int, "tuple[Block, Found] | None", "Exception | None"]


class Scanner:
    """The pass itself.

    Args:
        signs: what to look for.
        sinks: called with the line and the match for each match of a sign's id.
        counted: called with the match alone, instead of a sink, from :data:`FULL_COUNTED` matches
            of an id on; False when the line is to be taken apart after all, as it says something
            new. Their signs are worth many more lines than others before they are sampled.
        dense: ids of signs of which more lines are taken once they are sampled.
        rank_of: the rank that wrote a line, where its prefix does not say.
        native: False to do without the native engine.
        tick: called now and then with the bytes read so far and the input's name.
    """

    def __init__(
        self,
        signs: Sequence[Sign],
        *,
        sinks: Mapping[str, Sink] | None = None,
        counted: Mapping[str, Callable[[re.Match[bytes]], bool]] | None = None,
        dense: frozenset[str] = frozenset(),
        rank_of: Callable[[Line], int | None] | None = None,
        native: bool = True,
        tick: Callable[[int, str], None] | None = None,
    ) -> None:
        self._tick = tick
        self._sinks = dict(sinks or {})
        self._rank_of = rank_of
        self._want_native = native
        self._tallies: dict[str, _Tally] = {}
        numbers: dict[Needle, int] = {}
        by_needle: dict[int, list[Sign]] = {}
        for sign in signs:
            for text in sign.needles:
                number = numbers.setdefault((text, sign.caseless), len(numbers))
                by_needle.setdefault(number, []).append(sign)
        self._needles = list(numbers)
        self._signs_of = [tuple(by_needle[number]) for number in range(len(numbers))]
        self._counted = dict(counted or {})
        self._limits = [
            EXACT_COUNT if any(sign.id in self._counted for sign in item) else HEAVY_COUNT
            for item in self._signs_of
        ]
        self._samples = [
            SAMPLES_DENSE if any(sign.id in dense for sign in item) else SAMPLES
            for item in self._signs_of
        ]
        # Of these every line is taken apart, however many there are.
        self._always = frozenset(
            sign.id
            for sign in signs
            if (sign.id in self._sinks and sign.id not in self._counted) or b"^" in sign.pattern
        )
        self._engine = engines.make(self._needles, native=False)
        self._heavy: frozenset[int] = frozenset()
        self._seen = [0] * len(numbers)
        self._sampled: list[int] = []
        self._floor = 0
        self._allowed = self._limits
        self._settled: dict[int, list[_Counting]] = {}
        self._blocks = 0
        self._sampled_every = 1
        self._stale = 0
        self._last = b""
        self._fresh = True
        self._result = Scan()

    def run(self, sources: Iterable[Source]) -> Scan:
        """Read every source to its end."""
        sources = list(sources)
        if sum(source.size for source in sources) >= BIG_BYTES:
            self._limits = [
                BIG_HEAVY_COUNT if limit == HEAVY_COUNT else limit for limit in self._limits
            ]
            self._allowed = self._limits
            self._sampled_every = SAMPLED_EVERY
        files: list[str] = []
        cut: list[str] = []
        with ThreadPoolExecutor(SCANNERS) as scanners:
            for source in sources:
                if len(files) < MAX_NAMES:
                    files.append(source.name)
                try:
                    self._read(source, scanners)
                except CutError as error:
                    cut.append(f"{source.name} ends early: {error}")
        result = self._result
        *before, last = self._last.rstrip().split(b"\n")
        result.tail = tuple(line for raw in (*before, last) for line in parse(raw))
        match = parse(last)
        result.last = match[-1].message[:TEXT_BYTES].decode("utf-8", "replace") if match else ""
        result.files = tuple(files)
        result.cut = tuple(cut)
        for identifier, tally in self._tallies.items():
            result.hits[identifier] = Hit(
                count=tally.count,
                exact=tally.exact,
                evidence=tuple(tally.evidence),
                ranks=frozenset(tally.ranks),
                nodes=frozenset(tally.nodes),
            )
        heavy = {sign.id for number in self._heavy for sign in self._signs_of[number]}
        result.sampled = frozenset(heavy & set(result.hits))
        return result

    def _read(self, source: Source, scanners: ThreadPoolExecutor) -> None:
        if self._want_native and source.size >= NATIVE_FROM_BYTES:
            self._upgrade()
        numbers = _Numbers(source)
        stream = blocks(source)
        self._fresh = True
        try:
            if self._engine.name == "re":
                self._alone(stream, numbers)
            if self._engine.name != "re":
                self._ahead(stream, numbers, scanners)
        finally:
            lines = numbers.total()
            self._result.lines = (
                None if lines is None or self._result.lines is None else self._result.lines + lines
            )

    def _alone(self, stream: Iterator[Block], numbers: _Numbers) -> None:
        """Scan block by block, until the native engine is worth building."""
        for block in stream:
            self._block(block, self._engine.find(block.view), numbers)
            block.free()
            if self._want_native and self._result.bytes >= NATIVE_FROM_BYTES:
                self._upgrade()
                if self._engine.name != "re":
                    break

    def _ahead(
        self,
        stream: Iterator[Block],
        numbers: _Numbers,
        scanners: ThreadPoolExecutor,
    ) -> None:
        """Read and search the next blocks while this one is taken apart.

        Each thread searches what it read itself, which is in its core's cache.
        """
        one_at_a_time = Lock()
        read = 0

        def search() -> _Searched:
            nonlocal read
            with one_at_a_time:
                number, read = read, read + 1
                try:
                    block = next(stream, None)
                except Exception as error:  # noqa: BLE001 - raised again, once it is its turn
                    return number, None, error
            return number, None if block is None else (block, self._engine.find(block.view)), None

        waiting: deque[Future[_Searched]] = deque()
        # Threads do not always read in the order in which they were asked to.
        early: dict[int, _Searched] = {}
        number = 0
        try:
            while True:
                while len(waiting) < IN_FLIGHT:
                    waiting.append(scanners.submit(search))
                while number not in early:
                    done = waiting.popleft().result()
                    early[done[0]] = done
                _, searched, error = early.pop(number)
                number += 1
                if error is not None:
                    raise error
                if searched is None:
                    return
                block, match = searched
                self._block(block, match, numbers)
                block.free()
        finally:
            # No thread may still read when the stream is left.
            for future in waiting:
                future.cancel() or future.exception()

    def _upgrade(self) -> None:
        self._want_native = False
        engine = engines.make(self._needles, native=True, without=self._heavy)
        if engine.name != "re":
            self._engine = engine
            self._result.engine = engine.name

    def _block(self, block: Block, found: Found, numbers: _Numbers) -> None:
        if self._tick is not None:
            self._tick(self._result.bytes, numbers.name)
        data, size = block.data, block.size
        seen = self._seen
        floor = self._result.bytes // HEAVY_EVERY
        if floor > self._floor * 5 // 4:
            self._floor = floor
            self._allowed = [max(limit, floor) for limit in self._limits]
        allowed = self._allowed
        # (start, end, needle), in order but for those of sampled literals.
        places: list[tuple[int, int, int]] = []
        start = end = stale = 0
        fresh: set[int] = set()
        found.sort()
        for offset, needle in found:
            seen[needle] += 1
            if seen[needle] > allowed[needle]:
                stale += 1
                fresh.add(needle)
                continue
            # Several needles of one line, or of the window of a very long one.
            if not start < offset <= end:
                start, end = _line_at(data, offset, size)
            places.append((start, end, needle))
        self._weigh(fresh, stale)
        self._blocks += 1
        if self._sampled and self._blocks % self._sampled_every == 0:
            for needle in self._sampled:
                places += (
                    (*place, needle)
                    for place in _sample(data, size, *self._needles[needle], self._samples[needle])
                )
            places.sort()
        numbers.enter(block)
        for (start, end), same in groupby(places, key=_PLACE):
            needles = [needle for _, _, needle in same]
            if not self._count_only(data, start, end, needles):
                self._line(bytes(data[start:end]), needles, numbers, start)
        numbers.leave()
        self._keep_last(data, size)
        self._result.bytes += size

    def _keep_last(self, data: bytearray, size: int) -> None:
        """Keep the end of the source, from the start of a line, across block boundaries."""
        last = bytes(data[max(0, size - LAST_BYTES - 1) : size])
        if size <= LAST_BYTES and not self._fresh:
            last = self._last + last
        if len(last) > LAST_BYTES:
            last = last[-LAST_BYTES - 1 :]
            last = last[last.find(b"\n") + 1 :]
        self._last, self._fresh = last, False

    def _count_only(self, data: bytearray, start: int, end: int, needles: Sequence[int]) -> bool:
        """Count a line of signs that were seen often; False when it must be taken apart."""
        end = min(end, start + MESSAGE_BYTES)
        for needle in needles:
            if needle not in self._settled:
                if not self._settles(needle):
                    return False
                self._settled[needle] = [
                    (sign.id, sign.regex.search, self._counted.get(sign.id))
                    for sign in self._signs_of[needle]
                ]
        matched: dict[str, int] = {}
        for needle in needles:
            for identifier, search, counted in self._settled[needle]:
                if identifier in matched or not (match := search(data, start, end)):
                    continue
                if counted is not None and not counted(match):
                    return False
                matched[identifier] = needle
        for identifier, needle in matched.items():
            tally = self._tallies[identifier]
            tally.count += 1
            if needle in self._heavy:
                tally.exact = False
        return True

    def _settles(self, needle: int) -> bool:
        """Return whether all its signs were seen often enough, and no sink wants each line."""
        for sign in self._signs_of[needle]:
            tally = self._tallies.get(sign.id)
            enough = FULL_COUNTED if sign.id in self._counted else FULL
            if tally is None or tally.count < enough or sign.id in self._always:
                return False
        return True

    def _weigh(self, fresh: set[int], stale: int) -> None:
        """Record literals that are too frequent; rebuild the engine without them when that pays."""
        if fresh - self._heavy:
            self._heavy |= fresh
            # Where nobody takes the lines, a lower bound of their number is enough.
            self._sampled = [
                number
                for number in self._heavy
                if any(sign.id in self._sinks for sign in self._signs_of[number])
            ]
        self._stale += stale
        if self._stale > STALE:
            self._stale = 0
            self._engine.drop(self._heavy)

    def _line(self, raw: bytes, needles: Sequence[int], numbers: _Numbers, start: int) -> None:
        signs = {sign.id: (sign, needle) for needle in needles for sign in self._signs_of[needle]}
        for line in parse(raw):
            message = line.message[:MESSAGE_BYTES]
            for sign, needle in signs.values():
                if match := sign.regex.search(message):
                    spot = Spot(line, numbers, start)
                    self._hit(sign, spot, match, exact=needle not in self._heavy)

    def _hit(self, sign: Sign, spot: Spot, match: re.Match[bytes], *, exact: bool) -> None:
        line = spot.line
        tally = self._tallies.get(sign.id)
        if tally is None:
            tally = self._tallies[sign.id] = _Tally()
        tally.count += 1
        tally.exact &= exact
        rank = line.rank
        if self._rank_of is not None and (better := self._rank_of(line)) is not None:
            rank = better
        if rank is not None and len(tally.ranks) < MAX_NAMES:
            tally.ranks.add(rank)
        if line.node is not None and len(tally.nodes) < MAX_NAMES:
            tally.nodes.add(line.node)
        spot.rank = rank
        if len(tally.evidence) < min(sign.keep, MOST_KEPT):
            tally.evidence.append(spot.evidence(match))
        if sink := self._sinks.get(sign.id):
            sink(spot, match)


def _line_at(data: bytearray | bytes, offset: int, size: int) -> tuple[int, int]:
    """Return start and end of the line before an offset, or a window of a very long line."""
    low = offset - LONGEST_LINE if offset > LONGEST_LINE else 0
    start = data.rfind(b"\n", low, offset - 1) + 1
    end = data.find(b"\n", offset - 1, min(size, offset + LONGEST_LINE))
    if end < 0:
        end = min(size, offset + WINDOW)
    if not start and offset > WINDOW:
        start = offset - WINDOW // 2
    return start, end


def _sample(
    data: bytearray | bytes, size: int, text: bytes, caseless: bool, samples: int
) -> Iterator[tuple[int, int]]:
    """Yield some lines with a heavy literal, evenly spread over the block."""
    step = max(1, size // samples)
    for low in range(0, size, step):
        high = min(low + SAMPLE_WINDOW, size)
        if caseless:
            match = re.compile(re.escape(text), re.IGNORECASE).search(data, low, high)
            at = match.start() if match else -1
        else:
            at = data.find(text, low, high)
        if at >= 0:
            yield _line_at(data, at + len(text), size)


def scan(
    inputs: Iterable[Path | str | Source], signs: Sequence[Sign], *, native: bool = True
) -> Hits:
    """Count the signs and keep the first lines of each.

    Args:
        inputs: paths of files, folders or patterns, ``-`` for standard input.
        signs: what to look for.
        native: False to do without the native engine.
    """
    return Scanner(signs, native=native).run(resolve(inputs)).hits
