"""A rule's verdict on one change, before its place and its stack are added."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from railhead.review.model import Finding, Level, Loss, Place
from railhead.review.sources import Sources


@dataclass(frozen=True)
class Judged:
    """A rule's verdict: how grave, what is lost, what happens, and who notices."""

    level: Level
    loss: Loss
    what: str
    who: str = ""
    rule: str = ""


def locate(
    source: Sources, name: str, subject: str, result: Judged, *words: str, line: int = 0
) -> Finding:
    """Return the finding of a verdict on a changed file, at a line or where its words are.

    Without any they are the words of the subject, the last first.
    """
    rest = subject.removeprefix(f"{name}: ")
    known = words or re.findall(r"[\w-]{3,}", rest)[::-1]
    return Finding(
        rule=result.rule,
        level=result.level,
        loss=result.loss,
        subject=subject,
        what=result.what,
        who=result.who,
        place=Place(file=name, line=line) if line else source.at(name, known),
    )


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
