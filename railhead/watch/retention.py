"""Removes old checkpoints from a claim: those that their run marked as whole, and no others.

The text of this file runs in a pod that mounts the one claim, in any image with a Python. A
checkpoint is a directory with the regular file ``.railhead-checkpoint`` in it, which its run writes
last; the run is the directory that it lies in, which is not the claim itself. Of each run the
newest ``--keep`` stay whatever their age; of the others those go that were marked more than
``--days`` ago. What is not marked, behind a symbolic link or on another file system is left alone.

Ages are by the file server's clock alone: a mark's time, against that of a file written now.
Without ``--delete`` it says what would go. It exits 1 when something could not be removed, and 2,
with nothing removed, when the claim or its clock is not as it should be.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MARK = ".railhead-checkpoint"
GOING = ".railhead-removing-"
_NOW = ".railhead-retention-now"
_DAY = 86400.0
#: Directories of a run's checkpoints lie no deeper below the claim than this.
_DEPTH = 8


@dataclass(frozen=True, kw_only=True, order=True)
class Checkpoint:
    """A marked directory; ``marked`` is when, in seconds by the file server's clock."""

    marked: float
    path: Path


def marked(directory: Path) -> float | None:
    """Return when a directory was marked, or None if it was not."""
    try:
        result = os.lstat(directory / MARK)
    except OSError:
        return None
    return result.st_mtime if stat.S_ISREG(result.st_mode) else None


def directories(folder: Path, device: int) -> Iterator[Path]:
    """Yield the directories right below a folder, on its own file system; links do not count."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False) and os.lstat(entry.path).st_dev == device:
                yield Path(entry.path)
        except OSError:
            continue


def runs(root: Path) -> Iterator[list[Checkpoint]]:
    """Yield each run's checkpoints, oldest first; nothing inside of a checkpoint is looked at."""
    device = os.lstat(root).st_dev
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        results = []
        for directory in directories(folder, device):
            when = marked(directory)
            if directory.name.startswith(GOING):
                continue
            if when is not None and depth > 0:
                results.append(Checkpoint(marked=when, path=directory))
            elif when is None and depth < _DEPTH:
                folders.append((directory, depth + 1))
        if results:
            yield sorted(results)


def interrupted(root: Path) -> Iterator[Path]:
    """Yield the leftovers of an earlier removal that did not end."""
    device = os.lstat(root).st_dev
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        for directory in directories(folder, device):
            if directory.name.startswith(GOING):
                yield directory
            elif marked(directory) is None and depth < _DEPTH:
                folders.append((directory, depth + 1))


def old(run: Sequence[Checkpoint], now: float, *, days: float, keep: int) -> list[Checkpoint]:
    """Return the checkpoints of a run that may go."""
    return [item for item in run[: max(len(run) - keep, 0)] if now - item.marked > days * _DAY]


def server_time(root: Path) -> float:
    """Return the time now, by the clock of the file server."""
    path = root / f"{_NOW}-{os.getpid()}"
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        return os.fstat(descriptor).st_mtime
    finally:
        os.close(descriptor)
        path.unlink()


def remove(one: Checkpoint) -> bool:
    """Take a checkpoint out of its run at once, then away; False if it was written to meanwhile."""
    going = one.path.with_name(f"{GOING}{one.path.name}"[:200] + f"-{os.getpid()}")
    if marked(one.path) != one.marked:
        return False
    one.path.rename(going)
    if marked(going) != one.marked:
        going.rename(one.path)
        return False
    shutil.rmtree(going)
    return True


def say(what: str, path: Path, **more: object) -> None:
    """Print one line of JSON, whatever a name has in it."""
    line = json.dumps({"retention": what, "path": os.fspath(path), **more})
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def clear(root: Path, *, days: float, keep: int, delete: bool) -> int:
    """Go through a claim once; return the exit status."""
    try:
        now = server_time(root)
    except OSError as error:
        say("stopped", root, error=f"nothing can be written: {error.strerror}")
        return 2
    if abs(now - time.time()) > _DAY:
        say("stopped", root, error="the clocks of the file server and of this node are a day apart")
        return 2
    failed = 0
    for path in interrupted(root) if delete else ():
        try:
            shutil.rmtree(path)
            say("removed the rest", path)
        except OSError as error:
            failed += 1
            say("failed", path, error=error.strerror)
    for run in runs(root):
        for item in old(run, now, days=days, keep=keep):
            age = round((now - item.marked) / _DAY, 1)
            if not delete:
                say("would remove", item.path, days=age)
                continue
            try:
                say("removed" if remove(item) else "was written to, stays", item.path, days=age)
            except OSError as error:
                failed += 1
                say("failed", item.path, error=error.strerror)
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program in its pod."""
    parser = argparse.ArgumentParser(prog="retention")
    parser.add_argument("root", type=Path)
    parser.add_argument("--days", type=float, required=True)
    parser.add_argument("--keep", type=int, required=True)
    parser.add_argument("--delete", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.days <= 0 or asked.keep < 1 or not shutil.rmtree.avoids_symlink_attacks:
        parser.error(
            "--days above 0, --keep of at least 1, and a Python that removes by descriptor"
        )
    return clear(asked.root, days=asked.days, keep=asked.keep, delete=asked.delete)


if __name__ == "__main__":
    sys.exit(main())
