"""Ranking of the causes that signs, facts and observations support, best first."""

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
    """Return the signs of all causes, for the one pass of ``railhead.nccl``."""
    return tuple(clue.sign for clue in CLUES.values())


def _holds(rule: Rule, present: frozenset[str]) -> bool:
    return (
        all(need in present for need in rule.needs)
        and (not rule.any_of or any(item in present for item in rule.any_of))
        and not any(item in present for item in rule.unless)
    )


def _best(cause: Cause, present: frozenset[str]) -> Rule | None:
    holding = [rule for rule in cause.rules if _holds(rule, present)]
    return max(holding, key=lambda rule: rule.confidence, default=None)


def _proofs(
    rule: Rule, reading: Reading, observed: Mapping[str, tuple[Proof, ...]]
) -> tuple[Proof, ...]:
    proofs: list[Proof] = []
    for fromkey in dict.fromkeys((*rule.needs, *rule.any_of)):
        proofs += observed.get(fromkey, ())[:LINES]
        proofs += [
            Proof(id=fromkey, where=str(line), text=line.text)
            for line in evidence(reading.hits, fromkey)[:LINES]
        ]
    return tuple(proofs)


def _first(proofs: Iterable[Proof]) -> int:
    """Return the proofs' lowest line number: of equally sure causes, the earlier comes first."""
    result = (LINE.search(proof.where) for proof in proofs)
    return min((int(match[1]) for match in result if match), default=sys.maxsize)


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
    reported = {}
    for other in others:
        if other.cause.id in finding.cause.apart:
            reported[other.cause.id] = finding.cause.apart[other.cause.id]
    return reported


def rank(
    reading: Reading, *, observed: Mapping[str, tuple[Proof, ...]] | None = None
) -> tuple[RankedCause, ...]:
    """Return the causes that a reading supports, best first.

    Args:
        reading: of one or more logs.
        observed: observations of a live cluster or of dumps, by id, with their proof.

    Returns:
        Causes of at least :data:`railhead.diagnose.model.LISTED` confidence, maybe none.
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
    findings.sort(key=lambda item: (-item.confidence, _first(item.evidence), item.cause.id))
    return tuple(replace(finding, apart=_apart(finding, findings)) for finding in findings)
