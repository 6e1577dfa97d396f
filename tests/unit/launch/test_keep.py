"""The keeper of a job's logs on its claim, as real processes: the command behaves as without it."""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.contract import Mount
from railhead.launch.logs import claimed, kept
from railhead.launch.programs import keep, read

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
        """Return the folder of the job's object on the claim."""
        return self.claim / claimed.FOLDER / "training" / "demo" / self.env[keep.RUN]

    def words(self, *command: str, logs: bool = True, **settings: Any) -> list[str]:
        """Return what the container starts; ``settings`` replace launch's."""
        mount = Mount(claim="checkpoints", path=str(self.claim))
        *before, given = claimed.words(
            str(Path(keep.__file__).parent),
            mount,
            others={},
            namespace="training",
            about=ABOUT,
            first=0,
            logs=logs,
        )
        return [*before, json.dumps(json.loads(given) | settings), *command]

    def start(self, *command: str, **settings: Any) -> subprocess.Popen[bytes]:
        """Start the pod's process."""
        return subprocess.Popen(
            self.words(*command, **settings),
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def done(self, *command: str, **settings: Any) -> tuple[int, bytes, bytes]:
        """Run it to its end; return its exit code, stdout and stderr."""
        process = self.start(*command, **settings)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def kept(self) -> list[tuple[str, int, str]]:
        """Return the lines on the claim, as this machine reads those that it keeps itself."""
        return list(kept.Folder(path=self.run).lines())

    def texts(self) -> list[str]:
        """Return the lines without their times."""
        return [text for _, _, text in self.kept()]


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    claim = tmp_path / "claim"
    claim.mkdir()
    return Pod(claim)


def test_output_goes_to_both_places(pod: Pod) -> None:
    """Each stream has a file whose lines are whole, with node and time, whatever their bytes."""
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
    assert all(re.fullmatch(r"\d{4}(-\d\d){2}T\d\d(:\d\d){2}\.\d{9}Z", item) for item in stamps)
    assert json.loads((pod.run / keep.ABOUT).read_text()) == ABOUT


def test_command_starts_where_the_program_is_not(pod: Pod) -> None:
    words = pod.words("echo", "$HOME", "a b")
    words[3] = str(pod.claim / "keep.py")
    done = subprocess.run(words, env=pod.env, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"$HOME a b\n", b"")


def test_job_keeps_its_words_variables_and_standard_input(pod: Pod) -> None:
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
        text = f"railhead: cannot start {command[0]}: "
        assert text.encode() in err
        assert pod.texts()[0].startswith(text)


def test_a_signal_reaches_the_command(pod: Pod) -> None:
    """And the wrapper ends as the command does, not before."""
    script = (
        "import signal, sys, time\n"
        "def told(number, _): print('got', number, flush=True); time.sleep(0.2); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, told)\n"
        "signal.signal(signal.SIGUSR1, lambda number, _: print('got', number, flush=True))\n"
        "print('ready', flush=True)\n"
        # A signal between two steps of Python does not end a sleep that begins then.
        "while True: time.sleep(0.1)"
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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 0)])
def test_command_that_saves_at_sigterm_is_not_complete(pod: Pod, number: int, code: int) -> None:
    script = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(0))\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.1)"
    )
    process = pod.start(*PYTHON, script)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == code


