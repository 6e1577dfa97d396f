"""A check of one row: a reader and a stack in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from railhead.base.finding import Finding

Check = Callable[[Any, Any], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class Asker:
    """A platform's checks.

    Args:
        opened: yields the client that reads for a stack, with credentials that were tried.
        checks: id of a row of the ledger -> its check. One that finds nothing to ask for in a stack
            yields nothing.
    """

    opened: Callable[[Any], AbstractContextManager[Any]]
    checks: dict[str, Check]


def ok(text: str) -> Finding:
    """Return the finding that something holds."""
    return Finding(name="", passed=True, text=text)


def failed(text: str, remedy: str = "") -> Finding:
    """Return the finding that something does not; the row's remedy holds where none is named."""
    return Finding(name="", passed=False, text=text, remedy=remedy)


def unknown(text: str, remedy: str = "") -> Finding:
    """Return the finding that something could not be asked, and why."""
    return Finding(name="", passed=None, text=text, remedy=remedy)
