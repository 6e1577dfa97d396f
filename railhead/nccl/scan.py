"""One streaming pass over any amount of log, for any number of signs.

Most lines of a big log say nothing new. A native matcher of many literals (Hyperscan, where it is
installed) finds the lines that can matter; only those are taken apart in Python. A literal that is
on nearly every line is sampled from then on, evenly, so that the time per byte stays bounded; its
count is then a lower bound, and says so.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from railhead.nccl.lines import TEXT_BYTES, Line, parse
from railhead.nccl.signs import Evidence, Hit, Hits, Sign
from railhead.nccl.sources import LONGEST_LINE, CutError, Source, blocks, resolve

KEPT = 5
MAX_NAMES = 4096
# A message is matched up to here: NCCL's are below 1 KiB, and no regex meets an endless line.
MESSAGE_BYTES = 4096
WINDOW = 8192
# Below this a native engine costs more to build than it saves.
NATIVE_FROM_BYTES = 1 << 18
# A literal seen this often, and more than once in so many bytes, is sampled from then on.
HEAVY_COUNT = 2000
HEAVY_EVERY = 1 << 16
SAMPLES = 4
WORKERS = 2
IN_FLIGHT = 6
# Digits, hexadecimal ones too, are alike: lines that differ in addresses and numbers only are one.
_DIGITS = bytes(0x30 if chr(byte) in "0123456789abcdef" else byte for byte in range(256))


@dataclass(frozen=True, kw_only=True, slots=True)
class Where:
    """Where a line stands: the input's name, and its number counted from 1."""

    file: str
    line: int


Sink = Callable[[Line, "re.Match[bytes]", Where], None]


@dataclass(kw_only=True)
class _Tally:
    count: int = 0
    exact: bool = True
    evidence: list[Evidence] = field(default_factory=list)
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)


@dataclass(kw_only=True)
class Scan:
    """What a pass found.

    Attributes:
        hits: by the sign's id.
        lines, bytes: of all inputs, after decompression.
        files: the inputs' names, at most :data:`MAX_NAMES`.
        cut: inputs that ended early, with the reason.
        engine: ``hyperscan`` where the native matcher was used, else ``re``.
        sampled: ids of signs of which only a sample was looked at.
    """

    hits: Hits = field(default_factory=Hits)
    lines: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    engine: str = "re"
    sampled: frozenset[str] = frozenset()


class Engine(Protocol):
    """Finds candidate lines: pairs of an offset just behind a byte of the line, and a needle."""

    name: str

    def find(self, block: bytes) -> list[tuple[int, int]]:
        """Matches in a block, in any order; at most one of each heavy needle."""

    def demote(self, heavy: frozenset[int]) -> None:
        """From now on report these at most once a block."""


class PureEngine:
    """Python only. Lines that differ in digits alone are looked at once."""

    name = "re"

    def __init__(self, needles: Sequence[tuple[bytes, bool]]) -> None:
        self._plain = [
            (text.translate(_DIGITS), number)
            for number, (text, caseless) in enumerate(needles)
            if not caseless
        ]
        self._caseless = [
            (text.lower().translate(_DIGITS), number)
            for number, (text, caseless) in enumerate(needles)
            if caseless
        ]
        self._known: dict[bytes, tuple[int, ...]] = {}

    def _needles_of(self, shape: bytes) -> tuple[int, ...]:
        found = [number for text, number in self._plain if text in shape]
        if self._caseless:
            lower = shape.lower()
            found += [number for text, number in self._caseless if text in lower]
        return tuple(found)

    def find(self, block: bytes) -> list[tuple[int, int]]:
        """See :class:`Engine`."""
        found: list[tuple[int, int]] = []
        known = self._known
        at = 0
        for raw in block.split(b"\n"):
            if len(raw) > LONGEST_LINE:
                found += self._long(raw, at)
            elif raw:
                shape = raw.translate(_DIGITS)
                numbers = known.get(shape)
                if numbers is None:
                    if len(known) > 20_000:
                        known.clear()
                    known[shape] = numbers = self._needles_of(shape)
                found += [(at + 1, number) for number in numbers]
            at += len(raw) + 1
        return found

    def _long(self, raw: bytes, at: int) -> Iterator[tuple[int, int]]:
        for start in range(0, len(raw), WINDOW // 2):
            piece = raw[start : start + WINDOW].translate(_DIGITS)
            for number in self._needles_of(piece):
                yield at + start + 1, number

    def demote(self, heavy: frozenset[int]) -> None:
        """See :class:`Engine`; the caller samples."""


class NativeEngine:
    """Hyperscan: every literal in one pass, without holding Python's lock."""

    name = "hyperscan"

    def __init__(self, needles: Sequence[tuple[bytes, bool]]) -> None:
        import hyperscan

        self._module = hyperscan
        self._needles = needles
        self._build(frozenset())

    def _build(self, heavy: frozenset[int]) -> None:
        module = self._module
        flags = [
            (module.HS_FLAG_CASELESS if caseless else 0)
            | (module.HS_FLAG_SINGLEMATCH if number in heavy else 0)
            for number, (_, caseless) in enumerate(self._needles)
        ]
        database = module.Database(mode=module.HS_MODE_BLOCK)
        database.compile(
            expressions=[text for text, _ in self._needles],
            ids=list(range(len(self._needles))),
            elements=len(self._needles),
            flags=flags,
            literal=True,
        )
        self._database = database
        # A scratch serves one scan at a time: the first one stays with the database.
        self._spare: deque[Any] = deque(module.Scratch(database) for _ in range(WORKERS + 1))

    def find(self, block: bytes) -> list[tuple[int, int]]:
        """See :class:`Engine`."""
        found: list[tuple[int, int]] = []
        append = found.append

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, number))

        spare = self._spare
        scratch = spare.popleft()
        try:
            self._database.scan(block, match_event_handler=on_match, scratch=scratch)
        finally:
            spare.append(scratch)
        return found

    def demote(self, heavy: frozenset[int]) -> None:
        """See :class:`Engine`."""
        self._build(heavy)


