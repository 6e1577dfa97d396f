"""The examples of the frameworks whose image is built on request, killed in the middle.

The lab's stack has no runtime of either: its `raw` one carries them.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from railhead.lab.artifacts.training import FRAMEWORKS
from tests.lab.conftest import railhead, succeed
from tests.lab.jobs import Jobs
from tests.lab.killed import killed_in_the_middle

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

# Enough that each still runs when it is killed.
EPOCHS = {"tensorflow": 60, "paddle": 200}


@pytest.fixture(scope="module")
def loaded(running_lab: str) -> str:
    """The image that holds them, on every node of the lab: its reference."""
    archive = succeed(railhead("lab", "build", "--only", FRAMEWORKS.name, timeout=1800)).stdout
    begin = time.monotonic()
    done = succeed(railhead("lab", "load-image", archive.strip(), "--name", running_lab))
    print(f"image: loaded in {time.monotonic() - begin:.1f} s")
    assert done.stdout.split() == [FRAMEWORKS.reference]
    return FRAMEWORKS.reference


@pytest.mark.parametrize("example", EPOCHS)
def test_killed_in_the_middle_its_losses_are_an_unbroken_runs(
    jobs: Jobs, repo: Path, loaded: str, example: str
) -> None:
    killed_in_the_middle(jobs, repo, example, EPOCHS[example], "--set", f"image={loaded}")
