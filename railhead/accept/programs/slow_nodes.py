"""Tests groups of nodes against each other, in one gang, as the search for slow nodes asks.

Every pod runs this file. The first one leads: it hands out rounds of groups that share no node
and hears what became of them, over plain TCP; its thread is :func:`lead`. For each test a pod
starts a process for each of its GPUs that joins the group's own rendezvous, so that a node that
hangs takes only its own group along, and only until ``--limit``.

In a test every process sends ``--mebibytes`` in all to its like on the other nodes, each to each,
and then waits for all. Before the first, each node computes alone.

What is judged is in the lines that each pod writes itself (``slow-nodes: {...}``).

Needs torch, and search.py beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

MARK = "slow-nodes: "
# Joining and the computing alone; a group's exchange has --limit.
PATIENCE = 180.0
# Computing is repeated so much more often than an exchange: seconds of it, not a moment.
COMPUTES = 5
# What NCCL prints; nodes of one rack would go by NVLink, past the NICs that are measured.
SETTINGS = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
    "NCCL_MNNVL_ENABLE": "0",
}
Line = dict[str, Any]


def say(**what: Any) -> None:
    """Write one whole line at once."""
    sys.stdout.write(f"{MARK}{json.dumps(what)}\n")
    sys.stdout.flush()


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Return the options; the processes of a test get theirs from the pod's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True)
    parser.add_argument("--mebibytes", type=int, required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--limit", type=float, required=True, help="seconds that one test has")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--floor", type=float, help="GB/s of a node")
    parser.add_argument("--ceiling", type=float, help="GB/s of a node")
    parser.add_argument("--loopback-share", type=float, help="floor, where there is no line rate")
    parser.add_argument("--proof", action="append", default=[], help="of NCCL's log")
    parser.add_argument("--process", choices=("alone", "group"), help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--world", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--local", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, help=argparse.SUPPRESS)
    return parser.parse_args(words)


# -- one process of one test ----------------------------------------------------------------------


class Timed:
    """Repeats by the clock that cannot be set and by the one that tells the time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.wall: list[float] = []

    @contextlib.contextmanager
    def repeat(self) -> Any:
        """Times one."""
        wall, begin = time.time(), time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - begin)
        self.wall.append(time.time() - wall)

    def to_json(self) -> Line:
        """Return both clocks, by name."""
        return {"seconds": self.seconds, "wall": self.wall}


