"""Verdicts in people's words."""

from __future__ import annotations

from railhead.accept.model import Report, Result, Verdict

WORDS = {Verdict.PASSED: "passed", Verdict.FAILED: "failed", Verdict.NOT_PROVEN: "not proven"}
# Read without colour.
SIGNS = {Verdict.PASSED: "\u2713", Verdict.FAILED: "\u2717", Verdict.NOT_PROVEN: "?"}


def verdict_of(report: Report) -> Verdict:
    """Return what a reader sees first: failed where a fault is known, else what is open."""
    if report.accepted:
        return Verdict.PASSED
    results = [result for result in report.checks if not report.stands(result)]
    failed = any(result.verdict is Verdict.FAILED for result in results)
    return Verdict.FAILED if failed else Verdict.NOT_PROVEN


def waived(report: Report, result: Result) -> bool:
    """Return whether a waiver stands for what did not pass."""
    return result.verdict is not Verdict.PASSED and report.stands(result)


def missing(report: Report) -> tuple[str, ...]:
    """Checks that there are and that have no result."""
    results = {result.name for result in report.checks}
    return tuple(name for name in report.asked if name not in results)


def sentences(report: Report) -> list[str]:
    """Return the whole in a few words each."""
    texts = []
    for verdict in (Verdict.FAILED, Verdict.NOT_PROVEN, Verdict.PASSED):
        names = [
            r.name + (" (waived)" if waived(report, r) else "")
            for r in report.checks
            if r.verdict is verdict
        ]
        if names:
            texts.append(f"{WORDS[verdict].capitalize()}: {', '.join(names)}.")
    if absent := missing(report):
        texts.append(f"Not proven, for want of a result: {', '.join(absent)}.")
    return texts


def duration(seconds: float) -> str:
    """``12 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def badge(result: Result) -> str:
    """Return the verdict's sign and word."""
    return f"{SIGNS[result.verdict]} {WORDS[result.verdict]}"
