"""torchrun's exit code is its processes' own, and its world the one that was asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from railhead.framework import FRAMEWORKS
from railhead.framework.base import Gang
from railhead.framework.programs import torchrun
from railhead.model.restarts import HOPELESS

ONE = Gang(job="a", hosts=("a-node-0-0.a",), processes=2)


class ChildFailedError(Exception):
    """Torch's error of this name: what failed, by rank."""

    def __init__(self, *codes: int) -> None:
        super().__init__("torchrun FAILED")
        self.failures = {rank: SimpleNamespace(exitcode=code) for rank, code in enumerate(codes)}

    def get_first_failure(self) -> tuple[int, SimpleNamespace]:
        return 0, self.failures[0]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    results: list[float] = []
    monkeypatch.setattr(torchrun, "time", SimpleNamespace(sleep=results.append))
    return results


def torch_that(monkeypatch: pytest.MonkeyPatch, *codes: int, nodes: str = "2") -> list[list[str]]:
    """Install a torch whose processes end with these codes, or well; return its list of runs."""
    runs: list[list[str]] = []

    def main(words: list[str]) -> None:
        runs.append(words)
        if codes:
            raise ChildFailedError(*codes)

    run = ModuleType("torch.distributed.run")
    run.__dict__.update(
        main=main,
        parse_args=lambda _: SimpleNamespace(nnodes=nodes, nproc_per_node="2"),
        parse_min_max_nnodes=lambda text: (int(text.split(":")[0]), int(text.split(":")[-1])),
        determine_local_world_size=int,
    )
    errors = ModuleType("torch.distributed.elastic.multiprocessing.errors")
    errors.__dict__["ChildFailedError"] = ChildFailedError
    distributed = ModuleType("torch.distributed")
    distributed.__dict__["run"] = run
    for module in (ModuleType("torch"), distributed, run, errors):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("elastic", "elastic.multiprocessing"):
        whole = f"torch.distributed.{name}"
        monkeypatch.setitem(sys.modules, whole, ModuleType(whole))
    return runs


@pytest.mark.parametrize("code", [2, 64, 66, 255])
def test_a_chosen_code_is_the_jobs_at_once(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], code: int
) -> None:
    torch_that(monkeypatch, code)
    assert torchrun.main(["train.py"]) == code
    assert slept == []


def test_a_chosen_code_wins_over_what_dies_of_it(
    monkeypatch: pytest.MonkeyPatch, slept: list[float]
) -> None:
    torch_that(monkeypatch, 1, -6, 64)
    assert torchrun.main(["train.py"]) == 64
    assert slept == []


@pytest.mark.parametrize(("codes", "said"), [((1,), 1), ((-9, 1), 137), ((1, -9), 1)])
def test_silent_failure_waits_for_other_pods(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], codes: tuple[int, ...], said: int
) -> None:
    torch_that(monkeypatch, *codes)
    assert torchrun.main(["train.py"]) == said
    assert slept == [torchrun.LATER_SECONDS]
    torch_that(monkeypatch, *codes, nodes="1")
    assert torchrun.main(["train.py"]) == said
    assert slept == [torchrun.LATER_SECONDS], "a job of one node has nobody to wait for"


def test_success_exits_zero(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    runs = torch_that(monkeypatch)
    assert torchrun.main(["--tee", "3", "train.py", "--steps=2"]) == 0
    assert runs == [["--tee", "3", "train.py", "--steps=2"]]
    assert slept == []


@pytest.mark.parametrize(
    ("nodes", "asked", "built"),
    [
        ("2", "4", True),
        ("1", "4", False),
        ("2", "2", False),
        ("2", None, True),
        # An elastic job takes what comes.
        ("1:4", "8", True),
    ],
)
def test_a_world_of_another_size_is_not_built(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    nodes: str,
    asked: str | None,
    built: bool,
) -> None:
    runs = torch_that(monkeypatch, nodes=nodes)
    monkeypatch.delenv("RAILHEAD_WORLD_SIZE", raising=False)
    if asked is not None:
        monkeypatch.setenv("RAILHEAD_WORLD_SIZE", asked)
    code = torchrun.main(["train.py"])
    assert (code, bool(runs)) == ((0, True) if built else (torchrun.WRONG_WORLD, False))
    assert built or f"the job asked for {asked}" in capsys.readouterr().err


def test_a_wrong_world_is_hopeless() -> None:
    assert torchrun.WRONG_WORLD in HOPELESS


def test_where_there_is_no_torch_the_command_itself_runs(tmp_path: Path) -> None:
    for name in ("torch.py", "traceback.py"):
        # The job's own files are in the working directory, with whatever names.
        (tmp_path / name).write_text("raise SystemExit(9)\n")
    stand_in = tmp_path / "torchrun"
    stand_in.write_text('#!/bin/sh\necho "$@"\nexit 7\n')
    stand_in.chmod(0o755)
    _, flag, text, *rest = FRAMEWORKS["torch"].start(["torchrun", "a b", "c"], ONE)
    done = subprocess.run(
        # Without site-packages: no torch, whatever is installed here.
        [sys.executable, "-S", flag, text, *rest],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "a b c\n"), done.stderr


@pytest.mark.parametrize("name", ["torch", "fsdp"])
def test_only_torchrun_is_started_so(name: str) -> None:
    start = FRAMEWORKS[name].start
    assert start(["train.py", "x"], ONE) == start(["torchrun", "train.py", "x"], ONE)
    assert start(["torchrun", "train.py"], ONE)[0] == "python3"
    assert start(["accelerate", "launch", "a.py"], ONE) == ("accelerate", "launch", "a.py")
