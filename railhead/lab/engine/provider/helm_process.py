"""Runs the `helm` program: no secret on its command line, no file left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from railhead.lab.engine.provider.objects import OperationError


class HelmError(Exception):
    """`helm` exited with an error; the message is its own."""


def find_helm() -> str:
    """Return the Helm 3 binary: ``$RAILHEAD_HELM``, else ``helm`` on PATH.

    Raises:
        OperationError: it is not installed.
    """
    named = os.environ.get("RAILHEAD_HELM")
    if named:
        if not os.access(named, os.X_OK):
            raise OperationError(f"RAILHEAD_HELM names {named!r}, which is not an executable file")
        return named
    result = shutil.which("helm")
    if result is None:
        raise OperationError(
            "Helm releases need the `helm` program, which is neither on PATH nor named by "
            "RAILHEAD_HELM; install Helm 3 or run `railhead lab up`, which builds it"
        )
    return result


class PrivateFiles:
    """Files that only this process and its children can read, gone when they are.

    They live in memory where the kernel offers that, else in a directory of mode 0700 that
    :meth:`close` removes.
    """

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def add(self, name: str, content: str) -> str:
        """Keep ``content``; returns a path for a child that inherits :attr:`descriptors`."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create(name)
            os.write(descriptor, b"")
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(content.encode())
            self.descriptors.append(descriptor)
            return f"/proc/self/fd/{descriptor}"
        path = Path(self.folder()) / name
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(content)
        return str(path)

    def folder(self) -> str:
        """Return a private directory, for programs that insist on one."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="railhead-helm-")
        return self._folder.name

    def close(self) -> None:
        """Remove every file."""
        for descriptor in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.descriptors.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


@contextlib.contextmanager
def private_files() -> Iterator[PrivateFiles]:
    """Yield private files for the duration of a block."""
    files = PrivateFiles()
    try:
        yield files
    finally:
        files.close()


class HelmRunner:
    """Runs `helm` and ends it when the user cancels or this process ends."""

    def __init__(self, cancel: threading.Event, environment: Mapping[str, str]) -> None:
        self._cancel = cancel
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()

    def run(
        self,
        arguments: Sequence[str],
        files: PrivateFiles,
        *,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        progress: Callable[[float], str] | None = None,
    ) -> str:
        """Run ``helm ARGUMENTS``; returns its standard output.

        Args:
            arguments: without secrets: anyone on the machine can read them.
            files: what the child may open.
            stdin: what it reads.
            environment: more variables for the child.
            progress: called every two seconds with the seconds so far; returns why to abort, or
                an empty text to go on.

        Raises:
            HelmError: it exited with an error, was aborted or cancelled.
            OperationError: `helm` is not installed.
        """
        # A helm that outlives its killed provider would race the next run for the release.
        prefix = []
        if setpriv := shutil.which("setpriv"):
            prefix = [setpriv, "--pdeathsig", "TERM", "--"]
        environ = {**os.environ, **self._environment, **(environment or {})}
        child = subprocess.Popen(
            [*prefix, find_helm(), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            pass_fds=files.descriptors,
        )
        with self._lock:
            self._running.add(child)
        result: dict[str, bytes] = {}

        def communicate() -> None:
            result["out"], result["err"] = child.communicate(stdin.encode())

        reader = threading.Thread(target=communicate, daemon=True)
        reader.start()
        started = reported = time.monotonic()
        terminated, hopeless = False, ""
        try:
            while True:
                reader.join(0.1)
                if not reader.is_alive():
                    break
                now = time.monotonic()
                if progress is not None and now - reported >= 2.0:
                    reported = now
                    hopeless = hopeless or progress(now - started)
                if (hopeless or self._cancel.is_set()) and not terminated:
                    terminated = True
                    child.terminate()
        finally:
            with self._lock:
                self._running.discard(child)
        if child.returncode:
            text = result.get("err", b"").decode(errors="replace")
            why = hopeless or _message(text) or f"helm exited with status {child.returncode}"
            raise HelmError(why)
        return result.get("out", b"").decode(errors="replace")

    def stop(self) -> None:
        """Ask every running helm to end; it marks its release as failed."""
        with self._lock:
            running = list(self._running)
        for child in running:
            with contextlib.suppress(OSError):
                child.terminate()
        for child in running:
            # Long enough for Helm to write that the release failed, short enough for the engine.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=3.0)


def _message(stderr: str) -> str:
    lines = [
        line
        for line in stderr.splitlines()
        if line.strip() and not line.startswith(("WARNING:", "walk.go", "level="))
    ]
    return "\n".join(line.removeprefix("Error: ") for line in lines[-20:])
