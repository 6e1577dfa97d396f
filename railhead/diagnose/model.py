"""Causes as data: signs in logs, facts, rules over them, fixes.

Three kinds of things can be known: a *clue* (a line of a log matched a pattern), an *observation*
(of the live cluster or of a dump), and a *fact* that is computed from the whole reading, such as
the transport. All three have an id; rules name ids and nothing else, so a cause is a row and never
a function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railhead.nccl.signs import Sign

# A cause is named (the `cause` key of `railhead nccl read --json`) from here on; below it is only
# listed, because a wrong cause sends an engineer further astray than none.
NAMED = 0.6
# Below this a cause is not even listed.
LISTED = 0.3

# The vocabulary of verdicts, as `railhead nccl read` prints them.
VERDICTS = frozenset(
    {
        "ok",
        "measured",
        "wired",
        "tcp-fallback",
        "init-failure",
        "hang",
        "timeout",
        "low-bandwidth",
        "other",
    }
)


@dataclass(frozen=True, kw_only=True)
class Clue:
    """A pattern for a telling line of a log, with the source of its wording.

    Args:
        id: kebab-case, unique among clues, facts and observations.
        pattern: a regular expression on the message of one line (prefixes removed); no lookaround
            and no backreference, so that an automaton can hold all of them.
        seen: the versions that print it so.
        source: where the wording was read.
        example: a line that it matches; tests hold it to that.
        literal: bytes that every such line holds, where the reader's own choice is a poor one.
    """

    id: str
    pattern: bytes
    seen: str
    source: str
    example: str
    literal: bytes | None = None

    @property
    def sign(self) -> Sign:
        """The sign for the one scan that :mod:`railhead.nccl` makes over a log."""
        return Sign(id=self.id, pattern=self.pattern, literal=self.literal)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A conclusion from the whole reading; ``railhead.diagnose.facts`` computes it."""

    id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A thing seen in a live cluster or in a dump, not in a log line."""

    id: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A condition under which a cause is believed, and how firmly.

    Args:
        needs: ids that must all be there.
        any_of: ids of which at least one must be there, when given.
        unless: ids that must all be absent.
        confidence: from 0 to 1; the highest of a cause's rules that hold is taken.
        because: one clause for the reader.
    """

    needs: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    confidence: float
    because: str

    @property
    def ids(self) -> frozenset[str]:
        """Every id that it names."""
        return frozenset((*self.needs, *self.any_of, *self.unless))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The fix as a setting of Railhead.

    Args:
        where: ``stack`` (``stacks/Pulumi.<env>.yaml``), ``job`` (the job file) or ``none``.
        path: the setting, such as ``fabric.lock_memory``; empty when ``where`` is ``none``.
        text: what to write there, and why it helps.
    """

    where: str
    path: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One reason why a run hangs, fails or crawls.

    Args:
        id: kebab-case, in the field's own words; printed as ``cause``.
        title: one line.
        family: the heading of the table in the documentation.
        rules: conditions under which it is believed.
        verdict: the run's verdict, of :data:`VERDICTS`; None when several are possible.
        fix: as a setting of Railhead.
        by_hand: the same without Railhead.
        confirm: a command or a look that proves it.
        apart: cause id -> what distinguishes that cause from this one.
        explains: causes that are mere consequences when this one is there.
        source: where it was learned.
    """

    id: str
    title: str
    family: str
    rules: tuple[Rule, ...]
    verdict: str | None
    fix: Setting
    by_hand: str
    confirm: str
    source: str
    apart: Mapping[str, str] = field(default_factory=dict)
    explains: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Evidence of a finding: a line, an object or a dump.

    ``where`` is ``file:line``, or the object's or the dump's name.
    """

    id: str
    where: str
    text: str


@dataclass(frozen=True, kw_only=True)
class RankedCause:
    """A likely cause with its evidence: a guess to act on, not a check that passed.

    Args:
        confidence: from 0 to 1, lowered for consequences of other causes.
        because: the clause of the rule that held.
        evidence: at most a few lines for each sign.
        after: the id of the cause that explains this one; None when nothing does.
        apart: cause id -> what distinguishes it from this one, for the other likely causes.
    """

    cause: Cause
    confidence: float
    because: str
    evidence: tuple[Proof, ...]
    after: str | None = None
    apart: Mapping[str, str] = field(default_factory=dict)

    @property
    def named(self) -> bool:
        """True when it is sure enough to be called the cause."""
        return self.confidence >= NAMED

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints; its keys never change."""
        return {
            "cause": self.cause.id,
            "title": self.cause.title,
            "confidence": round(self.confidence, 2),
            "named": self.named,
            "because": self.because,
            "verdict": self.cause.verdict,
            "evidence": [
                {"sign": proof.id, "where": proof.where, "text": proof.text}
                for proof in self.evidence
            ],
            "consequence_of": self.after,
            "fix": {
                "where": self.cause.fix.where,
                "setting": self.cause.fix.path,
                "text": self.cause.fix.text,
                "by_hand": self.cause.by_hand,
            },
            "confirm": self.cause.confirm,
            "tell_apart": dict(self.apart),
            "source": self.cause.source,
        }