def test_a_signal_without_a_handler_ends_it_as_a_shell_has_it(pod: Pod) -> None:
    process = pod.start("sh", "-c", "echo ready; exec sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_process_1_of_a_container_gets_what_it_has_a_handler_for() -> None:
    """Process 1 is treated the same without the program (kill(2))."""
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


def test_leftover_processes_are_not_awaited(pod: Pod, adopting: None) -> None:
    """The process left behind holds the pipes, yet all that the command printed is there."""
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
    ("limits", "blocks", "own", "stay"),
    [
        ({"bytes": 20, "runs": 9}, 99, 2, "12"),
        ({"bytes": 19, "runs": 9}, 99, 2, "2"),
        ({"bytes": 99, "runs": 2}, 99, 2, "12"),
        # A twentieth of the claim.
        ({"bytes": 99, "runs": 9}, 40, 2, "12"),
        ({"bytes": 99, "runs": 9}, 39, 2, "2"),
        # The run that asks, whatever its node's clock says.
        ({"bytes": 99, "runs": 1}, 99, 0, "02"),
    ],
)
def test_log_at_the_limit_stays(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, int],
    blocks: int,
    own: int,
    stay: str,
) -> None:
    room = SimpleNamespace(f_blocks=blocks, f_frsize=10)
    monkeypatch.setattr(os, "statvfs", {tmp_path: room}.__getitem__)
    for number in range(3):
        run = tmp_path / f"job-{number}" / f"{number}"
        run.mkdir(parents=True)
        (run / "0-a-0.log").write_text("x" * 10)
        os.utime(run / "0-a-0.log", (number, number))
    (tmp_path / "job-0" / "note").write_text("no run")
    keep.forget_runs(limits, but=tmp_path / f"job-{own}" / f"{own}")
    assert sorted(path.name for path in tmp_path.glob("*/*") if path.is_dir()) == [*stay]


def test_pods_of_another_user_may_add_to_it(pod: Pod) -> None:
    pod.done("true")
    assert pod.run.stat().st_mode & 0o777 == 0o777
    (file,) = pod.run.glob("*.log")
    assert file.stat().st_mode & 0o444 == 0o444


def test_unwritable_claim_is_reported_once(pod: Pod) -> None:
    """And the job goes on, its output where it was."""
    (pod.claim / ".railhead").write_text("no folder")
    code, out, err = pod.done("sh", "-c", "seq 5000; exit 6")
    assert (code, out.split()[-1]) == (6, b"5000")
    # On a busy machine it may say beside it that the claim is slow.
    assert [line for line in err.splitlines() if b"is kept on" in line] == [
        b"railhead: not all that is printed is kept on the claim: Not a directory; the job goes on"
    ]


def test_full_claim_is_reported_once(pod: Pod) -> None:
    limited = 'ulimit -f 8; exec "$@"'
    words = ["sh", "-c", limited, "sh", *pod.words("seq", "5000")]
    done = subprocess.run(words, env=pod.env, capture_output=True, check=True)
    assert done.stdout.split()[-1] == b"5000"
    assert done.stderr.count(b"railhead: ") == 1
    assert b"is kept on the claim: File too large; the job goes on" in done.stderr


