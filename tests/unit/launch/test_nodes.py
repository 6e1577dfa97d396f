"""Launching looks at the live nodes, and refuses a job that they cannot run."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.launch.patches import avoided
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


def test_machine_that_the_job_avoids_is_not_counted(api: Api, run: Any, job_file: Path) -> None:
    with job_file.open("a") as file:
        file.write("avoid: [gpu-1]\n")
    code, _, err = run("launch", job_file)
    assert (code, "2 nodes are needed and 1 of pool gpu" in err) == (ExitCode.REFUSED, True)
    assert run("launch", job_file, "--nodes", "1")[0] == ExitCode.OK
    (spec,) = (o["spec"] for path, o in api.objects.items() if path.endswith("/trainjobs/demo"))
    assert avoided(spec) == ["gpu-1"]


def test_user_who_cannot_list_nodes_can_launch(api: Api, run: Any, job_file: Path) -> None:
    api.refusals["GET", "/api/v1/nodes"] = (403, "nodes is forbidden")
    code, _, err = run("launch", job_file)
    assert code == ExitCode.OK, err


def test_autoscaled_nodes_are_not_counted(api: Api, run: Any, job_file: Path) -> None:
    publish(api, CONTRACT.model_copy(update={"standing": False}))
    for path in [path for path in api.objects if path.startswith("/api/v1/nodes/")]:
        api.remove(path)
    code, _, err = run("launch", job_file)
    assert code == ExitCode.OK, err


LEVELS = ("topology.railhead.dev/block", "topology.railhead.dev/rack", "kubernetes.io/hostname")


def in_racks(api: Api, *racks: str, blocks: tuple[str, ...] = ("b", "b")) -> None:
    """Put the cluster's nodes each into a rack of a block."""
    publish(api, CONTRACT.model_copy(update={"topology_levels": LEVELS}))
    for index, (block, rack) in enumerate(zip(blocks, racks, strict=True)):
        labels = api.objects[f"/api/v1/nodes/gpu-{index}"]["metadata"]["labels"]
        labels |= dict(zip(LEVELS, (block, rack, f"gpu-{index}"), strict=True))


@pytest.mark.parametrize("blocks", [("b", "b"), ("b", "c")])
def test_a_gang_larger_than_any_domain_of_its_level_is_refused(
    api: Api, run: Any, job_file: Path, blocks: tuple[str, ...]
) -> None:
    """Racks of the same name in two blocks are two racks."""
    in_racks(api, *(("r0", "r1") if blocks == ("b", "b") else ("r0", "r0")), blocks=blocks)
    code, _, err = run("launch", job_file, "--set", "topology=rack")
    assert code == ExitCode.REFUSED
    assert "topology: 2 nodes must be within one rack" in err
    assert "b/r0 has room for 1 of pool gpu; the job would wait for ever" in err
    assert "`topology: prefer rack`" in err
    for words in ("topology=prefer rack", "topology=any"):
        code, _, err = run("launch", job_file, "--set", words, "--dry-run")
        assert code == ExitCode.OK, err
    code, _, err = run("launch", job_file, "--set", "topology=rack", "--nodes", "1", "--dry-run")
    assert code == ExitCode.OK, err


def test_a_gang_that_one_domain_holds_is_launched(api: Api, run: Any, job_file: Path) -> None:
    in_racks(api, "r0", "r0")
    code, _, err = run("launch", job_file, "--set", "topology=rack", "--dry-run")
    assert code == ExitCode.OK, err
    assert run("launch", job_file, "--set", "topology=hostname")[0] == ExitCode.REFUSED


def test_halves_of_machines_may_share_one(api: Api, run: Any, job_file: Path) -> None:
    """Two pods of four GPUs fit on a machine of eight."""
    in_racks(api, "r0", "r1")
    half = ("--set", "gpus_per_node=4", "--set", "topology=rack", "--dry-run")
    code, _, err = run("launch", job_file, *half)
    assert code == ExitCode.OK, err


def test_pool_without_visible_nodes_is_a_note(api: Api, run: Any, job_file: Path) -> None:
    in_racks(api, "r0", "r1")
    api.refusals["GET", "/api/v1/nodes"] = (403, "nodes is forbidden")
    code, _, err = run("launch", job_file, "--set", "topology=rack", "--dry-run")
    assert code == ExitCode.OK, err
    assert "note: not checked: nodes may not be listed: room in" in err
