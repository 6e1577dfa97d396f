"""Operators of jobs that are built on request, each from one lock."""

from __future__ import annotations

import re

import pytest

from railhead.lab.artifacts.golang import CORE
from railhead.lab.artifacts.operators import OPERATORS, Operator


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=lambda o: o.name)
def test_each_lock_has_its_program_as_a_tool(operator: Operator) -> None:
    text = (operator.lock / "go.mod").read_text()
    assert re.findall(r"^tool (\S+)$", text, re.MULTILINE) == [operator.program.package]


def test_kuberay_is_the_one_that_kueue_is_built_with() -> None:
    """A different release would have other kinds than those that Kueue admits."""
    operator = OPERATORS["kuberay-operator"]
    required = [
        re.findall(rf"{operator.module} (v\S+)", (lock / "go.mod").read_text())
        for lock in (CORE, operator.lock)
    ]
    assert required[0] == required[1] == [operator.image.rpartition(":")[2]]
