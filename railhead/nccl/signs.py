"""Signs that a line may show, as data: one regex each, matched in one pass over any log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from re import _parser  # type: ignore[attr-defined]  # what a regex requires, without guessing
from typing import Any

MIN_NEEDLE = 4
MOST_KEPT = 64
# A container runtime writes these as \uXXXX or with a backslash in its JSON lines.
ESCAPED = re.compile(rb'[<>&"\\\x00-\x1f\x7f-\xff]')


@dataclass(frozen=True, kw_only=True)
class Sign:
    r"""One thing that a line may show.

    Args:
        id: its name, unique in a pass.
        pattern: a regex, searched in one line's message: without the launcher's and the collector's
            prefixes, colours and NCCL's own ``host:pid:tid [gpu]``, but with what follows it, such
            as ``NCCL INFO Using network IB`` or ``net_ib.cc:9 NCCL WARN NET/IB : Got ...``. Named
            groups of the first matches are kept.
        literal: bytes that every matching line holds, or several of which it holds one, for speed;
            worked out when not given.
        keep: how many lines of evidence to keep, :data:`MOST_KEPT` at most.
    """

    id: str
    pattern: bytes
    literal: bytes | tuple[bytes, ...] | None = None
    keep: int = 5

    @cached_property
    def regex(self) -> re.Pattern[bytes]:
        """The compiled pattern."""
        return re.compile(self.pattern)

    @cached_property
    def caseless(self) -> bool:
        """True when the whole pattern ignores case."""
        # Without compiling it: most signs of a pass are never seen.
        return self.pattern.startswith(b"(?i)")

    @cached_property
    def needles(self) -> frozenset[bytes]:
        """Literals of which each matching line holds at least one.

        Raises:
            ValueError: the pattern requires none of four bytes or more; give ``literal``.
        """
        if isinstance(self.literal, bytes):
            return frozenset({self.literal})
        if self.literal is not None:
            return frozenset(self.literal)
        result = _required(_parser.parse(self.pattern), bool(self.caseless))
        if not result:
            raise ValueError(f"sign {self.id}: no literal is required by {self.pattern!r}")
        return result


def _required(parsed: Iterable[Any], caseless: bool) -> frozenset[bytes]:
    """Return the best set of literals of which every match holds one; empty if no set exists."""
    candidates: list[frozenset[bytes]] = []
    run = bytearray()

    def close() -> None:
        candidates.extend(
            frozenset({piece.lower() if caseless else piece})
            for piece in ESCAPED.split(bytes(run))
            if len(piece) >= MIN_NEEDLE
        )
        run.clear()

    for operation, argument in parsed:
        name = str(operation)
        if name == "LITERAL":
            run.append(argument)
            continue
        close()
        if name == "SUBPATTERN" and not argument[1] & re.IGNORECASE:
            candidates.append(_required(argument[-1], caseless))
        elif name == "ATOMIC_GROUP":
            candidates.append(_required(argument, caseless))
        elif name == "BRANCH":
            branches = [_required(branch, caseless) for branch in argument[1]]
            if all(branches):
                candidates.append(frozenset().union(*branches))
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] >= 1:
            candidates.append(_required(argument[-1], caseless))
    close()
    usable = [candidate for candidate in candidates if candidate]
    # Few and long literals are the ones that rarely match by chance.
    return max(
        usable,
        key=lambda item: (min(map(len, item)) - 2 * len(item), sorted(item)),
        default=frozenset(),
    )


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One line that a claim rests on.

    Attributes:
        file: the input's name as the reader gave it.
        line: counted from 1.
        text: the message, at most :data:`railhead.nccl.lines.TEXT_BYTES` long.
        rank: the rank that wrote it, where the line or an earlier one tells.
        node: the host, pod or address that wrote it, where the line tells.
        time: as the line gives it (``2026-01-02T03:04:05.678Z``), where it does.
        groups: what the sign's named groups matched.
    """

    file: str
    line: int
    text: str
    rank: int | None = None
    node: str | None = None
    time: str | None = None
    groups: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class Hit:
    """The lines that showed one sign.

    Attributes:
        count: how many lines.
        exact: False when ``count`` is only a lower bound, as for a sign on nearly every line.
        evidence: the first few lines.
        ranks, nodes: who wrote them, as far as known and at most :data:`MAX_NAMES` each.
    """

    count: int = 0
    exact: bool = True
    evidence: tuple[Evidence, ...] = ()
    ranks: frozenset[int] = frozenset()
    nodes: frozenset[str] = frozenset()


NO_HIT = Hit()


class Hits(dict[str, Hit]):
    """Hits by the sign's id; a sign that was not seen is not a key, and reads as an empty hit."""

    def __missing__(self, sign: str) -> Hit:
        return NO_HIT

    def evidence(self, sign: str) -> tuple[Evidence, ...]:
        """Return the first few lines of a sign; empty when it was not seen."""
        return self[sign].evidence

    def any(self, *signs: str) -> bool:
        """True when one of them was seen."""
        return any(sign in self for sign in signs)