def process(given: argparse.Namespace) -> Line:
    """Measure in one process of a test."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    cuda = given.backend == "nccl"
    if cuda:
        torch.cuda.set_device(given.local)
    device = torch.device("cuda", given.local) if cuda else torch.device("cpu")

    def settle() -> None:
        if cuda:
            torch.cuda.synchronize()

    results: Line = {}
    if given.world > 1:
        distributed.init_process_group(
            given.backend,
            init_method=f"tcp://{given.address}",
            rank=given.rank,
            world_size=given.world,
            timeout=timedelta(seconds=given.limit),
        )
        results["exchange"] = exchange(given, device, settle).to_json()
        distributed.destroy_process_group()
    if given.process == "alone" and (cuda or given.rank == 0):
        results["compute"] = compute(given, device, settle).to_json()
    return results


def exchange(given: argparse.Namespace, device: Any, settle: Any) -> Timed:
    """Send to the peers on all other nodes, then wait for all."""
    import torch
    from torch import distributed

    peers = [
        other for other in range(given.local, given.world, given.processes) if other != given.rank
    ]
    size = given.mebibytes * (1 << 20) // len(peers)
    out = [torch.ones(size, dtype=torch.uint8, device=device) for _ in peers]
    into = [torch.empty(size, dtype=torch.uint8, device=device) for _ in peers]
    done = torch.zeros(1, device=device)
    timed = Timed()
    for number in range(given.repeats + 1):
        settle()
        distributed.all_reduce(done)
        settle()
        # The first is for warming up.
        with timed.repeat() if number else contextlib.nullcontext():
            asked = [
                distributed.P2POp(distributed.irecv, buffer, peer)
                for buffer, peer in zip(into, peers, strict=True)
            ] + [
                distributed.P2POp(distributed.isend, buffer, peer)
                for buffer, peer in zip(out, peers, strict=True)
            ]
            for work in distributed.batch_isend_irecv(asked):
                work.wait()
            distributed.all_reduce(done)
            settle()
    return timed


def compute(given: argparse.Namespace, device: Any, settle: Any) -> Timed:
    """Products of matrices, the same on every node."""
    import torch

    cuda = given.backend == "nccl"
    edge, products = (8192, 100) if cuda else (384, 72)
    kind = torch.bfloat16 if cuda else torch.float32
    item = torch.ones(edge, edge, dtype=kind, device=device) / edge
    timed = Timed()
    for number in range(COMPUTES * given.repeats + 1):
        settle()
        with timed.repeat() if number else contextlib.nullcontext():
            other = item
            for _ in range(products):
                other = item @ other
            settle()
    return timed


# -- a pod ----------------------------------------------------------------------------------------


class Pod:
    """Starts the processes of a test and reports what they measured."""

    def __init__(self, given: argparse.Namespace, words: list[str], index: int) -> None:
        self.given = given
        self.words = words
        self.index = index
        count = int(os.environ.get("PET_NPROC_PER_NODE", "1"))
        self.processes = count if given.backend == "nccl" else 1
        self.said = 0

    def alone(self) -> Line:
        """Test this node alone; on CPU two of its processes exchange over the loopback as well."""
        cuda = self.given.backend == "nccl"
        port = free_port()
        return self._run(
            {"do": "alone"},
            address=f"127.0.0.1:{port}",
            # Over NVLink, which says nothing of the fabric.
            world=1 if cuda else 2,
            ranks=[0] * self.processes if cuda else [0, 1],
            extra={} if cuda else {"GLOO_SOCKET_IFNAME": "lo"},
            span=1,
        )

    def group(self, order: Line) -> Line:
        """Run this node's part of a test."""
        place = order["group"].index(str(self.index))
        return self._run(
            order,
            address=order["address"],
            world=len(order["group"]) * self.processes,
            ranks=[place * self.processes + local for local in range(self.processes)],
            extra={},
            span=self.processes,
        )

    def _run(
        self,
        order: Line,
        *,
        address: str,
        world: int,
        ranks: list[int],
        extra: dict[str, str],
        span: int,
    ) -> Line:
        cuda = self.given.backend == "nccl"
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "nccl"
            env = {**os.environ, **extra}
            if cuda:
                env |= SETTINGS | {"NCCL_DEBUG_FILE": f"{log}.%p"}
            started = []
            for local, rank in enumerate(ranks):
                words = [
                    *self.words,
                    f"--process={order['do']}",
                    f"--address={address}",
                    f"--rank={rank}",
                    f"--world={world}",
                    f"--local={local if cuda else 0}",
                    f"--processes={span}",
                ]
                started.append(
                    subprocess.Popen(
                        [sys.executable, __file__, *words],
                        env=env,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                        text=True,
                    )
                )
            limit = PATIENCE if order["do"] == "alone" else self.given.limit
            begin = time.monotonic()
            texts = [self._hear(item, limit, begin) for item in started]
            report: Line = {**order, "node": self.index, "processes": texts}
            if order["do"] == "group" and self.given.proof:
                report |= prove(sorted(Path(folder).glob("nccl.*")), self.given.proof, len(ranks))
        self.said += 1
        say(**report)
        return report

    @staticmethod
    def _hear(one: subprocess.Popen[str], limit: float, begin: float) -> Line:
        try:
            text, _ = one.communicate(timeout=max(0.1, limit - (time.monotonic() - begin)))
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.communicate()
            return {"error": f"nothing within {limit:g} s"}
        for line in reversed(text.splitlines()):
            if line.startswith(MARK):
                result: Line = json.loads(line[len(MARK) :])
                return result
        tail = " | ".join(text.splitlines()[-3:])[-400:]
        return {"error": f"exit {one.returncode}: {tail}"}


def prove(logs: list[Path], proofs: list[str], processes: int) -> Line:
    """Return whether each process' NCCL log proves the fabric, and the lines."""
    shown: list[str] = []
    proven = len(logs) >= processes > 0
    for log in logs:
        lines = log.read_text(errors="replace").splitlines()
        for proof in proofs:
            line = next((item for item in lines if re.search(proof, item)), None)
            proven = proven and line is not None
            if line is not None and log == logs[0]:
                shown.append(line[:300])
    if not proven and logs:
        text = logs[0].read_text(errors="replace").splitlines()
        shown += [line[:300] for line in text if "NET/" in line][:3]
    return {"proven": proven, "shown": shown}


def free_port() -> int:
    """Return a port that no process listens on now."""
    with socket.socket() as item:
        item.bind(("", 0))
        port: int = item.getsockname()[1]
        return port


# -- over TCP -------------------------------------------------------------------------------------


