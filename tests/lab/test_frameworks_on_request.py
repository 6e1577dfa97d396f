"""The examples of the frameworks whose image is built on request, killed in the middle.

The lab's stack has no runtime of either: its `raw` one carries them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.kube.client import Cluster, choose_target
from railhead.lab.artifacts.training import FRAMEWORKS
from tests.lab.conftest import railhead, succeed
from tests.lab.jobs import Jobs
from tests.lab.killed import killed_in_the_middle

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

# Enough that each still runs when it is killed.
EPOCHS = {"tensorflow": 60, "paddle": 200}


def load(lab: str) -> None:
    """The image that holds them, on every node of the lab."""
    archive = succeed(railhead("lab", "build", "--only", FRAMEWORKS.name, timeout=1800)).stdout
    begin = time.monotonic()
    loaded = succeed(railhead("lab", "load-image", archive.strip(), "--name", lab))
    assert loaded.stdout.split() == [FRAMEWORKS.reference]
    print(f"image: loaded in {time.monotonic() - begin:.1f} s")


@pytest.fixture(scope="module")
def jobs(
    running_lab: str,
    lab_env: dict[str, str],
    kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Jobs]:
    load(running_lab)
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    made = Jobs(env=lab_env, cluster=cluster, directory=tmp_path_factory.mktemp("jobs"))
    yield made
    made.clear()
    cluster.close()


@pytest.mark.parametrize("example", EPOCHS)
def test_killed_in_the_middle_its_losses_are_an_unbroken_runs(
    jobs: Jobs, repo: Path, example: str
) -> None:
    image = f"image={FRAMEWORKS.reference}"
    killed_in_the_middle(jobs, repo, example, EPOCHS[example], "--set", image)
