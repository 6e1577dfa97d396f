"""docs/catalogue.md says what its rows say."""

from __future__ import annotations

import re

import pytest

from railhead.catalog.digests import DIGESTS, UNREAD, pinned, references
from railhead.catalog.versions import ADDONS, COMBINATIONS
from tests.components.recording import STACKS, recorded
from tests.docs.catalogue_tables import PAGE, TABLES
from tests.docs.fabric_tables import REPO, rendered

RELEASE = "kubernetes:helm.sh/v3:Release"


def test_the_tables_are_the_rows() -> None:
    page = PAGE.read_text()
    assert page == rendered(page, TABLES), "run `python -m tests.docs.catalogue_tables`"


def test_what_ran_names_tests_that_are_there() -> None:
    for combination in COMBINATIONS.values():
        for run in combination.ran:
            assert run.source == "by hand" or list((REPO / run.source).glob("test_*.py"))


def test_every_digest_is_one_of_an_image_that_is_there() -> None:
    assert set(DIGESTS) <= set(references())
    for reference in references():
        digest, source = pinned(reference)
        assert source
        assert not digest or re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
        assert bool(digest) != (source == UNREAD)


@pytest.mark.slow
def test_untagged_images_belong_to_no_installed_chart() -> None:
    """A tag that only a chart says is of an add-on that no stack installs."""
    loose = [r for r in references() if r.endswith((":", ":latest"))]
    installed = {r.inputs["name"] for s in STACKS for r in recorded(s).of_type(RELEASE)}
    owners = {f"{row.image}:{row.tag}": row.name for row in ADDONS.values()}
    assert {owners[r] for r in loose}.isdisjoint(installed)
    assert len(installed) > 3
