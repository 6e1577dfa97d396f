"""Collectives over the job's own backend, their times, and what the node's ports carried meanwhile.

It runs under torchrun. What it finds it prints as lines that begin with ``rdma:`` and hold one JSON
object each; NCCL writes its own log beside them. Sizes are bytes as nccl-tests counts them, times
seconds of one operation as this rank saw them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

PORTS = Path("/sys/class/infiniband")
INTERFACES = Path("/sys/class/net")
# In bytes; the standard counters of verbs count words of four (InfiniBand specification, 16.1.3.5).
WORDS = {"port_xmit_data": "sent", "port_rcv_data": "received"}
# Of EFA (linux drivers/infiniband/hw/efa/efa_verbs.c): bytes already.
BYTES = {
    "tx_bytes": "sent",
    "rx_bytes": "received",
    "rdma_read_bytes": "read",
    "rdma_write_bytes": "written",
    "rdma_read_resp_bytes": "answered",
    "rdma_write_recv_bytes": "taken",
}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv")
DEADLINE = timedelta(minutes=10)
# Two buffers of a size are held at once, and NCCL needs some of its own.
PART_OF_MEMORY = 4


def say(kind: str, **fields: Any) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write("rdma: " + json.dumps({"kind": kind, **fields}) + "\n")
    sys.stdout.flush()


def number(path: Path) -> int | None:
    """Return a counter; None where it cannot be read."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def text(path: Path) -> str:
    """Return a file's text; empty where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def ports(root: Path) -> dict[str, dict[str, int]]:
    """Bytes that each port of each RDMA device has carried, by ``device/port``."""
    results: dict[str, dict[str, int]] = {}
    for port in sorted(root.glob("*/ports/*")):
        counted: dict[str, int] = {}
        for name, what in WORDS.items():
            if (value := number(port / "counters" / name)) is not None:
                counted[what] = value * 4
        for folder in (port / "hw_counters", port.parent.parent / "hw_counters"):
            for name, what in BYTES.items():
                if what not in counted and (value := number(folder / name)) is not None:
                    counted[what] = value
        results[f"{port.parent.parent.name}/{port.name}"] = counted
    return results


def interfaces(root: Path) -> dict[str, int]:
    """Bytes that the kernel has sent over each network interface of this pod, but the loopback."""
    results = {}
    for path in sorted(root.glob("*")):
        value = number(path / "statistics" / "tx_bytes")
        if path.name != "lo" and value is not None:
            results[path.name] = value
    return results


def sent() -> dict[str, int]:
    """Bytes that each port has sent until now, where it tells."""
    return {name: counted["sent"] for name, counted in ports(PORTS).items() if "sent" in counted}


def tell(rank: int, when: str) -> None:
    """Write what the node's ports and interfaces have carried until now; a line each."""
    for name, counted in ports(PORTS).items():
        device, _, port = name.partition("/")
        place = PORTS / device / "ports" / port
        say(
            "port",
            rank=rank,
            when=when,
            name=name,
            counted=counted,
            rate=text(place / "rate"),
            layer=text(place / "link_layer"),
        )
    for name, sent in interfaces(INTERFACES).items():
        say("interface", rank=rank, when=when, name=name, sent=sent)


def sizes(least: int, most: int) -> list[int]:
    """Powers of four from the least, and the most."""
    results = []
    while least < most:
        results.append(least)
        least *= 4
    return [*results, most]


