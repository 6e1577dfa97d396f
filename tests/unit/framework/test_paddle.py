"""Paddle's launcher serves its peers only where its master is an address of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from railhead.base.errors import InputError
from railhead.framework.base import Gang
from railhead.framework.paddle import FRAMEWORK
from railhead.framework.programs import paddle
from railhead.launch.job import parse_job
from railhead.launch.plan import make_plan
from tests.wiring import contract

GANG = Gang(job="run", hosts=("localhost", "other"), processes=2)


@pytest.mark.parametrize(
    "words",
    [
        ("train.py", "--lr", "1"),
        ("python", "-m", "paddle.distributed.launch", "train.py", "--lr", "1"),
        ("python3.11", "-u", "-m", "paddle.distributed.launch", "train.py", "--lr", "1"),
        ("fleetrun", "train.py", "--lr", "1"),
    ],
)
def test_the_launcher_gets_its_arguments_and_an_address(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """A launcher that prints what it was given is started as the image's own would be."""
    package = tmp_path / "there" / "paddle" / "distributed" / "launch"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parents[1]):
        (folder / "__init__.py").touch()
    (package / "__main__.py").write_text(
        "import json, os, sys; print(json.dumps([os.environ['PADDLE_MASTER'], *sys.argv[1:]]))"
    )
    # The job's own folder, with a file of a module's name.
    own = tmp_path / "own"
    own.mkdir()
    (own / "paddle.py").write_text("raise SystemExit('not this one')")
    wired = FRAMEWORK.wiring(GANG)
    command = FRAMEWORK.start(words, GANG)
    assert command[0].startswith("python")
    done = subprocess.run(
        [sys.executable, *command[1:]],
        env=os.environ | wired | {"PYTHONPATH": str(tmp_path / "there")},
        cwd=own,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == ["127.0.0.1:36543", "train.py", "--lr", "1"]


def test_a_command_of_ones_own_is_left_alone() -> None:
    assert FRAMEWORK.start(("bash", "run.sh"), GANG) == ("bash", "run.sh")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("[python, train.py]", "each of the 2 nodes would train alone"),
        ("[bash, run.sh]", "each of the 2 nodes would train alone"),
        ("[sh, -c, python -m paddle.distributed.launch train.py]", "wait for the others in vain"),
    ],
)
def test_nodes_that_would_not_meet_are_refused(words: str, says: str) -> None:
    text = f"name: run\nnodes: 2\nframework: paddle\ncommand: {words}\n"
    with pytest.raises(InputError, match=says):
        make_plan(parse_job(text, where="job"), (), contract("raw"))
    own = make_plan(parse_job(f"{text}launcher: own\n", where="job"), (), contract("raw"))
    assert list(own.command) == yaml.safe_load(words)


def test_file_of_a_launchers_name_is_no_launcher() -> None:
    text = "name: run\nnodes: 2\nframework: paddle\ncommand: [train.py, -c, fleetrun.yaml]\n"
    made = make_plan(parse_job(text, where="job"), (), contract("raw"))
    assert made.command[-3:] == ("train.py", "-c", "fleetrun.yaml")


def test_a_name_that_is_not_known_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[str | OSError] = [OSError("not yet"), OSError("not yet"), "10.0.0.7"]

    def ask(_host: str) -> str:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(socket, "gethostbyname", ask)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    assert paddle.addressed("run-node-0-0.run:36543") == "10.0.0.7:36543"


def test_unresolvable_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(_host: str) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", ask)
    monkeypatch.setattr(paddle, "PATIENCE_SECONDS", -1.0)
    with pytest.raises(SystemExit, match="the first node's name, nobody, is not known here"):
        paddle.addressed("nobody:1")
