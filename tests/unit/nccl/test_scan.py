"""The pass: prefixes, codings, compression, cut lines, both engines, bounded work."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.base.errors import InputError, NotFoundError, PrerequisiteError
from railhead.diagnose import read
from railhead.nccl import engines, lines, scan, sources
from railhead.nccl.scan import Scanner
from railhead.nccl.signs import Sign
from tests.unit.nccl import logs

MESSAGE = "NCCL INFO Using network IB"
LINE = f"node-a:10:11 [3] {MESSAGE}"
NETWORK = Sign(id="net", pattern=rb"Using network (?P<net>\w+)")


@pytest.mark.parametrize(
    ("prefix", "rank", "node", "time"),
    [
        ("", None, "node-a", None),
        ("[pod/train-worker-0/node] ", None, "node-a", None),
        ("[node-3] ", None, "node-a", None),
        ("[1,12]<stdout>:", 12, "node-a", None),
        ("[prterun-host-77@1,12]<stderr>: ", 12, "node-a", None),
        ("  7: ", 7, "node-a", None),
        ("node-12: ", None, "node-a", None),
        ("[default5]:", 5, "node-a", None),
        ("[rank6]: ", 6, "node-a", None),
        ("(RayWorkerWrapper pid=77, ip=10.0.0.9) ", None, "node-a", None),
        ("(worker1, rank=1, pid=77, ip=10.0.0.9) ", None, "node-a", None),
        ("(VllmWorker rank=1 pid=9) ", 1, "node-a", None),
        ("2026-01-02T03:04:05.678Z ", None, "node-a", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T03:04:05.6789Z stdout F ", None, "node-a", "2026-01-02T03:04:05.6789Z"),
        ("[2026-01-02 03:04:05] ", None, "node-a", "2026-01-02 03:04:05"),
        ("> > ", None, "node-a", None),
        ("  | 2026-01-02T03:04:05.678-07:00 | ", None, "node-a", None),
        ("[pod/w-1/c] 2026-01-02T03:04:05Z [1,4]<stdout>:", 4, "node-a", "2026-01-02T03:04:05Z"),
    ],
)  # fmt: skip
def test_prefixes_are_taken_off(prefix: str, rank: int | None, node: str, time: str | None) -> None:
    (line,) = [item for item in lines.parse(f"{prefix}{LINE}".encode()) if item.pid is not None]
    assert line.message.decode() == MESSAGE
    assert (line.rank, line.node, line.gpu, line.pid, line.tid) == (rank, node, 3, 10, 11)
    assert line.time == time


@pytest.mark.parametrize(("host", "node"), [("", None), ("<host a>", "<host a>")])
def test_a_host_that_was_taken_out(host: str, node: str | None) -> None:
    (line,) = lines.parse(LINE.replace("node-a", host).encode())
    assert (line.node, line.pid, line.message.decode()) == (node, 10, MESSAGE)


@pytest.mark.parametrize(
    ("prefix", "rank", "node"),
    [
        ("[pod/train-worker-0/node] ", None, "train-worker-0"),
        ("[node-3] ", None, "node-3"),
        ("[1,12]<stdout>:", 12, None),
        ("3: ", 3, None),
        ("(Worker pid=77, ip=10.0.0.9) ", None, "10.0.0.9"),
        ("08:32:47 ", None, None),
    ],
)
def test_lines_of_others_keep_who_wrote_them(
    prefix: str, rank: int | None, node: str | None
) -> None:
    (line,) = lines.parse(f"{prefix}Traceback (most recent call last):".encode())
    assert line.message.endswith(b"Traceback (most recent call last):")
    assert (line.rank, line.node, line.pid) == (rank, node, None)


@pytest.mark.parametrize(
    "raw",
    [
        f"\x1b[32m{LINE}\x1b[0m".encode(),
        f"{LINE}\r".encode(),
        LINE.encode().replace(b"network", b"net\0work"),
        json.dumps({"log": LINE + "\n", "stream": "stdout"}).encode(),
        json.dumps({"kubernetes": {"pod": "x"}, "message": LINE}).encode(),
        json.dumps({"textPayload": f"[1,0]<stdout>:{LINE}"}).encode(),
        LINE.replace("[3]", "[ 3 ]").encode(),
        f"progress 10%\r{LINE}".encode(),
    ],
)
def test_the_message_is_what_nccl_wrote(raw: bytes) -> None:
    assert MESSAGE.encode() in [line.message for line in lines.parse(raw)]


def test_two_messages_on_one_line_are_two() -> None:
    cut = "node-a:10:11 [3] NCCL INFO 32 p2p channenode-b:20:21 [1] NCCL INFO Using network IB"
    first, second = lines.parse(cut.encode())
    # Nothing separates the host's name from the end of the cut message before it.
    assert (first.node, first.message) == ("node-a", b"NCCL INFO 32 p2p")
    assert (second.gpu, second.message) == (1, MESSAGE.encode())


@pytest.mark.parametrize(
    "broken",
    [b"{", b'{"log": 3}', b'{"log"', b"{}", b"[1,0]<stdout>:", b"\x1b[", b"\xff\xfe", b" "],
)
def test_broken_lines_are_lines(broken: bytes) -> None:
    assert isinstance(lines.parse(broken), list)


def _zstd(data: bytes) -> bytes:
    zstandard = pytest.importorskip("zstandard", reason="zstandard is an extra")
    packed: bytes = zstandard.ZstdCompressor().compress(data)
    return packed


@pytest.mark.parametrize(
    "pack",
    [bytes, gzip.compress, bz2.compress, lzma.compress, _zstd],
    ids=lambda item: item.__name__,
)
def test_first_bytes_reveal_compression(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "log"
    path.write_bytes(pack("\n".join(logs.healthy()).encode()))
    reading = read([path])
    assert (reading.transport, reading.verdict, reading.notes) == ("ib", "ok", ())
    assert reading.lines == len(logs.healthy()) - 1


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read(tmp_path: Path, coding: str) -> None:
    path = tmp_path / "log"
    path.write_bytes("\r\n".join(logs.healthy()).encode(coding))
    assert read([path]).transport == "ib"


def test_a_cut_archive_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    import random

    noise = random.Random(1)
    text = "\n".join([*logs.healthy(), *(f"step {noise.random()}" for _ in range(9000))])
    path = tmp_path / "log.gz"
    packed = gzip.compress(text.encode())
    path.write_bytes(packed[: len(packed) * 2 // 3])
    reading = read([path])
    assert reading.transport == "ib"
    assert [note.id for note in reading.notes] == ["input-cut"]


def test_zstd_without_its_library_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\0" * 50)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(PrerequisiteError, match="zstandard"):
        read([path])


def test_folders_patterns_and_what_is_not_there(tmp_path: Path) -> None:
    inner = tmp_path / "ranks" / "0"
    inner.mkdir(parents=True)
    logs.write(inner / "a.log", logs.healthy())
    logs.write(tmp_path / "ranks" / "b.log", ["x"])
    assert len(read([tmp_path / "ranks"]).files) == 2
    assert read([str(tmp_path / "ranks" / "*" / "*.log")]).transport == "ib"
    with pytest.raises(NotFoundError, match="no such file"):
        read([tmp_path / "nothing.log"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="no file is in"):
        read([tmp_path / "empty"])
    with pytest.raises((InputError, NotFoundError)):
        read(["a\0b"])


def test_evidence_names_the_line_across_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "FIRST_BLOCK", 700)
    monkeypatch.setattr(sources, "BLOCK", 900)
    filler = [f"step {number} {'x' * (number % 90)}" for number in range(400)]
    marked = [*filler, "NCCL WARN Cuda failure here", *filler, "ncclRemoteError here"]
    path = logs.write(tmp_path / "log", marked)
    for native in (False, True):
        monkeypatch.setattr(scan, "NATIVE_FROM_BYTES", 0 if native else 1 << 40)
        reading = read([path], native=native)
        assert reading.hits.evidence("trouble.cuda")[0].line == 401
        assert reading.hits.evidence("trouble.peer-gone")[0].line == 802
        assert reading.lines == 802


def test_lines_of_a_big_file_are_counted_as_far_as_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 900)
    monkeypatch.setattr(scan, "COUNTED_BYTES", 2000)
    filler = [f"step {number}" for number in range(2000)]
    path = logs.write(tmp_path / "log", [*filler, "ncclRemoteError here", *filler])
    reading = read([path])
    assert reading.hits.evidence("trouble.peer-gone")[0].line == 2001
    assert reading.lines is None


def test_both_engines_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hyperscan", reason="the native engine is an extra")
    monkeypatch.setattr(scan, "NATIVE_FROM_BYTES", 0)
    path = logs.write(tmp_path / "log", [*logs.healthy(), logs.warn("Cuda failure 1")] * 3)
    native, pure = read([path], native=True), read([path], native=False)
    assert (native.engine, pure.engine) == ("hyperscan", "re")
    assert native.hits == pure.hits
    assert native.claims == pure.claims
    assert native.communicators == pure.communicators


def test_signs_of_nearly_every_line_are_sampled_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "HEAVY_COUNT", 50)
    monkeypatch.setattr(scan, "FULL", 10)
    monkeypatch.setattr(sources, "BLOCK", 4000)
    monkeypatch.setattr(sources, "FIRST_BLOCK", 4000)
    many = [logs.net(rank % 16, (rank + 8) % 16, "send") for rank in range(3000)]
    path = logs.write(tmp_path / "log", [*many, logs.warn("Cuda failure 1"), *many])
    reading = read([path])
    hit = reading.hits["nccl.channel-net"]
    assert not hit.exact
    assert 50 <= hit.count < 6000
    assert "nccl.channel-net" in reading.sampled
    rare = reading.hits["trouble.cuda"]
    assert (rare.count, rare.exact, rare.evidence[0].line) == (1, True, 3001)


def test_every_rank_of_a_large_communicator_counts(tmp_path: Path) -> None:
    ranks = 700
    began = [logs.init(rank, ranks, "Init START") for rank in range(ranks)]
    ended = [logs.init(rank, ranks, "Init COMPLETE") for rank in range(ranks) if rank != 612]
    reading = read([logs.write(tmp_path / "log", [*began, *ended])])
    (result,) = reading.communicators
    assert len(result.started) == ranks
    assert result.started - result.completed == {612}


def test_one_deviating_rank_of_a_thousand_is_reported(tmp_path: Path) -> None:
    lines_of = [
        logs.info(f"NCCL_IB_HCA set by environment to mlx5_{rank == 941:d}", host=f"h{rank}")
        for rank in range(1000)
    ]
    lines_of += [
        logs.info(f"NCCL version 2.2{1 - (rank == 777)}.5+cuda12.4", host=f"h{rank}")
        for rank in range(1000)
    ]
    notes = {note.id: note for note in read([logs.write(tmp_path / "log", lines_of)]).notes}
    assert notes["settings-differ"].evidence[1].node == "h941"
    assert notes["versions-differ"].text.endswith("2.20.5, 2.21.5")


@pytest.mark.slow
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    "piece",
    [
        b"NCCL WARN Got completion error 4 ",
        b"via NET/IB/0/GDRDMA ",
        b"n:1:2 [0] NCCL INFO x ",
        b"a",
    ],
)
def test_work_grows_with_the_input_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: bytes, native: bool
) -> None:
    """One line without an end: the bytes that are taken apart stay a small multiple of it."""
    work = [0]

    def parse(raw: bytes) -> list[lines.Line]:
        work[0] += len(raw)
        return lines.parse(raw)

    monkeypatch.setattr(scan, "parse", parse)
    path = tmp_path / "log"
    done = []
    for size in (120_000, 240_000):
        work[0] = 0
        path.write_bytes(piece * (size // len(piece)))
        read([path], native=native)
        done.append(work[0])
    # A window at each end of what is looked at comes on top.
    assert done[1] <= 3 * 240_000 + 4 * engines.WINDOW
    assert done[1] <= 3 * done[0] + 4 * engines.WINDOW


def test_needles_are_required_by_their_patterns() -> None:
    for pattern, expected in (
        (rb"Using network (?P<net>.*)", {b"Using network "}),
        (rb"(?i)watchdog caught", {b"watchdog caught"}),
        (rb"Call to (?:connect|recv) failed", {b"Call to "}),
        (rb"(?:foo bar|bazooka)+x", {b"foo bar", b"bazooka"}),
        (rb"from <b>this</b>", {b"from "}),
    ):
        assert Sign(id="x", pattern=pattern).needles == expected
    with pytest.raises(ValueError, match="no literal"):
        _ = Sign(id="x", pattern=rb"\d+ [a-z]+").needles
    assert Sign(id="x", pattern=rb"\d+", literal=b"seven").needles == {b"seven"}


def test_groups_and_writers_of_a_sign_are_kept(tmp_path: Path) -> None:
    path = logs.write(tmp_path / "log", [f"[1,4]<stdout>:{LINE}", LINE.replace("IB", "Socket")])
    result = Scanner([NETWORK]).run(sources.resolve([path]))
    hit = result.hits["net"]
    assert [at.groups["net"] for at in hit.evidence] == ["IB", "Socket"]
    assert (hit.count, set(hit.ranks), set(hit.nodes)) == (2, {4}, {"node-a"})
    assert result.hits["another"].count == 0
    assert "another" not in result.hits


def test_blocks_are_merged_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hyperscan")
    monkeypatch.setattr(sources, "BLOCK", 1 << 14)
    monkeypatch.setattr(sources, "FIRST_BLOCK", 1 << 14)
    monkeypatch.setattr(scan, "SCANNERS", 8)
    monkeypatch.setattr(scan, "IN_FLIGHT", 9)
    monkeypatch.setattr(scan, "NATIVE_FROM_BYTES", 1 << 10)
    count = 20_000
    wanted = set(range(500, count, 500))
    path = tmp_path / "log"
    path.write_text(
        "".join(
            f"{LINE}{number}\n" if number in wanted else f"nothing of note, {number}\n"
            for number in range(1, count + 1)
        )
    )
    sign = Sign(id="net", pattern=NETWORK.pattern, keep=64)
    result = Scanner([sign]).run(sources.resolve([path]))
    assert result.engine == "hyperscan"
    match = result.hits.evidence("net")
    assert [at.line for at in match] == sorted(wanted)
    assert all(at.text.endswith(f"IB{at.line}") for at in match)
    assert result.lines == count


@pytest.mark.slow
@pytest.mark.parametrize("native", [False, True])
def test_a_failure_after_thousands_of_healthy_lines_is_seen(native: bool, tmp_path: Path) -> None:
    """Lines that every rank writes must not crowd out the failure."""
    if native:
        pytest.importorskip("hyperscan", reason="hyperscan is an extra")
    healthy = [logs.info("Connected all rings, use ring PXN 0 GDR 1", pid=n) for n in range(12_000)]
    refused = logs.warn("socketStartConnect: Connect to 10.0.0.2<4> failed : Connection timed out")
    reading = read(
        [logs.write(tmp_path / "big.log", [*healthy, refused, healthy[0]])], native=native
    )
    assert {"trouble.socket-connect", "connect-timed-out"} <= set(reading.hits)
    assert reading.verdict == "init-failure"