class Wire:
    """JSON lines over a connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._file = connection.makefile("rwb")
        self.address: str = connection.getsockname()[0]

    def send(self, **what: Any) -> None:
        """Send one message; raises OSError where no peer listens."""
        self._file.write(json.dumps(what).encode() + b"\n")
        self._file.flush()

    def receive(self, seconds: float | None) -> Line | None:
        """Return the next message; None where none came in time, or the other side has gone."""
        try:
            self._connection.settimeout(seconds)
            line = self._file.readline()
            result: Line | None = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):
            return None
        return result


def join(host: str, port: int) -> Wire:
    """Connect to the leader, which may start later than this pod."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return Wire(socket.create_connection((host, port), timeout=5))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def lead(given: argparse.Namespace, listener: socket.socket, count: int, size: int) -> None:
    """Gather the pods, ask what the search asks, and end."""
    wires = gather(listener, count)
    try:
        alone = ask(wires, {index: {"do": "alone"} for index in wires}, PATIENCE + 30)
        search(given, wires, count, size, alone)
    finally:
        for wire, _ in wires.values():
            with contextlib.suppress(OSError):
                wire.send(do="end")


def gather(listener: socket.socket, count: int) -> dict[int, tuple[Wire, Line]]:
    """Return every pod that says hello in time."""
    wires: dict[int, tuple[Wire, Line]] = {}
    end = time.monotonic() + PATIENCE
    while len(wires) < count and time.monotonic() < end:
        listener.settimeout(max(0.1, end - time.monotonic()))
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        wire = Wire(connection)
        hello = wire.receive(10)
        if hello is not None and hello.get("node") in range(count):
            wires[hello["node"]] = (wire, hello)
    return wires


def ask(
    wires: dict[int, tuple[Wire, Line]], orders: dict[int, Line], seconds: float
) -> dict[int, Line]:
    """Send each pod its order and hear all reports; one that says nothing is asked no more."""
    for index, order in orders.items():
        with contextlib.suppress(OSError):
            wires[index][0].send(**order)
    end = time.monotonic() + seconds
    reports: dict[int, Line] = {}
    for index in orders:
        report = wires[index][0].receive(max(0.1, end - time.monotonic()))
        if report is None:
            del wires[index]
        else:
            reports[index] = report
    return reports


def search(
    given: argparse.Namespace,
    wires: dict[int, tuple[Wire, Line]],
    count: int,
    size: int,
    alone: dict[int, Line],
) -> None:
    """Run the rounds; ``size`` is what each node sends in one repeat, in bytes."""
    # Beside this file in the pod, where no package of ours is.
    library = importlib.import_module("search")

    floor = given.floor
    if floor is None and given.loopback_share is not None:
        loops = library.loopbacks(alone.values(), size=size, repeats=given.repeats)
        floor = library.loopback_floor(loops, given.loopback_share)
    hunt = library.Search([str(index) for index in range(count)], seed=given.seed, floor=floor)
    number = 0
    while groups := hunt.ask():
        say(do="round", round=number, groups=groups)
        orders: dict[int, Line] = {}
        for at, group in enumerate(groups):
            members = [int(node) for node in group]
            # A node that is not there leaves nobody waiting for it.
            if all(index in wires for index in members):
                head = wires[members[0]][1]
                order = {
                    "do": "group",
                    "test": f"{number}.{at}",
                    "group": group,
                    "address": f"{head['address']}:{head['port'] + number}",
                }
                orders.update(dict.fromkeys(members, order))
        reports = ask(wires, orders, given.limit + 30) if orders else {}
        hunt.tell(
            [
                library.outcome(
                    group,
                    library.answers(f"{number}.{at}", reports.values(), proofs=bool(given.proof)),
                    size=size,
                    repeats=given.repeats,
                    ceiling=given.ceiling,
                )
                for at, group in enumerate(groups)
            ]
        )
        number += 1
    say(do="searched", rounds=number, tests=len(hunt.tests))


def follow(pod: Pod, wire: Wire, port: int) -> None:
    """Do what the leader asks, until it has nothing more; groups may meet here from ``port`` on."""
    wire.send(node=pod.index, address=wire.address, port=port)
    while (order := wire.receive(None)) is not None and order["do"] != "end":
        report = pod.alone() if order["do"] == "alone" else pod.group(order)
        wire.send(**report)


def main(words: list[str]) -> None:
    """Run a pod, or one process of a test."""
    given = read_arguments(words)
    if given.process:
        say(**process(given))
        return
    index, count = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
    host, port = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
    pod = Pod(given, words, index)
    size = given.mebibytes * (1 << 20) * pod.processes
    leader = None
    if index == 0:
        listener = socket.create_server(("", port), backlog=max(128, count))
        leader = threading.Thread(target=lead, args=(given, listener, count, size))
        leader.start()
    try:
        wire = join(host, port)
    except OSError as error:
        # No end with an error: the gang would be started again, and what is said here be lost.
        say(do="unmet", node=index, to=f"{host}:{port}", why=str(error))
    else:
        follow(pod, wire, port + 1)
    say(do="end", node=index, said=pod.said)
    if leader is not None:
        leader.join()


if __name__ == "__main__":
    main(sys.argv[1:])
