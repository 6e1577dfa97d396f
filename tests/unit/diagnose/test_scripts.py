"""`railhead-diagnose` and `railhead-nccl`, which need no cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.base.running import run
from railhead.diagnose import cli, nccl
from tests.unit.diagnose.test_commands import MEMLOCK
from tests.unit.nccl import logs


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text(MEMLOCK)
    return path


def test_a_log_is_diagnosed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli.app, [str(log)], name="railhead-diagnose") == ExitCode.OK
    assert "1. memlock-limit  sure (85%)" in capsys.readouterr().out


def test_a_bundle_of_logs_is_read_back(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = str(tmp_path / "bundle.tar.gz")
    words = [str(log), "--collect", "-o", bundle]
    assert run(cli.app, words, name="railhead-diagnose") == ExitCode.OK
    capsys.readouterr()
    assert run(cli.app, [bundle, "--json"], name="railhead-diagnose") == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["cause"] == "memlock-limit"


def test_missing_evidence_is_asked_for_by_its_own_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "quiet.log"
    log.write_text("nothing of NCCL's\n")
    assert run(cli.app, [str(log), "--json"], name="railhead-diagnose") == ExitCode.OK
    wanted = json.loads(capsys.readouterr().out)["collect"]
    assert f"railhead-diagnose {log} --collect" in json.dumps(wanted)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "nothing to diagnose"),
        (["x.log", "-o", "y"], "--output"),
        (["-", "--collect"], "can be read once"),
    ],
)
def test_mistakes_are_refused(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cli.app, words, name="railhead-diagnose") == ExitCode.BAD_INPUT
    assert problem in capsys.readouterr().err


def test_a_transport_is_held_against_what_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(logs.write(tmp_path / "healthy.log", logs.healthy()))
    assert run(nccl.app, ["read", log, "--expect", "ib"], name="railhead-nccl") == ExitCode.OK
    assert "transport: ib " in capsys.readouterr().out
    words = ["read", log, "--expect", "efa"]
    assert run(nccl.app, words, name="railhead-nccl") == ExitCode.UNMET
    assert run(nccl.app, ["read", log, "--expect", "x"], name="railhead-nccl") == ExitCode.BAD_INPUT


def test_help_names_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("read", "bench"):
        assert run(nccl.app, [command, "--help"], name="railhead-nccl") == ExitCode.OK
        out = capsys.readouterr().out
        assert f"Example: railhead-nccl {command}" in out
        assert "railhead nccl" not in out
