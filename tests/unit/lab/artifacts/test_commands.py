"""Running programs: logs, errors, and that nothing outlives us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from railhead.lab.artifacts.commands import CommandError, Runner, StoppedError


def _gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_output_goes_to_the_log_and_to_the_listener(tmp_path: Path, runner: Runner) -> None:
    lines: list[str] = []
    log = tmp_path / "logs" / "step.log"
    text = runner.run(["printf", "one\\ntwo\\n"], log=log, on_line=lines.append)
    assert lines == ["one", "two"]
    assert text == "one\ntwo"
    assert log.read_text().endswith("one\ntwo\n")


def test_a_failure_carries_status_last_words_and_log(tmp_path: Path, runner: Runner) -> None:
    log = tmp_path / "step.log"
    with pytest.raises(CommandError) as caught:
        runner.run(["sh", "-c", "echo no space; exit 3"], log=log)
    assert "status 3" in str(caught.value)
    assert "no space" in caught.value.tail
    assert str(log) in caught.value.remedy


def test_stop_ends_a_running_program_and_its_children(tmp_path: Path, runner: Runner) -> None:
    pids: list[int] = []
    threading.Timer(0.5, runner.stop).start()
    with pytest.raises(StoppedError):
        runner.run(
            ["sh", "-c", "sleep 100 & echo $!; wait"],
            log=tmp_path / "log",
            on_line=lambda line: pids.append(int(line)),
        )
    assert _gone(pids[0])
    with pytest.raises(StoppedError):
        runner.start(["true"])


_BUILDER = """
import sys
from pathlib import Path
from railhead.lab.artifacts.commands import Runner
program = "import os, time; print(os.getpid(), flush=True); time.sleep(99)"
Runner().run(
    [sys.executable, "-c", program],
    log=Path(sys.argv[1]),
    on_line=lambda line: print(line, flush=True),
)
"""


def test_a_killed_build_takes_its_program_along(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BUILDER, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    ) as builder:
        assert builder.stdout is not None
        pid = int(builder.stdout.readline())
        os.kill(builder.pid, signal.SIGKILL)
    assert _gone(pid)
