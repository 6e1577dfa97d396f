"""A log reads the same in blocks as in one piece, at whatever byte a block ends."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from railhead.diagnose import read
from railhead.nccl import scan, sources
from railhead.nccl.report import to_json
from railhead.nccl.scan import Scanner
from railhead.nccl.sources import Source
from tests.unit.nccl import logs

TUNE = Path(__file__).resolve().parents[2] / "nccl" / "tune"
HANG = [*(logs.init(rank, 2, "Init START") for rank in range(2)), "-" * 20]
TABLE = [logs.net(0, 8, "send"), logs.row(1 << 30, 20.0, 37.5), "# Avg bus bandwidth : 37.5"]


class _Pieces(io.BytesIO):
    """Gives so many bytes a read, as a pipe does."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.read(min(self._size, size if size is not None and size >= 0 else self._size))


def reading(data: bytes, *, native: bool, piece: int = 1 << 20) -> dict[str, Any]:
    """Return all that is said of a log, but for how it was read."""
    result = to_json(read([Source(name="log", open=partial(_Pieces, data, piece))], native=native))
    result["input"] = {key: result["input"][key] for key in ("lines", "bytes")}
    return result


def test_last_lines_come_from_the_last_nonempty_input(tmp_path: Path) -> None:
    waits = logs.write(tmp_path / "a.log", ["| distributed init (rank 5): env://"])
    other = logs.write(tmp_path / "b.log", ["step 1"])
    empty = logs.write(tmp_path / "c.log", [])
    assert [read(item).verdict for item in ([waits, other], [other, waits], [waits, empty])] == [
        "other",
        "hang",
        "hang",
    ]


def test_the_end_of_a_long_log_begins_where_a_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\n".join(b"line %d of a log" % number for number in range(40)) + b"\n\n"
    tails = set()
    for size in range(20, len(data) + 1, 7):
        monkeypatch.setattr(sources, "FIRST_BLOCK", size)
        monkeypatch.setattr(sources, "BLOCK", size)
        monkeypatch.setattr(scan, "LAST_BYTES", 100)
        source = Source(name="log", open=partial(io.BytesIO, data))
        tails.add(tuple(line.message for line in Scanner([]).run([source]).tail))
    assert tails == {tuple(b"line %d of a log" % number for number in range(35, 40))}


def ends(data: bytes) -> Iterator[int]:
    """Sizes of a block with which its end is at each place of the log, in turn."""
    longest = max(len(line) for line in data.split(b"\n")) + 1
    yield from range(longest, len(data) + 2)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [HANG, TABLE], ids=["hang", "table"])
def test_a_block_may_end_at_every_place(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = "\n".join(lines).encode()
    whole = reading(data, native=False)
    for size in ends(data):
        monkeypatch.setattr(sources, "FIRST_BLOCK", size)
        monkeypatch.setattr(sources, "BLOCK", size)
        assert reading(data, native=False) == whole, size


@pytest.mark.slow
@pytest.mark.parametrize(("native", "every"), [(False, 3), (True, 20)])
def test_logs_of_the_set_read_the_same_in_small_blocks(
    native: bool, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native:
        pytest.importorskip("hyperscan", reason="hyperscan is an extra")
    for path in sorted(TUNE.glob("*.log"))[::every]:
        data = path.read_bytes()
        whole = reading(data, native=False)
        longest = max(len(line) for line in data.split(b"\n")) + 1
        with monkeypatch.context() as small:
            small.setattr(sources, "FIRST_BLOCK", longest)
            small.setattr(sources, "BLOCK", longest)
            if native:
                small.setattr("railhead.nccl.scan.NATIVE_FROM_BYTES", 0)
            assert reading(data, native=native, piece=97) == whole, path.name
