"""A review as data: its JSON form is `railhead review --json`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from railhead.base.fields import Model

SCHEMA_VERSION = 1

Level = Literal["refuse", "unjudged", "ask", "note"]
Loss = Literal[
    "access", "capacity", "data", "guards", "jobs", "judges", "network", "quota", "rights", "file"
]
Verdict = Literal["refused", "unjudged", "ask", "clean"]

#: Guards and networks come first, because nothing fails on the day when they go.
ORDER: tuple[Loss, ...] = (
    "judges",
    "file",
    "data",
    "guards",
    "network",
    "jobs",
    "quota",
    "capacity",
    "rights",
    "access",
)
LEVELS: tuple[Level, ...] = ("refuse", "unjudged", "ask", "note")


class Place(Model):
    """A line of a file of the pull request; lines count from 1."""

    file: str
    line: int = Field(ge=1)


class Finding(Model):
    """One thing that a reviewer must know.

    Args:
        rule: its rule, stable between runs.
        level: ``refuse`` fails the review, ``unjudged`` too unless allowed, ``ask`` wants a
            person's look, ``note`` is information.
        loss: what is lost or opened.
        subject: the object, in the reader's words.
        what: what happens to it.
        who: who notices, and when.
        stack: its stack; empty for the pull request as a whole.
        place: where the change is.
        suggestion: lines that would do what was meant, for the place.
        allow: what to write if it is meant.
        reason: what the base's comments there say of the lines that change.
    """

    rule: str
    level: Level
    loss: Loss
    subject: str
    what: str
    who: str = ""
    stack: str = ""
    place: Place | None = None
    suggestion: str = ""
    allow: str = ""
    reason: str = ""

    @property
    def fingerprint(self) -> str:
        """A digest that is the same for the same finding of a later run, on whichever line."""
        text = "\0".join((self.rule, self.stack, self.subject, self.what))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


class Pool(Model):
    """A pool's nodes and GPUs before and after; None where it is not there."""

    pool: str
    instance_type: str
    nodes_before: int | None
    nodes_after: int | None
    gpus_before: int
    gpus_after: int


class StackReview(Model):
    """The difference between two plans of one stack."""

    stack: str
    file: str
    compared: bool
    added: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()
    paid_before: tuple[str, ...] = ()
    paid_after: tuple[str, ...] = ()
    charts: int = 0
    seconds: float = 0.0


class Judges(Model):
    """The judges: pack and Railhead of a commit, their digest, and what changes them."""

    commit: str
    digest: str
    changed: tuple[str, ...] = ()
    allowed: bool = False


class Review(Model):
    """The whole review."""

    schema_version: int = SCHEMA_VERSION
    verdict: Verdict
    base: str
    compared_with: str
    judges: Judges
    stacks: tuple[StackReview, ...]
    findings: tuple[Finding, ...]
    not_looked_at: tuple[str, ...]
    seconds: float


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, the gravest first, each fingerprint once."""
    first: dict[str, Finding] = {}
    for finding in sorted(
        findings, key=lambda f: (LEVELS.index(f.level), ORDER.index(f.loss), f.stack, f.subject)
    ):
        first.setdefault(finding.fingerprint, finding)
    return tuple(first.values())


def verdict(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict by the gravest finding."""
    levels = {finding.level for finding in findings}
    if "refuse" in levels:
        return "refused"
    if "unjudged" in levels:
        return "unjudged"
    return "ask" if "ask" in levels else "clean"
