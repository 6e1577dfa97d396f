"""What became of something that was to be proven."""

from __future__ import annotations

from enum import StrEnum


class Verdict(StrEnum):
    """What became of a promise. What could not be measured or read is never a pass."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_PROVEN = "not-proven"
