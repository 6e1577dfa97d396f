"""Launching looks at the live nodes, and refuses a job that they cannot run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api

NODE = "/api/v1/nodes/gpu-1"
RDMA = "rdma/rdma_shared_device_a"


@pytest.fixture
def run(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line against the fake cluster; returns exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([*(str(a) for a in arguments), "--kubeconfig", str(kubeconfig)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def spoil(api: Api, **changes: Any) -> None:
    node = copy.deepcopy(api.objects[NODE])
    node["status"]["allocatable"] |= changes
    api.put("/api/v1/nodes", node)


def test_a_node_without_the_fabric_refuses_the_job_by_name(
    api: Api, run: Any, job_file: Path
) -> None:
    spoil(api, **{RDMA: "0"})
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert f"node gpu-1: {RDMA} is 0, 63 promised" in err
    assert "railhead config verify" in err
    assert not [path for path in api.objects if "/trainjobs/" in path]


def test_a_smaller_job_still_finds_a_good_node(api: Api, run: Any, job_file: Path) -> None:
    spoil(api, **{RDMA: "0"})
    code, _, err = run("launch", job_file, "--nodes", "1")
    assert code == ExitCode.OK, err


def test_a_researcher_who_may_not_list_nodes_launches_all_the_same(
    api: Api, run: Any, job_file: Path
) -> None:
    api.refusals["GET", "/api/v1/nodes"] = (403, "nodes is forbidden")
    code, _, err = run("launch", job_file)
    assert code == ExitCode.OK, err


def test_where_nodes_come_for_the_job_none_are_asked_for(
    api: Api, run: Any, job_file: Path
) -> None:
    publish(api, CONTRACT.model_copy(update={"standing": False}))
    for path in [path for path in api.objects if path.startswith("/api/v1/nodes/")]:
        api.remove(path)
    code, _, err = run("launch", job_file)
    assert code == ExitCode.OK, err
