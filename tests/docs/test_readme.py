"""What the README says of the stacks that are shipped is what they are."""

from __future__ import annotations

import re

from tests.components.recording import REPO, STACKS
from tests.components.update_urns import URNS


def test_each_stack_is_there_with_its_number_of_resources() -> None:
    rows = dict(
        re.findall(r"^\| `([a-z0-9-]+)` \| .* \| (\d+) \|$", (REPO / "README.md").read_text(), re.M)
    )
    assert rows == {
        stack: str(len((URNS / f"{stack}.txt").read_text().splitlines())) for stack in STACKS
    }
