"""A job's command, whose output goes to where it went and onto the namespace's claim as well.

In a runtime's ConfigMap, as images of jobs have no Railhead: Python's library alone, from 3.7 on.
The command runs as it would without this program: its words, variables, working directory and exit
code, the signals that reach it, a session of its own. A thread writes to the claim; what the claim
cannot take is left out, and the command never waits for it. Separate processes check the job's
mounts; their troubles are printed among the command's output.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

#: Variables that say which pod this is and of which job's object; the command gets neither.
POD, RUN, NUMBER = "RAILHEAD_POD_UID", "RAILHEAD_RUN_UID", "JOB_COMPLETION_INDEX"
#: What a run is called where the cluster does not say.
UNKNOWN = "unknown"
ABOUT = "about.json"
FILE = re.compile(r"(\d+)-([-A-Za-z0-9]+)-(\d+)\.log(\.before)?")
# Read at once, and a line longer than this is kept as several.
BLOCK = 64 << 10
# What waits in memory for a claim that is slow.
MOST_HELD = 8 << 20
# What a node that dies takes with it; how long a claim that failed is left alone; how long the end
# of a job waits for its last lines to be kept.
SYNC_SECONDS = 5.0
RETRY_SECONDS = 60.0
LAST_SECONDS = 5.0
# Of a pipe, once the command has ended: what a pipe holds at most unless root said otherwise.
MOST_LEFT = 1 << 20
# How often a mount is asked how it is, how soon it is to answer, and after what it is too slow.
ASK_SECONDS = 30.0
ANSWER_SECONDS = 20.0
SLOW_SECONDS = 10.0
# Between two reports of trouble with a mount.
TELL_SECONDS = 300.0
#: How a mount may be -> since when and why, what that means, and what to do.
TROUBLES = {
    "hangs": "does not answer since {since}: whatever uses it waits{none}; the job goes on by"
    " itself once it answers. Look at its file server and the network to it",
    "slow": "is slow since {since} ({why}): whatever uses it waits. Look at what else its file"
    " server has to do",
    "full": "has no space left since {since} ({why}){none}. Take old files away or have it made"
    " larger; `railhead storage --prove` says how much room it has",
    "lost": "cannot be used since {since} ({why}){none}. Once its file server has it again,"
    " `railhead restart` mounts it again; `railhead storage --prove` tests it",
}
# The kernel's own, those of what a process itself did, and the real-time ones that have names.
_OURS = {"KILL", "STOP", "PIPE", "XFSZ", "SEGV", "BUS", "FPE", "ILL", "TRAP", "RTMIN", "RTMAX"}


def say(text: str) -> None:
    """Print a line among the command's output."""
    with contextlib.suppress(OSError):
        os.write(2, f"railhead: {text}\n".encode())


def stamp() -> bytes:
    """Return the time now, as the kubelet writes it before a line."""
    seconds, rest = divmod(time.time_ns(), 10**9)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)).encode() + b".%09dZ " % rest


class Stamped:
    """One stream's lines, each with the time at which its end was read."""

    def __init__(self) -> None:
        self._begun = b""

    def add(self, at: bytes, data: bytes) -> bytes:
        """Add data; return the lines that are now complete."""
        lines, newline, self._begun = (self._begun + data).rpartition(b"\n")
        if len(self._begun) > BLOCK:
            lines, newline, self._begun = lines + newline + self._begun, b"\n", b""
        return at + lines.replace(b"\n", b"\n" + at) + b"\n" if newline else b""

    def rest(self, at: bytes) -> bytes:
        """Return the line that was begun and has no end."""
        return self.add(at, b"\n") if self._begun else b""