def _engine(needles: Sequence[tuple[bytes, bool]], *, native: bool) -> Engine:
    if native and needles:
        try:
            return NativeEngine(needles)
        except ImportError:
            pass
    return PureEngine(needles)


class Scanner:
    """The pass itself.

    Args:
        signs: what to look for.
        sinks: called with the line, the match and the place for each match of a sign's id.
        rank_of: the rank that wrote a line, where its prefix does not say.
        native: False to do without the native engine.
        tick: called now and then with the bytes read so far and the input's name.
    """

    def __init__(
        self,
        signs: Sequence[Sign],
        *,
        sinks: Mapping[str, Sink] | None = None,
        rank_of: Callable[[Line], int | None] | None = None,
        native: bool = True,
        tick: Callable[[int, str], None] | None = None,
    ) -> None:
        self._tick = tick
        self._sinks = dict(sinks or {})
        self._rank_of = rank_of
        self._want_native = native
        self._tallies: dict[str, _Tally] = {}
        numbers: dict[tuple[bytes, bool], int] = {}
        by_needle: dict[int, list[Sign]] = {}
        for sign in signs:
            for text in sign.needles:
                number = numbers.setdefault((text, sign.caseless), len(numbers))
                by_needle.setdefault(number, []).append(sign)
        self._needles = list(numbers)
        self._signs_of = [tuple(by_needle[number]) for number in range(len(numbers))]
        self._engine: Engine = _engine(self._needles, native=False)
        self._heavy: frozenset[int] = frozenset()
        self._seen = [0] * len(numbers)
        self._result = Scan()

    def run(self, sources: Iterable[Source]) -> Scan:
        """Read every source to its end."""
        files: list[str] = []
        cut: list[str] = []
        with ThreadPoolExecutor(WORKERS) as pool:
            for source in sources:
                if len(files) < MAX_NAMES:
                    files.append(source.name)
                try:
                    self._read(source, pool)
                except CutError as error:
                    cut.append(f"{source.name} ends early: {error}")
        result = self._result
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

    def _read(self, source: Source, pool: ThreadPoolExecutor) -> None:
        waiting: deque[tuple[bytes, Future[list[tuple[int, int]]] | list[tuple[int, int]]]]
        waiting = deque()
        number = 1
        stream = blocks(source)
        try:
            for block in stream:
                self._result.bytes += len(block)
                if self._tick is not None:
                    self._tick(self._result.bytes, source.name)
                if self._engine.name == "re":
                    waiting.append((block, self._engine.find(block)))
                    number = self._drain(waiting, source.name, number, keep=0)
                    self._upgrade()
                    continue
                waiting.append((block, pool.submit(self._engine.find, block)))
                number = self._drain(waiting, source.name, number, keep=IN_FLIGHT)
        finally:
            number = self._drain(waiting, source.name, number, keep=0)
            self._result.lines += number - 1

    def _upgrade(self) -> None:
        if self._want_native and self._result.bytes >= NATIVE_FROM_BYTES:
            self._want_native = False
            self._engine = _engine(self._needles, native=True)
            self._engine.demote(self._heavy)
            self._result.engine = self._engine.name

    def _drain(
        self,
        waiting: deque[tuple[bytes, Future[list[tuple[int, int]]] | list[tuple[int, int]]]],
        name: str,
        number: int,
        *,
        keep: int,
    ) -> int:
        while len(waiting) > keep:
            block, found = waiting.popleft()
            if isinstance(found, Future):
                found = found.result()
            number = self._block(block, found, name, number)
        return number

    def _block(self, block: bytes, found: list[tuple[int, int]], name: str, number: int) -> int:
        heavy = self._heavy
        at_lines: dict[tuple[int, int], set[int]] = {}
        last_window = -1
        for offset, needle in sorted(found):
            if needle in heavy:
                continue
            if offset <= last_window:
                # The window of a very long line that was taken before reaches to here.
                start, end = next(reversed(at_lines))
            else:
                start, end, windowed = _line_at(block, offset)
                last_window = end if windowed else -1
            at_lines.setdefault((start, end), set()).add(needle)
            self._seen[needle] += 1
        for needle in {needle for _, needle in found if needle in heavy}:
            for start, end in _sample(block, *self._needles[needle]):
                at_lines.setdefault((start, end), set()).add(needle)
        counted = 0
        for start, end in sorted(at_lines):
            number += block.count(b"\n", counted, start)
            counted = start
            self._line(block[start:end], at_lines[start, end], name, number)
        self._demote()
        return number + block.count(b"\n", counted)

    def _demote(self) -> None:
        floor = max(HEAVY_COUNT, self._result.bytes // HEAVY_EVERY)
        heavy = {number for number, seen in enumerate(self._seen) if seen > floor}
        if heavy - self._heavy:
            self._heavy |= heavy
            self._engine.demote(self._heavy)

    def _line(self, raw: bytes, needles: set[int], name: str, number: int) -> None:
        signs = {sign.id: (sign, needle) for needle in needles for sign in self._signs_of[needle]}
        where = Where(file=name, line=number)
        for line in parse(raw):
            message = line.message[:MESSAGE_BYTES]
            for sign, needle in signs.values():
                if match := sign.regex.search(message):
                    self._hit(sign, line, match, where, exact=needle not in self._heavy)

    def _hit(
        self, sign: Sign, line: Line, match: re.Match[bytes], where: Where, *, exact: bool
    ) -> None:
        tally = self._tallies.setdefault(sign.id, _Tally())
        tally.count += 1
        tally.exact &= exact
        rank = line.rank
        if self._rank_of is not None and (better := self._rank_of(line)) is not None:
            rank = better
        if rank is not None and len(tally.ranks) < MAX_NAMES:
            tally.ranks.add(rank)
        if line.node is not None and len(tally.nodes) < MAX_NAMES:
            tally.nodes.add(line.node)
        if len(tally.evidence) < KEPT:
            tally.evidence.append(evidence(line, where, rank=rank, match=match))
        if sink := self._sinks.get(sign.id):
            sink(line, match, where)


def evidence(
    line: Line, where: Where, *, rank: int | None, match: re.Match[bytes] | None = None
) -> Evidence:
    """A line as evidence."""
    groups = match.groupdict() if match else {}
    return Evidence(
        file=where.file,
        line=where.line,
        text=line.message[:TEXT_BYTES].decode("utf-8", "replace"),
        rank=rank,
        node=line.node,
        time=line.time,
        groups={
            key: value[:TEXT_BYTES].decode("utf-8", "replace")
            for key, value in groups.items()
            if value is not None
        },
    )


def _line_at(block: bytes, offset: int) -> tuple[int, int, bool]:
    """Start and end of the line around an offset, or a window of it when it is very long."""
    low = max(0, offset - LONGEST_LINE)
    start = block.rfind(b"\n", low, max(0, offset - 1)) + 1
    end = block.find(b"\n", max(start, offset - 1), offset + LONGEST_LINE)
    if (start or low == 0) and (end >= 0 or len(block) - start <= LONGEST_LINE):
        return start, end if end >= 0 else len(block), False
    start = max(start, offset - WINDOW // 2)
    stop = offset + WINDOW
    return start, min(end, stop) if end >= 0 else min(stop, len(block)), True


def _sample(block: bytes, text: bytes, caseless: bool) -> Iterator[tuple[int, int]]:
    """Some lines with a heavy literal, evenly over the block."""
    step = max(1, len(block) // SAMPLES)
    for low in range(0, len(block), step):
        high = min(low + step, len(block))
        if caseless:
            found = re.compile(re.escape(text), re.IGNORECASE).search(block, low, high)
            at = found.start() if found else -1
        else:
            at = block.find(text, low, high)
        if at >= 0:
            start, end, _ = _line_at(block, at + len(text))
            yield start, end


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
