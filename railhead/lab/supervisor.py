"""Talking to `labagent init`, the first process of a lab's or a node's namespaces.

Whatever runs in a lab is a child of such an init, so its end is the end of everything in it.
"""

from __future__ import annotations

import json
import os
import signal as signals
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.base.errors import RailheadError

SOCKET_PATH_LIMIT = 100  # sun_path holds 108 bytes with its end; some room for the names below it

_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}


@dataclass(frozen=True, kw_only=True)
class Role:
    """A process that an init was asked to start; ``code`` counts once it has ended."""

    pid: int
    running: bool
    code: int


@dataclass(frozen=True)
class Init:
    """One init, by its control socket (a path of the host)."""

    socket: Path

    def pid(self) -> int | None:
        """Return the init's process number as the host counts, or None when nobody listens."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(5)
            try:
                connection.connect(str(self.socket))
            except OSError:
                return None
            raw = connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
            )
            pid: int = struct.unpack("3i", raw)[0]
            return pid

    def start(
        self,
        role: str,
        argv: Sequence[str],
        *,
        log: str,
        env: Mapping[str, str] | None = None,
        isolate: bool = False,
        pass_fds: Sequence[int] = (),
    ) -> int:
        """Start a long-running process.

        Args:
            role: its name; a role that is running is not started twice.
            argv: the program and its arguments.
            log: file that its output is appended to, as a path inside the namespace.
            env: variables beside PATH, HOME and LANG; nothing is inherited.
            isolate: give it PID, mount, network, UTS and IPC namespaces of its own.
            pass_fds: descriptors that it inherits as 3, 4, ...

        Returns:
            Its process number inside the namespace.
        """
        answer = self._ask(
            {
                "op": "start",
                "role": role,
                "argv": list(argv),
                "env": [f"{k}={v}" for k, v in {**_ENVIRONMENT, **(env or {})}.items()],
                "log": log,
                "isolate": isolate,
            },
            pass_fds,
        )
        return int(answer["pid"])

    def run(self, argv: Sequence[str], *, stdin: str = "", check: bool = True) -> str:
        """Run a command to its end and return what it printed.

        Raises:
            RailheadError: it exited with another status than 0 and ``check`` is set.
        """
        answer = self._ask(
            {
                "op": "run",
                "argv": list(argv),
                "env": [f"{k}={v}" for k, v in _ENVIRONMENT.items()],
                "stdin": stdin,
            }
        )
        output = str(answer.get("output", ""))
        if check and answer["code"] != 0:
            raise RailheadError(
                f"in the lab, `{' '.join(argv[:6])}` exited with {answer['code']}: {output.strip()}"
            )
        return output

    def roles(self) -> dict[str, Role]:
        """Return every role ever started, by name."""
        answer = self._ask({"op": "list"})
        return {
            name: Role(pid=role["pid"], running=role["running"], code=role["code"])
            for name, role in (answer.get("roles") or {}).items()
        }

    def _ask(self, request: Mapping[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(120)
            try:
                connection.connect(str(self.socket))
                text = json.dumps(request).encode()
                sent = socket.send_fds(connection, [text], list(fds))
                connection.sendall(text[sent:])
                connection.shutdown(socket.SHUT_WR)
                parts = []
                while part := connection.recv(1 << 16):
                    parts.append(part)
            except OSError as error:
                raise RailheadError(
                    f"the lab's init does not answer at {self.socket}: {error}",
                    remedy="run `railhead lab up` again; it restarts what has ended",
                ) from None
        if not parts:
            raise RailheadError(
                "the lab's init ended in the middle of a command",
                remedy="run `railhead lab up` again; it restarts what has ended",
            )
        answer: dict[str, Any] = json.loads(b"".join(parts))
        if answer.get("error"):
            raise RailheadError(f"the lab's init: {answer['error']}")
        return answer


def boot(labagent: Path, *, socket_path: Path, log: Path, timeout: float = 10) -> Init:
    """Start a lab's init in namespaces of its own and wait until it answers.

    Raises:
        RailheadError: the kernel refused the namespaces or the init ended at once; with its log.
    """
    result = subprocess.run(
        [str(labagent), "boot", "-socket", str(socket_path), "-log", str(log)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise RailheadError(f"the lab's init did not start: {result.stderr.strip()}")
    init = Init(socket_path)
    wait_for_init(init, log=log, timeout=timeout)
    return init


def wait_for_init(init: Init, *, log: Path, timeout: float = 10) -> int:
    """Wait until an init listens; returns its process number on the host."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if pid := init.pid():
            return pid
        time.sleep(0.02)
    tail = log.read_text(errors="replace")[-1000:] if log.exists() else "(no log)"
    raise RailheadError(f"no init answers at {init.socket} after {timeout:g} s; its log: {tail}")


def kill_and_wait(pid: int, *, timeout: float = 20) -> bool:
    """SIGKILL an init and wait until its whole namespace is gone; True when it is."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        signals.pidfd_send_signal(handle, signals.SIGKILL)
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if not _alive(pid):
            return True
        time.sleep(0.02)
    return False


def _alive(pid: int) -> bool:
    """Return whether the process runs; an init is a zombie only after all its children ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
