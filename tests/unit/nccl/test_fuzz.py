"""Any bytes: a reading or a refusal, never anything else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railhead.diagnose import read, signs
from railhead.nccl import lines, report, scan, sources
from railhead.nccl.facts import SIGNS
from railhead.nccl.reading import Reading
from railhead.nccl.trouble import SIGNS as TROUBLE_SIGNS
from tests.unit.nccl import logs
from tests.unit.nccl.words import WORDS

pytestmark = pytest.mark.slow

REAL = "\n".join(
    [
        *logs.healthy(),
        logs.info("NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)"),
        logs.warn("NET/IB: Got completion from peer 1<2> with status=12 opcode=0 vendor err 129"),
        logs.warn("Call to ibv_modify_qp failed with error Invalid argument errno 22"),
        "[rank3]:[E1] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9",
        "#  Rank  0 Group  0 Pid     21 on worker-0 device  0 [0x35] Tesla T4",
        logs.row(1 << 30, 160.0, 300.0),
        "# Out of bounds values : 0 OK",
        '{"log": "[1,0]<stdout>:x:1:2 [0] NCCL INFO Using network IB\\n"}',
        "",
    ]
).encode()
SLOW = settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(reading: Reading) -> None:
    for key, words in WORDS.items():
        assert getattr(reading, key) in words
    assert reading.cause is None or isinstance(reading.cause, str)
    report.to_json(reading)


@SLOW
@given(data=st.binary(max_size=3000))
def test_any_bytes_are_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    check(read([path]))


@SLOW
@given(data=st.data())
def test_real_lines_cut_spliced_and_spoilt(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(REAL)
    for _ in range(data.draw(st.integers(0, 12))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 200)))
        piece = data.draw(
            st.one_of(
                st.binary(max_size=20),
                st.sampled_from([b"\n", b"\r", b"\0", b"\x1b[3m", b"9" * 40, b"-", b"<", b"0x"]),
                st.integers(0, len(REAL)).map(lambda start: REAL[start : start + 90]),
            )
        )
        text[at:end] = piece
    path = tmp_path / "log"
    path.write_bytes(bytes(text))
    check(read([path]))


@SLOW
@given(keep=st.integers(0, 2000), flip=st.integers(0, 2000), value=st.integers(0, 255))
def test_damaged_archives(tmp_path: Path, keep: int, flip: int, value: int) -> None:
    packed = bytearray(gzip.compress(REAL, mtime=0))
    packed[flip % len(packed)] = value
    path = tmp_path / "log.gz"
    path.write_bytes(bytes(packed[: len(packed) - keep % len(packed)]))
    check(read([path]))


@SLOW
@given(raw=st.binary(max_size=400))
def test_any_line_parses(raw: bytes) -> None:
    for line in lines.parse(raw):
        assert isinstance(line.message, bytes)


@SLOW
@given(data=st.binary(max_size=4000), size=st.integers(30, 400), native=st.booleans())
def test_blocks_hold_every_byte_once(tmp_path: Path, data: bytes, size: int, native: bool) -> None:
    path = tmp_path / "log"
    # A mark of UTF-16 or of an archive would have the bytes changed.
    path.write_bytes(b"#" * 600 + data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "FIRST_BLOCK", size)
        patch.setattr(sources, "BLOCK", size)
        patch.setattr(sources, "LONGEST_LINE", size // 2)
        patch.setattr(scan, "NATIVE_FROM_BYTES", 0)
        got = b""
        for block in sources.blocks(sources.resolve([path])[0]):
            got += bytes(block.view)
            block.free()
        assert got == path.read_bytes()
        check(read([path], native=native))


EVIL = (
    b"1 " * 2000,
    b"[1,0]<stdout>:" * 300,
    b"connect " * 500,
    b"NCCL WARN " * 400,
    b"a:1:2 [0] " * 400,
    b"NET/IB : Got completion " * 170,
    b"Rank 0 Pid 1 on x device 0 [" * 140,
    b" set by environment to " * 180,
    b"comm 0x1 rank 1 nranks 1 " * 160,
    b"." * 4000,
    b" " * 4000,
    b"0" * 4000,
    b"float " * 680,
)


@pytest.mark.parametrize("evil", EVIL, ids=[item[:14].decode() for item in EVIL])
def test_no_pattern_backtracks_without_bound(evil: bytes) -> None:
    """Doubling a hostile message must not much more than quadruple a pattern's work: 4 KiB of it,
    which is all that a pattern ever sees, must be over at once."""
    import time

    for sign in (*SIGNS, *TROUBLE_SIGNS, *signs()):
        begin = time.process_time()
        sign.regex.search(evil[: scan.MESSAGE_BYTES])
        assert time.process_time() - begin < 0.5, sign.id
