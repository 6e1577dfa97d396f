"""docs/catalogue.md says what its rows say."""

from __future__ import annotations

from railhead.catalog.versions import COMBINATIONS
from tests.docs.catalogue_tables import PAGE, TABLES
from tests.docs.fabric_tables import REPO, rendered


def test_the_tables_are_the_rows() -> None:
    page = PAGE.read_text()
    assert page == rendered(page, TABLES), "run `python -m tests.docs.catalogue_tables`"


def test_what_ran_names_tests_that_are_there() -> None:
    for combination in COMBINATIONS.values():
        for run in combination.ran:
            assert run.source == "by hand" or list((REPO / run.source).glob("test_*.py"))
