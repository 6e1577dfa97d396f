"""The shape of bandwidth over size: latency end, ramp, plateau, dips, and what a dip suggests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from railhead.nccl.bench.model import Measure, Row

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Below this a collective's time is its latency, whatever the size.
LATENCY_END = 4 * KIB
# Bandwidth that small is all latency, and its ups and downs say nothing.
FLOOR = 32 * KIB
# A row this far below the best smaller size is a dip.
DIP = 0.90
# The plateau is what lies within this of the peak.
PLATEAU = 0.90
# The last step up is still a ramp when it gains more than this.
RISING = 1.05
# One half of a row this much slower than the other is one run's noise.
APART = 1.25


@dataclass(frozen=True, kw_only=True)
class Dip:
    """Sizes that are slower than a smaller size was.

    Attributes:
        first, last: sizes in bytes.
        busbw: the lowest, GB/s.
        before: the best of smaller sizes, GB/s.
        halves: ``both``, ``out-of-place`` or ``in-place``: where it was seen.
        recovers: False when the largest size measured is part of it.
        suggests: what usually does that.
        confirm: how to find out.
    """

    first: int
    last: int
    busbw: float
    before: float
    halves: str
    recovers: bool
    suggests: str
    confirm: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The shape of one run's curve.

    Attributes:
        latency: median microseconds of sizes up to 4 KiB; None when none was measured.
        slow_start: the first size took this many times the latency: connections were still made.
        peak, peak_size: the best busbw in GB/s and its size.
        half_size: the smallest size with half of the peak.
        plateau_from: where the plateau begins; None when the last size still gains.
        rising: the largest size is more than 5 % faster than the one before it.
        dips: by size.
        halves: median of in-place busbw / out-of-place busbw from 1 MiB on; None when not both.
    """

    latency: float | None = None
    slow_start: float | None = None
    peak: float = 0.0
    peak_size: int = 0
    half_size: int | None = None
    plateau_from: int | None = None
    rising: bool = False
    dips: tuple[Dip, ...] = ()
    halves: float | None = None


def curve_of(rows: Sequence[Row]) -> Curve:
    """Return the shape of one run's rows; an empty curve when nothing was measured."""
    points = _points(rows)
    if not points:
        return Curve()
    peak_size, peak = max(points, key=lambda point: (point[1].busbw, -point[0]))
    small = [half.time for size, half in points if 0 < size <= LATENCY_END and half.time > 0]
    latency = median(small) if small else None
    before = max((half.busbw for _, half in points[:-1]), default=0.0)
    rising = len(points) > 1 and points[-1][1].busbw > before * RISING
    ratios = [
        row.in_place.busbw / row.out_of_place.busbw
        for row in rows
        if row.size >= MIB and row.in_place and row.out_of_place and row.out_of_place.busbw > 0
    ]
    return Curve(
        latency=latency,
        slow_start=_slow_start(rows, latency),
        peak=peak.busbw,
        peak_size=peak_size,
        half_size=next((s for s, half in points if half.busbw >= peak.busbw / 2 > 0), None),
        plateau_from=None if rising else _plateau(points, peak.busbw),
        rising=rising,
        dips=_dips(rows),
        halves=median(ratios) if ratios else None,
    )


def _points(rows: Sequence[Row]) -> list[tuple[int, Measure]]:
    """Return the sizes in order, each once, with its out-of-place half where there is one."""
    points: dict[int, Measure] = {}
    for row in rows:
        if row.best is not None and row.size > 0:
            points[row.size] = row.best
    return sorted(points.items(), key=lambda item: item[0])


def _slow_start(rows: Sequence[Row], latency: float | None) -> float | None:
    first = next((row for row in rows if row.size > 0 and row.out_of_place), None)
    if first is None or first.out_of_place is None or not latency or first.size > LATENCY_END:
        return None
    times = first.out_of_place.time / latency
    return times if times > 3 else None


