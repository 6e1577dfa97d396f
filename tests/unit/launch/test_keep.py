"""What keeps a job's logs on its claim, as real processes: the command is what it is without."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.contract import Mount
from railhead.launch.logs import claimed, kept
from railhead.launch.programs import keep

ABOUT = {"name": "demo", "nodes": 2, "processes": 1, "runtime": "torch"}
PYTHON = (sys.executable, "-c")


class Pod:
    """One container after the other of a pod that mounts a claim."""

    def __init__(self, claim: Path) -> None:
        self.claim = claim
        # A Python itself, and no script that stands for one.
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.env = os.environ | {"PATH": path, keep.POD: "pod-a", keep.RUN: "run-1"}
        self.env[keep.NUMBER] = "1"

    @property
    def run(self) -> Path:
        """Of the job's object, on the claim."""
        return self.claim / claimed.FOLDER / "training" / "demo" / self.env[keep.RUN]

    def words(self, *command: str, logs: bool = True, **settings: Any) -> list[str]:
        """What the container starts; ``settings`` in place of launch's."""
        mount = Mount(claim="checkpoints", path=str(self.claim))
        *before, given = claimed.words(
            mount, others={}, namespace="training", about=ABOUT, first=0, logs=logs
        )
        return [*before, json.dumps(json.loads(given) | settings), *command]

    def start(self, *command: str, **settings: Any) -> subprocess.Popen[bytes]:
        """It runs."""
        return subprocess.Popen(
            self.words(*command, **settings),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def done(self, *command: str, **settings: Any) -> tuple[int, bytes, bytes]:
        """Its exit code, and what it printed to both."""
        process = self.start(*command, **settings)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def kept(self) -> list[tuple[str, int, str]]:
        """What is on the claim, as this machine reads what it keeps itself."""
        return list(kept.Folder(path=self.run).lines())

    def texts(self) -> list[str]:
        """Without their times."""
        return [text for _, _, text in self.kept()]


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    claim = tmp_path / "claim"
    claim.mkdir()
    return Pod(claim)


def test_what_is_printed_goes_to_both_places(pod: Pod) -> None:
    """With its node and its time, a stream each, whatever bytes; and every line whole."""
    script = (
        "import os\n"
        "os.write(1, b'one\\n'); os.write(2, b'two\\n'); os.write(1, b'\\xff\\x00 three')\n"
        "os.write(2, b'four\\n'); os.write(1, b', and more\\nlast')"
    )
    code, out, err = pod.done(*PYTHON, script)
    assert (code, out, err) == (0, b"one\n\xff\x00 three, and more\nlast", b"two\nfour\n")
    assert sorted(pod.texts()) == ["four", "last", "one", "two", "\ufffd\x00 three, and more"]
    assert {node for _, node, _ in pod.kept()} == {1}
    stamps = [stamp for stamp, _, _ in pod.kept()]
    assert all(re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}\.\d{9}Z", one) for one in stamps)
    assert json.loads((pod.run / keep.ABOUT).read_text()) == ABOUT


def test_words_variables_and_standard_input_are_the_job_s_own(pod: Pod) -> None:
    script = (
        "import json, os, sys\n"
        "print(json.dumps([sys.argv[1:], sorted(os.environ), os.getcwd(), sys.stdin.read()]))"
    )
    words = ["$HOME", "a b", "'", '"', "`id`", "", "--", "\n", "\udcff"]
    process = subprocess.run(
        pod.words(*PYTHON, script, *words), env=pod.env, cwd=pod.claim, input=b"in",
        capture_output=True, check=True,
    )  # fmt: skip
    argv, names, folder, read = json.loads(process.stdout)
    assert (argv, folder, read) == (words, str(pod.claim), "in")
    # Of a shell's own, dash and bash have these.
    assert set(names) - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} == set(pod.env) - {
        *(keep.POD, keep.RUN),
        *("PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"),
    }


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 0"), 0),
        (("sh", "-c", "exit 78"), 78),
        (("sh", "-c", "kill -9 $$"), 137),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("/no/such",), 127),
        (("/etc/hostname",), 126),
    ],
)
def test_it_ends_with_what_the_command_ended_with(
    pod: Pod, command: tuple[str, ...], code: int
) -> None:
    ended, _, err = pod.done(*command)
    assert ended == code
    if code in (126, 127):
        said = f"railhead: cannot start {command[0]}: "
        assert said.encode() in err
        assert pod.texts()[0].startswith(said)


