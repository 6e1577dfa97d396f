"""Speed of `railhead nccl read` on a big log, next to `grep -c` over the same file.

    .venv/bin/python benchmarks/nccl.py --gigabytes 1.0 --runs 5

Writes a log of a thousand ranks on 125 nodes (NCCL 2.27 wording: initialisation of several
communicators, connections over InfiniBand, one line a collective, a training loop), all ranks
interleaved line by line, and reads it in the same run with both programs, alternating. Prints the
wall-clock seconds of whole processes, the best of each as others use the machine too, the ratio and
the reader's peak memory; the exit code is 1 when the reader is slower than half of grep's speed.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

GPUS = 8
NODES = 125
RANKS = GPUS * NODES
CHANNELS = 16


def head(rank: int, thread: int = 0) -> str:
    """NCCL's prefix of a rank's line."""
    return (
        f"gpu-{rank // GPUS:03d}:{4000 + rank % GPUS}:{5000 + rank % GPUS + thread} "
        f"[{rank % GPUS}] NCCL INFO "
    )


def start(rank: int) -> Iterator[str]:
    """Yield the lines that a process prints before its first communicator."""
    at = head(rank)
    yield at + f"Bootstrap: Using eth0:10.0.{rank // GPUS}.2<0>"
    yield at + "NCCL_IB_HCA set to ibp"
    yield at + "NCCL_SOCKET_IFNAME set by environment to eth0"
    yield at + "cudaDriverVersion 12080"
    yield at + "NCCL version 2.27.3+cuda12.8"
    yield at + "NET/Plugin: Could not find: libnccl-net.so. Using internal net plugin."
    hcas = " ".join(f"[{number}]ibp{number}:1/IB" for number in range(GPUS))
    yield at + f"NET/IB : Using {hcas} [RO]; OOB eth0:10.0.{rank // GPUS}.2<0>"
    yield at + "Initialized NET plugin IB"
    yield at + f"DMA-BUF is available on GPU device {rank % GPUS}"


def communicator(rank: int, number: int) -> Iterator[str]:
    """Yield one communicator of all ranks."""
    at = head(rank, 40)
    gpu = rank % GPUS
    comm = f"0x55{rank:06x}{number:04x}"
    identity = (
        f"comm {comm} rank {rank} nranks {RANKS} cudaDev {gpu} nvmlDev {gpu} "
        f"busId {0x1000 * (gpu + 1):x} commId 0x{0xABC000 + number:x}"
    )
    yield at + "Assigned NET plugin IB to comm"
    yield at + "Using network IB"
    yield at + f"ncclCommInitRankConfig {identity} - Init START"
    yield at + (
        f"comm {comm} rank {rank} nRanks {RANKS} nNodes {NODES} localRanks {GPUS} "
        f"localRank {gpu} MNNVL 0"
    )
    trees = " ".join(f"[{c}] {rank + 1}/-1/-1->{rank}->{rank - 1}" for c in range(CHANNELS))
    yield at + f"Trees {trees}"
    yield at + "P2P Chunksize set to 524288"
    for channel in range(CHANNELS):
        near = rank - gpu + (gpu + 1) % GPUS
        yield at + f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {near}[{near % GPUS}] via P2P/CUMEM"
        if channel % GPUS == gpu:
            far = (rank + GPUS) % RANKS
            before = (rank - GPUS) % RANKS
            yield at + (
                f"Channel {channel:02d}/0 : {before}[{gpu}] -> {rank}[{gpu}] [receive] "
                f"via NET/IB/{gpu}/GDRDMA"
            )
            yield at + (
                f"Channel {channel:02d}/0 : {rank}[{gpu}] -> {far}[{gpu}] [send] "
                f"via NET/IB/{gpu}/GDRDMA"
            )
    yield at + "Connected all rings, use ring PXN 0 GDR 1"
    yield at + "Connected all trees"
    yield at + "threadThresholds 8/8/64 | 8000/8/64 | 512 | 512"
    yield at + (
        "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, "
        "2 p2p channels per peer"
    )
    yield at + f"ncclCommInitRankConfig {identity} - Init COMPLETE"


def collectives(rank: int, first: int, count: int, rng: random.Random) -> Iterator[str]:
    """Yield a line per collective, as NCCL_DEBUG_SUBSYS=COLL prints, and of a training loop."""
    at = head(rank)
    for number in range(first, first + count):
        send = rng.getrandbits(40)
        yield at + (
            f"AllReduce: opCount {number:x} sendbuff 0x7f{send:010x} recvbuff 0x7f{send:010x} "
            f"count 16777216 datatype 9 op 0 root 0 comm 0x55{rank:06x}0000 "
            f"[nranks={RANKS}] stream 0x56{rank:06x}00"
        )
    if rank % GPUS == 0:
        yield f"[default0]:step {first} | loss 2.{rng.randrange(10**4):04d} | tokens/s 412345"


def interleave(streams: list[Iterator[str]], rng: random.Random) -> Iterator[str]:
    """Lines of all streams, a few of each at a time, in a random order."""
    live = list(streams)
    while live:
        rng.shuffle(live)
        still = []
        for stream in live:
            for _ in range(rng.randrange(1, 4)):
                line = next(stream, None)
                if line is None:
                    break
                yield line
            else:
                still.append(stream)
        live = still


def write(path: Path, size: int) -> int:
    """Write at least ``size`` bytes; returns how many."""
    rng = random.Random(7)
    number = 0
    with path.open("w") as file:
        file.writelines(f"{line}\n" for line in interleave([start(r) for r in range(RANKS)], rng))
        while file.tell() < size:
            parts = [communicator(rank, number) for rank in range(RANKS)]
            file.writelines(f"{line}\n" for line in interleave(parts, rng))
            parts = [collectives(rank, number * 40, 40, rng) for rank in range(RANKS)]
            file.writelines(f"{line}\n" for line in interleave(parts, rng))
            number += 1
    return path.stat().st_size


def timed(command: list[str]) -> tuple[float, float, str]:
    """Wall-clock and CPU seconds of a command, and what it printed."""
    begin, before = time.perf_counter(), os.times()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    wall, after = time.perf_counter() - begin, os.times()
    used = sum(after[2:4]) - sum(before[2:4])
    return wall, used, done.stdout


def main() -> int:
    """Measure and print; 1 when the reader is slower than half of grep's speed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the log, 10^9 bytes")
    parser.add_argument("--runs", type=int, default=5, help="of each program, alternating")
    parser.add_argument("--pattern", default="NCCL WARN", help="what grep counts")
    parser.add_argument("--log", type=Path, help="write it here and keep it; else a temporary file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.log or Path(folder) / "ranks.log"
        if not (options.log and path.exists()):
            begin = time.perf_counter()
            write(path, int(options.gigabytes * 1e9))
            print(f"wrote the log in {time.perf_counter() - begin:.0f} s")
        size = path.stat().st_size
        reader = [sys.executable, "-m", "railhead", "nccl", "read", "--json", str(path)]
        grep = ["grep", "-c", options.pattern, str(path)]
        print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
        timed(grep)
        ours, theirs, printed = [], [], ""
        for _ in range(options.runs):
            theirs.append(timed(grep)[:2])
            *seconds, printed = timed(reader)
            ours.append(tuple(seconds))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    (slow, cost), (fast, least) = (
        tuple(min(column) for column in zip(*runs, strict=True)) for runs in (ours, theirs)
    )
    engine = "hyperscan" if '"engine": "hyperscan"' in printed else "re"
    print(f"log: {size / 1e9:.2f} GB, {RANKS} ranks")
    print(f"grep -c {options.pattern!r}: {fast:.2f} s, {size / fast / 1e6:.0f} MB/s")
    print(f"railhead nccl read ({engine}): {slow:.2f} s, {size / slow / 1e6:.0f} MB/s")
    # On a machine that others use as well this one says more.
    print(f"CPU seconds: grep {least:.2f}, reader {cost:.2f}: {least / cost:.2f}")
    print(f"speed against grep: {fast / slow:.2f} (required: 0.50); peak memory {peak:.0f} MiB")
    return 0 if fast / slow >= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
