"""From what was seen to causes, best first."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from railhead.diagnose.facts import derive, evidence, shared
from railhead.diagnose.knowledge import CAUSES, CLUES
from railhead.diagnose.model import LISTED, NAMED, Cause, Proof, RankedCause, Rule
from railhead.nccl.reading import Reading
from railhead.nccl.signs import Sign

LINE = re.compile(r":(\d{1,12})$")
# Lines shown for a sign; the count says how many there were.
LINES = 3
# What a consequence may be believed at most, so that it is never called the cause.
CONSEQUENCE = NAMED - 0.05


@cache
def signs() -> tuple[Sign, ...]:
    """What the causes look for in a log, for the one pass of ``railhead.nccl``."""
    return tuple(clue.sign for clue in CLUES.values())


def _holds(rule: Rule, present: frozenset[str]) -> bool:
    return (
        all(one in present for one in rule.needs)
        and (not rule.any_of or any(one in present for one in rule.any_of))
        and not any(one in present for one in rule.unless)
    )


def _best(cause: Cause, present: frozenset[str]) -> Rule | None:
    holding = [rule for rule in cause.rules if _holds(rule, present)]
    return max(holding, key=lambda rule: rule.confidence, default=None)


def _proofs(
    rule: Rule, reading: Reading, observed: Mapping[str, tuple[Proof, ...]]
) -> tuple[Proof, ...]:
    found: list[Proof] = []
    for one in dict.fromkeys((*rule.needs, *rule.any_of)):
        found += observed.get(one, ())[:LINES]
        found += [
            Proof(id=one, where=str(line), text=line.text)
            for line in evidence(reading.hits, one)[:LINES]
        ]
    return tuple(found)


def _first(proofs: Iterable[Proof]) -> int:
    """The lowest line number among the proofs: of two causes as sure the earlier comes first."""
    found = (LINE.search(one.where) for one in proofs)
    return min((int(match[1]) for match in found if match), default=sys.maxsize)


def _behind(findings: list[RankedCause]) -> list[RankedCause]:
    """Put consequences behind the causes that explain them."""
    reasons: dict[str, RankedCause] = {}
    for finding in findings:
        if finding.named:
            for consequence in finding.cause.explains:
                known = reasons.get(consequence)
                if known is None or finding.confidence > known.confidence:
                    reasons[consequence] = finding
    moved = []
    for finding in findings:
        reason = reasons.get(finding.cause.id)
        if reason is None or reason.cause.id == finding.cause.id:
            moved.append(finding)
            continue
        confidence = min(finding.confidence, CONSEQUENCE)
        moved.append(replace(finding, confidence=confidence, after=reason.cause.id))
    return moved


def _apart(finding: RankedCause, others: Iterable[RankedCause]) -> dict[str, str]:
    told = {}
    for other in others:
        if other.cause.id in finding.cause.apart:
            told[other.cause.id] = finding.cause.apart[other.cause.id]
    return told


def rank(
    reading: Reading, *, observed: Mapping[str, tuple[Proof, ...]] | None = None
) -> tuple[RankedCause, ...]:
    """The causes that a reading supports, best first.

    Args:
        reading: of one or more logs.
        observed: observations of a live cluster or of dumps, by id, with their proof.

    Returns:
        Findings of at least :data:`railhead.diagnose.model.LISTED`; empty when nothing is known.
    """
    observed = observed or {}
    present = frozenset(reading.hits) | shared(reading.hits) | derive(reading) | frozenset(observed)
    findings = []
    for cause in CAUSES.values():
        rule = _best(cause, present)
        if rule is None or rule.confidence < LISTED:
            continue
        findings.append(
            RankedCause(
                cause=cause,
                confidence=rule.confidence,
                because=rule.because,
                evidence=_proofs(rule, reading, observed),
            )
        )
    findings = _behind(findings)
    findings.sort(key=lambda one: (-one.confidence, _first(one.evidence), one.cause.id))
    return tuple(replace(one, apart=_apart(one, findings)) for one in findings)