def test_a_signal_reaches_the_command(pod: Pod) -> None:
    """And the wrapper ends as the command does, not before."""
    script = (
        "import signal, sys, time\n"
        "def told(number, _): print('got', number, flush=True); time.sleep(0.2); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "signal.signal(signal.SIGUSR1, lambda number, _: print('got', number, flush=True))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(60)"
    )
    process = pod.start(*PYTHON, script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == b"got 10\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[0] == b"got 15\n"
    assert process.returncode == 5
    assert pod.texts() == ["ready", "got 10", "got 15"]


def test_a_signal_without_a_handler_ends_it_as_a_shell_has_it(pod: Pod) -> None:
    process = pod.start("sh", "-c", "echo ready; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_process_1_of_a_container_gets_what_it_has_a_handler_for() -> None:
    """So it is without the program too (kill(2), of process 1)."""
    script = "import signal; signal.signal(15, print); print('ready', flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([*PYTHON, script], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert keep.catches(process.pid, signal.SIGTERM)
        assert not keep.catches(process.pid, signal.SIGHUP)
        process.kill()


@pytest.fixture
def adopting() -> Iterator[None]:
    """Orphans of what is started are this process', as they are process 1's of a container."""
    subreaper = 36
    libc = ctypes.CDLL(None)
    libc.prctl(subreaper, 1, 0, 0, 0)
    yield
    libc.prctl(subreaper, 0, 0, 0, 0)


def test_who_is_left_behind_is_not_waited_for(pod: Pod, adopting: None) -> None:
    """Though it holds the pipes; what the command itself printed last is all there."""
    code, out, _ = pod.done("sh", "-c", "sleep 60 & echo $!; seq 2000; exit 4")
    left, *lines = out.decode().split()
    os.kill(int(left), signal.SIGKILL)
    os.waitpid(int(left), 0)
    assert code == 4
    assert lines == [str(number) for number in range(1, 2001)]
    assert pod.texts()[1:] == lines


def test_a_command_that_ends_its_group_ends_no_more_than_that(pod: Pod) -> None:
    code, out, _ = pod.done("sh", "-c", "trap 'echo told; trap - TERM; exit 3' TERM; kill 0")
    assert (code, out) == (3, b"told\n")


# -- the claim ----------------------------------------------------------------------------------


def test_each_start_of_a_pod_has_a_file_and_the_oldest_go(pod: Pod) -> None:
    for number in range(4):
        pod.env[keep.POD] = f"pod-{number // 2}"
        pod.done("echo", str(number), starts=3)
    names = sorted(path.name for path in pod.run.glob("*.log"))
    assert names == ["1-pod-0-1.log", "1-pod-1-0.log", "1-pod-1-1.log"]
    assert sorted(pod.texts()) == ["1", "2", "3"]


def test_the_newest_of_a_long_log_stays(pod: Pod) -> None:
    pod.done("seq", "20000", most=100_000)
    files = list(pod.run.glob("*.log*"))
    assert len(files) == 2
    assert all(file.stat().st_size <= 100_000 for file in files)
    numbers = [int(text) for text in pod.texts()]
    assert numbers == list(range(numbers[0], 20001))
    assert len(numbers) > 2000


def test_the_oldest_runs_go(pod: Pod) -> None:
    """The first node of a job makes room on the claim: by number, then by size."""
    pod.env[keep.NUMBER] = "0"
    for number in range(3):
        pod.env[keep.RUN] = f"run-{number}"
        pod.done("seq", "100", runs=2)
        os.utime(next(pod.run.glob("*.log")), (number, number))
        os.utime(pod.run / keep.ABOUT, (number, number))
    assert {path.name for path in pod.run.parent.iterdir()} == {"run-1", "run-2"}
    pod.env[keep.RUN] = "run-3"
    pod.done("true", bytes=4000)
    assert {path.name for path in pod.run.parent.iterdir()} == {"run-2", "run-3"}


@pytest.mark.parametrize(
    ("limits", "stay"),
    [
        ({"bytes": 20, "runs": 9}, "12"),
        ({"bytes": 19, "runs": 9}, "2"),
        ({"bytes": 99, "runs": 2}, "12"),
    ],
)
def test_what_is_just_small_enough_stays(tmp_path: Path, limits: dict[str, int], stay: str) -> None:
    for number in range(3):
        run = tmp_path / f"job-{number}" / f"{number}"
        run.mkdir(parents=True)
        (run / "0-a-0.log").write_text("x" * 10)
        os.utime(run / "0-a-0.log", (number, number))
    (tmp_path / "job-0" / "note").write_text("no run")
    keep.forget_runs(limits, but=tmp_path / "job-2" / "2")
    assert sorted(path.name for path in tmp_path.glob("*/*") if path.is_dir()) == [*stay]


def test_pods_of_another_user_may_add_to_it(pod: Pod) -> None:
    pod.done("true")
    assert pod.run.stat().st_mode & 0o777 == 0o777
    (file,) = pod.run.glob("*.log")
    assert file.stat().st_mode & 0o444 == 0o444


def test_a_claim_that_cannot_be_written_is_said_once(pod: Pod) -> None:
    """And the job goes on, its output where it was."""
    (pod.claim / ".railhead").write_text("no folder")
    code, out, err = pod.done("sh", "-c", "seq 5000; exit 6")
    assert (code, out.split()[-1]) == (6, b"5000")
    assert err == (
        b"railhead: not all that is printed is kept on the claim: Not a directory; "
        b"the job goes on\n"
    )


def test_a_full_claim_is_said_once(pod: Pod) -> None:
    limited = 'ulimit -f 8; exec "$@"'
    words = ["sh", "-c", limited, "sh", *pod.words("seq", "5000")]
    done = subprocess.run(words, env=pod.env, capture_output=True, check=True)
    assert done.stdout.split()[-1] == b"5000"
    assert done.stderr.count(b"railhead: ") == 1
    assert b"is kept on the claim: File too large; the job goes on" in done.stderr


def test_a_claim_that_does_not_answer_stops_nothing(pod: Pod) -> None:
    """As a file of a server that is away: whoever opens it waits."""
    program = Path(keep.__file__).read_text().replace("LAST_SECONDS = 5.0", "LAST_SECONDS = 0.2")
    program = program.replace("file = file or self._open()", "time.sleep(600)")
    assert "time.sleep(600)" in program
    words = pod.words(*PYTHON, f"print(('x' * 99 + chr(10)) * {keep.MOST_HELD // 50})")
    done = subprocess.run(
        [sys.executable, "-ISc", program, *words[5:]],
        env=pod.env,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert len(done.stdout) > 2 * keep.MOST_HELD - 100
    assert done.stderr.count(b"railhead: ") == 1
    assert b"the job goes on" in done.stderr


def test_a_line_has_the_time_of_its_end_and_a_long_one_is_several() -> None:
    stream = keep.Stamped()
    assert stream.add(b"A ", b"one\ntwo\nthr") == b"A one\nA two\n"
    assert stream.add(b"B ", b"ee\n") == b"B three\n"
    assert (stream.rest(b"C "), stream.add(b"C ", b"end"), stream.rest(b"D ")) == (
        *(b"", b""),
        b"D end\n",
    )
    most = b"x" * keep.BLOCK
    assert stream.add(b"E ", most) == b""
    assert stream.add(b"F ", b"y") == b"F " + most + b"y\n"
    assert stream.rest(b"G ") == b""


def test_a_file_that_is_full_gives_way(tmp_path: Path) -> None:
    path = tmp_path / "0-a-0.log"

    def found() -> list[bytes]:
        return [one.read_bytes() for one in sorted(tmp_path.iterdir())]

    file = keep.File(path, 10)
    file.write(b"1234\n")
    file.write(b"5678\n")
    assert found() == [b"1234\n5678\n"]
    file.write(b"9\n")
    assert found() == [b"9\n", b"1234\n5678\n"]
    # Whole lines, as many as fit; one that is too long for any file is not cut.
    file.write(b"abc\n" * 4)
    assert found() == [b"abc\nabc\n", b"9\nabc\nabc\n"]
    file.write(b"longer than a file\n")
    assert found() == [b"longer than a file\n", b"abc\nabc\n"]
    file.close()
    again = keep.File(path, 10)
    again.write(b"z\n")
    assert found() == [b"z\n", b"longer than a file\n"]
    again.close()


def test_what_finds_no_room_in_memory_is_counted() -> None:
    keeper = keep.Keeper({"folder": "/nowhere", "first": 0}, "pod", "run", 0)
    keeper.add(b"x" * keep.MOST_HELD)
    keeper.add(b"lost\n")
    keeper._said = True
    data, over = keeper._next()
    assert data.endswith(b" railhead: 5 bytes are not kept here\n")
    assert not over


# -- images -------------------------------------------------------------------------------------


def test_an_image_without_python_runs_as_before(pod: Pod, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sh").symlink_to("/bin/sh")
    pod.env["PATH"] = str(tools)
    assert pod.done("/bin/sh", "-c", 'echo "$@"; exit 9', "x", "a b")[:2] == (9, b"a b\n")
    (tools / "python3").symlink_to("/bin/false")
    assert pod.done("/bin/echo", "hi")[:2] == (0, b"hi\n")
    assert not (pod.claim / ".railhead").exists()


def test_what_was_printed_last_is_safe_though_nothing_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may die while its processes are silent."""
    synced: list[int] = []
    monkeypatch.setattr(keep, "SYNC_SECONDS", 0.0)
    monkeypatch.setattr(os, "fsync", synced.append)
    file = keep.File(tmp_path / "log", 100)
    file.write(b"")
    assert not synced
    file.write(b"line\n")
    file.write(b"")
    assert len(synced) == 1
