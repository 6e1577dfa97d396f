"""Reports of a job on a claim that hangs, is slow, is full or goes away, as real processes."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from railhead.launch.programs import keep, probe
from tests.unit.launch.test_keep import Pod, pod

__all__ = ["pod"]

AT = r"since \d{4}(-\d\d){2}T\d\d(:\d\d){2}Z"
AGAIN = rf"is as it should be again, after trouble {AT}"


class Job:
    """A job that runs until it is ended, and whose mounts are probed all the time."""

    def __init__(
        self,
        pod: Pod,
        *,
        logs: bool = False,
        answer: float = 60.0,
        slow: float = 60.0,
        ask: str = "room = os.statvfs(path)",
    ) -> None:
        programs = pod.claim.with_name("programs")
        programs.mkdir()
        for program, edits in (
            (
                keep,
                {
                    "ASK_SECONDS = 30.0": "ASK_SECONDS = 0.1",
                    # Only what can never answer is said not to, however busy this machine is.
                    "ANSWER_SECONDS = 20.0": f"ANSWER_SECONDS = {answer}",
                    "SLOW_SECONDS = 10.0": f"SLOW_SECONDS = {slow}",
                },
            ),
            (probe, {"room = os.statvfs(path)": ask}),
        ):
            source = Path(str(program.__file__))
            text = source.read_text()
            for old, new in edits.items():
                assert old in text
                text = text.replace(old, new)
            (programs / source.name).write_text(text)
        words = pod.words("sh", "-c", "echo begun; read line; exit 7", logs=logs)
        words[3] = str(programs / "keep.py")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            words, env=pod.env, stdin=pipe, stdout=pipe, stderr=pipe, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "begun\n"

    def says(self) -> str:
        """Return the next line of what it says, which comes sooner or later."""
        assert self.process.stderr is not None
        return self.process.stderr.readline().rstrip("\n")

    def ends(self) -> str:
        """End it at once, as its command does; return what else it printed."""
        before = time.monotonic()
        _, err = self.process.communicate("end\n", timeout=60)
        assert self.process.returncode == 7
        assert time.monotonic() - before < 30
        return err


def told(pod: Pod, what: str) -> str:
    return rf"railhead: claim checkpoints at {re.escape(str(pod.claim))} {what}.*"


@pytest.fixture
def file(pod: Pod) -> Path:
    """The file that is written to probe the claim."""
    folder = pod.claim / ".railhead"
    folder.mkdir()
    return folder / f"probe-training-{socket.gethostname()}"


def running(word: str) -> list[int]:
    """Return the processes that have this in their words."""
    results = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        results += [int(path.parent.name)] if word.encode() in words else []
    return results


def wait(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_silent_claim_is_reported_and_so_is_its_return(pod: Pod, file: Path) -> None:
    """A process that opens a pipe that nobody reads waits, in the kernel."""
    os.mkfifo(file)
    job = Job(pod, answer=0.2)
    first = job.says()
    assert re.fullmatch(told(pod, f"does not answer {AT}"), first)
    assert "no checkpoint arrives; the job goes on by itself once it answers" in first
    os.close(os.open(file, os.O_RDONLY))
    assert re.fullmatch(told(pod, AGAIN), job.says())
    wait(lambda: not file.exists())
    assert job.ends() == ""


def test_prober_does_not_delay_the_end(pod: Pod, file: Path) -> None:
    os.mkfifo(file)
    job = Job(pod, answer=0.2)
    job.says()
    assert running(str(file))
    assert job.ends() == ""
    wait(lambda: not running(str(file)))


def test_prober_ends_with_a_killed_job(pod: Pod) -> None:
    """The prober leaves nothing behind, except at the moment at which it probes."""
    job = Job(pod)
    word = str(pod.claim / ".railhead" / f"probe-training-{socket.gethostname()}")
    wait((pod.claim / ".railhead").exists)
    assert running(word)
    job.process.kill()
    job.process.communicate(timeout=60)
    wait(lambda: not running(word))
    wait(lambda: not list((pod.claim / ".railhead").iterdir()))


@pytest.mark.parametrize("logs", [True, False])
def test_full_claim_is_reported(pod: Pod, file: Path, logs: bool) -> None:
    """The report comes whether logs are kept there or not, and on the claim too if they are."""
    file.symlink_to("/dev/full")
    job = Job(pod, logs=logs)
    why = re.escape("a write of 4096 bytes: No space left on device")
    what = rf"has no space left {AT} \({why}\), and no checkpoint arrives\."
    first = job.says()
    assert re.fullmatch(told(pod, what), first)
    # The symbolic link was taken away, so there is room.
    assert re.fullmatch(told(pod, AGAIN), job.says())
    assert job.ends() == ""
    assert (first in pod.texts()) is logs


def test_vanished_claim_is_reported(pod: Pod) -> None:
    job = Job(pod)
    wait((pod.claim / ".railhead").exists)
    away = pod.claim.rename(pod.claim.with_name("away"))
    what = rf"cannot be used {AT} \(No such file or directory\), and no checkpoint arrives\."
    assert re.fullmatch(told(pod, what), job.says())
    away.rename(pod.claim)
    assert re.fullmatch(told(pod, AGAIN), job.says())
    # Trouble is not told again for minutes.
    pod.claim.rename(away)
    assert job.ends() == ""


@pytest.mark.slow
def test_slow_claim_is_reported(pod: Pod) -> None:
    job = Job(pod, slow=0.3, ask="import time; time.sleep(0.5); room = os.statvfs(path)")
    assert re.fullmatch(told(pod, rf"is slow {AT} \(it took \d+ s to answer\)"), job.says())
    assert job.ends() == ""


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (errno.EDQUOT, {"how": "full", "why": "a write of 4096 bytes: Disk quota exceeded"}),
        (errno.ESTALE, {"how": "lost", "why": "Stale file handle"}),
        (errno.EROFS, {"how": "lost", "why": "Read-only file system"}),
        (errno.EACCES, {"how": "well", "why": ""}),
    ],
)
def test_meaning_of_write_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, found: dict[str, str]
) -> None:
    """A user who may not write there learns from its answer alone how it is."""

    def refuse(_: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", refuse)
    file = tmp_path / ".railhead" / "probe"
    assert probe.ask(str(tmp_path), str(file)) == found
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("writes", "blocks", "free", "how"),
    [(False, 9, 0, "full"), (False, 9, 1, "well"), (False, 0, 0, "well"), (True, 9, 0, "well")],
)
def test_reader_without_write_access_judges_free_space(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    writes: bool,
    blocks: int,
    free: int,
    how: str,
) -> None:
    """A file system without a count of blocks says nothing of room."""
    room = SimpleNamespace(f_blocks=blocks, f_bavail=free)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    monkeypatch.setattr(probe, "wrote", lambda _: writes)
    why = "statvfs has no free block" if how == "full" else ""
    assert probe.ask(str(tmp_path), "asked") == {"how": how, "why": why}


def test_all_is_written_before_the_server_is_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: sizes.append(os.fstat(file).st_size))
    assert probe.wrote(tmp_path / "folder" / "file")
    assert sizes == [probe.SIZE]
    # Whatever user the next job has.
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777


def test_read_only_claims_are_never_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    assert probe.ask(str(tmp_path), "") == {"how": "well", "why": ""}
    assert probe.ask(str(tmp_path / "no"), "")["how"] == "lost"
    assert list(tmp_path.iterdir()) == []


# -- as root: file systems of the kernel's own ---------------------------------------------------


@pytest.fixture
def disk(pod: Pod, tmp_path: Path) -> Iterator[Pod]:
    """The claim as a file system of its own, which can be frozen."""
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    words = ["mount", "-o", "loop", str(image), str(pod.claim)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no loop device can be had here")
    yield pod
    subprocess.run(["umount", pod.claim], check=True)


root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts file systems")


@root
@pytest.mark.slow
def test_unkillable_process_does_not_delay_the_end(disk: Pod) -> None:
    """A write to a frozen file system sleeps in the kernel, whatever signals it gets."""
    frozen = ["fsfreeze", "--freeze", str(disk.claim)]
    job = Job(disk, answer=0.2)
    word = str(disk.claim / ".railhead" / f"probe-training-{socket.gethostname()}")
    wait(lambda: running(word))
    subprocess.run(frozen, check=True)
    try:
        lines = [job.says()]
        # A busy machine may have been too slow before, once.
        (asking,) = running(word)
        wait(lambda: Path(f"/proc/{asking}/stat").read_text().rpartition(")")[2].split()[0] == "D")
        lines += [job.ends()]
        assert Path(f"/proc/{asking}").exists()
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", disk.claim], check=True)
    assert re.fullmatch(told(disk, f"does not answer {AT}"), lines[0])
    wait(lambda: not running(word))


@root
@pytest.mark.slow
def test_a_file_system_without_a_free_block_is_full(pod: Pod) -> None:
    """And has room again once something went."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", pod.claim], check=True)
    try:
        filling = pod.claim / "old"
        with pytest.raises(OSError, match="No space left"):
            filling.write_bytes(bytes(1 << 20))
        job = Job(pod)
        assert re.fullmatch(told(pod, f"has no space left {AT}"), job.says())
        filling.unlink()
        assert re.fullmatch(told(pod, AGAIN), job.says())
        job.ends()
        assert list((pod.claim / ".railhead").iterdir()) == []
    finally:
        subprocess.run(["umount", pod.claim], check=True)
