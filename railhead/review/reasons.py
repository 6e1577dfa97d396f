"""Finds what the base's own comments and docstrings say of lines that a pull request changes."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from railhead.review.model import Finding, Place
from railhead.review.reading import strip_comment
from railhead.review.sources import Hunk, Sources

# Lines that are this near belong to one change: a comment and the code that it explains.
_NEAR = 8
_LIMIT = 320
_FEWEST = 4  # Words of a reason: fewer say what a line is, not why.
_NOISE = re.compile(r"(noqa|type:|fmt:|pragma|yaml-language-server|shellcheck)\b", re.I)


def reasoned(source: Sources, findings: Iterable[Finding]) -> list[Finding]:
    """Return findings with what the base says of the lines at their places; not those of notes."""
    known: dict[Place, str] = {}
    return [
        finding
        if finding.place is None or finding.level == "note"
        else finding.model_copy(update={"reason": _at(source, finding.place, known)})
        for finding in findings
    ]


def _at(source: Sources, place: Place, known: dict[Place, str]) -> str:
    if place not in known:
        hunks = source.hunks(place.file)
        near = (h for h in hunks if h.line <= place.line < h.line + max(len(h.after), 1))
        known[place] = reason(source, place.file, next(near, None))
    return known[place]


def reason(source: Sources, name: str, hunk: Hunk | None) -> str:
    """Return why the base's lines of a hunk are as they are, in its words; empty if it is silent.

    These are the comments and docstrings that go with the lines, else the comment above them.
    """
    text, after = source.texts(name)
    if hunk is None or not hunk.before or not text:
        return ""
    lines = text.splitlines()
    words_at = _by_line(name, text)
    near = [h for h in source.hunks(name) if abs(h.was - hunk.was) <= _NEAR]
    changed = [n for h in near for n in range(h.was, h.was + len(h.before)) if n in words_at]
    gone = [n for n in changed if words_at[n] not in (after or "")]
    numbers = _whole(words_at, lines, gone) or _above(words_at, lines, hunk.was)
    words = " ".join(words_at[n] for n in numbers)
    if len(words.split()) < _FEWEST:
        return ""
    return words if len(words) <= _LIMIT else f"{words[: _LIMIT - 3]}..."


@lru_cache(maxsize=64)
def _by_line(name: str, text: str) -> Mapping[int, str]:
    """Return line -> the words of a comment or a docstring there; lines count from 1."""
    words_at: dict[int, str] = {}
    if name.endswith(".py"):
        try:
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    words_at[token.start[0]] = token.string
            words_at.update(_docstrings(text))
        except (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError):
            return {}
    else:
        for number, line in enumerate(text.splitlines(), start=1):
            if words := line.removeprefix(strip_comment(line)):
                words_at[number] = words.lstrip()
    stripped = {number: words.lstrip("#: ").strip() for number, words in words_at.items()}
    return {n: words for n, words in stripped.items() if words and not _NOISE.match(words)}


def _docstrings(text: str) -> list[tuple[int, str]]:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    rows = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False):
            first = node.body[0]
            words = text.splitlines()[first.lineno - 1 : first.end_lineno]
            rows += [(first.lineno + n, w.strip().strip('"')) for n, w in enumerate(words)]
    return rows


def _whole(words_at: Mapping[int, str], lines: Sequence[str], gone: Sequence[int]) -> list[int]:
    """Return the lines of every comment of which some went: half a sentence says little."""
    numbers = set(gone)
    for number in (n for n in gone if lines[n - 1].lstrip().startswith("#")):
        for step in (-1, 1):
            other = number + step
            while other in words_at and lines[other - 1].lstrip().startswith("#"):
                numbers.add(other)
                other += step
    return sorted(numbers)


def _above(words_at: Mapping[int, str], lines: Sequence[str], line: int) -> list[int]:
    """Return the comment at a line, or the one above the block of lines that it is in."""
    if line in words_at:
        return [line]
    depth, adjacent = _depth(lines[line - 1]), True
    for number in range(line - 1, max(line - 1 - _NEAR, 0), -1):
        text = lines[number - 1]
        if text.lstrip().startswith("#"):
            # Above a neighbour it speaks of that.
            near = adjacent and _depth(text) <= depth
            return _whole(words_at, lines, [number]) if near else []
        if not text.strip():
            return []
        adjacent = _depth(text) < depth
        depth = min(depth, _depth(text))
    return []


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
