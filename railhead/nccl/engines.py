"""Engines that find, in a block of bytes, the lines that hold one of many literals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Protocol

from railhead.nccl.sources import LONGEST_LINE

Needle = tuple[bytes, bool]  # a literal, and whether case does not matter
WINDOW = 8192
KNOWN_SHAPES = 20_000
# Digits, hexadecimal ones too, are alike: lines that differ in addresses and numbers only are one.
ALIKE = bytes(0x30 if chr(byte) in "0123456789abcdef" else byte for byte in range(256))


class Engine(Protocol):
    """Finds candidate lines."""

    name: str

    def find(self, block: memoryview) -> list[tuple[int, int]]:
        """Return unordered pairs: an offset just behind a byte of a line, and a needle's number."""

    def drop(self, needles: frozenset[int]) -> None:
        """Stop reporting these needles."""


@cache
def _known_shapes(_needles: tuple[Needle, ...]) -> dict[bytes, tuple[int, ...]]:
    """Return the lines' shapes that were looked at for these needles, in any log."""
    return {}


class PureEngine:
    """Python only. Lines that differ in digits alone are looked at once."""

    name = "re"

    def __init__(self, needles: Sequence[Needle]) -> None:
        self._needles = needles
        self.drop(frozenset())

    def drop(self, needles: frozenset[int]) -> None:
        """See :class:`Engine`."""
        self._known: dict[bytes, tuple[int, ...]] = (
            {} if needles else _known_shapes(tuple(self._needles))
        )
        self._plain = [
            (text.translate(ALIKE), number)
            for number, (text, caseless) in enumerate(self._needles)
            if not caseless and number not in needles
        ]
        self._caseless = [
            (text.lower().translate(ALIKE), number)
            for number, (text, caseless) in enumerate(self._needles)
            if caseless and number not in needles
        ]

    def _in(self, shape: bytes, raw: bytes) -> tuple[int, ...]:
        results = [number for text, number in self._plain if text in shape]
        if self._caseless:
            lower = raw.lower().translate(ALIKE)
            results += [number for text, number in self._caseless if text in lower]
        return tuple(results)

    def find(self, block: memoryview) -> list[tuple[int, int]]:
        """See :class:`Engine`."""
        results: list[tuple[int, int]] = []
        at = 0
        for raw in bytes(block).split(b"\n"):
            if len(raw) > LONGEST_LINE:
                results += self._long(raw, at)
            elif raw:
                shape = raw.translate(ALIKE)
                numbers = self._known.get(shape)
                if numbers is None:
                    numbers = self._learn(shape, raw)
                results += [(at + 1, number) for number in numbers]
            at += len(raw) + 1
        return results

    def _learn(self, shape: bytes, raw: bytes) -> tuple[int, ...]:
        numbers = self._in(shape, raw)
        if len(shape) < 1024:
            if len(self._known) >= KNOWN_SHAPES:
                self._known.clear()
            self._known[shape] = numbers
        return numbers

    def _long(self, raw: bytes, at: int) -> Iterator[tuple[int, int]]:
        """Yield each needle at most once a window: what follows in it is read with it."""
        lower = raw.lower() if self._caseless else b""
        for needles, text in ((self._plain, raw), (self._caseless, lower)):
            for _, number in needles:
                needle, caseless = self._needles[number]
                needle = needle.lower() if caseless else needle
                result = text.find(needle)
                while result >= 0:
                    yield at + result + 1, number
                    result = text.find(needle, result + WINDOW // 2)


class NativeEngine:
    """Hyperscan: every literal in one pass, without holding Python's lock.

    Args:
        needles: what to find.
        without: numbers of those that are not to be reported.

    Raises:
        ImportError: the library is not installed.
    """

    name = "hyperscan"

    def __init__(self, needles: Sequence[Needle], without: frozenset[int] = frozenset()) -> None:
        import hyperscan

        self._module: Any = hyperscan
        self._needles = needles
        self._database: Any = None
        # What a scan works with serves one thread and one database.
        self._own = threading.local()
        self.drop(without)

    def drop(self, needles: frozenset[int]) -> None:
        """See :class:`Engine`."""
        module = self._module
        kept = [number for number in range(len(self._needles)) if number not in needles]
        if not kept:
            self._database = None
            return
        database = module.Database(mode=module.HS_MODE_BLOCK)
        database.compile(
            expressions=[self._needles[number][0] for number in kept],
            ids=kept,
            elements=len(kept),
            flags=[module.HS_FLAG_CASELESS if self._needles[number][1] else 0 for number in kept],
            literal=True,
        )
        self._database = database

    def find(self, block: memoryview) -> list[tuple[int, int]]:
        """See :class:`Engine`."""
        results: list[tuple[int, int]] = []
        append = results.append

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, number))

        database = self._database
        if database is not None:
            if getattr(self._own, "database", None) is not database:
                self._own.database = database
                self._own.scratch = self._module.Scratch(database)
            database.scan(block, match_event_handler=on_match, scratch=self._own.scratch)
        return results


def make(
    needles: Sequence[Needle], *, native: bool, without: frozenset[int] = frozenset()
) -> Engine:
    """Return the native engine where it is wanted and installed, else the other.

    Args:
        needles: what to find.
        native: whether the native one is wanted.
        without: numbers of those that the native one is not to report.
    """
    if native and needles:
        try:
            return NativeEngine(needles, without)
        except ImportError:
            pass
    return PureEngine(needles)
