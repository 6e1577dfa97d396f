"""Logs and history, kept on the reader's machine: they outlive pods, nodes and the job.

The cluster keeps no log of a pod that is gone. What is followed (`launch`, `logs`) or waited for
(`wait`), and what `cancel` and `restart` are about to take away, is written here as well, with the
kubelet's timestamps: a file a container, of which the newest part stays. At the end of each, what
`describe` says of the job.
"""

from __future__ import annotations

import heapq
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

#: Bytes of a file before it gives way to a new one; the one before is kept too. Of a large gang
#: each node has its part of what a job may take, and no less than the least.
MOST_BYTES = 8 << 20
LEAST_BYTES = 64 << 10
MOST_BYTES_OF_A_JOB = 512 << 20
#: Jobs whose logs are kept.
MOST_JOBS = 50
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HISTORY = "history.json"
_ABOUT = "about.json"
_FILE = re.compile(r"(\d+)-([-A-Za-z0-9]+)-(\d+)\.log")


def most_bytes(of: int) -> int:
    """Return the most bytes of one container's file, in a gang of so many."""
    return min(MOST_BYTES, max(LEAST_BYTES, MOST_BYTES_OF_A_JOB // (2 * of)))


def home() -> Path:
    """Return ``$XDG_STATE_HOME/railhead/logs``, or a folder below ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    base = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return base / "railhead" / "logs"


class Writer:
    """One container's log on disk. What cannot be written is not kept, and nothing fails."""

    def __init__(
        self, folder: Path, *, index: int, uid: str, restarts: int, of: int, more: bool = False
    ) -> None:
        self._most = most_bytes(of)
        self._path = folder / f"{index}-{uid}-{restarts}.log"
        self._file: IO[bytes] | None = None
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = self._open(os.O_APPEND if more else os.O_TRUNC)
            self._size = self._file.tell()

    def _open(self, how: int = os.O_TRUNC) -> IO[bytes]:
        # Logs may hold what is not everybody's.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        return os.fdopen(descriptor, "ab")

    def write(self, raw: str) -> None:
        """Write a line as the kubelet has it, timestamp first."""
        if self._file is None:
            return
        data = raw.encode() + b"\n"
        try:
            if self._size + len(data) > self._most and self._size:
                self._file.close()
                self._path.replace(self._path.with_suffix(".log.before"))
                self._file, self._size = self._open(), 0
            self._file.write(data)
            self._file.flush()
            self._size += len(data)
        except OSError:
            self.close()

    def close(self) -> None:
        """Close the file; no more lines come."""
        file, self._file = self._file, None
        # Closing tries once more to write what a full disk did not take.
        with suppress(OSError):
            if file is not None:
                file.close()


@dataclass(frozen=True, kw_only=True)
class About:
    """The size of a job that is gone, as far as it is known."""

    name: str
    wanted: int
    processes_per_node: int
    runtime: str

    @property
    def ranks(self) -> int:
        """Processes in the whole job."""
        return self.wanted * self.processes_per_node


@dataclass(frozen=True, kw_only=True)
class Folder:
    """The folder of one job's logs on this machine."""

    path: Path

    def writer(self, *, index: int, uid: str, restarts: int, of: int, more: bool = False) -> Writer:
        """Return a writer for one container of a gang of ``of``; with ``more`` it appends."""
        return Writer(self.path, index=index, uid=uid, restarts=restarts, of=of, more=more)

    def last(self, *, index: int, uid: str, restarts: int) -> str:
        """Return the timestamp of the last line that is kept of a container; empty without one."""
        return max((stamp for stamp, _, _ in self._of(index, uid, restarts)), default="")

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Keep what is known of the job; what cannot be written is not kept, and nothing fails."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self.path / _HISTORY
            path.touch(mode=0o600)
            path.write_text(json.dumps(facts), encoding="utf-8")
        except OSError:
            return

    def described(self) -> dict[str, Any] | None:
        """Return what was kept of the job's description; None if nothing was."""
        try:
            reported = json.loads((self.path / _HISTORY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return reported if isinstance(reported, dict) else None

    def put(self, name: str, data: bytes) -> None:
        """Store a container's log from elsewhere, unless the one here has at least as much."""
        if not _FILE.fullmatch(name):
            return
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.path / name
        older = path.with_suffix(".log.before")
        if sum(part.stat().st_size for part in (older, path) if part.exists()) >= len(data):
            return
        path.touch(mode=0o600)
        path.write_bytes(data)
        older.unlink(missing_ok=True)

    def tell(self, about: Mapping[str, Any], *, at: float) -> None:
        """Keep what was said of the job beside logs from elsewhere, the last of them ``at``."""
        path = self.path / _ABOUT
        path.touch(mode=0o600)
        path.write_text(json.dumps(about), encoding="utf-8")
        os.utime(self.path, (at, at))

    def about(self) -> About | None:
        """Return the size of the job as it was kept; None if it was not."""
        try:
            reported = json.loads((self.path / _ABOUT).read_text(encoding="utf-8"))
            return About(
                name=str(reported["name"]),
                wanted=int(reported["nodes"]),
                processes_per_node=int(reported["processes"]),
                runtime=str(reported["runtime"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def containers(self) -> dict[tuple[str, int], int]:
        """Return pods' uids and restarts -> their node's index."""
        try:
            names = [entry.name for entry in self.path.iterdir()]
        except OSError:
            return {}
        match = (_FILE.fullmatch(name) for name in names)
        return {(item[2], int(item[3])): int(item[1]) for item in match if item}

    def lines(self, but: Collection[tuple[str, int]] = ()) -> Iterator[tuple[str, int, str]]:
        """Yield (timestamp, node, text) of every container but those named, ordered by time."""
        return heapq.merge(
            *(
                self._of(index, uid, restarts)
                for (uid, restarts), index in sorted(self.containers().items())
                if (uid, restarts) not in but
            )
        )

    def starts(self, index: int) -> dict[tuple[str, int], list[tuple[str, str]]]:
        """Return the (timestamp, text) lines of each start of a node, by its pod and restarts."""
        return {
            (uid, restarts): [(at, text) for at, _, text in self._of(index, uid, restarts)]
            for (uid, restarts), node in self.containers().items()
            if node == index
        }

    def _of(self, index: int, uid: str, restarts: int) -> Iterator[tuple[str, int, str]]:
        path = self.path / f"{index}-{uid}-{restarts}.log"
        for part in (path.with_suffix(".log.before"), path):
            try:
                file = part.open("rb")
            except OSError:
                continue
            with file:
                for raw in file:
                    stamp, _, text = raw.decode("utf-8", "replace").rstrip("\n").partition(" ")
                    yield stamp, index, text


def folder(namespace: str, name: str, uid: str) -> Folder:
    """Return a job's own; makes room for it among the others."""
    base = home()
    _make_room(base)
    return Folder(path=base / namespace / name / uid)


def folder_to_read(namespace: str, name: str, uid: str) -> Folder:
    """Return a job's folder, which may not exist."""
    return Folder(path=home() / namespace / name / uid)


def of_run(namespace: str, name: str, uid: str, files: Collection[str]) -> Folder:
    """Return the folder for logs from elsewhere: the one that has files of these containers.

    Args:
        namespace: the namespace of the job.
        name: the name of the job.
        uid: the name of the run, if nothing of it is here.
        files: the names of its containers' files.
    """
    for path in (home() / namespace / name).glob("*"):
        if any((path / file).exists() for file in files):
            return Folder(path=path)
    return folder(namespace, name, uid)


def newest(name: str, namespaces: Collection[str] | None = None) -> Folder | None:
    """Return the newest that is kept of a job's name, whose object may be long gone."""
    if not NAME.fullmatch(name):
        return None
    base = home()
    results = [
        path
        for path in base.glob(f"*/{name}/*")
        if path.is_dir() and (namespaces is None or path.parent.parent.name in namespaces)
    ]
    return Folder(path=max(results, key=_age)) if results else None


def before(namespace: str, name: str, uid: str) -> Folder | None:
    """Return the newest folder of a job's name, except this one, such as from before a restart."""
    others = (path for path in (home() / namespace / name).glob("*") if path.name != uid)
    newest = max(others, key=_age, default=None)
    return Folder(path=newest) if newest else None


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _make_room(base: Path) -> None:
    every = (path for path in base.glob("*/*/*") if path.is_dir())
    for path in sorted(every, key=_age, reverse=True)[MOST_JOBS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
