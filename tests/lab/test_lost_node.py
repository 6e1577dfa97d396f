"""A gang whose node is lost comes back on the nodes that are left, from its last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.accept.losing import OUT_OF_SERVICE
from tests.lab.conftest import Run
from tests.lab.losing import Ground, judge, one_more_node

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]


@pytest.fixture(scope="module")
def ground(
    lab_env: dict[str, str],
    kubeconfig: Path,
    kubectl: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ground]:
    with one_more_node(kubeconfig, kubectl, tmp_path_factory.mktemp("lost")) as result:
        yield result


@pytest.fixture(scope="module")
def curve(ground: Ground) -> dict[int, str]:
    return ground.curve()


@pytest.mark.parametrize("part", ["kubelet", "containerd"])
def test_job_resumes_once_its_nodes_service_restarts(
    ground: Ground, curve: dict[int, str], part: str
) -> None:
    """The node's containers went on all the while; the test only restarts the service."""
    job = ground.lose(then=ground.mend, part=part)
    judge(ground, job, curve, "it came back", of=part)


def test_job_resumes_once_its_machine_restarts(ground: Ground, curve: dict[int, str]) -> None:
    """All of the node ends, and starts a minute later; nobody touches anything else."""
    judge(ground, ground.lose(then=ground.start), curve, "it came back")


# The last one, since nothing brings the node back.
def test_job_resumes_elsewhere_once_its_node_is_tainted(
    ground: Ground, curve: dict[int, str]
) -> None:
    job = ground.lose(then=ground.taint)
    judge(ground, job, curve, f"it was tainted {OUT_OF_SERVICE}")
    assert ground.spare in {row.node for row in job.rows}