class Bench:
    """Return the operations: every process of the job runs the same in the same order."""

    def __init__(self, device: torch.device, repeats: int, warmup: int) -> None:
        self.device = device
        self.repeats = repeats
        self.warmup = warmup
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.local = int(os.environ["LOCAL_RANK"])
        self.each = int(os.environ["LOCAL_WORLD_SIZE"])

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds(self, operation: Callable[[], object]) -> float:
        """Return the seconds of one operation that all processes begin together."""
        for _ in range(self.warmup):
            operation()
        self.wait()
        dist.barrier()
        self.wait()
        begin = time.monotonic()
        for _ in range(self.repeats):
            operation()
        self.wait()
        return (time.monotonic() - begin) / self.repeats

    def tensor(self, size: int, value: float) -> torch.Tensor:
        """Return a tensor of so many bytes, four each."""
        return torch.full((size // 4,), value, dtype=torch.float32, device=self.device)

    def operation(self, name: str, size: int) -> tuple[Callable[[], object], Callable[[], int]]:
        """Return an operation of a size, and the function that counts its wrong values."""
        world, rank = self.world, self.rank
        # A whole number of floats for each rank.
        size = size // (4 * world) * 4 * world
        ours = float(rank + 1)
        if name == "all_reduce":
            whole = self.tensor(size, 1.0)

            def wrong() -> int:
                # Only once: filling takes time that does not belong to the network.
                whole.fill_(1.0)
                dist.all_reduce(whole)
                return int((whole != float(world)).sum())

            return lambda: dist.all_reduce(whole), wrong
        if name == "all_gather":
            part, whole = self.tensor(size // world, ours), self.tensor(size, 0.0)
            gather = dist.all_gather_into_tensor
            return lambda: gather(whole, part), lambda: self._wrong(whole)
        if name == "reduce_scatter":
            whole, part = self.tensor(size, 1.0), self.tensor(size // world, 0.0)
            scatter = dist.reduce_scatter_tensor
            return lambda: scatter(part, whole), lambda: int((part != float(world)).sum())
        if name == "alltoall":
            out, whole = self.tensor(size, ours), self.tensor(size, 0.0)
            return lambda: dist.all_to_all_single(whole, out), lambda: self._wrong(whole)
        return self.exchange(size, (rank + 1) % world, (rank - 1) % world)

    def exchange(
        self, size: int, to: int, of: int
    ) -> tuple[Callable[[], object], Callable[[], int]]:
        """Send to one rank and receive of another at the same time."""
        out, whole = self.tensor(size, float(self.rank + 1)), self.tensor(size, 0.0)

        def swap() -> None:
            both = [dist.P2POp(dist.isend, out, to), dist.P2POp(dist.irecv, whole, of)]
            for item in dist.batch_isend_irecv(both):
                item.wait()

        return swap, lambda: int((whole != float(of + 1)).sum())

    def _wrong(self, whole: torch.Tensor) -> int:
        parts = whole.view(self.world, -1)
        wanted = torch.arange(1, self.world + 1, dtype=torch.float32, device=self.device)
        return int((parts != wanted[:, None]).sum())

    def measure(self, name: str, size: int) -> None:
        """Measure one row of a table."""
        fields: dict[str, Any] = {"rank": self.rank, "collective": name, "size": size}
        try:
            operation, wrong = self.operation(name, size)
            seconds = self.seconds(operation)
        except (RuntimeError, ValueError, NotImplementedError, AttributeError) as error:
            # A backend that does not know it says so on every rank alike; else the others' wait
            # ends this job, which is then no evidence.
            say("row", **fields, why=str(error).splitlines()[0][:200])
            return
        say("row", **fields, repeats=self.repeats, seconds=seconds, wrong=wrong())

    def rails(self, size: int) -> None:
        """Send from each rank to its peer on the next node: all rails at once, then each alone."""
        to, of = (self.rank + self.each) % self.world, (self.rank - self.each) % self.world
        swap, wrong = self.exchange(size, to, of)
        for rail in (None, *range(self.each)):
            taking_part = rail in (None, self.local)
            for _ in range(self.warmup if taking_part else 0):
                swap()
            self.wait()
            dist.barrier()
            self.wait()
            begin = time.monotonic()
            for _ in range(self.repeats if taking_part else 0):
                swap()
            self.wait()
            seconds = (time.monotonic() - begin) / self.repeats
            dist.barrier()
            if taking_part:
                say(
                    "rail",
                    rank=self.rank,
                    rail=self.local,
                    alone=rail is not None,
                    size=size,
                    seconds=seconds,
                    wrong=wrong(),
                )


def everyone(one: object) -> list[Any]:
    """Return what every process has given, by rank, once all have."""
    results: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(results, one)
    return results


def main() -> None:
    """Find the backend, measure, and say what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--least", type=int, required=True)
    parser.add_argument("--most", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--warmup", type=int, required=True)
    asked = parser.parse_args()
    cuda = torch.cuda.is_available()
    local = int(os.environ["LOCAL_RANK"])
    most = asked.most
    if cuda:
        torch.cuda.set_device(local)
        most = min(most, torch.cuda.mem_get_info()[0] // PART_OF_MEMORY // (1 << 20) * (1 << 20))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", timeout=DEADLINE)
    bench = Bench(device, asked.repeats, asked.warmup)
    # The same everywhere, by the process that has least.
    agreed = torch.tensor([most], dtype=torch.int64, device=device)
    dist.all_reduce(agreed, op=dist.ReduceOp.MIN)
    nccl = ".".join(str(part) for part in torch.cuda.nccl.version()) if cuda else ""
    if bench.local == 0:
        tell(bench.rank, "before")
    say(
        "begin",
        rank=bench.rank,
        world=bench.world,
        local=bench.local,
        each=bench.each,
        host=socket.gethostname(),
        pid=os.getpid(),
        backend=dist.get_backend(),
        device=torch.cuda.get_device_name(local) if cuda else "cpu",
        torch=str(torch.__version__),
        nccl=nccl,
        clock=time.monotonic(),
        time=time.time(),
    )
    dist.barrier()
    for name in COLLECTIVES:
        for size in sizes(asked.least, int(agreed)):
            bench.measure(name, size)
    bench.rails(int(agreed))
    dist.barrier()
    if bench.local == 0:
        tell(bench.rank, "after")
    node = bench.rank // bench.each if bench.local == 0 else None
    # It travels beside this file.
    importlib.import_module("verbs").measure(node=node, share=everyone, sent=sent, say=say)
    say("end", rank=bench.rank, clock=time.monotonic(), time=time.time())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
