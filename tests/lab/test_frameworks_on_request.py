"""The examples of the frameworks whose image is built on request, killed in the middle.

The stack is the lab's with a runtime for each of them, as a platform team would add it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from railhead.kube.client import Cluster, choose_target
from railhead.lab.artifacts.training import FRAMEWORKS
from tests.lab.conftest import STACK, Run, railhead, succeed
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


@pytest.fixture(scope="session")
def stack(
    pulumi: Run, running_lab: str, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The stack `lab` with their runtimes, deployed, and meanwhile the image loaded."""
    file = yaml.safe_load((repo / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    rows = file["config"]["railhead:cluster"]["runtimes"]
    own = {"image": FRAMEWORKS.reference, "memory": "1Gi"}
    rows += [rows[0] | own | {"name": name, "framework": name} for name in EPOCHS]
    config = tmp_path_factory.mktemp("stack") / f"Pulumi.{STACK}.yaml"
    config.write_text(yaml.safe_dump(file))
    with ThreadPoolExecutor() as pool:
        loading = pool.submit(load, running_lab)
        succeed(pulumi("stack", "select", "--create", STACK))
        succeed(pulumi("up", "--stack", STACK, "--yes", "--config-file", str(config)))
        loading.result()
    return STACK


@pytest.fixture(scope="module")
def jobs(
    lab_env: dict[str, str], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    made = Jobs(env=lab_env, cluster=cluster, directory=tmp_path_factory.mktemp("jobs"))
    yield made
    made.clear()
    cluster.close()


@pytest.mark.parametrize("example", EPOCHS)
def test_killed_in_the_middle_its_losses_are_an_unbroken_runs(
    jobs: Jobs, repo: Path, example: str
) -> None:
    killed_in_the_middle(jobs, repo, example, EPOCHS[example])