class File:
    """A file on the claim; one that is full gives way, and the one before stays beside it."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        self._open()

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = os.fstat(self._file).st_size
        self._synced, self._dirty = time.monotonic(), False

    def write(self, data: bytes) -> None:
        """Add lines, or none, now and then. Raises OSError where the claim is full, or gone."""
        while data:
            # Whole lines: each begins with its time.
            part = data[: data.rfind(b"\n", 0, self._most) + 1] or data
            if self._size and self._size + len(part) > self._most:
                self.close()
                self._path.replace(self._path.with_suffix(".log.before"))
                self._open()
            self._whole(part)
            data = data[len(part) :]
        if self._dirty and time.monotonic() - self._synced >= SYNC_SECONDS:
            os.fsync(self._file)
            self._synced, self._dirty = time.monotonic(), False

    def _whole(self, data: bytes) -> None:
        while data:
            written = os.write(self._file, data)
            self._size += written
            self._dirty = True
            data = data[written:]

    def close(self) -> None:
        """Sync and close the file, so that other nodes can read it."""
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)


class Keeper(threading.Thread):
    """Writes to the claim what the command prints; never waited for, but for a while at the end.

    Args:
        settings: ``folder`` of the job's name below ``mount``, where the claim is; ``most`` bytes
            of a file; ``first``, the node that pod 0 of its kind is; ``starts`` of a node, and
            ``runs`` and ``bytes`` of all jobs, that stay; ``about`` the job, for readers.
        pod: this pod's uid.
        run: uid of the job's object.
        number: the pod's number, among those of its kind.
    """

    def __init__(self, settings: dict[str, Any], pod: str, run: str, number: int) -> None:
        super().__init__(daemon=True)
        self._settings = settings
        self._folder = Path(settings["folder"]) / run
        self._name = (settings["first"] + number, pod)
        self._path: Path | None = None
        self._wait = threading.Condition()
        self._held: list[bytes] = []
        self._size = self._lost = 0
        self._over = self._said = False
        self._room = threading.Thread(target=self._make_room, daemon=True)

    def add(self, data: bytes) -> None:
        """Keep these lines; count the bytes of those that find no room."""
        if not data:
            return
        with self._wait:
            if self._size + len(data) > MOST_HELD:
                self._lost += len(data)
            else:
                self._held.append(data)
                self._size += len(data)
            self._wait.notify()

    def end(self) -> None:
        """Wait for what was added last."""
        with self._wait:
            self._over = True
            self._wait.notify()
        self.join(LAST_SECONDS)
        if self.is_alive():
            self._failed("it does not answer")
        elif self._room.ident:
            self._room.join(LAST_SECONDS)

    def run(self) -> None:
        """Write until the end; a claim that fails is tried again later."""
        file = None
        again = 0.0
        while True:
            data, over = self._next()
            try:
                if time.monotonic() >= again:
                    file = file or self._open()
                    file.write(data)
                    if over:
                        file.close()
            except OSError as error:
                self._failed(error.strerror or str(error))
                file, again = None, time.monotonic() + RETRY_SECONDS
            if over:
                return

    def _next(self) -> tuple[bytes, bool]:
        """Return the data to write, nothing after a while, and whether no more comes."""
        with self._wait:
            if not (self._held or self._lost or self._over):
                self._wait.wait(SYNC_SECONDS)
            data, lost, over = b"".join(self._held), self._lost, self._over
            self._held, self._size, self._lost = [], 0, 0
        if lost:
            self._failed("it is too slow")
            data += stamp() + f"railhead: {lost} bytes are not kept here\n".encode()
        return data, over

    def _failed(self, why: str) -> None:
        if not self._said:
            self._said = True
            say(f"not all that is printed is kept on the claim: {why}; the job goes on")

    def _open(self) -> File:
        if self._path is None:
            make(self._folder, Path(self._settings["mount"]))
            about(self._folder, self._settings["about"])
            self._path = self._folder / name(self._folder, *self._name)
        file = File(self._path, self._settings["most"])
        if not self._room.ident:
            self._room.start()
        return file

    def _make_room(self) -> None:
        with contextlib.suppress(OSError):
            forget_starts(self._folder, self._name[0], self._settings["starts"])
            if self._name[0] == 0:
                forget_runs(self._settings, but=self._folder)


def make(folder: Path, mount: Path) -> None:
    """Create a folder below the claim that the namespace's jobs may add to, whatever their user."""
    if folder == mount or folder.is_dir():
        return
    make(folder.parent, mount)
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o777)


def about(folder: Path, facts: dict[str, Any]) -> None:
    """Write what a reader must know of the job once its object is gone."""
    with contextlib.suppress(FileExistsError), (folder / ABOUT).open("x") as file:
        json.dump(facts, file)


def name(folder: Path, index: int, pod: str) -> str:
    """Return a new file's name: a pod's containers are counted, as the kubelet does."""
    matches = [FILE.fullmatch(entry.name) for entry in folder.iterdir()]
    before = [int(match[3]) for match in matches if match and match[2] == pod]
    return f"{index}-{pod}-{max(before, default=-1) + 1}.log"


