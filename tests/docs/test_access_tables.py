"""docs/access.md says what the roles say."""

from __future__ import annotations

from tests.docs.access_tables import PAGE, rendered


def test_the_tables_are_the_roles() -> None:
    page = PAGE.read_text()
    assert page == rendered(page), "run `python -m tests.docs.access_tables`"
    assert (
        "| `trainjobs` of `trainer.kubeflow.org` | create, patch, delete | yes | yes |  |" in page
    )
