"""Stacks that a twin cannot play are refused before anything is built."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import PrerequisiteError
from railhead.config import parse
from railhead.twin import cli
from tests.shipped import stack


@pytest.mark.parametrize(
    ("operator", "refused"),
    [({}, False), ({"allocation": "dra"}, True), ({"compute_domains": True}, True)],
)
def test_devices_by_claim_have_no_twin(operator: dict[str, Any], refused: bool, repo: Path) -> None:
    section = stack("onprem-roce-shared")
    section["gpu_operator"] = (section.get("gpu_operator") or {}) | operator
    fails = pytest.raises(PrerequisiteError, match="by ResourceClaim")
    with fails if refused else contextlib.nullcontext():
        cli._can(parse(section, where="test"))