def forget_starts(folder: Path, index: int, most: int) -> None:
    """Delete the oldest files of one node, except those of ``most`` starts."""
    starts: dict[tuple[str, ...], list[tuple[float, Path]]] = {}
    for path in folder.iterdir():
        match = FILE.fullmatch(path.name)
        if match and int(match[1]) == index:
            start = starts.setdefault(match.group(2, 3), [])
            start.append((path.stat().st_mtime, path))
    for parts in sorted(starts.values(), key=max)[:-most]:
        for _, path in parts:
            path.unlink()


def forget_runs(settings: dict[str, Any], but: Path) -> None:
    """Delete the oldest runs on the claim, until the rest are few and small enough."""
    base = but.parent.parent
    whole = os.statvfs(base)
    room = min(settings["bytes"], whole.f_blocks * whole.f_frsize // 20)
    runs = []
    for run in filter(Path.is_dir, base.glob("*/*")):
        files = [path.stat() for path in run.iterdir()]
        newest = max((file.st_mtime for file in files), default=0.0)
        runs.append((newest, run, sum(file.st_size for file in files)))
    held = 0
    for number, (_, run, size) in enumerate(sorted(runs, reverse=True)):
        held += size
        if run != but and (number >= settings["runs"] or held > room):
            shutil.rmtree(run, ignore_errors=True)


class Mount(threading.Thread):
    """Says when a mount of the job's does not answer, is slow, full or lost; and that it is well.

    Nothing here touches the mount: a process does that may never return, and is never waited for.

    Args:
        program: the file of that process, :mod:`railhead.launch.programs.probe`.
        about: the ``claim``, the ``path`` that it is mounted at, and ``file``, how the names of
            files begin that are written there; empty where none is.
        tell: takes a line.
    """

    def __init__(self, program: str, about: dict[str, str], tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._program, self._about, self._tell = program, about, tell
        self._process: subprocess.Popen[bytes] | None = None
        self._told = "well"
        self._since = ""
        self._next = 0.0

    def run(self) -> None:
        """Ask until the process ends, which it does by itself when this one ends."""
        file = self._about["file"] and f"{self._about['file']}-{socket.gethostname()}"
        words = [sys.executable, "-IS", self._program, self._about["path"], file]
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=nothing, bufsize=0
            )
            stdin, stdout = cast(
                "tuple[IO[bytes], IO[bytes]]", (self._process.stdin, self._process.stdout)
            )
            # Its first line says that it is ready: a slow start is not the mount's fault.
            begun = stdout.readline()
            while begun and self._ask(stdin, stdout):
                time.sleep(ASK_SECONDS)

    def end(self) -> None:
        """Kill the process; it ends as soon as the mount lets it."""
        if self._process is not None:
            self._process.kill()

    def _ask(self, stdin: IO[bytes], stdout: IO[bytes]) -> bool:
        """Ask once; return False, or raise OSError, once nobody answers any more."""
        asked, since = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        limit = ANSWER_SECONDS
        stdin.write(b"\n")
        while not select.select([stdout], [], [], limit)[0]:
            self._is("hangs", "", since)
            limit = ASK_SECONDS
        line = stdout.readline()
        if line:
            answer = json.loads(line)
            how, why, took = answer["how"], answer["why"], time.monotonic() - asked
            if how == "well" and SLOW_SECONDS < took < ANSWER_SECONDS:
                how, why = "slow", f"it took {took:.0f} s to answer"
            self._is(how, why, since)
        return bool(line)

    def _is(self, how: str, why: str, since: str) -> None:
        """Report what is new: trouble now and then, and its end."""
        now = time.monotonic()
        if how == self._told or (how != "well" and now < self._next):
            return
        what = "is as it should be again, after trouble since {since}"
        if how != "well":
            self._since, self._next = since, now + TELL_SECONDS
            what = TROUBLES[how]
        self._told = how
        none = ", and no checkpoint arrives" if self._about["file"] else ""
        message = what.format(since=self._since, why=why, none=none)
        self._tell(f"claim {self._about['claim']} at {self._about['path']} {message}")


class Child:
    """The command, its output where that is kept, and the signals that are for it."""

    def __init__(self, words: list[str], keeper: Keeper | None) -> None:
        self._pid = 0
        self._ending = False
        self._early: list[int] = []
        self._select = selectors.DefaultSelector()
        # A signal, such as that of a process that ended, ends the wait for output.
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._select.register(woken, selectors.EVENT_READ)
        for number in signal.Signals:
            if number.name[3:] not in _OURS:
                signal.signal(number, self._forward)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        pipes = subprocess.PIPE if keeper else None
        # A session, as process 1 of a container has: `kill 0` reaches the command's own alone.
        self._made = subprocess.Popen(
            words, stdout=pipes, stderr=pipes, bufsize=0, start_new_session=True
        )
        self._pid = self._made.pid
        for target, source in enumerate((self._made.stdout, self._made.stderr), 1):
            if source and keeper:
                os.set_blocking(source.fileno(), False)
                data = (target, Stamped(), keeper)
                self._select.register(source, selectors.EVENT_READ, data)
        for early in self._early:
            self._forward(early, None)

    def _forward(self, number: int, _: object) -> None:
        if not self._pid:
            self._early.append(number)
        elif os.getpid() != 1 or catches(self._pid, number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)
                self._ending |= number == signal.SIGTERM

    def code(self) -> int:
        """Hand on all that it prints; return its exit code, as a shell has it.

        For 0 after SIGTERM 143: a pod that ends well counts as complete, also one that is drained
        (kubernetes 1.35, pkg/controller/job/indexed_job_utils.go, calculateSucceededIndexes).
        """
        ended = None
        while ended is None:
            for key, _ in self._select.select():
                self._read(key)
            ended = self._reap()
        # What it left behind may hold its pipes, and is not waited for: process 1 takes it along.
        for key in list(self._select.get_map().values()):
            if key.data:
                self._drain(key)
        if self._ending and ended == 0:
            return 128 + signal.SIGTERM
        return 128 + os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else os.WEXITSTATUS(ended)

    def _read(self, key: selectors.SelectorKey) -> int:
        """Hand on what is there; return how many bytes that was."""
        try:
            data = os.read(key.fd, BLOCK)
        except BlockingIOError:
            return 0
        if key.data:
            self._hand_on(key, data)
        return len(data)

    def _hand_on(self, key: selectors.SelectorKey, data: bytes) -> None:
        target, stamped, keeper = key.data
        at = stamp()
        if not data:
            self._select.unregister(key.fileobj)
            keeper.add(stamped.rest(at))
            return
        rest = data
        with contextlib.suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(target, rest) :]
        keeper.add(stamped.add(at, data))

    def _drain(self, key: selectors.SelectorKey) -> None:
        left, got = MOST_LEFT, 1
        while left > 0 and got:
            got = self._read(key)
            left -= got
        _, stamped, keeper = key.data
        keeper.add(stamped.rest(stamp()))

    def _reap(self) -> int | None:
        """Return the command's status once it has ended; discard other processes that ended."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == self._pid:
                self._pid = 0
                return status
            if not pid:
                return None


def catches(pid: int, number: int) -> bool:
    """Return whether a process handles a signal: process 1 of a container gets no other."""
    lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    mask = next((line.split()[1] for line in lines if line.startswith(b"SigCgt:")), b"0")
    return bool(int(mask, 16) >> (number - 1) & 1)


def main(words: list[str]) -> int:
    """Run ``words[1:]`` by the settings ``words[0]``; return what to exit with."""
    probe, settings = str(Path(__file__).with_name("probe.py")), json.loads(words[0])
    pod, run = os.environ.pop(POD, ""), os.environ.pop(RUN, "")
    number = int(os.environ.get(NUMBER) or 0)
    keeper = (
        Keeper(settings, pod or UNKNOWN, run or UNKNOWN, number) if settings["folder"] else None
    )

    def tell(text: str) -> None:
        say(text)
        if keeper:
            keeper.add(stamp() + f"railhead: {text}\n".encode(errors="replace"))

    mounts = [Mount(probe, about, tell) for about in settings["mounts"]]
    for thread in [keeper, *mounts] if keeper else mounts:
        thread.start()
    try:
        child = Child(words[1:], keeper)
    except OSError as error:
        tell(f"cannot start {words[1]}: {error.strerror}")
        code = 127 if isinstance(error, FileNotFoundError) else 126
    else:
        code = child.code()
    for mount in mounts:
        mount.end()
    if keeper:
        keeper.end()
    return code


if __name__ == "__main__":
    # Past threads that a claim holds.
    os._exit(main(sys.argv[1:]))
