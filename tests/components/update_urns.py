"""Write the URN snapshots anew: ``python -m tests.components.update_urns [STACK...]``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.components.recording import STACKS, run_stack

URNS = Path(__file__).with_name("urns")


def main(stacks: list[str]) -> None:
    for stack in stacks or STACKS:
        with tempfile.TemporaryDirectory() as cache:
            recording = run_stack(stack, Path(cache))
        (URNS / f"{stack}.txt").write_text("\n".join(sorted(recording.resources)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
