"""Marks of parameters that only a costlier target runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def few(
    values: Iterable[Any],
    usual: Iterable[str],
    name: Callable[[Any], str] = str,
    *,
    others: str = "exhaustive",
) -> list[Any]:
    """Return all values as parameters; those not named in ``usual`` have the mark ``others``."""
    values, kept = list(values), set(usual)
    assert kept <= {name(value) for value in values}, "a value that is usual is gone"
    mark = getattr(pytest.mark, others)
    return [
        pytest.param(value, id=name(value), marks=[] if name(value) in kept else [mark])
        for value in values
    ]


def one_of_each(stacks: Iterable[str]) -> list[Any]:
    """Return all stacks as parameters; of each platform one is quick, and the others slow."""
    usual = ("lab", "aws-p5-prod", "gcp-a3-mega", "onprem-ib-sriov")
    return few(stacks, usual, others="slow")
