"""Errors that people read: what was wrong, what is allowed, what to do.

Every error that Railhead raises on purpose is a :class:`RailheadError`. The command line prints it
without a traceback and exits with its ``exit_code``; `docs/exit-codes.md` lists the codes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of Railhead's commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    BAD_INPUT = 3
    MISSING_PREREQUISITE = 4
    NOT_FOUND = 5
    REFUSED = 6
    TIMED_OUT = 7
    UNMET = 8
    UNPROVEN = 9
    TCP_FALLBACK = 10
    INIT_FAILURE = 11
    HANG = 12
    TIMEOUT = 13
    LOW_BANDWIDTH = 14
    OTHER = 15
    MEASURED = 16
    WIRED = 17
    INTERRUPTED = 130


class RailheadError(Exception):
    """A failure with a remedy.

    Args:
        problem: one sentence that names the thing and the value.
        remedy: what the reader can do about it; empty when there is nothing.
    """

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, problem: str, *, remedy: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  fix: {self.remedy}" if self.remedy else self.problem


class InputError(RailheadError):
    """The user's input is invalid; nothing was changed."""

    exit_code = ExitCode.BAD_INPUT


class PrerequisiteError(RailheadError):
    """The machine or the cluster lacks something that is needed; nothing was changed."""

    exit_code = ExitCode.MISSING_PREREQUISITE


class NotFoundError(RailheadError):
    """The named thing does not exist."""

    exit_code = ExitCode.NOT_FOUND


class RefusedError(RailheadError):
    """The cluster, or one of Railhead's checks, refused."""

    exit_code = ExitCode.REFUSED


class TimedOutError(RailheadError):
    """An awaited event did not happen in time."""

    exit_code = ExitCode.TIMED_OUT


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for a near miss, else an empty string."""
    near = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def choices(given: str, allowed: Iterable[str], what: str = "there are") -> str:
    """Return a guess at what was meant, else all choices: ``"; there are: a, b"``."""
    names = list(allowed)
    return did_you_mean(given, names) or f"; {what}: {', '.join(names) or 'none'}"
