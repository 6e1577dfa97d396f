"""The lines of the RDMA check's ranks, read and turned into rates. Pure.

Sizes are bytes, times seconds, rates GB/s (1e9 bytes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from pydantic import Field

from railhead.accept.model import Model
from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.ranks import is_nccl

MARK = "rdma: "
#: A line of a rank's begins with it, behind what the launcher puts before it.
LINE = re.compile(r"(?:^|\]: ?)rdma: (\{.*\})\s*$")


class Rank(Model):
    """A process as it began; ``clock`` is monotonic, ``time`` since 1970, both in seconds."""

    pod: int
    rank: int = Field(ge=0)
    world: int = Field(ge=1)
    local: int = Field(ge=0)
    each: int = Field(ge=1)
    host: str
    pid: int
    backend: str
    device: str
    torch: str
    nccl: str
    clock: float
    time: float


class End(Model):
    """The last word of a rank; without it the rank was cut off."""

    rank: int
    clock: float
    time: float


class Row(Model):
    """One operation of one size as one rank saw it; ``why`` where the backend does not know it."""

    rank: int
    collective: str
    size: int = Field(gt=0)
    repeats: int = Field(default=0, ge=0)
    seconds: float | None = Field(default=None, gt=0)
    wrong: int | None = Field(default=None, ge=0)
    why: str = ""


class Rail(Model):
    """A rank with its like of the next node, over its own rail."""

    rank: int
    rail: int = Field(ge=0)
    alone: bool
    size: int = Field(gt=0)
    seconds: float = Field(gt=0)
    wrong: int = Field(ge=0)


class Port(Model):
    """The bytes that a port of a pod's RDMA device has carried, before or after."""

    pod: int
    rank: int
    when: Literal["before", "after"]
    name: str
    counted: dict[str, int]
    rate: str
    layer: str


class Interface(Model):
    """The bytes that the kernel has sent over an interface of a pod, before or after."""

    pod: int
    rank: int
    when: Literal["before", "after"]
    name: str
    sent: int


class Verbs(Model):
    """The means of pod number ``node`` for verbs: ports as ``device/port``, perftest's tools."""

    node: int = Field(ge=0)
    devices: tuple[str, ...]
    tools: tuple[str, ...]


class Pair(Model):
    """One of perftest's tools, asked by pod ``node`` of pod ``to`` over a rail.

    ``status`` and ``served`` are the exit codes of client and server, ``sent`` what each port of
    the asking pod has sent meanwhile, in bytes, ``output`` what the client has printed.
    """

    node: int = Field(ge=0)
    to: int = Field(ge=0)
    rail: int = Field(ge=0)
    tool: str
    device: str
    status: int
    served: int
    sent: dict[str, int]
    output: str


class Tests(Model):
    """The output of the job of one of nccl-tests' programs.

    ``program`` is where the image has it, empty where it has none; None and ``status`` None where
    the job did not come to its end. ``log`` are NCCL's lines, ``rest`` all others.
    """

    collective: str
    ranks: int
    phase: str
    detail: str
    machines: tuple[str, ...] = ()
    program: str | None = None
    status: int | None = None
    log: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()


