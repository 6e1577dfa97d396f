"""Commands refuse devices, do not wait for a pipe, and print a screen of an error."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead import cli
from railhead.base import reading, running
from railhead.base.errors import ExitCode
from railhead.twin.cli import _prepared

JOB = "name: a\nnodes: 1\ncommand: [python, a.py]\nfiles: [{file}]\n"


@pytest.fixture(autouse=True)
def _ended_in_time() -> Iterator[None]:
    """End a test that waits for a pipe, without a thread that waits on."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits for the pipe"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.yaml")
    return tmp_path / "pipe.yaml"


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "socket.yaml"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        yield path


COMMANDS = [
    ["launch", "PIPE", "--dry-run"],
    ["launch", "JOB", "--dry-run"],
    ["config", "check", "PIPE"],
    ["drift", "lab", "--state", "PIPE"],
    ["list", "--kubeconfig", "PIPE"],
    ["accept", "check-report", "PIPE"],
    ["accept", "check-report", "JOB", "--key", "PIPE"],
    ["diagnose", "/dev/zero"],
    ["nccl", "read", "/dev/zero"],
    ["nccl", "bench", "/dev/zero"],
    ["config", "check", "LOOP"],
    ["launch", "LOOP", "--dry-run"],
    ["diagnose", "LOOP"],
    ["nccl", "read", "LOOP"],
    ["nccl", "bench", "LOOP"],
    ["config", "check", "SOCKET"],
    ["accept", "check-report", "SOCKET"],
    ["verify-release", "FOLDER"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_only_regular_files_are_read(
    words: list[str],
    pipe: Path,
    listening: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(file=pipe.name))
    (tmp_path / "SHA256SUMS").touch()
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    names = {
        "PIPE": str(pipe),
        "JOB": str(job),
        "LOOP": str(loop),
        "SOCKET": str(listening),
        "FOLDER": str(tmp_path),
    }
    assert cli.run([names.get(word, word) for word in words]) not in (ExitCode.OK, ExitCode.USAGE)
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    assert "fix:" in printed


def test_a_size_is_asked_before_a_file_is_read(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        reading.read_bytes(huge, 10)
    with pytest.raises(OSError, match="no regular file"):
        reading.read_bytes(Path("/dev/zero"))
    small = tmp_path / "small"
    small.write_bytes(b"a\r\nb")
    assert reading.read_text(small) == "a\nb"


def test_an_error_ends_after_a_screen() -> None:
    shown = running.screen("\n".join(["x" * 200_000] * 70))
    assert len(shown) < 64_000
    assert shown.endswith("... (10 lines more)")
    assert "(199000 characters more)" in shown
    assert running.screen("as it is\n  on two lines") == "as it is\n  on two lines"


def test_a_word_that_linux_would_refuse_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").touch()
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(file="a.py") + f"env: {{LONG: {'x' * 200_000}}}\n")
    assert cli.run(["launch", str(job), "--dry-run"]) == ExitCode.BAD_INPUT
    printed = capsys.readouterr().err
    assert "at most 130560 bytes" in printed
    assert len(printed) < 2000


def test_pipe_beside_a_stack_is_not_waited_for(pipe: Path, tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "stacks" / "Pulumi.aws-p5-prod.yaml"
    file = tmp_path / shipped.name
    shutil.copy(shipped, file)
    copy, _ = _prepared(file, tmp_path / "copy", None)
    assert [path.name for path in copy.parent.iterdir()] == [file.name]
