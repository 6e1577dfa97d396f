"""Lines of other transports in each log of the set: the verdict may become unknown, never better.

A log of several runs, or one whose lines were cut into each other, holds lines of transports that
did not carry the data. Each line is of NCCL's or a plugin's sources, and the comment says of which.
A log of the part that is kept aside is counted and never named.
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import pytest

from railhead.nccl import read
from railhead.nccl.reading import Reading
from railhead.nccl.sources import Source
from railhead.nccl.transport import RDMA, net_kind

HERE = Path(__file__).resolve().parent
PARTS = ("tune", "held_out")
INFO = b"node-9:77:88 [0] NCCL INFO "
# Those of NVIDIA/nccl are printed by src/transport/net.cc (connections), src/init.cc (the choice),
# src/plugin/net.cc (plugins), src/transport/net_ib/init.cc and net_socket.cc (devices),
# src/graph/topo.cc and paths.cc (GPUDirect RDMA); those of NET/OFI by aws-ofi-nccl.
LINES: dict[str, tuple[bytes, ...]] = {
    "verbs": (
        b"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        b"Channel 00/0 : 0[0] -> 1[0] [send] via NET/IBext_v8/0",
        b"Using network IB",
        b"Assigned NET plugin IB to comm",
        b"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
        b"NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
        b"NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
        b"GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 5), read 1 mode Default",
        b"Connected all rings, use ring PXN 0 GDR 1",
        b"NET/Plugin: Loaded net plugin IBext_v8 (v8)",
    ),
    "ofi": (
        b"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0/GDRDMA",
        b"Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA",
        b"Using network AWS Libfabric",
        b"NET/OFI Selected provider is efa, fabric is efa-direct (found 16 nics)",
        b"NET/OFI Initializing aws-ofi-nccl 1.14.0",
    ),
    "tcpx": (
        b"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/FasTrak/0",
        b"Using network FasTrak",
        b"NET/GPUDirectTCPX : GPUDirectTCPX enable: 1",
    ),
    "gib": (
        b"Channel 00/0 : 1[0] -> 0[0] [receive] via NET/gIB/0/GDRDMA",
        b"Using network gIB",
        b"NET/gIB : Initializing gIB v1.0.5",
    ),
    "socket": (
        b"Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        b"Using network Socket",
        b"NET/Socket : Using [0]eth0:10.0.0.1<0>",
    ),
    "p2p": (
        b"Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        b"Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
    ),
}
KINDS = {
    "ib": "verbs",
    "roce": "verbs",
    "efa": "ofi",
    "libfabric": "ofi",
    "p2p/shm-only": "p2p",
}
# The better the higher; each problem, and to know nothing, is the lowest.
RANK = {"ok": 3, "measured": 2, "wired": 1}
# Variants of each part within seconds; the exhaustive test takes all of them.
VARIANTS = 500


@cache
def logs(part: str) -> tuple[tuple[str, bytes, Reading], ...]:
    results = []
    for path in sorted((HERE / part).glob("*.log")):
        data = path.read_bytes()
        results.append((path.name, data, reading_of(data)))
    return tuple(results)


def reading_of(data: bytes) -> Reading:
    return read([Source(name="log", open=partial(io.BytesIO, data))])


def kinds_of(reading: Reading) -> set[str]:
    """Return the kinds of network that a log names of itself: lines of these are no others."""
    lines = (
        at for sign in ("nccl.network", "nccl.channel-net") for at in reading.hits.evidence(sign)
    )
    kinds = {net_kind(at.groups.get("net", "").strip()) for at in lines}
    return {*filter(None, kinds), KINDS.get(reading.transport, reading.transport)}


def every(part: str) -> list[tuple[str, bytes, Reading, bytes]]:
    """Return each log with each line of another kind: its name, its text, its reading, the line."""
    return [
        (name, data, before, line)
        for name, data, before in logs(part)
        for kind, lines in LINES.items()
        if kind not in kinds_of(before)
        for line in lines
    ]


def better(
    pairs: Sequence[tuple[str, bytes, Reading, bytes]],
) -> list[tuple[str, bytes, str, str]]:
    """Splice each line into its log, and return those whose verdict is better than before."""
    rng = random.Random(25)
    results = []
    for name, data, before, line in pairs:
        rows = data.split(b"\n")
        at = rng.randrange(len(rows))
        after = reading_of(b"\n".join([*rows[:at], INFO + line, *rows[at:]]))
        if RANK.get(after.verdict, 0) > RANK.get(before.verdict, 0):
            results.append((name, line, before.verdict, after.verdict))
    return results


@pytest.mark.slow
def test_spliced_line_makes_no_verdict_better() -> None:
    assert better(random.Random(1).sample(every("tune"), VARIANTS)) == []


@pytest.mark.slow
def test_spliced_line_makes_no_held_out_verdict_better() -> None:
    assert len(better(random.Random(2).sample(every("held_out"), VARIANTS))) == 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", PARTS)
def test_no_line_makes_any_verdict_better(part: str) -> None:
    assert len(better(every(part))) == 0


OVER_TCP = (b"NET/Socket : Using", b"Using network Socket", b"via NET/Socket")


def joined(part: str) -> list[tuple[bytes, bytes]]:
    """Return each log of a run over TCP beside each log of one over RDMA that went well.

    Of those over TCP each names it in a line of NCCL's own, and not in an error alone.
    """
    slow = [
        data
        for _, data, before in logs(part)
        if before.verdict == "tcp-fallback" and any(line in data for line in OVER_TCP)
    ]
    well = [
        data
        for _, data, before in logs(part)
        if before.verdict in ("ok", "wired")
        and before.transport in RDMA
        # Older ones list TCP's devices as well, which they bootstrap with.
        and b" Ring " not in data
    ]
    return list(itertools.product(slow, well))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_run_over_tcp_is_not_hidden_by_another(part: str) -> None:
    """Two runs in one log, in either order, are no success over RDMA if one was over TCP."""
    pairs = joined(part)
    assert len(pairs) > 60
    hidden = [
        order
        for pair in random.Random(3).sample(pairs, 60)
        for order in (pair, pair[::-1])
        if reading_of(b"\n".join(order)).verdict in ("ok", "wired")
    ]
    assert len(hidden) == 0
