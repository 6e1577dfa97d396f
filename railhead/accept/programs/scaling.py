"""The same training step on groups of 1, 2, 4, ... nodes, each part of it timed on its own.

It runs under torchrun in one gang of all nodes. For each repeat and each size of group, all groups
of that size work side by side, so that every node is busy whatever the size:

    weak     each process has its own batch, of one size whatever the group
    strong   the group shares what one node has alone in ``weak``
    compute  the weak step without its sum over the group
    sum      that sum alone

and ``alone``: the step on the first node while the others wait. Repeats go through all sizes in
turn, so that what changes on the machines meanwhile meets all of them alike.

Each process writes what it timed itself (``scaling: {...}``), at the end.

Needs torch.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

MARK = "scaling: "


def say(**what: Any) -> None:
    """Write one whole line at once."""
    sys.stdout.write(f"{MARK}{json.dumps(what)}\n")
    sys.stdout.flush()


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--sizes", type=int, nargs="+", required=True, help="nodes of a group")
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="of one repeat")
    parser.add_argument("--batch", type=int, required=True, help="of a process, in weak scaling")
    parser.add_argument("--width", type=int, required=True, help="of the model")
    parser.add_argument("--depth", type=int, required=True, help="of the model, in layers")
    return parser.parse_args(words)


class Batches:
    """Batches from a thread of their own, two ahead; ``waited`` is what steps waited for them."""

    def __init__(self, size: int, width: int, device: torch.device) -> None:
        generator = torch.Generator().manual_seed(distributed.get_rank())
        self._all = torch.randn(4 * size, width, generator=generator)
        self._size, self._device = size, device
        self._ready: queue.Queue[torch.Tensor] = queue.Queue(maxsize=2)
        self.waited = 0.0
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self) -> None:
        at = 0
        while True:
            batch = self._all[at : at + self._size].clone()
            self._ready.put(batch.pin_memory() if self._device.type == "cuda" else batch)
            at = (at + self._size) % (3 * self._size)

    def take(self) -> torch.Tensor:
        """Return the next batch, on the device."""
        begin = time.perf_counter()
        batch = self._ready.get()
        self.waited += time.perf_counter() - begin
        return batch.to(self._device, non_blocking=True)


class Bench:
    """One process: its groups, its models, and what it timed."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.rank = distributed.get_rank()
        self.local = int(os.environ["LOCAL_RANK"])
        self.processes = int(os.environ["LOCAL_WORLD_SIZE"])
        self.nodes = distributed.get_world_size() // self.processes
        self.node = self.rank // self.processes
        cuda = given.backend == "nccl"
        self.device = torch.device("cuda", self.local) if cuda else torch.device("cpu")
        self.control = distributed.new_group(backend="gloo", timeout=timedelta(minutes=10))
        self.groups: dict[int, Any] = {}
        for size in given.sizes:
            for first in range(0, self.nodes - size + 1, size):
                ranks = range(first * self.processes, (first + size) * self.processes)
                made = distributed.new_group(list(ranks))
                if self.rank in ranks:
                    self.groups[size] = made
        self.models = {size: self._model(group) for size, group in self.groups.items()}
        weights = sum(p.numel() for p in self.models[given.sizes[0]].parameters())
        self.flat = torch.zeros(weights, device=self.device)
        self.batches = {
            size: Batches(size, given.width, self.device)
            for size in sorted({given.batch, *(self._share(n) for n in given.sizes)})
        }
        self.rows: dict[tuple[str, int], list[dict[str, Any]]] = {}

    def _share(self, nodes: int) -> int:
        batch: int = self.given.batch
        return max(1, batch // nodes)

    def _model(self, group: Any) -> DistributedDataParallel:
        torch.manual_seed(1)
        layers = []
        for _ in range(self.given.depth):
            layers += [nn.Linear(self.given.width, self.given.width), nn.ReLU()]
        model = nn.Sequential(*layers).to(self.device)
        if self.device.type == "cuda":
            return DistributedDataParallel(model, device_ids=[self.local], process_group=group)
        return DistributedDataParallel(model, process_group=group)

    def _settle(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _step(self, nodes: int, batches: Batches, *, joined: bool) -> None:
        model = self.models[nodes]
        batch = batches.take()
        model.zero_grad(set_to_none=True)
        kind = self.device.type
        with contextlib.nullcontext() if joined else model.no_sync():
            with torch.autocast(kind, dtype=torch.bfloat16, enabled=kind == "cuda"):
                loss = model(batch).square().mean()
            loss.backward()
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(weight.grad, alpha=-1e-6)

    def block(self, kind: str, nodes: int, *, taking_part: bool, keep: bool) -> None:
        """Run the steps of one repeat; processes without a part only wait for its start."""
        distributed.barrier(group=self.control)
        if not taking_part:
            return
        batches = self.batches[self._share(nodes) if kind == "strong" else self.given.batch]
        waited, each = batches.waited, []
        self._settle()
        at, begin = time.time(), time.perf_counter()
        for _ in range(self.given.steps):
            start = time.perf_counter()
            if kind == "sum":
                distributed.all_reduce(self.flat, group=self.groups[nodes])
            else:
                self._step(nodes, batches, joined=kind != "compute")
            self._settle()
            each.append(time.perf_counter() - start)
        row = {
            "at": at,
            "seconds": time.perf_counter() - begin,
            "wall": time.time() - at,
            "waited": batches.waited - waited if kind != "sum" else 0.0,
            "steps": each,
        }
        if keep:
            self.rows.setdefault((kind, nodes), []).append(row)

    def run(self) -> None:
        """Run a warm-up and all repeats, then write the times."""
        for number in range(self.given.repeats + 1):
            keep = number > 0
            self.block("alone", 1, taking_part=self.node == 0, keep=keep)
            for nodes in self.given.sizes:
                part = nodes in self.groups
                self.block("weak", nodes, taking_part=part, keep=keep)
                self.block("compute", nodes, taking_part=part, keep=keep)
                if nodes > 1:
                    self.block("strong", nodes, taking_part=part, keep=keep)
                    self.block("sum", nodes, taking_part=part, keep=keep)
        distributed.barrier(group=self.control)
        for (kind, nodes), rows in self.rows.items():
            say(kind=kind, nodes=nodes, rank=self.rank, repeats=rows)
        say(kind="end", rank=self.rank, said=len(self.rows), device=self._device())

    def _device(self) -> str:
        if self.device.type == "cuda":
            return str(torch.cuda.get_device_name(self.device))
        return f"cpu, {torch.get_num_threads()} thread"


def main(words: list[str]) -> None:
    """Run one process under torchrun."""
    given = read_arguments(words)
    if given.backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    else:
        torch.set_num_threads(1)
    distributed.init_process_group(given.backend, timeout=timedelta(minutes=5))
    Bench(given).run()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
