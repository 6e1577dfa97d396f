"""Runs other programs: with output in a log, ended together with this process, without a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from railhead.base.errors import RailheadError
from railhead.base.paths import cache_root

_TAIL_LINES = 25
_STOP_S = 5.0


class CommandError(RailheadError):
    """A program that was run ended with an error; carries the end of its output."""

    def __init__(self, command: Sequence[str], status: int, tail: str, log: Path) -> None:
        shown = " ".join(command)
        shown = shown if len(shown) <= 200 else shown[:200] + " ..."
        super().__init__(
            f"`{shown}` ended with status {status}; its last words:\n{tail}",
            remedy=f"the whole output is in {log}; mend what it reports and run the command again",
        )
        self.tail = tail


class StoppedError(RailheadError):
    """The work was stopped because another step failed or the user interrupted it."""


def log_path(name: str) -> Path:
    """Return the log file of step ``name``."""
    return cache_root() / "logs" / f"{name}.log"


class Runner:
    """Runs programs so that all of them end when one fails or the user interrupts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
        patient: bool = False,
    ) -> str:
        """Run ``command`` to its end.

        Args:
            command: program and arguments; no shell sees them.
            log: file that the output is appended to.
            env: the whole environment; ours when absent.
            cwd: working directory.
            on_line: called with each line of output.
            patient: never killed, for a package manager that must not be stopped half way.

        Returns:
            The last lines of its output.

        Raises:
            CommandError: it ended with an error.
            StoppedError: another step failed meanwhile.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        process = self.start(command, env=env, cwd=cwd, patient=patient)
        tail: deque[str] = deque(maxlen=_TAIL_LINES)
        try:
            assert process.stdout is not None  # noqa: S101 - start() asks for a pipe
            with log.open("ab") as out:
                out.write(("$ " + " ".join(command) + "\n").encode())
                for raw in process.stdout:
                    out.write(raw)
                    line = raw.decode(errors="replace").rstrip()
                    tail.append(line)
                    if on_line is not None:
                        on_line(line)
            status = process.wait()
        finally:
            self.forget(process)
        if self._stopped and status != 0:
            raise StoppedError("stopped")
        if status != 0:
            raise CommandError(command, status, "\n".join(tail), log)
        return "\n".join(tail)

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = subprocess.PIPE,
        stderr: int | None = subprocess.STDOUT,
        patient: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own; it dies with the thread that started it."""
        # Were we killed, the kernel would end it; a package manager is left to finish.
        prefix = [] if patient else ["setpriv", "--pdeathsig", "KILL", "--"]
        with self._lock:
            if self._stopped:
                raise StoppedError("stopped")
            process = subprocess.Popen(
                [*prefix, *command],
                env=None if env is None else dict(env),
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
            if not patient:
                self._running.add(process)
        return process

    def forget(self, process: subprocess.Popen[bytes]) -> None:
        """Take a program off the list, ending it first when it still runs."""
        if process.poll() is None and process in self._running:
            _end(process)
        with self._lock:
            self._running.discard(process)

    def stop(self) -> None:
        """End everything that runs; nothing can be started afterwards."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _end(process)

    @property
    def stopped(self) -> bool:
        """True after :meth:`stop` was called."""
        return self._stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            continue
        return
