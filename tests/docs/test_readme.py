"""The README describes the shipped stacks as they are."""

from __future__ import annotations

import re

from tests.components.recording import REPO, STACKS
from tests.components.update_urns import URNS


def test_table_of_stacks_has_their_resource_counts() -> None:
    rows = dict(
        re.findall(r"^\| `([a-z0-9-]+)` \| .* \| (\d+) \|$", (REPO / "README.md").read_text(), re.M)
    )
    assert rows == {
        stack: str(len((URNS / f"{stack}.txt").read_text().splitlines())) for stack in STACKS
    }
