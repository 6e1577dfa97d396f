"""Reading a stack's section before its models have: what is malformed is skipped.

The models report what is malformed; the checks that span several fields read the raw mapping with
these, so that one run shows every mistake, of either kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Raw = Mapping[str, Any]
Problem = tuple[str, str]


def mapping(value: Any) -> Raw:
    """The mapping; an empty one in place of anything else."""
    return value if isinstance(value, Mapping) else {}


def rows(value: Any, path: str) -> Iterator[tuple[str, Raw]]:
    """The mappings of a list, each with its own path, such as ``pools[1]``."""
    if isinstance(value, list):
        for index, row in enumerate(value):
            if isinstance(row, Mapping):
                yield f"{path}[{index}]", row


def texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def integer(value: Any) -> int | None:
    """The number; None in place of anything else, a truth value among it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def positive(value: Any) -> int:
    """The number above zero; 0 in place of anything else."""
    return max(integer(value) or 0, 0)
