"""Rewrite the snapshots: ``python -m tests.components.update_urns [STACK...]``.

``urns`` has the resources' names, which must stay; ``made`` their inputs and options, so that a
reviewer of a change to the components sees what it changes on clusters.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.components.made import MADE, made
from tests.components.recording import STACKS, run_stack
from tests.components.variants import VARIANTS, made_otherwise

URNS = Path(__file__).with_name("urns")


def main(stacks: list[str]) -> None:
    for stack in stacks or STACKS:
        with tempfile.TemporaryDirectory() as cache:
            recording = run_stack(stack, Path(cache))
        (URNS / f"{stack}.txt").write_text("\n".join(sorted(recording.resources)) + "\n")
        (MADE / f"{stack}.yaml").write_text(made(recording))
    for name in () if stacks else VARIANTS:
        (MADE / "variants" / f"{name}.yaml").write_text(made_otherwise(name))


if __name__ == "__main__":
    main(sys.argv[1:])
