"""A whole rehearsal of a shipped stack, small; lines that were faulty once are put back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.marks import few
from tests.twin.rehearsing import copied, rehearsed

# Not `long`: begun last, when the lab beside it is down and leaves it time.
pytestmark = [pytest.mark.slow, pytest.mark.controlplane]


@dataclass(frozen=True, kw_only=True)
class Sabotage:
    """A faulty line and the step that must fail for it; ``says`` is in what that step reports."""

    id: str
    review: str
    stack: str
    file: str
    old: str
    new: str
    step: str
    says: str


def sabotages() -> list[Sabotage]:
    rows = yaml.safe_load((Path(__file__).parent / "sabotages.yaml").read_text())
    return [Sabotage(old=row.pop("from"), new=row.pop("to"), **row) for row in rows]


def _small(section: dict[str, Any]) -> None:
    """Leave four nodes, three of them promised to the first team."""
    section["pools"][0]["nodes"] = 4
    first, second = section["teams"]
    first["shares"][0] |= {"nodes": 3, "lend": 2}
    second["shares"][0] |= {"nodes": 1, "borrow": 2}


@pytest.mark.rehearsal
def test_a_stack_is_rehearsed_to_its_end(tmp_path: Path) -> None:
    outcomes = rehearsed(tmp_path, "onprem-roce-shared", change=_small)
    assert {name: o.text for name, o in outcomes.items() if o.verdict == "failed"} == {}
    passed = {name for name, o in outcomes.items() if o.verdict == "passed"}
    assert passed >= {
        "up",
        "up-again",
        "nodes",
        "job:torch:training",
        "job:torch:research",
        "gang",
        "node-lost",
        "edit:nodes-up",
        "edit:nodes-down",
        "edit:team-more",
        "edit:team-less",
        "destroy-refused",
        "destroy",
    }


@pytest.mark.parametrize(
    "sabotage", few(sabotages(), ["rails-of-another-name"], lambda row: row.id)
)
def test_a_faulty_line_fails_the_step_that_meets_it(sabotage: Sabotage, tmp_path: Path) -> None:
    checkout = copied(tmp_path, sabotage.file, sabotage.old, sabotage.new)
    outcomes = rehearsed(tmp_path, sabotage.stack, [sabotage.step], checkout=checkout)
    wrong = [o for o in outcomes.values() if o.verdict == "failed"]
    assert wrong, "the rehearsal does not see it"
    assert wrong[0].name.startswith(sabotage.step), wrong[0].text
    assert sabotage.says in wrong[0].text
