"""docs/access.md says what the roles say, and docs/forbidden-acts.md what is tried."""

from __future__ import annotations

from tests.docs.access_tables import ACTS, PAGE, acts_page, rendered


def test_the_tables_are_the_roles() -> None:
    page = PAGE.read_text()
    assert page == rendered(page), "run `python -m tests.docs.access_tables`"
    assert (
        "| `trainjobs` of `trainer.kubeflow.org` | create, patch, delete | yes | yes |  |" in page
    )


def test_the_page_of_acts_is_their_list() -> None:
    assert ACTS.read_text() == acts_page(), "run `python -m tests.docs.access_tables`"
