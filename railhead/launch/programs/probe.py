"""Tests one mount each time that a line is read, and prints the result as JSON.

A process of its own: a test of a lost file server may wait for ever.
It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from pathlib import Path

#: Written to the claim each time, and taken away.
SIZE = 4096


def ask(path: str, file: str) -> dict[str, str]:
    """Return ``how`` a mount is (``well``, ``full`` or ``lost``) and ``why``; may never return.

    Args:
        path: where it is mounted.
        file: what to write there; empty where nothing may be written.
    """
    try:
        room = os.statvfs(path)
        if file and not wrote(Path(file)) and room.f_blocks and not room.f_bavail:
            return {"how": "full", "why": "statvfs has no free block"}
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return {"how": "full", "why": f"a write of {SIZE} bytes: {why}"}
        return {"how": "lost", "why": why}
    return {"how": "well", "why": ""}


def wrote(file: Path) -> bool:
    """Write as far as the server and leave nothing; false where this user may not. Raises OSError.

    The folder is for whatever user a job has.
    """
    try:
        with contextlib.suppress(FileExistsError):
            file.parent.mkdir()
            file.parent.chmod(0o777)
        try:
            with file.open("wb") as opened:
                opened.write(bytes(SIZE))
                opened.flush()
                os.fsync(opened.fileno())
        finally:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
    except PermissionError:
        return False
    return True


def main(path: str, file: str) -> None:
    """Print that it is ready, then answer until nobody asks any more."""
    tell({})
    for _ in sys.stdin:
        tell(ask(path, file))


def tell(answer: dict[str, str]) -> None:
    """Print an answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
