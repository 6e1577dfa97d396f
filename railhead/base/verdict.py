"""Verdicts on promises that had to be proven."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """The verdict on a promise. What could not be measured or read is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_PROVEN = "not-proven"
