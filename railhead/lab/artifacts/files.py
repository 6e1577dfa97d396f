"""Files of the cache: keys, scratch space, whole-or-absent publication, one builder at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.base.paths import cache_root

_POLL_S = 0.5


def digest(*parts: str | bytes) -> str:
    """Return a short key of ``parts``: 16 hexadecimal digits; the parts' borders count."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "big"))
        total.update(raw)
    return total.hexdigest()[:16]


def tree_digest(root: Path, pattern: str) -> str:
    """Return a key of the names and contents of the files below ``root`` that match ``pattern``."""
    parts: list[str | bytes] = []
    for path in sorted(root.rglob(pattern)):
        parts += [path.relative_to(root).as_posix(), path.read_bytes()]
    return digest(*parts)


def scratch_root() -> Path:
    """Return the folder of unfinished work, from which a rename publishes into the cache."""
    return cache_root() / "tmp"


@contextlib.contextmanager
def scratch(name: str) -> Iterator[Path]:
    """Yield an empty directory for unfinished work, removed at the end unless it was published."""
    path = scratch_root() / f"{name}-{os.getpid()}"
    remove_tree(path)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        remove_tree(path)


def sweep_scratch() -> None:
    """Remove what a killed build left; only for the holder of :func:`building`."""
    if scratch_root().is_dir():
        for path in scratch_root().iterdir():
            remove_tree(path)


def publish(unfinished: Path, final: Path) -> None:
    """Make ``unfinished`` appear as ``final`` in one step, in place of what was there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.exists():
        old = scratch_root() / f"old-{os.getpid()}-{final.name}"
        old.parent.mkdir(parents=True, exist_ok=True)
        final.rename(old)
        unfinished.rename(final)
        remove_tree(old)
    else:
        unfinished.rename(final)


def remove_tree(path: Path) -> None:
    """Remove a directory or file, if it exists."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    elif path.exists():
        shutil.rmtree(path)


def remove_older(folder: Path, prefix: str, current: Collection[Path]) -> None:
    """Remove generations of what is built, but the current and the newest of the others.

    So two checkouts do not build in turns, and what one runs from stays.
    """
    others = [path for path in folder.glob(f"{prefix}-*") if path not in current]
    others.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for old in others[1:]:
        remove_tree(old)


@contextlib.contextmanager
def building(on_wait: Callable[[str], None]) -> Iterator[None]:
    """Hold the cache's build lock, so that two commands never build the same thing twice.

    Args:
        on_wait: called once with the holder of the lock, when it must be waited for.

    Raises:
        PrerequisiteError: the cache cannot be written.
    """
    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = (root / "build.lock").open("a+")
    except OSError as error:
        raise PrerequisiteError(
            f"{root}: the cache of what is built cannot be written: {error.strerror}",
            remedy="make it writable, or move it with RAILHEAD_CACHE=/another/directory",
        ) from error
    with file as lock:
        reported = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    lock.seek(0)
                    on_wait(lock.read().strip() or "another process")
                    reported = True
                time.sleep(_POLL_S)
        lock.seek(0)
        lock.truncate()
        lock.write(f"process {os.getpid()}")
        lock.flush()
        try:
            yield
        finally:
            lock.seek(0)
            lock.truncate()


def existing_parent(path: Path) -> Path:
    """Return ``path``, or its nearest parent that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def require_space(path: Path, needed_gib: float, purpose: str) -> None:
    """Refuse when the file system of ``path`` has less than ``needed_gib`` free.

    Raises:
        PrerequisiteError: names the path, the need and what is free.
    """
    free_gib = shutil.disk_usage(existing_parent(path)).free / 2**30
    if free_gib < needed_gib:
        raise PrerequisiteError(
            f"{path} has {free_gib:.1f} GiB free; {purpose} needs {needed_gib:.1f} GiB",
            remedy="free some space, or move the cache with RAILHEAD_CACHE=/another/directory "
            "(Go's own build cache moves with GOCACHE, its modules with GOMODCACHE)",
        )


def size_bytes(path: Path) -> int:
    """Return the bytes on disk below ``path``; a hard link counts once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            stat = os.lstat(Path(directory) / name)
            if (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                total += stat.st_blocks * 512
    return total
