"""`railhead catalog`: everything that the catalogue has can be found, and read by machines."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from railhead import cli
from railhead.base.errors import ExitCode
from railhead.catalog.versions import ADDONS, COMBINATIONS, PARTS
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.machines import MACHINES
from railhead.machines.accelerators import ACCELERATORS
from tests.marks import few

TABLES = {
    "machines": set(MACHINES),
    "accelerators": set(ACCELERATORS),
    "fabrics": set(FABRICS),
    "modes": set(MODES),
    "versions": {*COMBINATIONS, *ADDONS, *PARTS, "kueue", "jobset", "kubeflow-trainer"},
}
NAMES = sorted(set().union(*TABLES.values()))
#: One row of each table, and one without figures.
USUAL = ("p5.48xlarge", "hgx-h100", "h100-80gb", "efa", "rdma-shared", "proven")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.run(["catalog", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("kind", TABLES)
def test_a_list_names_every_row(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    code, out, _ = run(capsys, "list", kind)
    assert code == ExitCode.OK
    first = {line.split("│")[0].strip() for line in out.splitlines() if "│" in line}
    assert first - {""} == TABLES[kind]


def test_without_a_kind_every_table_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "--json")
    assert code == ExitCode.OK
    assert {kind: set(rows) for kind, rows in json.loads(out).items()} == TABLES


@pytest.mark.parametrize("name", few(NAMES, USUAL))
def test_every_row_can_be_shown(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, out, _ = run(capsys, "show", name)
    assert code == ExitCode.OK
    assert out.startswith(name)
    assert "mappingproxy" not in out
    assert "frozenset" not in out
    code, out, _ = run(capsys, "show", name, "--json")
    assert code == ExitCode.OK
    shown = json.loads(out)
    assert set(shown) == {kind for kind, names in TABLES.items() if name in names}
    assert all(row["name"] == name for row in shown.values())


def test_a_machine_is_shown_with_sources_and_layout(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "p5.48xlarge")
    assert "32 x 100 Gbit/s efa-only, at card.device 0.1, 1.0, 2.0" in out
    assert "busbw 487.1" in out
    assert "efa-acc-inst-types" in out


def test_unknown_figures_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "show", "hgx-h100")
    [line] = [line for line in out.splitlines() if line.startswith("vcpus")]
    assert "not known" in line
    assert "buyer's choice" in line


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("p5.48xlrage", ["p5.48xlarge", "p5e.48xlarge"]),
        ("P5.48XLARGE", ["p5.48xlarge"]),
        ("h200", ["hgx-h200", "BM.GPU.H200.8"]),
        ("gpu-opreator", ["gpu-operator"]),
        ("sriov", ["sriov-ib", "sriov-roce"]),
    ],
)
def test_an_unknown_name_says_which_were_near(
    capsys: pytest.CaptureFixture[str], given: str, near: list[str]
) -> None:
    code, out, err = run(capsys, "show", given)
    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert f"{given!r} is not in the catalogue; did you mean" in err
    assert all(repr(name) in err for name in near)


def test_a_name_like_no_other_suggests_none(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "show", "zzzz")
    assert code == ExitCode.NOT_FOUND
    assert "did you mean" not in err
    assert "railhead catalog list" in err


def test_machines_of_one_platform(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "machines", "--platform", "gcp", "--json")
    assert code == ExitCode.OK
    assert set(json.loads(out)["machines"]) == {
        name for name, machine in MACHINES.items() if "gcp" in machine.platforms
    }
    code, _, err = run(capsys, "list", "--platform", "gpc")
    assert code == ExitCode.BAD_INPUT
    assert "did you mean 'gcp'?" in err


def test_help_costs_no_heavy_import() -> None:
    code = (
        "import sys\n"
        "from railhead import cli\n"
        "cli.run(['catalog', '--help'])\n"
        "heavy = {'yaml', 'railhead.model.cluster', 'railhead.machines'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
