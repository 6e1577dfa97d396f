"""Logs with their likeliest causes: the reading of `railhead.nccl`, and its diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from railhead.diagnose.ranking import rank
from railhead.diagnose.ranking import signs as cause_signs
from railhead.nccl.build import build
from railhead.nccl.reading import Claim, Reading
from railhead.nccl.signs import Sign
from railhead.nccl.sources import Source
from railhead.nccl.verdict import WEAK

# Verdicts that follow from a cause, whatever else the lines show.
OVERRULING = ("init-failure", "timeout", "other")


def read(
    inputs: Iterable[Path | str | Source],
    *,
    signs: Sequence[Sign] = (),
    native: bool = True,
    tick: Callable[[int, str], None] | None = None,
) -> Reading:
    """Read logs as :func:`railhead.nccl.read` does, also for the causes' signs, in one pass."""
    reading = build(inputs, signs=(*cause_signs(), *signs), native=native, tick=tick)
    causes = rank(reading)
    named = next((item for item in causes if item.named), None)
    reading = replace(reading, causes=causes, cause=named.cause.id if named else None)
    verdict = reading.claims["verdict"]
    implied = named.cause.verdict if named is not None else None
    if named is None or implied not in OVERRULING or verdict.grade != WEAK:
        return reading
    lines = tuple(at for proof in named.evidence for at in reading.hits.evidence(proof.id)[:1])
    claim = Claim(value=implied, why=f"{named.cause.title}: {named.because}", evidence=lines[:2])
    return replace(reading, verdict=implied, claims={**reading.claims, "verdict": claim})