class Traffic(Model):
    """All that one job brought, and the jobs of nccl-tests after it.

    ``pods`` and ``processes`` are what was asked for, ``machines`` where the pods ran, by number,
    ``phase`` and ``detail`` the job's end as the cluster told it. ``log`` are NCCL's lines of each
    pod. ``rest`` are the last other lines, which say why a job broke. ``untested`` is why there are
    no ``tests``.
    """

    pods: int = Field(ge=1)
    processes: int = Field(ge=1)
    phase: str
    detail: str
    machines: tuple[str, ...]
    ranks: tuple[Rank, ...] = ()
    ends: tuple[End, ...] = ()
    rows: tuple[Row, ...] = ()
    rails: tuple[Rail, ...] = ()
    verbs: tuple[Verbs, ...] = ()
    pairs: tuple[Pair, ...] = ()
    ports: tuple[Port, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    log: tuple[tuple[str, ...], ...] = ()
    rest: tuple[str, ...] = ()
    tests: tuple[Tests, ...] = ()
    untested: str = ""


_KINDS: Mapping[str, tuple[str, type[Model], bool]] = {
    "begin": ("ranks", Rank, True),
    "end": ("ends", End, False),
    "row": ("rows", Row, False),
    "rail": ("rails", Rail, False),
    "verbs": ("verbs", Verbs, False),
    "pair": ("pairs", Pair, False),
    "port": ("ports", Port, True),
    "interface": ("interfaces", Interface, True),
}
_REST = 40


def gathered(lines: Iterable[tuple[int, str]], **asked: Any) -> Traffic:
    """Return the lines of a job's pods, as ``(pod, text)``, sorted out.

    Raises:
        ValueError: a line of a rank's cannot be read.
    """
    results: dict[str, list[Model]] = {name: [] for name, _, _ in _KINDS.values()}
    log: dict[int, list[str]] = {}
    rest: list[str] = []
    for pod, text in lines:
        if message := LINE.search(text):
            data = json.loads(message[1])
            name, kind, of_pod = _KINDS[str(data.pop("kind"))]
            results[name].append(kind.model_validate(data | ({"pod": pod} if of_pod else {})))
        elif is_nccl(text):
            log.setdefault(pod, []).append(text)
        elif MARK in text:
            raise ValueError(f"a line of pod {pod} is cut: {text[:120]!r}")
        else:
            rest = [*rest[-_REST + 1 :], f"[node-{pod}] {text}"]
    pods = int(asked["pods"])
    made: dict[str, Any] = {name: tuple(values) for name, values in results.items()}
    made["log"] = tuple(tuple(log.get(pod, ())) for pod in range(pods))
    return Traffic(**asked, **made, rest=tuple(rest))


def missing(traffic: Traffic) -> str:
    """Return what is missing of the evidence; empty where it is whole."""
    if traffic.phase != "completed":
        return f"the job is {traffic.phase}: {traffic.detail or 'it says no more'}"
    world = traffic.pods * traffic.processes
    seen = sorted(entry.rank for entry in traffic.ranks)
    if seen != list(range(world)):
        return f"{world} ranks were asked for and {len(set(seen))} have begun"
    if sorted(end.rank for end in traffic.ends) != seen:
        ended = {end.rank for end in traffic.ends}
        lost = [rank for rank in seen if rank not in ended]
        return f"rank {lost[0]} has not said its end" if lost else "a rank has ended twice"
    for item in traffic.ranks:
        place = (item.world, item.each, item.pod * traffic.processes + item.local)
        if place != (world, traffic.processes, item.rank):
            return (
                f"rank {item.rank} says that it is one of {item.world}, {item.each} a node, and is "
                f"process {item.local} of pod {item.pod}"
            )
    if len({entry.backend for entry in traffic.ranks}) != 1:
        return "ranks have different backends"
    if len(traffic.machines) != traffic.pods or "" in traffic.machines:
        return "the cluster does not say where every pod ran"
    if len(set(traffic.machines)) != traffic.pods:
        return "several pods ran on one machine"
    return _clocks(traffic) or _rows(traffic)


def _rows(traffic: Traffic) -> str:
    for (name, size), rows in by_size(traffic.rows).items():
        if sorted(row.rank for row in rows) != list(range(len(traffic.ranks))):
            return f"{name} of {size} bytes was not told by every rank once"
    return ""


def _clocks(traffic: Traffic) -> str:
    """Check the ranks' clocks: two of each must agree, and its operations lie inside of them."""
    ends = {end.rank: end for end in traffic.ends}
    spans = {entry.rank: ends[entry.rank].clock - entry.clock for entry in traffic.ranks}
    for item in traffic.ranks:
        span = spans[item.rank]
        wall = ends[item.rank].time - item.time
        if abs(wall - span) > 2 + 0.05 * abs(span):
            return (
                f"rank {item.rank}'s clocks disagree: {span:.1f} s by one, {wall:.1f} s by another"
            )
        busy = sum((r.seconds or 0) * r.repeats for r in traffic.rows if r.rank == item.rank)
        if busy > span + 0.01:
            return (
                f"rank {item.rank} says that {busy:.1f} s of work took {span:.1f} s: its clock lies"
            )
    middle = median(spans.values())
    for rank, span in spans.items():
        if abs(span - middle) > 2 + 0.05 * middle:
            return (
                f"rank {rank} says {span:.1f} s where the others say {middle:.1f} s: a clock lies"
            )
    return ""


def by_size(rows: Iterable[Row]) -> dict[tuple[str, int], list[Row]]:
    """Rows of one operation and size, sizes upward."""
    results: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.collective, row.size)):
        results.setdefault((row.collective, row.size), []).append(row)
    return results


