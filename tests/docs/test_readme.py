"""Pages say how many resources the shipped stacks have."""

from __future__ import annotations

import pytest

from tests.components.recording import REPO
from tests.components.update_urns import COUNTED, counted


@pytest.mark.parametrize("page", COUNTED)
def test_counts_of_resources_are_the_snapshots(page: str) -> None:
    text = (REPO / page).read_text()
    assert text == counted(page, text), "rewrite them: python -m tests.components.update_urns"