def test_a_claim_that_does_not_answer_stops_nothing(pod: Pod) -> None:
    """A file of a server that is away blocks like this: a process that opens it waits."""
    program = Path(keep.__file__).read_text().replace("LAST_SECONDS = 5.0", "LAST_SECONDS = 0.2")
    program = program.replace("file = file or self._open()", "time.sleep(600)")
    assert "time.sleep(600)" in program
    file = pod.claim.with_name("keep.py")
    file.write_text(program)
    words = pod.words(*PYTHON, f"print(('x' * 99 + chr(10)) * {keep.MOST_HELD // 50})")
    done = subprocess.run(
        [sys.executable, "-IS", str(file), *words[4:]],
        env=pod.env,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert len(done.stdout) > 2 * keep.MOST_HELD - 100
    assert done.stderr.count(b"railhead: ") == 1
    assert b"the job goes on" in done.stderr


def test_line_has_the_time_of_its_end_and_long_ones_are_split() -> None:
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
        return [path.read_bytes() for path in sorted(tmp_path.iterdir())]

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
    # After a claim that failed for a while.
    after = keep.File(path, 10)
    after.write(b"y\n")
    assert found() == [b"z\ny\n", b"longer than a file\n"]
    after.close()


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


def test_last_lines_are_saved_without_later_output(
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
    # One that gives way is synced as well, and open no more.
    (once,) = synced
    monkeypatch.setattr(keep, "SYNC_SECONDS", 9.0)
    file.write(b"x" * 99 + b"\n")
    assert synced == [once, once]
    assert file._file == once, "the number of a file that is closed is the next one's"


# -- in this process ------------------------------------------------------------------------------


class Told:
    """The keeper's messages to people."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        monkeypatch.setattr(keep, "say", self.lines.append)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def settings(claim: Path, **more: Any) -> dict[str, Any]:
    """Return the settings that :func:`railhead.launch.logs.claimed.words` writes."""
    return {
        "mount": str(claim),
        "folder": str(claim / claimed.FOLDER / "training" / "demo"),
        "most": 1000,
        "first": 0,
        "starts": 9,
        "runs": 9,
        "bytes": 1 << 30,
        "about": ABOUT,
    } | more


def test_added_lines_reach_the_claim_by_the_end(tmp_path: Path, told: Told) -> None:
    keeper = keep.Keeper(settings(tmp_path, first=1), "pod", "run", 2)
    keeper.start()
    keeper.add(b"")
    keeper.add(b"1 a\n")
    keeper.add(b"2 b\n")
    keeper.end()
    run = tmp_path / claimed.FOLDER / "training" / "demo" / "run"
    assert {path.name: path.read_text() for path in run.iterdir()} == {
        "about.json": json.dumps(ABOUT),
        "3-pod-0.log": "1 a\n2 b\n",
    }
    assert told.lines == []
    # Nor has a start a second file where the claim failed for a while.
    keeper._open().close()
    assert len(list(run.iterdir())) == 2
    assert (run / "3-pod-0.log").stat().st_mode & 0o777 == 0o644
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o777}
    assert run.parent.parent.parent == tmp_path / ".railhead" / "logs"
    # What another start of the job's first pod said of it stays.
    (run / "about.json").write_text("{}")
    keep.about(run, ABOUT)
    assert (run / "about.json").read_text() == "{}"


def test_a_claim_that_fails_is_left_alone_for_a_while(
    tmp_path: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=100.0)
    fake = SimpleNamespace(
        monotonic=lambda: clock.now, time_ns=time.time_ns, strftime=time.strftime,
        gmtime=time.gmtime,
    )  # fmt: skip
    monkeypatch.setattr(keep, "time", fake)
    keeper = keep.Keeper(settings(tmp_path), "pod", "run", 0)
    opened: list[float] = []
    written: list[bytes] = []

    def write(data: bytes) -> None:
        written.append(data)
        if data == b"bad\n":
            raise OSError(28, "No space left on device")

    def open_() -> Any:
        opened.append(clock.now)
        return SimpleNamespace(write=write, close=lambda: written.append(b"closed"))

    monkeypatch.setattr(keeper, "_open", open_)
    script = iter(
        [(0.0, b"bad\n"), (59.0, b"lost\n"), (1.0, b"good\n"), (1.0, b"better\n"), (0.0, b"bad\n")]
    )

    def following() -> tuple[bytes, bool]:
        after, data = next(script, (60.0, b""))
        clock.now += after
        return data, not data

    monkeypatch.setattr(keeper, "_next", following)
    keeper.run()
    assert written == [b"bad\n", b"good\n", b"better\n", b"bad\n", b"", b"closed"]
    assert opened == [100.0, 160.0, 221.0]
    why = "No space left on device"
    assert told.lines == [f"not all that is printed is kept on the claim: {why}; the job goes on"]


def test_backlog_of_a_slow_claim_is_bounded(told: Told) -> None:
    keeper = keep.Keeper({"folder": "/nowhere", "first": 0}, "pod", "run", 0)
    half = b"x" * (keep.MOST_HELD // 2)
    for data in (half, half, b"lost", b"too"):
        keeper.add(data)
    data, over = keeper._next()
    assert data.startswith(half + half)
    assert data[len(half) * 2 :].partition(b" ")[2] == b"railhead: 7 bytes are not kept here\n"
    assert not over
    keeper.add(b"again\n")
    assert keeper._next() == (b"again\n", False)
    assert told.lines == [
        "not all that is printed is kept on the claim: it is too slow; the job goes on"
    ]


def test_every_wait_is_bounded(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep, "SYNC_SECONDS", 0.01)
    monkeypatch.setattr(keep, "LAST_SECONDS", 0.01)
    keeper = keep.Keeper({"folder": "/nowhere", "first": 0}, "pod", "run", 0)
    assert keeper._next() == (b"", False)
    over = threading.Event()
    monkeypatch.setattr(keeper, "run", lambda: over.wait(60) and None)
    keeper.start()
    keeper.end()
    over.set()
    assert keeper._next() == (b"", True)
    assert told.lines == [
        "not all that is printed is kept on the claim: it does not answer; the job goes on"
    ]


def test_only_the_first_node_makes_room_among_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(keep, "forget_starts", lambda *given: asked.append(given))
    monkeypatch.setattr(keep, "forget_runs", lambda _, but: asked.append(but))
    run = tmp_path / claimed.FOLDER / "training" / "demo" / "run"
    for number in (1, 0):
        keep.Keeper(settings(tmp_path, starts=7), "pod", "run", number)._make_room()
    assert asked == [(run, 1, 7), (run, 0, 7), run]


def test_the_starts_of_a_node_are_counted_and_the_oldest_go(tmp_path: Path) -> None:
    assert keep.name(tmp_path, 3, "a") == "3-a-0.log"
    # A start is as old as the last that it wrote.
    files = ("3-a-1.log.before", "3-a-0.log", "3-a-1.log", "3-b-0.log", "4-b-7.log", "note")
    for at, name in enumerate(files):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (at, at))
    assert keep.name(tmp_path, 3, "a") == "3-a-2.log"
    assert keep.name(tmp_path, 3, "c") == "3-c-0.log"
    for most, stay in ((3, files), (2, (files[0], *files[2:])), (1, files[3:])):
        keep.forget_starts(tmp_path, 3, most)
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stay)


class Mounted:
    """A mount whose process answers what a test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: str = "f") -> None:
        self.clock = SimpleNamespace(now=1000.0)
        self.lines: list[str] = []
        self.slow = 0.0
        (self.stdin, write), (read, self.answers) = os.pipe(), os.pipe()
        os.set_blocking(self.stdin, False)
        self.write, self.read = os.fdopen(write, "wb", 0), os.fdopen(read, "rb", 0)
        about = {"claim": "c", "path": "/p", "file": file}
        self.mount = keep.Mount("program", about, self.lines.append)
        real: Any = select.select

        def selecting(*given: Any) -> Any:
            limit = given[-1]
            result = real(*given[:3], 0)
            self.clock.now += self.slow if result[0] else limit
            if not result[0]:
                self.hangs(limit)
            return result

        self.limits: list[float] = []
        monkeypatch.setattr(select, "select", selecting)
        fake = SimpleNamespace(
            monotonic=lambda: self.clock.now,
            gmtime=lambda: self.clock.now,
            strftime=lambda _, now: f"at {now:g}",
        )
        monkeypatch.setattr(keep, "time", fake)

    def hangs(self, limit: float) -> None:
        self.limits.append(limit)
        if len(self.limits) == 3:
            self.answer("well")

    def answer(self, how: str, why: str = "") -> None:
        os.write(self.answers, json.dumps({"how": how, "why": why}).encode() + b"\n")

    def ask(self, how: str = "", why: str = "", *, slow: float = 0.0) -> list[str]:
        """Ask once, get this answer, and return the messages."""
        self.slow = slow
        if how:
            self.answer(how, why)
        self.lines.clear()
        assert self.mount._ask(self.write, self.read)
        assert os.read(self.stdin, 9) == b"\n"
        return list(self.lines)


def test_mount_is_reported_if_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Mounted(monkeypatch)
    assert of.ask("well") == []
    full = (
        "claim c at /p has no space left since at 1000 (why), and no checkpoint arrives. Take old "
        "files away or have it made larger; `railhead storage --prove` says how much room it has"
    )
    assert of.ask("full", "why") == [full]
    assert of.ask("full", "why") == []
    # Another trouble is reported only after a while, the end of all at once.
    assert of.ask("lost", "why") == []
    again = "claim c at /p is as it should be again, after trouble since at {}"
    of.clock.now += 7
    assert of.ask("well") == [again.format(1000)]
    assert of.ask("lost", "why") == []
    of.clock.now = 1299.0
    assert of.ask("lost", "why") == []
    of.clock.now = 1300.0
    (lost,) = of.ask("lost", "why")
    assert lost.startswith("claim c at /p cannot be used since at 1300 (why), and no checkpoint ")
    assert of.ask("well") == [again.format(1300)]


@pytest.mark.parametrize(
    ("slow", "file", "said"),
    [
        (10.0, "f", []),
        (10.5, "f", ["is slow since at 1000 (it took 10 s to answer): whatever uses it waits. "]),
        (19.5, "", ["is slow since at 1000 (it took 20 s to answer): whatever uses it waits. "]),
        (20.0, "f", []),
    ],
)
def test_a_mount_is_slow_between_two_bounds(
    monkeypatch: pytest.MonkeyPatch, slow: float, file: str, said: list[str]
) -> None:
    of = Mounted(monkeypatch, file)
    result = of.ask("well", slow=slow)
    assert [line.partition("Look")[0] for line in result] == [
        f"claim c at /p {item}" for item in said
    ]


@pytest.mark.parametrize(("file", "none"), [("f", ", and no checkpoint arrives"), ("", "")])
def test_a_mount_that_hangs_is_asked_on(
    monkeypatch: pytest.MonkeyPatch, file: str, none: str
) -> None:
    """A late answer means that the mount is well, and not that it is slow."""
    of = Mounted(monkeypatch, file)
    assert of.ask() == [
        f"claim c at /p does not answer since at 1000: whatever uses it waits{none}; the job goes "
        "on by itself once it answers. Look at its file server and the network to it",
        "claim c at /p is as it should be again, after trouble since at 1000",
    ]
    assert of.limits == [20.0, 30.0, 30.0]


def test_a_mount_whose_process_has_ended_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Mounted(monkeypatch)
    os.close(of.answers)
    assert not of.mount._ask(of.write, of.read)
    assert of.lines == []


class Run:
    """A whole program without a command: what was started and told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.done: list[Any] = []
        done = self.done

        class Part:
            def __init__(self, *given: Any) -> None:
                self.given = given
                name = type(self).__name__
                done.append((name, *(item for item in given if not callable(item))))

            def start(self) -> None:
                done.append(f"{type(self).__name__} starts")

            def end(self) -> None:
                done.append(f"{type(self).__name__} ends")

            def add(self, data: bytes) -> None:
                done.append(data.partition(b" ")[2])

        class Keeper(Part):
            pass

        class Mount(Part):
            pass

        class Child:
            def __init__(self, words: list[str], keeper: Any) -> None:
                if error is not None:
                    raise error
                done.append((words, keeper is not None, {*os.environ} & {keep.POD, keep.RUN}))

            def code(self) -> int:
                return 42

        for part in (Keeper, Mount, Child):
            monkeypatch.setattr(keep, part.__name__, part)
        for name in (keep.POD, keep.RUN, keep.NUMBER):
            monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("kept_there", [True, False])
@pytest.mark.parametrize("said", [{}, {keep.POD: "p", keep.RUN: "r", keep.NUMBER: "3"}])
def test_pods_own_messages_go_to_the_keeper(
    monkeypatch: pytest.MonkeyPatch, kept_there: bool, said: dict[str, str]
) -> None:
    run = Run(monkeypatch)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    given = {"folder": "f" if kept_there else "", "mounts": [{"claim": "a"}, {"claim": "b"}]}
    assert keep.main([json.dumps(given), "train", "x"]) == 42
    probe = str(Path(keep.__file__).with_name("probe.py"))
    of = ("p", "r", 3) if said else ("unknown", "unknown", 0)
    assert run.done == [
        *([("Keeper", given, *of)] if kept_there else []),
        ("Mount", probe, {"claim": "a"}),
        ("Mount", probe, {"claim": "b"}),
        *(["Keeper starts"] if kept_there else []),
        *("Mount starts", "Mount starts"),
        (["train", "x"], kept_there, set()),
        *("Mount ends", "Mount ends"),
        *(["Keeper ends"] if kept_there else []),
    ]


@pytest.mark.parametrize(
    ("error", "code"), [(FileNotFoundError(2, "no"), 127), (PermissionError(13, "may not"), 126)]
)
def test_command_that_cannot_start_is_reported_in_both_places(
    monkeypatch: pytest.MonkeyPatch, told: Told, error: OSError, code: int
) -> None:
    run = Run(monkeypatch, error)
    assert keep.main([json.dumps({"folder": "f", "mounts": []}), "train", "x"]) == code
    text = f"cannot start train: {error.strerror}"
    assert told.lines == [text]
    assert run.done[2:] == [f"railhead: {text}\n".encode(), "Keeper ends"]
    assert keep.main([json.dumps({"folder": "", "mounts": []}), "train"]) == code
    assert len(run.done) == 4


def test_each_message_is_its_own_line_on_stderr(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, write = os.pipe()
    os.set_blocking(text, False)
    whole = os.write
    monkeypatch.setattr(os, "write", lambda to, data: whole(write if to == 2 else to, data))
    keep.say("x")
    assert os.read(text, 99) == b"railhead: x\n"

    def closed(_: int, __: bytes) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(os, "write", closed)
    keep.say("x")


def test_a_stamp_is_as_the_kubelet_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 1767323045_000000006)
    assert keep.stamp() == b"2026-01-02T03:04:05.000000006Z "


# -- a command that is played ---------------------------------------------------------------------


class Played:
    """A command of pid 77 whose output and end a test says; what was done to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handlers: dict[int, Any] = {}
        self.sent: list[tuple[int, int]] = []
        self.printed: list[tuple[int, bytes]] = []
        self.kept: list[bytes] = []
        self.early: list[int] = []
        self.ends: list[tuple[int, int]] = []
        self.how: dict[str, Any] = {}
        (out, self.out), (err, self.err) = os.pipe(), os.pipe()
        self.pipes = [os.fdopen(item, "rb", 0) for item in (out, err)]
        whole = os.write
        monkeypatch.setattr(signal, "signal", self.handlers.__setitem__)
        monkeypatch.setattr(signal, "set_wakeup_fd", self._woken)
        monkeypatch.setattr(os, "kill", lambda *given: self.sent.append(given))
        monkeypatch.setattr(subprocess, "Popen", self._start)
        monkeypatch.setattr(os, "waitpid", lambda *_: self.ends.pop(0))
        monkeypatch.setattr(keep, "stamp", lambda: b"T ")
        monkeypatch.setattr(
            os, "write", lambda to, data: self._print(to, data) if to < 3 else whole(to, data)
        )

    def _woken(self, number: int, *, warn_on_full_buffer: bool) -> None:
        assert not warn_on_full_buffer
        self.wake = number

    def _start(self, words: list[str], **how: Any) -> Any:
        assert words == ["train", "x"]
        self.how = how
        for number in self.early:
            self.handlers[number](number, None)
        assert self.sent == []
        out, err = self.pipes if how["stdout"] else (None, None)
        return SimpleNamespace(pid=77, stdout=out, stderr=err)

    def _print(self, to: int, data: bytes) -> int:
        # No more than so much at once, as a slow pipe takes it.
        self.printed.append((to, data[:4]))
        return len(data[:4])

    def child(self, *, keeps: bool = True) -> keep.Child:
        keeper: Any = SimpleNamespace(add=self.kept.append)
        return keep.Child(["train", "x"], keeper if keeps else None)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


def test_signals_for_the_command_are_forwarded(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal before the command starts is passed on as well, and none once it has ended."""
    played.early = [signal.SIGTERM, signal.SIGUSR1]
    child = played.child(keeps=False)
    assert played.sent == [(77, signal.SIGTERM), (77, signal.SIGUSR1)]
    plain = {"bufsize": 0, "start_new_session": True, "stdout": None, "stderr": None}
    assert played.how == plain
    own = ("KILL", "STOP", "PIPE", "XFSZ", "SEGV", "BUS", "FPE", "ILL", "TRAP", "RTMIN", "RTMAX")
    every = {item.name for item in signal.Signals} - {f"SIG{name}" for name in own}
    assert {signal.Signals(number).name for number in played.handlers} == every
    played.sent.clear()
    played.handlers[signal.SIGCHLD](signal.SIGCHLD, None)
    assert played.sent == []
    # Process 1 of a container gets what it has a handler for.
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(keep, "catches", lambda pid, number: (pid, number) == (77, signal.SIGHUP))
    for number in (signal.SIGHUP, signal.SIGTERM):
        played.handlers[number](number, None)
    assert played.sent == [(77, signal.SIGHUP)]

    def gone(_pid: int, _number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    played.handlers[signal.SIGHUP](signal.SIGHUP, None)
    played.ends = [(77, 0)]
    os.write(played.wake, b"\0")
    # It had SIGTERM, so it is not over.
    assert child.code() == 143


@pytest.mark.parametrize(("status", "code"), [(0, 0), (3 << 8, 3), (9, 137), (15, 143)])
def test_output_is_passed_on_until_the_command_ends(played: Played, status: int, code: int) -> None:
    child = played.child()
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    assert played.how == piped | {"bufsize": 0, "start_new_session": True}
    os.write(played.out, b"one\ntwo\nth")
    os.write(played.err, b"error\n")
    # Another's end, nobody's, and that of the command.
    played.ends = [(5, 0), (0, 0), (77, status)]
    os.write(played.wake, b"\0")
    assert played.ends == [(5, 0), (0, 0), (77, status)]
    turn = child._reap

    def reap() -> int | None:
        ended = turn()
        if ended is None:
            os.write(played.wake, b"\0")
        else:
            os.write(played.out, b"ree\nlast")
        return ended

    child._reap = reap  # type: ignore[method-assign]
    assert child.code() == code
    assert played.printed == [
        *((1, b"one\n"), (1, b"two\n"), (1, b"th")),
        *((2, b"erro"), (2, b"r\n")),
        *((1, b"ree\n"), (1, b"last")),
    ]
    assert b"".join(played.kept) == b"T one\nT two\nT error\nT three\nT last\n"


def test_keeper_reads_at_most_a_pipe_from_leftover_processes(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper waits for no process that goes on printing; a stream that ended is done."""
    monkeypatch.setattr(keep, "MOST_LEFT", 8)
    monkeypatch.setattr(keep, "BLOCK", 4)
    child = played.child()
    os.close(played.err)
    played.ends = [(77, 0)]
    os.write(played.wake, b"\0")
    turn = child._reap

    def reap() -> int | None:
        os.write(played.out, b"123456789abc")
        return turn()

    child._reap = reap  # type: ignore[method-assign]
    assert child.code() == 0
    assert played.printed == [(1, b"1234"), (1, b"5678")]
    assert b"".join(played.kept) == b"T 12345678\n"


def test_closed_reader_does_not_end_the_command(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command's output is kept all the same."""
    child = played.child()

    def closed(_to: int, _data: bytes) -> int:
        raise BrokenPipeError

    os.write(played.out, b"one\n")
    os.write(played.wake, b"\0")
    played.ends = [(77, 0)]
    monkeypatch.setattr(os, "write", closed)
    assert child.code() == 0
    assert b"".join(played.kept) == b"T one\n"


@pytest.mark.parametrize(
    ("status", "caught"),
    [("SigCgt:\t0000000000004000\n", [15]), ("SigCgt:\t1\n", [1]), ("Name:\tx\n", [])],
)
def test_which_signals_a_process_has_a_handler_for(
    monkeypatch: pytest.MonkeyPatch, status: str, caught: list[int]
) -> None:
    files = {Path("/proc/77/status"): f"Name:\ttrain\n{status}Threads:\t1\n".encode()}
    monkeypatch.setattr(Path, "read_bytes", lambda path: files[path])
    assert [number for number in range(1, 32) if keep.catches(77, number)] == caught


# -- what reads it again ---------------------------------------------------------------------------


def test_contents_of_a_claim_are_listed_as_json_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest runs, the newest part of each start, with what is said of the job."""
    # Half of what container runtimes take.
    assert read.MOST_OF_A_LINE == 16 * 1024 / 2
    monkeypatch.setattr(read, "MOST_OF_A_LINE", 8)

    def told(**asked: Any) -> list[Any]:
        given = {"folder": str(tmp_path), "node": None, "runs": 2, "most": 12}
        read.main(given | asked)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert told() == [{"end": 0}]
    assert told(folder=str(tmp_path / "none")) == [{"end": 0}]
    (tmp_path / "note").touch()
    for at, run in enumerate(("c", "b", "a")):
        (tmp_path / run).mkdir()
        for node in (0, 1):
            name = f"{node}-p-0.log"
            (tmp_path / run / f"{name}.before").write_text("1 x\n")
            (tmp_path / run / name).write_text("2 y\n")
            for file in (name, f"{name}.before"):
                os.utime(tmp_path / run / file, (at, at))
    (tmp_path / "b" / "about.json").write_text(json.dumps(ABOUT))
    os.utime(tmp_path / "b" / "about.json", (1, 1))
    (tmp_path / "empty").mkdir()
    result = told(node=1)
    heads = [item for item in result if "file" in item]
    assert heads == [
        {"run": "a", "at": 2.0, "file": "1-p-0.log", "about": {}},
        {"run": "b", "at": 1.0, "file": "1-p-0.log", "about": ABOUT},
    ]
    parts = [item["data"] for item in result if "data" in item]
    assert result[-1] == {"end": len(parts)}
    assert all(len(part) <= 8 for part in parts)
    # 12 bytes for two files: one line of each fits.
    data = base64.b64encode(zlib.compress(b"2 y\n")).decode()
    assert "".join(parts) == data * 2
    assert [item["run"] for item in told(runs=1) if "file" in item] == ["a", "a"]
    assert [item.get("file") for item in told(runs=9)][::-1].count("0-p-0.log") == 3


@pytest.mark.parametrize(
    ("most", "found"),
    [(8, b"1 x\n2 y\n"), (7, b"2 y\n"), (4, b"2 y\n"), (3, b""), (0, b"")],
)
def test_the_newest_lines_are_whole(tmp_path: Path, most: int, found: bytes) -> None:
    path = tmp_path / "0-p-0.log"
    assert read.newest_lines(path, most) == b""
    path.write_bytes(b"2 y\n")
    path.with_name("0-p-0.log.before").write_bytes(b"1 x\n")
    assert read.newest_lines(path, most) == found
