"""Sources of log bytes: files, folders, patterns, standard input; compressed or not."""

from __future__ import annotations

import codecs
import glob
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, cast

from railhead.base.errors import InputError, NotFoundError, PrerequisiteError

FIRST_BLOCK = 1 << 18
BLOCK = 1 << 21
LONGEST_LINE = 1 << 16
SNIFF = 512


class Readable(Protocol):
    """The interface of a source's stream."""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; ``b""`` at the end."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One stream of log.

    Attributes:
        name: as the reader gave it, for evidence.
        open: opens the stream; called once.
        size: bytes on disk, 0 when not known.
        path: of a file, which can be read again.
    """

    name: str
    open: Callable[[], Readable]
    size: int = 0
    path: Path | None = None


class CutError(Exception):
    """The stream ended before its end: what was read before it stands."""


def _file(path: Path, name: str) -> Source:
    return Source(
        name=name,
        open=lambda: path.open("rb", buffering=0),
        size=path.stat().st_size,
        path=path,
    )


def _stdin() -> Readable:
    return cast(BinaryIO, getattr(sys.stdin, "buffer", sys.stdin))


def resolve(inputs: Iterable[Path | str | Source]) -> list[Source]:
    """Return the streams that the inputs name.

    Args:
        inputs: paths of files, folders (every file below them) or patterns such as ``logs/*.log``;
            ``-`` is standard input.

    Raises:
        NotFoundError: there is no such file, or a pattern or folder holds none.
        InputError: a path is neither a file nor a folder, or cannot be read.
    """
    results: list[Source] = []
    for given in inputs:
        if isinstance(given, Source):
            results.append(given)
            continue
        name = str(given)
        if name == "-":
            results.append(Source(name="-", open=_stdin))
            continue
        path = Path(name)
        try:
            if path.is_dir():
                inside = sorted(item for item in path.rglob("*") if item.is_file())
                if not inside:
                    raise NotFoundError(
                        f"{name}: no file is in this folder", remedy="name a folder with logs"
                    )
                results += [_file(item, str(item)) for item in inside]
            elif path.is_file() or path.is_fifo():
                results.append(_file(path, name))
            elif path.exists():
                raise OSError(f"no file or pipe: {name}")
            elif matching := [
                item
                for item in sorted(glob.glob(name, recursive=True))  # noqa: PTH207 - absolute too
                if Path(item).is_file()
            ]:
                results += [_file(Path(item), item) for item in matching]
            else:
                raise NotFoundError(
                    f"{name}: no such file, folder or pattern",
                    remedy="name a log file, or `-` for standard input",
                )
        except (OSError, ValueError) as error:
            raise InputError(
                f"{name!r}: cannot be read: {error}", remedy="name a readable file"
            ) from error
    return results


def _zstd(raw: Readable, name: str) -> Readable:
    try:
        import zstandard
    except ImportError as error:
        raise PrerequisiteError(
            f"{name} is compressed with zstd, and the zstandard package is not installed",
            remedy="pip install 'zstandard>=0.23', or name - and pipe `zstd -dc FILE` in",
        ) from error
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 31)
    return cast(Readable, decompressor.stream_reader(cast(BinaryIO, raw), read_across_frames=True))


def _into(stream: Readable, buffer: bytearray | memoryview) -> int:
    """Read some bytes; never more than one of the stream's own reads, which may fail after it."""
    item = getattr(stream, "read1", None)
    into = getattr(stream, "readinto", None)
    if item is None and into is not None:
        return int(into(buffer) or 0)
    data = stream.read(len(buffer)) if item is None else item(len(buffer))
    buffer[: len(data)] = data
    return len(data)


class _Head:
    """A stream whose first bytes were looked at."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return the looked-at bytes first."""
        if self._head:
            taken, self._head = (
                (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
            )
            return taken
        return self._rest.read(size if size >= 0 else BLOCK)

    def readinto(self, buffer: bytearray | memoryview) -> int:
        """Read into a buffer, straight from the stream where that is possible."""
        if not self._head:
            return _into(self._rest, buffer)
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def of(self, stream: Readable) -> bool:
        """Return whether it reads from this stream."""
        return self._rest is stream

    def readable(self) -> bool:
        """Return True: it can always be read."""
        return True

    def seekable(self) -> bool:
        """Return False: it can never seek."""
        return False

    def close(self) -> None:
        """Do nothing: it holds nothing."""

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
    """Return the stream without its compression, told by the first bytes; two layers at most."""
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
    """Return UTF-16's codec, known by its mark or by NUL in every other byte; else None."""
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


class _Recoded:
    """UTF-16 as UTF-8."""

    def __init__(self, coding: str, stream: Readable) -> None:
        self._decoder = codecs.getincrementaldecoder(coding)("replace")
        self._stream = stream
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes; ``b""`` at the end."""
        while not self._rest:
            data = self._stream.read(size)
            self._rest = self._decoder.decode(data, not data).encode("utf-8", "replace")
            if not data:
                break
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _text(source: Source) -> tuple[Readable, bool]:
    """Return the stream, and whether its bytes are those of the source."""
    opened = source.open()
    stream = _plain(opened, source.name)
    as_it_is = isinstance(stream, _Head) and stream.of(opened)
    head = _head_of(stream)
    whole = _Head(head, stream)
    coding = _coding(head)
    return (_Recoded(coding, whole), False) if coding else (whole, as_it_is)


@dataclass(kw_only=True, slots=True)
class Block:
    """Lines of a source, whole except the last of a stream and very long ones.

    Attributes:
        data: holds them from its beginning; used again after :meth:`free`.
        size: of them, in bytes.
        offset: of its first byte in the source; None where the source cannot be read again.
    """

    data: bytearray
    size: int
    offset: int | None
    free: Callable[[], None]

    @property
    def view(self) -> memoryview:
        """The lines."""
        return memoryview(self.data)[: self.size]


def _fill(
    stream: Readable, name: str, data: bytearray, have: int, want: int
) -> tuple[int, CutError | None]:
    """Read until ``want`` bytes are there or the stream ends.

    Returns:
        The number of bytes read, and the reason if a damaged stream ends there.

    Raises:
        InputError: the stream cannot be read.
    """
    try:
        while have < want:
            with memoryview(data) as whole, whole[have:want] as part:
                count = _into(stream, part)
            if not count:
                break
            have += count
    except OSError as error:
        if error.errno is None:
            return have, CutError(str(error))
        raise InputError(
            f"{name}: cannot be read: {error.strerror or error}", remedy="name a readable file"
        ) from error
    except EOFError as error:
        return have, CutError(str(error))
    except Exception as error:
        # Each library has an error of its own, and one of them may not be installed.
        if type(error).__module__.partition(".")[0] in ("zlib", "_lzma", "lzma", "zstandard"):
            return have, CutError(str(error))
        raise
    return have, None


def blocks(source: Source) -> Iterator[Block]:
    """Yield blocks of about :data:`BLOCK` bytes, each but the last ending where a line ends.

    A line longer than :data:`LONGEST_LINE` comes in pieces. There are :data:`BUFFERS` buffers: a
    block must be freed before the one after the next is asked for twice.

    Raises:
        CutError: a compressed stream is damaged or ends early, after what came before it.
        InputError: the source cannot be read.
        PrerequisiteError: it needs a library that is not installed.
    """
    try:
        stream, as_it_is = _text(source)
    except (OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise InputError(
                f"{source.name}: cannot be read: {error.strerror or error}",
                remedy="name a readable file",
            ) from error
        raise CutError(str(error)) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("zlib", "_lzma", "lzma", "zstandard"):
            raise CutError(str(error)) from error
        raise
    spare: list[bytearray] = []
    rest = b""
    want = FIRST_BLOCK
    offset = 0
    cut: CutError | None = None
    while cut is None:
        data = spare.pop() if spare else bytearray(BLOCK + LONGEST_LINE)
        have = len(rest)
        data[:have] = rest
        full, cut = _fill(stream, source.name, data, have, min(want + have, len(data)))
        ended = full < min(want + have, len(data))
        end = full if ended else data.rfind(b"\n", 0, full) + 1
        if not end or full - end > LONGEST_LINE:
            end = full
        rest = bytes(data[end:full])
        if end:
            again = offset if as_it_is and source.path is not None else None
            offset += end
            yield Block(data=data, size=end, offset=again, free=partial(spare.append, data))
        if ended:
            break
        want = min(want * 4, BLOCK)
    if cut is not None:
        raise cut
