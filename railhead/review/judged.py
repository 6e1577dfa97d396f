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


def unjudged(unknown: Sequence[str]) -> Judged:
    """Return the verdict on parts that are not known before the update."""
    more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
    text = f"could not be judged: not known before the update: {', '.join(unknown[:4])}{more}"
    return Judged("unjudged", "judges", text)
