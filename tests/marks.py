"""Marks of parameters that `make test` leaves to a target of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], usual: Iterable[str], name: Callable[[Any], str] = str) -> list[Any]:
    """Return all values as parameters; those not named in ``usual`` run on request alone."""
    values, kept = list(values), set(usual)
    assert kept <= {name(value) for value in values}, "a value that is usual is gone"
    return [
        pytest.param(
            value, id=name(value), marks=[] if name(value) in kept else [pytest.mark.exhaustive]
        )
        for value in values
    ]
