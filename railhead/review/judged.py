"""A rule's verdict on one change, before its place and its stack are added."""

from __future__ import annotations

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
