"""A rule's verdict on one change, before its place and its stack are added."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railhead.review.model import Level, Loss


@dataclass(frozen=True)
class Judged:
    """A rule's verdict: how grave, what is lost, what happens, and who notices."""

    level: Level
    loss: Loss
    what: str
    who: str = ""
    rule: str = ""


def few(texts: Sequence[str], count: int, between: str = ", ") -> str:
    """Return the first texts in a row, and how many more there are."""
    more = len(texts) - count
    return between.join(texts[:count]) + (f" and {more} more" if more > 0 else "")


def quoted(text: str, most: int) -> str:
    """Return the beginning of a text as code in Markdown, whose own backticks would end it."""
    inner = text[:most].replace("`", "'")
    return f"`{inner}`"


def unjudged(unknown: Sequence[str]) -> Judged:
    """Return the verdict on parts that are not known before the update."""
    text = f"could not be judged: not known before the update: {few(unknown, 4)}"
    return Judged("unjudged", "judges", text)
