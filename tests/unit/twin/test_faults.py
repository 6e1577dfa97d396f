"""The table of faults names tests that are there, and most faults are found by machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.twin.faults import BEGIN, END, PAGE, Fault, faults, page, share

SABOTAGES = Path(__file__).parents[2] / "twin" / "sabotages.yaml"


def test_each_fault_is_there_once() -> None:
    ids = [fault.id for fault in faults()]
    assert len(ids) == len(set(ids)) > 100


def test_what_holds_a_fault_is_there(repo: Path) -> None:
    known = {f"sabotage:{row['id']}" for row in yaml.safe_load(SABOTAGES.read_text())}
    old = (repo / "tests/components/test_faults.py").read_text()
    known |= {f"faults:{key}" for key in re.findall(r'^    "(.+?)": \(', old, re.M)}
    named = {holder for fault in faults() for holder in fault.held_by} - known
    for holder in sorted(named):
        path, _, test = holder.partition("::")
        text = (repo / path).read_text() if (repo / path).is_file() else ""
        assert re.search(rf"def {test}\b", text), f"{holder} is not there: correct faults.yaml"


def test_four_of_five_above_low_are_found_by_machine() -> None:
    assert share(faults()) >= 0.8


def test_a_fault_that_nothing_holds_says_why() -> None:
    with pytest.raises(ValueError, match="says why"):
        Fault(id="x", severity="high", fault="y", found="reading")


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text()
    there = text.split(BEGIN)[1].split(END)[0].strip()
    assert there == page(), "run `python -m tests.twin.faults`"
