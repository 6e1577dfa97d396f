"""Write the URN snapshot anew: ``python -m tests.components.update_urns``."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.components.recording import fake_lab, lab_cluster, run_program
from tests.components.test_training_cluster import URNS


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        fake_lab(Path(cache))
        URNS.write_text("\n".join(sorted(run_program(lab_cluster(), Path(cache)).resources)) + "\n")


if __name__ == "__main__":
    main()
