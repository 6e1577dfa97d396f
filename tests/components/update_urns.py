"""Rewrite the snapshots: ``python -m tests.components.update_urns [STACK...]``.

``urns`` has the resources' names, which must stay; ``made`` their inputs and options, so that a
reviewer of a change to the components sees what it changes on clusters. Pages get their counts.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.components.made import MADE, made
from tests.components.recording import REPO, STACKS, run_stack
from tests.components.variants import VARIANTS, made_otherwise

URNS = Path(__file__).with_name("urns")
#: Pages that say how many resources a stack has: file -> what precedes and what follows the number.
COUNTED = {
    "README.md": [
        *((stack, rf"(^\| `{stack}` \| .* \| )\d+( \|$)") for stack in STACKS),
        ("lab", r"( )\d+( resources in stack lab)"),
    ],
    "docs/quickstart.md": [
        ("lab", r"(^    \+ )\d+( created$)"),
        ("lab", r"(^    )\d+( unchanged$)"),
    ],
    "docs/lab.md": [("lab", r"(stack's )\d+( resources)")],
}


def counted(page: str, text: str) -> str:
    """Return a page with the numbers of resources that the snapshots have."""
    for stack, pattern in COUNTED[page]:
        count = len((URNS / f"{stack}.txt").read_text().splitlines())
        text, there = re.subn(pattern, rf"\g<1>{count}\g<2>", text, flags=re.MULTILINE)
        assert there, f"{page} says no more how many resources {stack} has"
    return text


def main(stacks: list[str]) -> None:
    for stack in stacks or STACKS:
        with tempfile.TemporaryDirectory() as cache:
            recording = run_stack(stack, Path(cache))
        (URNS / f"{stack}.txt").write_text("\n".join(sorted(recording.resources)) + "\n")
        (MADE / f"{stack}.yaml").write_text(made(recording))
    for name in () if stacks else VARIANTS:
        (MADE / "variants" / f"{name}.yaml").write_text(made_otherwise(name))
    for page in COUNTED:
        (REPO / page).write_text(counted(page, (REPO / page).read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
