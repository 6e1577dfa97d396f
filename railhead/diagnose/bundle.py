"""Evidence in one file: redacted logs and objects, readable by their owner only.

A bundle is a gzipped tar. `railhead diagnose BUNDLE` reads it back and comes to the same findings,
so that a colleague needs no access to the cluster.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from railhead.base.errors import InputError, RefusedError
from railhead.base.version import __version__
from railhead.diagnose import redact
from railhead.diagnose.model import RankedCause
from railhead.diagnose.objects import ClusterObjects
from railhead.nccl.sources import Source

SUFFIX = ".tar.gz"
ABOUT = "ABOUT.txt"
OBJECTS = "objects.json"
FINDINGS = "findings.json"
LOGS = "logs/"
# A container's log: its beginning holds the transport, its end the error.
HEAD_BYTES = 8 << 20
TAIL_BYTES = 24 << 20
CHUNK = 1 << 20
LARGEST_MEMBER = 256 << 20
# All members together, which are held in memory.
LARGEST = 2 << 30
TEXT = """\
Evidence collected by `railhead diagnose --collect`, Railhead {version}, {when}.

logs/*.log     what the job's containers wrote: the first {head} MiB and the last {tail} MiB of
               each, {most} MiB of all together at most
objects.json   pods, nodes, events, network policies, workloads, counters
findings.json  what Railhead made of it

Taken out: values of environment variables except those of NCCL and its neighbours, annotations,
the content of Secrets and ConfigMaps, and whatever looks like a token, a key or a password. Look
through it before you pass it on: a program can print a secret in a form that nobody foresees.

Not readable when it was collected: {unreadable}
"""


def default_name(subject: str) -> str:
    """Return a file name that most likely does not exist yet."""
    return f"railhead-diagnose-{subject}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}{SUFFIX}"


class _Unpacked(gzip.GzipFile):
    """The bytes of a gzipped file, which end with an error where they are too many to be held."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._most = LARGEST

    def read(self, size: int | None = -1) -> bytes:
        """Return at most ``size`` bytes."""
        data = super().read(size)
        self._most -= len(data)
        if self._most < 0:
            raise InputError(
                f"{self.name}: more than {LARGEST >> 20} MiB unpacked",
                remedy="unpack it, and name the logs that are to be read",
            )
        return data


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    with _Unpacked(path) as packed, tarfile.open(fileobj=packed, mode="r|") as tar:
        yield tar


def is_bundle(path: Path) -> bool:
    """True for a file that :func:`write` made."""
    if not path.name.endswith(SUFFIX) or not path.is_file():
        return False
    try:
        with _opened(path) as tar:
            first = tar.next()
            return first is not None and first.name == ABOUT
    except (tarfile.TarError, OSError, EOFError, zlib.error):
        return False


def _shortened(source: Source) -> Iterator[bytes]:
    """Yield a log's lines, redacted, without the middle of a long log."""
    stream = source.open()
    head, tail, left_out = 0, bytearray(), 0
    rest = b""
    while chunk := stream.read(CHUNK):
        if head < HEAD_BYTES:
            *lines, rest = (rest + chunk).split(b"\n")
            done = b"".join(line + b"\n" for line in lines)
            head += len(done)
            yield _clean(done)
            if head < HEAD_BYTES and len(rest) < CHUNK:
                continue
            tail += rest
            rest = b""
        else:
            tail += chunk
            if len(tail) > 2 * TAIL_BYTES:
                left_out += len(tail) - TAIL_BYTES
                del tail[:-TAIL_BYTES]
    if len(tail) > TAIL_BYTES:
        left_out += len(tail) - TAIL_BYTES
        del tail[:-TAIL_BYTES]
    if left_out:
        yield b"[railhead: %d bytes left out]\n" % left_out
        # The first line of the rest is half a line, and half a secret is not recognised.
        tail = tail.partition(b"\n")[2]
    yield _clean(bytes(tail) + rest)


def _clean(data: bytes) -> bytes:
    # Whole text at once: a private key spans lines.
    return redact.text(data.decode("utf-8", "replace")).encode()


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = len(data), 0o600, int(time.time())
    tar.addfile(member, io.BytesIO(data))


def _pretty(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()


def _safe(name: str) -> str:
    kept = "".join(item if item.isalnum() or item in "-._" else "_" for item in name)
    return kept.strip(".") or "log"


def write(
    path: Path,
    *,
    sources: Iterable[Source],
    objects: ClusterObjects | None,
    findings: Iterable[RankedCause],
) -> list[str]:
    """Write a bundle; the file must not exist yet.

    Returns:
        The names of what is in it.

    Raises:
        RefusedError: the file exists.
        InputError: it cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise RefusedError(f"{path} exists", remedy="name another file with --output") from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written: {error.strerror}", remedy="name another with --output"
        ) from None
    # A reader takes no more than it can hold.
    most = LARGEST - LARGEST_MEMBER
    unreadable = "; ".join(objects.unreadable) if objects and objects.unreadable else "nothing"
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        about = TEXT.format(
            version=__version__,
            when=time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime()),
            head=HEAD_BYTES >> 20,
            tail=TAIL_BYTES >> 20,
            most=most >> 20,
            unreadable=redact.text(unreadable),
        )
        _add(tar, ABOUT, about.encode())
        if objects is not None:
            _add(tar, OBJECTS, _pretty(redact.manifest(objects.to_json())))
        for number, source in enumerate(sources):
            name = f"{LOGS}{number:04d}-{_safe(source.name)}.log"
            data = b"".join(_shortened(source))
            if len(data) > most:
                data = b"[railhead: %d bytes left out]\n" % len(data)
            most -= len(data)
            _add(tar, name, data)
        held = [redact.manifest(finding.to_json()) for finding in findings]
        _add(tar, FINDINGS, _pretty(held))
        return [member.name for member in tar.getmembers()]


def read(path: Path) -> tuple[list[Source], ClusterObjects | None]:
    """Return the logs and the objects of a bundle.

    Raises:
        InputError: it is truncated or not a bundle.
    """
    sources: list[Source] = []
    objects = None
    try:
        with _opened(path) as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isreg() else None
                if stream is None or member.size > LARGEST_MEMBER:
                    continue
                data = stream.read()
                if member.name == OBJECTS:
                    objects = ClusterObjects.from_json(_object(data))
                elif member.name.startswith(LOGS):
                    sources.append(_source(f"{path.name}:{member.name}", data))
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"{path}: not a whole bundle: {error}", remedy="was it cut?") from None
    return sources, objects


def _object(data: bytes) -> dict[str, Any]:
    held = json.loads(data)
    return held if isinstance(held, dict) else {}


def _source(name: str, data: bytes) -> Source:
    return Source(name=name, open=lambda: io.BytesIO(data), size=len(data))
