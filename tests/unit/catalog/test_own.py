"""A team's own machine: a row in a file beside its stacks, through everything that reads rows."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from railhead import machines
from railhead.base.errors import InputError
from railhead.catalog.own import problems, read
from railhead.cli import nccl
from railhead.config import check
from railhead.fabric.kinds import FABRICS
from railhead.machines import MACHINES, SHIPPED
from railhead.platform.registry import PLATFORMS
from tests.shipped import document
from tests.unit.nccl_bench import tables

REPO = Path(__file__).resolve().parents[3]
# Two pairs of GPUs, each an NVLink domain of its own, and a NIC for each pair.
LIKE = SHIPPED["hgx-h100"]
ROW = dataclasses.replace(
    LIKE, name="acme-4g", gpus=4, nics=LIKE.nics[:2], nvlink_domain=2, published=()
)


@pytest.fixture(autouse=True)
def _rows_as_before() -> Iterator[None]:
    before = dict(machines._ROWS)
    yield
    machines._ROWS.clear()
    machines._ROWS.update(before)


def plain(value: Any) -> Any:
    """Return a row as the file has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple | frozenset):
        return [plain(inner) for inner in value]
    return value


def beside(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    """Return a folder with a stack of the machine, and a file of rows."""
    data = document("onprem-ib-sriov")
    cluster = data["config"]["railhead:cluster"]
    cluster["pools"][0]["instance_type"] = "acme-4g"
    cluster["pools"][0]["schedulable"] = {"cpu": 60, "memory_gib": 900}
    runtime = cluster["runtimes"][0] | {"cpu": "48", "memory": "700Gi", "shared_memory": "64Gi"}
    cluster["runtimes"] = [runtime]
    del cluster["fabric"]["rails"][2:]
    stack = tmp_path / "Pulumi.own.yaml"
    stack.write_text(yaml.safe_dump(data))
    (tmp_path / "machines.yaml").write_text(yaml.safe_dump({"machines": list(rows)}))
    return stack


def test_a_row_of_ones_own_is_all_that_a_machine_needs(tmp_path: Path) -> None:
    from railhead.resolve.cluster import resolve

    cluster = check(beside(tmp_path, plain(ROW))).cluster
    assert MACHINES["acme-4g"] == ROW
    [pool] = resolve(cluster).contract.node_pools
    assert (pool.gpus_per_node, pool.nics, pool.nvlink_domain) == (4, 2, 2)


@pytest.mark.slow
def test_the_commands_know_it(tmp_path: Path) -> None:
    stack = beside(tmp_path, plain(ROW))
    done = subprocess.run(
        [sys.executable, "-m", "railhead", "config", "check", str(stack), "--json"],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["mistakes"] == []


def test_a_benchmark_is_held_against_its_line_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks").mkdir()
    beside(tmp_path / "stacks", plain(ROW))
    (tmp_path / "Pulumi.yaml").write_text("name: own\nruntime: python\n")
    (tmp_path / "run.log").write_text(tables.log(started=True))
    monkeypatch.chdir(tmp_path)
    asked = ["bench", "run.log", "--instance-type", "acme-4g", "--json"]
    done = CliRunner().invoke(nccl.app, asked)
    assert done.exit_code == 0, done.output
    rate = json.loads(done.stdout)["runs"][0]["line_rate"]
    assert (rate["machine"], rate["nics"]) == ("acme-4g", 2)


def test_an_unknown_machine_names_the_way(tmp_path: Path) -> None:
    stack = beside(tmp_path)
    with pytest.raises(InputError, match=r"a row of machines.yaml beside the stacks"):
        check(stack)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpus": 0}, "gpus: 0 is less than 1"),
        ({"nvlink_domain": 3}, "nvlink_domain: 3 is neither a part"),
        ({"nvlink_domain": 0}, "nvlink_domain: 0"),
        ({"fabrics": ["infinibnd"]}, "did you mean 'infiniband'?"),
        ({"platforms": ["existng"]}, "did you mean 'existing'?"),
        ({"platforms": []}, "platforms: is empty"),
        ({"accelerator": "h100"}, "accelerator: 'h100' is not in the catalogue"),
        ({"gpu_memory_gib": 500}, "gpu_memory_gib: 500 is not about 80 GB"),
        ({"nics": []}, "nics: is empty"),
        ({"sources": {}}, "sources.gpus: is missing"),
        ({"name": "dgx-h100"}, "name: 'dgx-h100' is taken"),
        ({"colour": "red"}, "colour: "),
        ({"gpus": "four"}, "gpus: "),
        ({"schedulable_vcpus": 0}, "schedulable_vcpus: 0"),
    ],
)
def test_it_is_held_to_what_ours_are(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    beside(tmp_path, plain(ROW) | change)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "machines.yaml", FABRICS, PLATFORMS)
    assert said in caught.value.problem
    assert str(tmp_path / "machines.yaml") in caught.value.problem


@pytest.mark.parametrize("text", ["", "machines: {}", "machine: []", "machines: [\n", "[1]"])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "machines.yaml").write_text(text)
    with pytest.raises(InputError):
        read(tmp_path / "machines.yaml", FABRICS, PLATFORMS)


def test_two_machines_of_one_name_are_refused(tmp_path: Path) -> None:
    beside(tmp_path, plain(ROW), plain(ROW))
    with pytest.raises(InputError, match="is taken"):
        read(tmp_path / "machines.yaml", FABRICS, PLATFORMS)


@pytest.mark.parametrize("domain", [1, 2, 4, 8, 72])
def test_real_shapes_are_taken(domain: int) -> None:
    row = dataclasses.replace(ROW, nvlink_domain=domain)
    assert list(problems(row, FABRICS, PLATFORMS)) == []
