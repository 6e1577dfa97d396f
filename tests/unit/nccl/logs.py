"""Logs as NCCL writes them, made in a few words: the parts that the tests put together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

WARN_BEFORE = "transport/net_ib.cc:100 NCCL WARN "


def info(text: str, *, host: str = "node-a", pid: int = 10, gpu: int = 0) -> str:
    """Return an INFO line."""
    return f"{host}:{pid}:{pid + 1} [{gpu}] NCCL INFO {text}"


def warn(text: str, *, host: str = "node-a", source: str = "misc/socket.cc:9") -> str:
    """Return a WARN line."""
    return f"{host}:10:11 [0] {source} NCCL WARN {text}"


def net(
    src: int, dst: int, way: str, network: str = "IB/0", *, gdr: bool = True, host: str = ""
) -> str:
    """Return a connection over a network, written by the rank that sends or receives."""
    rank = src if way == "send" else dst
    suffix = "/GDRDMA" if gdr else ""
    return info(
        f"Channel 00/0 : {src}[{src % 8}] -> {dst}[{dst % 8}] [{way}] via NET/{network}{suffix}",
        host=host or f"node-{rank // 8}",
        pid=100 + rank,
        gpu=rank % 8,
    )


def local(src: int, dst: int, how: str = "P2P/CUMEM", *, channel: int = 0) -> str:
    """Return a connection within a node."""
    return info(
        f"Channel {channel:02d}/0 : {src}[{src % 8}] -> {dst}[{dst % 8}] via {how}",
        host=f"node-{src // 8}",
        pid=100 + src,
        gpu=src % 8,
    )


def comm(rank: int, ranks: int, nodes: int, *, mnnvl: int = 0) -> str:
    """Return the line with nNodes."""
    return info(
        f"comm 0x55{rank:04x} rank {rank} nRanks {ranks} nNodes {nodes} "
        f"localRanks {ranks // nodes} localRank {rank % 8} MNNVL {mnnvl}",
        host=f"node-{rank // 8}",
        pid=100 + rank,
        gpu=rank % 8,
    )


def init(rank: int, ranks: int, what: str, *, identity: str = "0xabc") -> str:
    """``Init START`` or ``Init COMPLETE`` of a rank."""
    return info(
        f"ncclCommInitRank comm 0x55{rank:04x} rank {rank} nranks {ranks} cudaDev {rank % 8} "
        f"nvmlDev {rank % 8} busId 1000 commId {identity} - {what}",
        host=f"node-{rank // 8}",
        pid=100 + rank,
        gpu=rank % 8,
    )


IB_LIST = info("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>")
ROCE_LIST = info("NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB eth0:10.0.0.1<0>")
CONNECTED = info("Connected all rings, use ring PXN 0 GDR 1")


def healthy(*, ranks: int = 16, network: str = "IB/0", gdr: bool = True) -> list[str]:
    """Return a run over two nodes that worked."""
    lines = [info("NCCL version 2.27.3+cuda12.8"), IB_LIST]
    for rank in range(ranks):
        lines += [init(rank, ranks, "Init START"), comm(rank, ranks, ranks // 8)]
    for rank in range(ranks):
        other = (rank + 8) % ranks
        lines += [net(other, rank, "receive", network, gdr=gdr)]
        lines += [net(rank, other, "send", network, gdr=gdr)]
        lines += [local(rank, rank // 8 * 8 + (rank + 1) % 8)]
    lines += [CONNECTED, *(init(rank, ranks, "Init COMPLETE") for rank in range(ranks))]
    return lines


def write(path: Path, lines: Iterable[str]) -> Path:
    """Return the lines as a file."""
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def row(size: int, algbw: float, busbw: float, wrong: str = "0") -> str:
    """Return a row of an nccl-tests table."""
    half = f"{size / max(algbw, 0.01) / 1000:.1f} {algbw:7.2f} {busbw:7.2f}"
    return f"{size:12d} {size // 4:12d}  float  sum  -1 {half} {wrong:>6} {half} {wrong:>6}"
