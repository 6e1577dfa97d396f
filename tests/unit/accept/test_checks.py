"""Checks of acceptance are found by being there, and each keeps to the contract between them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from railhead.accept import checks
from railhead.accept.check import Check
from railhead.accept.site import Facts

FOLDER = Path(checks.__file__).parent
EVERY = checks.every()
# Checks that were released: machines read their names in reports.
RELEASED = {"rdma", "slow-nodes", "scaling", "gangs", "launch", "restart"}


def test_every_file_is_a_check_and_each_has_a_name_of_its_own() -> None:
    files = {file.stem.replace("_", "-") for file in FOLDER.glob("*.py")} - {"--init--"}
    assert [check.name for check in EVERY] == sorted(files, key=[c.name for c in EVERY].index)
    assert files >= RELEASED
    orders = {check.order: check.name for check in EVERY}
    twice = [check.name for check in EVERY if orders[check.order] != check.name]
    assert not twice, f"`order` in railhead/accept/checks/: {twice} have another check's"


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.name)
def test_a_check_says_what_it_would_do(check: Check[BaseModel], facts: Facts) -> None:
    assert check.promise.endswith(".")
    assert issubclass(check.evidence, BaseModel)
    planned = check.plan(facts)
    assert planned.steps or planned.missing
    assert planned.missing or 0 < planned.nodes <= len(facts.nodes)
    assert planned.missing or planned.seconds > 0


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.name)
def test_a_plan_for_one_node_or_stand_ins_says_why_not(
    check: Check[BaseModel], facts: Facts
) -> None:
    """Planning never fails, and asks for no more than the cluster has."""
    for few in (
        replace(facts, nodes=facts.nodes[:1]),
        replace(facts, simulated=facts.nodes),
        replace(facts, quick=False),
    ):
        planned = check.plan(few)
        assert planned.missing or planned.nodes <= len(few.nodes)


@pytest.mark.parametrize("check", EVERY, ids=lambda check: check.name)
def test_the_page_explains_it(check: Check[BaseModel], repo: Path) -> None:
    page = (repo / "docs/accepting.md").read_text()
    assert f"| `{check.name}` |" in page, f"docs/accepting.md lacks a row `{check.name}`"
