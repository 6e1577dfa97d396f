"""`railhead nccl bench` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from railhead.base.errors import InputError, NotFoundError
from railhead.nccl.bench.command import register
from tests.unit.nccl_bench import tables
from tests.unit.nccl_bench.tables import GIB, MIB, Point

app = typer.Typer()
register(app)


def run(*arguments: str, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments), input=text, env={"COLUMNS": "100"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "run.log"
    path.write_text(tables.log(started=True))
    return str(path)


def test_for_people(log: str, machine: str) -> None:
    code, output = run(log, "--instance-type", machine)
    assert code == 0
    assert "all_reduce, 16 ranks on 2 nodes" in output
    assert "factor: 1.8750 for 16 ranks, kept by every row" in output
    assert "latency: 20" in output
    assert "line rate: test.8x400, 8 NICs a node, 400 GB/s a node" in output
    assert "busbw GB/s" in output
    code, output = run(log, "--no-plot")
    assert "busbw GB/s" not in output


def test_for_machines(log: str, machine: str) -> None:
    code, output = run(log, "--instance-type", machine, "--json", "--min-busbw", "400")
    held = json.loads(output)
    assert code == 0
    assert held["status"] == "pass"
    (item,) = held["runs"]
    assert (item["collective"], item["ranks"], item["nodes"]) == ("all_reduce", 16, 2)
    assert item["largest"]["size"] == 2 * GIB
    assert item["line_rate"]["fraction"] == pytest.approx(0.6, abs=0.01)
    assert item["factor"] == {"expected": 1.875, "kept": True}
    assert len(item["rows"]) == 29
    assert item["curve"]["peak_busbw"] == pytest.approx(450, rel=0.01)


@pytest.mark.parametrize(
    "options",
    [["--min-busbw", "500"], ["--min-fraction", "0.9"], ["--min-size", "4G", "--min-busbw", "1"]],
)
def test_a_missed_gate_exits_1(log: str, machine: str, options: list[str]) -> None:
    assert run(log, "--instance-type", machine, *options)[0] == 1
    code, output = run(log, "--instance-type", machine, "--json", *options)
    assert code == 1
    assert json.loads(output)["status"] == "fail"


def test_a_fraction_without_a_machine_fails_closed(log: str) -> None:
    assert run(log, "--min-fraction", "0.1")[0] == 1


def test_wrong_values_exit_1_without_a_gate(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(tables.log(rows=[Point(size=GIB, algbw=100.0, wrong="3")]))
    assert run(str(path))[0] == 1


def test_one_bad_run_of_two_exits_1(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    bad = tables.log(rows=[Point(size=GIB, algbw=100.0, wrong="3")])
    path.write_text(tables.log() + bad)
    assert run(str(path))[0] == 1


def test_standard_input() -> None:
    code, output = run("-", "--json", text=tables.log(started=True))
    assert code == 0
    assert json.loads(output)["runs"][0]["file"] == "-"


def test_the_collective_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    rows = tables.points(MIB, GIB)
    path.write_text(tables.log("all_gather", devices=False, rows=rows))
    _, output = run(str(path), "--json")
    assert json.loads(output)["runs"][0]["collective"] is None
    _, output = run(str(path), "--json", "--collective", "all_gather")
    item = json.loads(output)["runs"][0]
    assert (item["collective"], item["collective_from"], item["ranks"]) == (
        "all_gather",
        "given",
        16,
    )


def test_svg(log: str, tmp_path: Path) -> None:
    target = tmp_path / "curve.svg"
    assert run(log, "--svg", str(target))[0] == 0
    assert target.read_text().startswith("<svg")
    with pytest.raises(InputError, match="cannot be written"):
        run(log, "--svg", str(tmp_path / "no" / "curve.svg"))


def test_refusals(log: str, tmp_path: Path) -> None:
    other = tmp_path / "train.log"
    other.write_text("step 1 loss 0.3\n")
    with pytest.raises(InputError, match="no nccl-tests output"):
        run(str(other))
    with pytest.raises(NotFoundError):
        run(str(tmp_path / "absent.log"))
    with pytest.raises(NotFoundError, match="no such machine type"):
        run(log, "--instance-type", "p5")
    with pytest.raises(InputError, match="did you mean 'all_reduce'"):
        run(log, "--collective", "all_reduc")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--min-busbw", "nan"),
        ("--min-busbw", "0"),
        ("--min-busbw", "-1"),
        ("--min-busbw", "inf"),
        ("--min-fraction", "1.5"),
        ("--min-fraction", "nan"),
        ("--min-size", "big"),
        ("--min-size", ""),
        ("--min-size", "1T"),
    ],
)
def test_a_gate_that_nothing_could_miss_is_refused(log: str, option: str, value: str) -> None:
    with pytest.raises(InputError):
        run(log, option, value)
