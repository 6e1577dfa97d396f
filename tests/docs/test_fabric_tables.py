"""docs/fabric.md says what the catalogue says, and claims no evidence that there is not."""

from __future__ import annotations

import re

from railhead.catalog.lab import KUBERNETES
from railhead.fabric.modes import MODES
from tests.components.fabrics import cases
from tests.docs.fabric_tables import PAGE, REPO, evidence, rendered


def test_the_tables_are_the_catalogues() -> None:
    page = PAGE.read_text()
    assert page == rendered(page), "run `python -m tests.docs.fabric_tables`"


def test_every_mode_on_every_platform_is_in_the_table() -> None:
    page = PAGE.read_text()
    for case in cases():
        assert f"| `{case.mode}` | {case.fabric} | {case.platform} |" in page


def test_what_ran_names_a_test_that_is_there() -> None:
    combinations = {(c.mode, c.fabric, c.platform) for c in cases()}
    for row in evidence()["ran"]:
        assert (row["mode"], row["fabric"], row["platform"]) in combinations
        assert row["tests"]
        for test in row["tests"]:
            path, _, name = test.partition("::")
            function = name.rpartition("::")[2]
            assert re.search(rf"^ *def {function}\(", (REPO / path).read_text(), re.MULTILINE), test


def test_what_was_applied_was_applied_by_a_test_of_every_case() -> None:
    text = (REPO / "tests" / "components" / "test_fabric_api_server.py").read_text()
    assert '@pytest.mark.parametrize("case", few(every()' in text
    assert evidence()["applied"]["kubernetes"] == KUBERNETES


def test_each_mode_says_what_only_hardware_can_show() -> None:
    assert set(evidence()["hardware"]) == set(MODES)