def _plateau(points: Sequence[tuple[int, Measure]], peak: float) -> int | None:
    """Return the size at which the plateau begins: sizes near the peak, the peak among them."""
    start = None
    for size, half in points:
        if half.busbw >= PLATEAU * peak > 0:
            start = size if start is None else start
        elif (
            start is not None and max((h.busbw for s, h in points if s > size), default=0.0) < peak
        ):
            break
        else:
            start = None
    return start


def _dips(rows: Sequence[Row]) -> tuple[Dip, ...]:
    outs = _below([(r.size, r.out_of_place) for r in rows if r.out_of_place])
    ins = _below([(r.size, r.in_place) for r in rows if r.in_place])
    both = any(row.out_of_place for row in rows) and any(row.in_place for row in rows)
    sizes = sorted({row.size for row in rows if row.best})
    dips: list[Dip] = []
    run: list[int] = []
    for size in [*sizes, -1]:
        if size in outs or size in ins:
            run.append(size)
            continue
        if run:
            dips.append(_dip(run, outs, ins, both, recovers=size != -1))
            run = []
    return tuple(dips)


def _below(points: Sequence[tuple[int, Measure]]) -> dict[int, tuple[float, float]]:
    """Return size -> (its busbw, the best busbw of smaller sizes), for the sizes that dip."""
    best = 0.0
    results = {}
    for size, half in sorted(points, key=lambda point: point[0]):
        if size >= FLOOR and half.busbw < DIP * best:
            results[size] = (half.busbw, best)
        best = max(best, half.busbw)
    return results


def _dip(
    run: Sequence[int],
    outs: dict[int, tuple[float, float]],
    ins: dict[int, tuple[float, float]],
    both: bool,
    *,
    recovers: bool,
) -> Dip:
    seen = [outs[s] for s in run if s in outs] + [ins[s] for s in run if s in ins]
    busbw, before = min(seen)
    in_outs, in_ins = any(s in outs for s in run), any(s in ins for s in run)
    halves = "both" if in_outs and in_ins else "out-of-place" if in_outs else "in-place"
    once = both and halves != "both"
    suggests, confirm = _reading(run[0], run[-1], busbw / before, once, recovers)
    return Dip(
        first=run[0],
        last=run[-1],
        busbw=busbw,
        before=before,
        halves=halves,
        recovers=recovers,
        suggests=suggests,
        confirm=confirm,
    )


_TUNING = "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING prints the algorithm and protocol of each size"


def _reading(first: int, last: int, left: float, once: bool, recovers: bool) -> tuple[str, str]:
    """Return the usual cause of such a dip, and how to confirm it."""
    if once:
        return (
            "noise of one measurement or another job's traffic, for only one half shows it",
            "run the size again with more iterations (-n 100); noise does not come back",
        )
    if not recovers and left < 0.5:
        return (
            "something slow under the algorithm for large messages: rings without GPUDirect RDMA, "
            "a rail that is down, or congestion without flow control",
            f"{_TUNING}; `railhead-nccl read` tells GPUDirect RDMA and rails from that run's log",
        )
    if not recovers:
        return (
            "buffers that leave a cache or a registration limit, throttling by clocks or pause "
            "frames, or another algorithm for the largest sizes",
            f"{_TUNING}; watch the NICs' pause and discard counters during the run",
        )
    if last <= MIB:
        return (
            "a change of protocol (LL to LL128, LL128 to Simple) that comes too early or too late",
            f"{_TUNING}; force each with NCCL_PROTO for a trial, and unset it afterwards",
        )
    if first <= 64 * MIB:
        return (
            "a change of algorithm (Tree or NVLSTree to Ring), or to Simple with its chunk sizes",
            f"{_TUNING}; force each with NCCL_ALGO for a trial; NCCL_P2P_NET_CHUNKSIZE moves it "
            "for sends",
        )
    return (
        "chunks and buffers (NCCL_BUFFSIZE) or other traffic: too large for a change of protocol",
        "run the size again on an idle fabric; if it stays, vary NCCL_BUFFSIZE for a trial",
    )
