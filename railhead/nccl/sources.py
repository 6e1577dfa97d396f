"""Where log bytes come from: files, folders, patterns, standard input; compressed or not."""

from __future__ import annotations

import codecs
import glob
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from railhead.errors import InputError, NotFoundError, PrerequisiteError

BLOCK = 1 << 20
LONGEST_LINE = 1 << 16
SNIFF = 512


class Readable(Protocol):
    """What a source must offer; ``b""`` at the end."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One stream of log.

    Attributes:
        name: as the reader gave it, for evidence.
        open: opens the stream; called once.
        size: bytes on disk, 0 when not known.
    """

    name: str
    open: Callable[[], Readable]
    size: int = 0


class CutError(Exception):
    """The stream ended before its end: what was read before it stands."""


def _file(path: Path, name: str) -> Source:
    return Source(name=name, open=lambda: path.open("rb", buffering=0), size=path.stat().st_size)


def _stdin() -> Readable:
    return cast(BinaryIO, getattr(sys.stdin, "buffer", sys.stdin))


def resolve(inputs: Iterable[Path | str | Source]) -> list[Source]:
    """The streams that are meant.

    Args:
        inputs: paths of files, folders (every file below them) or patterns such as ``logs/*.log``;
            ``-`` is standard input.

    Raises:
        NotFoundError: there is no such file, or a pattern or folder holds none.
        InputError: a path is neither a file nor a folder, or cannot be read.
    """
    found: list[Source] = []
    for given in inputs:
        if isinstance(given, Source):
            found.append(given)
            continue
        name = str(given)
        if name == "-":
            found.append(Source(name="-", open=_stdin))
            continue
        path = Path(name)
        try:
            if path.is_dir():
                inside = sorted(one for one in path.rglob("*") if one.is_file())
                if not inside:
                    raise NotFoundError(
                        f"{name}: no file is in this folder", remedy="name a folder with logs"
                    )
                found += [_file(one, str(one)) for one in inside]
            elif path.exists():
                found.append(_file(path, name))
            elif matching := sorted(glob.glob(name, recursive=True)):  # noqa: PTH207 - absolute too
                found += [_file(Path(one), one) for one in matching if Path(one).is_file()]
            else:
                raise NotFoundError(
                    f"{name}: no such file, folder or pattern",
                    remedy="name a log file, or `-` for standard input",
                )
        except (OSError, ValueError) as error:
            raise InputError(
                f"{name!r}: cannot be read: {error}", remedy="name a readable file"
            ) from error
    return found


def _zstd(raw: Readable, name: str) -> Readable:
    try:
        import zstandard
    except ImportError as error:
        raise PrerequisiteError(
            f"{name} is compressed with zstd, and the zstandard package is not installed",
            remedy="pip install 'railhead[nccl]', or `zstd -dc FILE | railhead nccl read -`",
        ) from error
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return cast(Readable, decompressor.stream_reader(cast(BinaryIO, raw), read_across_frames=True))


class _Head:
    """A stream whose first bytes were looked at."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """The looked-at bytes first."""
        if self._head:
            taken, self._head = (
                (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            )
            return taken
        return self._rest.read(size if size >= 0 else BLOCK)

    def readinto(self, buffer: bytearray) -> int:
        """For readers of the standard library."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Nothing is held."""

    closed = False


def _head_of(stream: Readable) -> bytes:
    head = b""
    while len(head) < SNIFF:
        more = stream.read(SNIFF - len(head))
        if not more:
            break
        head += more
    return head


def _plain(stream: Readable, name: str) -> Readable:
    """The stream without its compression, told by the first bytes; two layers at most."""
    for _ in range(2):
        head = _head_of(stream)
        whole = _Head(head, stream)
        if head.startswith(b"\x1f\x8b"):
            import gzip

            stream = cast(Readable, gzip.GzipFile(fileobj=cast(BinaryIO, whole)))
        elif head.startswith(b"\x28\xb5\x2f\xfd"):
            stream = _zstd(whole, name)
        elif head.startswith(b"\xfd7zXZ\x00"):
            import lzma

            stream = cast(Readable, lzma.open(cast(BinaryIO, whole)))  # noqa: SIM115 - read to its end
        elif head.startswith(b"BZh") and head[4:10] == b"1AY&SY":
            import bz2

            stream = cast(Readable, bz2.BZ2File(cast(BinaryIO, whole)))
        else:
            return whole
    return stream


def _coding(head: bytes) -> str | None:
    """UTF-16 by its mark, or by the NUL in every other byte; None for anything else."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    half = len(head) // 2
    if half >= 8:
        if head[1::2].count(0) > 0.7 * half and head[0::2].count(0) < 0.1 * half:
            return "utf-16-le"
        if head[0::2].count(0) > 0.7 * half and head[1::2].count(0) < 0.1 * half:
            return "utf-16-be"
    return None


def chunks(source: Source) -> Iterator[bytes]:
    """The bytes of a source, decompressed, in UTF-8 where it was UTF-16.

    Raises:
        CutError: a compressed stream is damaged or ends early, after what came before it.
        InputError: the source cannot be read.
        PrerequisiteError: it needs a library that is not installed.
    """
    try:
        stream = _plain(source.open(), source.name)
        head = _head_of(stream)
        coding = _coding(head)
        decoder = codecs.getincrementaldecoder(coding)("replace") if coding else None
        data = head
        while data:
            yield decoder.decode(data).encode("utf-8", "replace") if decoder else data
            data = stream.read(BLOCK)
    except (InputError, PrerequisiteError, CutError):
        raise
    except OSError as error:
        if error.errno is not None:
            raise InputError(
                f"{source.name}: cannot be read: {error.strerror or error}",
                remedy="name a readable file",
            ) from error
        raise CutError(str(error)) from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "_lzma", "lzma", "zstandard", "zstandard.backend_c"):
            raise CutError(str(error)) from error
        if isinstance(error, EOFError):
            raise CutError(str(error)) from error
        raise


def blocks(source: Source) -> Iterator[bytes]:
    """About :data:`BLOCK` bytes at a time, each but the last ending where a line ends.

    A line longer than :data:`LONGEST_LINE` is handed on in pieces.
    """
    held: list[bytes] = []
    size = 0
    for chunk in chunks(source):
        held.append(chunk)
        size += len(chunk)
        if size < BLOCK:
            continue
        at = chunk.rfind(b"\n") + 1
        if not at and size < BLOCK + LONGEST_LINE:
            continue
        rest = chunk[at:] if at else b""
        if len(rest) > LONGEST_LINE:
            rest = b""
        held[-1] = chunk[: len(chunk) - len(rest)]
        yield b"".join(held)
        held = [rest] if rest else []
        size = len(rest)
    if held:
        yield b"".join(held)