class Point(Model):
    """An operation and size of the whole job, by its slowest rank.

    ``spread`` is the slowest rank's time by the fastest's.

    ``algbw`` and ``busbw`` are in GB/s; busbw by nccl-tests' factors.
    """

    collective: str
    size: int
    seconds: float
    spread: float
    algbw: float
    busbw: float


def points(traffic: Traffic) -> tuple[Point, ...]:
    """Return the figures of rows for which every rank has a time."""
    made = []
    world = traffic.pods * traffic.processes
    for (name, size), rows in by_size(traffic.rows).items():
        times = [row.seconds for row in rows if row.seconds is not None]
        factor = COLLECTIVES[name].factor if name in COLLECTIVES else None
        if len(times) != world or factor is None:
            continue
        algbw = size / max(times) / 1e9
        made.append(
            Point(
                collective=name,
                size=size,
                seconds=max(times),
                spread=max(times) / min(times),
                algbw=algbw,
                busbw=algbw * factor(world),
            )
        )
    return tuple(made)


def least(traffic: Traffic) -> float:
    """Bytes that each node must have sent to others at least, by what its ranks have done."""
    total = 0.0
    for (name, size), rows in by_size(traffic.rows).items():
        wire = COLLECTIVES[name].wire if name in COLLECTIVES else None
        if wire is None or any(row.seconds is None for row in rows):
            continue
        total += size * min(row.repeats for row in rows) * wire(traffic.pods, traffic.processes)
    return total


def carried(traffic: Traffic) -> dict[int, float] | None:
    """Bytes that each pod's RDMA ports have sent meanwhile; None where a pod shows none."""
    return _difference(
        traffic,
        [
            (p.pod, p.when, p.name, float(sum(p.counted.get(k, 0) for k in _OUT)))
            for p in traffic.ports
            if p.counted
        ],
    )


#: What leaves a port: of verbs all is in the first; EFA counts what RDMA writes and answers apart.
_OUT = ("sent", "written", "answered")


def kernel(traffic: Traffic) -> dict[int, float] | None:
    """Bytes that each pod's kernel has sent over its interfaces; None where a pod shows none."""
    return _difference(
        traffic, [(i.pod, i.when, i.name, float(i.sent)) for i in traffic.interfaces]
    )


def _difference(
    traffic: Traffic, counts: Sequence[tuple[int, str, str, float]]
) -> dict[int, float] | None:
    before = {(pod, name): value for pod, when, name, value in counts if when == "before"}
    after = {(pod, name): value for pod, when, name, value in counts if when == "after"}
    if before.keys() != after.keys() or {pod for pod, _ in before} != set(range(traffic.pods)):
        return None
    results = dict.fromkeys(range(traffic.pods), 0.0)
    for (pod, name), value in after.items():
        grown = value - before[pod, name]
        if grown < 0:
            return None
        results[pod] += grown
    return results
