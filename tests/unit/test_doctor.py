"""`railhead doctor` and `railhead completion`, and one more stack by `railhead new`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from railhead import __version__
from railhead.base.errors import ExitCode
from railhead.cli import run
from railhead.cli.doctor import ENGINE
from railhead.lab.artifacts import golang
from tests.wheels import REPO


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a new repository, in a clone with an environment, on a machine that has nothing."""
    folder = tmp_path / "clusters"
    for name in (".git", ".venv"):
        (folder / name).mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert run(["new", ".", "--platform", "aws", "--yes"]) == ExitCode.OK
    assert (folder / "examples" / "torch_ddp" / "train.py").is_file()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    (tmp_path / "bin").mkdir()
    return folder


def test_one_more_stack_is_added_to_a_project(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "Pulumi.yaml").write_text("name: clusters\nstackConfigDir: envs\n")
    others = {file: file.read_bytes() for file in project.rglob("*") if file.is_file()}
    words = ["new", str(project), "--platform", "gcp", "--stack", "second", "--yes"]
    assert run(words) == ExitCode.OK
    reported = capsys.readouterr().out
    assert "wrote envs/Pulumi.second.yaml to" in reported
    assert "requirements.txt: add the line `-r wheels/requirements-gcp.txt`" in reported
    assert run(words) == ExitCode.BAD_INPUT
    assert "Pulumi.second.yaml: exists already" in capsys.readouterr().err
    added = project / "envs" / "Pulumi.second.yaml"
    assert {file for file in project.rglob("*") if file.is_file()} == {*others, added}
    assert all(file.read_bytes() == content for file, content in others.items())


def findings(capsys: pytest.CaptureFixture[str], code: ExitCode) -> dict[str, list[dict]]:
    capsys.readouterr()
    assert run(["doctor", "--json"]) == code
    by_name: dict[str, list[dict]] = {}
    for finding in json.loads(capsys.readouterr().out):
        by_name.setdefault(finding["name"], []).append(finding)
    return by_name


def program(folder: Path, name: str, prints: str = "") -> None:
    file = folder / "bin" / name
    file.write_text(f"#!{shutil.which('sh', path=os.defpath)}\necho '{prints}'\n")
    file.chmod(0o755)


def test_a_bare_machine_lacks_what_a_stack_needs(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_name = findings(capsys, ExitCode.MISSING_PREREQUISITE)
    assert [f["passed"] for f in by_name["railhead"] + by_name["pins"]] == [True, False]
    assert "names wheels/requirements-aws.txt, which is not there" in by_name["pins"][0]["text"]
    assert [f["text"] for f in by_name["pulumi"]] == ["is not on PATH, for `pulumi up`"]
    assert "lab build --only pulumi" in by_name["pulumi"][0]["remedy"]
    assert [f["text"] for f in by_name["state"]] == ["no backend is chosen"]
    assert "aws is not on PATH" in [f["text"] for f in by_name["aws"]]
    assert all(f["remedy"] for rows in by_name.values() for f in rows if f["passed"] is False)


def test_an_engine_of_the_labs_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = golang.pulumi_dir() / "pulumi"
    built.parent.mkdir(parents=True)
    built.touch()
    plans, updates = findings(capsys, ExitCode.MISSING_PREREQUISITE)["pulumi"]
    assert plans["passed"]
    assert str(built) in plans["text"]
    assert not updates["passed"]
    assert "lab build" not in updates["remedy"]


def test_a_machine_with_everything_passes(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(project.parent, "pulumi", "v3.999.0")
    program(project.parent, "aws")
    (project / "wheels").mkdir()
    (project / "wheels/requirements-aws.txt").write_text(f"railhead[aws]=={__version__} \\\n")
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://acme-state")
    by_name = findings(capsys, ExitCode.OK)
    assert by_name["state"][0]["text"] == "in s3://acme-state, by PULUMI_BACKEND_URL"
    assert all(f["passed"] for rows in by_name.values() for f in rows)


def test_other_pins_and_mistaken_stacks_are_told(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "wheels").mkdir()
    (project / "wheels/requirements-aws.txt").write_text("railhead[aws]==0.0.9 \\\n    --hash=\n")
    file = project / "stacks" / "Pulumi.aws.yaml"
    file.write_text(file.read_text().replace("kind: efa", "kind: efaa"))
    program(project.parent, "pulumi", "v3.1.0")
    by_name = findings(capsys, ExitCode.MISSING_PREREQUISITE)
    assert f"pins 0.0.9, and {__version__} runs" in by_name["pins"][0]["text"]
    assert "efaa" in by_name["stack"][0]["text"]
    assert by_name["pulumi"][0]["passed"] is None
    assert "older than 3.250" in by_name["pulumi"][0]["text"]


def test_the_tested_engine_is_the_one_that_the_lab_builds() -> None:
    text = (REPO / "railhead/lab/build/pulumi/go.mod").read_text()
    [version] = re.findall(r"github.com/pulumi/pulumi/pkg/v3 v(\d+)\.(\d+)\.", text)
    assert tuple(map(int, version)) == ENGINE


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_lines_to_read(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == ExitCode.OK
    assert "_RAILHEAD_COMPLETE=" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "offered"), [("railhead con", "config"), ("railhead config ch", "check")]
)
def test_a_shell_is_answered(words: str, offered: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "railhead"],
        env={
            **os.environ,
            "_RAILHEAD_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered in done.stdout.split(), done.stderr
