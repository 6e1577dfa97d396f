"""The reading of files that people name: regular ones alone, and none larger than is useful."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

#: More than any file of settings, key, kubeconfig or report has.
LARGEST = 64 << 20


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """Return a file's bytes; its kind and size are asked before anything is read.

    Raises:
        OSError: it cannot be read; is a device, pipe or socket, which may never end or never begin;
            or is larger.
    """
    # Without it a pipe that nobody writes to is waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "no regular file (a device, pipe or socket)", str(path))
        # Files of the kernel's own have no size.
        data = file.read(largest + 1) if about.st_size <= largest else b""
    if about.st_size > largest or len(data) > largest:
        raise OSError(errno.EFBIG, f"larger than {largest} bytes", str(path))
    return data


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Return a file's UTF-8 text with lines that end with a newline alone.

    Raises:
        OSError: as :func:`read_bytes`.
        UnicodeDecodeError: it is no UTF-8.
    """
    text = read_bytes(path, largest).decode("utf-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
