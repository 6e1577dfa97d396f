"""nccl-tests output as its releases print it: the printf formats of src/{common,util}.cu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from railhead.nccl.bench.collectives import COLLECTIVES

MIB, GIB = 1 << 20, 1 << 30

HAS_ROOT = ("broadcast", "reduce", "gather", "scatter")
REDUCES = ("all_reduce", "reduce", "reduce_scatter")


def float_str(value: float, width: int) -> str:
    """``getFloatStr``: as many decimals as fit."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.1e}"


@dataclass(frozen=True, kw_only=True)
class Point:
    size: int
    algbw: float
    wrong: str = "0"
    in_algbw: float | None = None


def ramp(size: int, top: float = 240.0) -> float:
    """Return a smooth curve: 20 us of latency and ``top`` GB/s."""
    return size / (20e-6 + size / (top * 1e9)) / 1e9


def points(
    low: int = 8,
    high: int = 2 * GIB,
    top: float = 240.0,
    shape: Callable[[int], float] | None = None,
) -> list[Point]:
    results = []
    size = low
    while size <= high:
        results.append(Point(size=size, algbw=(shape or (lambda s: ramp(s, top)))(size)))
        size *= 2
    return results


def device_lines(ranks: int, nodes: int, *, old: bool = False, new: bool = False) -> list[str]:
    results = []
    for rank in range(ranks):
        host = f"node-{rank // (ranks // nodes)}"
        local = rank % (ranks // nodes)
        if old:
            results.append(
                f"#   Rank {rank:2d} Pid {1000 + rank:6d} on {host:>10s} device {local:2d}"
                f" [0x{0x10 + local:02x}] Tesla V100-SXM2-16GB"
            )
        else:
            bus = f"0000:{0x10 + local:02x}:00" if new else f"0x{0x10 + local:02x}"
            results.append(
                f"#  Rank {rank:2d} Group {0:2d} Pid {1000 + rank:6d} on {host:>10s} device"
                f" {local:2d} [{bus}] NVIDIA H100 80GB HBM3"
            )
    return results


def half(collective: str, ranks: int, size: int, algbw: float, wrong: str) -> str:
    spec = COLLECTIVES[collective]
    assert spec.factor is not None
    base = spec.base(ranks) if spec.base else 1.0
    time = size * base / (algbw * 1e3) if algbw else 10.0
    busbw = algbw * spec.factor(ranks)
    return f"  {float_str(time, 7)}  {float_str(algbw, 6)}  {float_str(busbw, 6)}  {wrong:>6}"


def row(collective: str, ranks: int, point: Point, era: str = "2.13") -> str:
    """Return one line of the table in the style of an era: 2.9, 2.13 or 2.19i (per-iteration)."""
    count = point.size // 4
    redop = "sum" if collective in REDUCES else "none"
    root = "0" if collective in HAS_ROOT else "-1"
    if era == "2.9":
        head = f"{point.size:12d}  {count:12d}   float"
        if collective in ("all_reduce", "reduce_scatter", "alltoall"):
            head += f"  {redop:>6}"
        elif collective == "reduce":
            head += f"  {redop:>6}  {root:>6}"
        elif collective == "broadcast":
            head += f"  {root:>6}"
    else:
        head = f"{point.size:12d}  {count:12d}  {'float':>8}  {redop:>6}  {root:>6}"
    other = point.algbw if point.in_algbw is None else point.in_algbw
    wrong = "0e+00" if era == "2.9" and point.wrong == "0" else point.wrong
    outs = half(collective, ranks, point.size, point.algbw, wrong)
    ins = half(collective, ranks, point.size, other, wrong)
    if era == "2.19i":
        extra = "    10.1     12.2     12.1      1.5"
        return head + outs + extra + ins + extra
    return head + outs + ins


def _header(era: str) -> list[str]:
    """Return the three lines above the rows, from the printf formats of each era."""
    if era == "2.9":
        names = ("time", "algbw", "busbw", "error")
        lead = f"# {'size':>10}  {'count':>12}  {'type':>6}  {'redop':>6}"
        units = f"# {'(B)':>10}  {'(elements)':>12}  {'':>6}  {'':>6}"
        halves = "".join(f"  {name:>{w}}" for name, w in zip(names, (7, 6, 6, 5), strict=True)) * 2
        figures = "".join(f"  {u:>{w}}" for u, w in zip(UNITS, (7, 6, 6, 5), strict=True)) * 2
        return [
            f"# {'':>40}            out-of-place    {'':20}in-place",
            lead + halves,
            units + figures,
        ]
    names = ("time", "algbw", "busbw", "#wrong")
    half = "".join(f"  {name:>{w}}" for name, w in zip(names, (7, 6, 6, 6), strict=True))
    unit = "".join(f"  {u:>{w}}" for u, w in zip(UNITS, (7, 6, 6, 6), strict=True))
    if era == "2.19i":
        half += "".join(f"  {name:>7}" for name in ("i_min", "i_max", "i_p99", "i_cv%"))
        unit += "".join(f"  {name:>7}" for name in ("(us)", "(us)", "(us)", "(%)"))
    lead = f"# {'size':>10}  {'count':>12}  {'type':>8}  {'redop':>6}  {'root':>6}"
    units = f"# {'(B)':>10}  {'(elements)':>12}  {'':>8}  {'':>6}  {'':>6}"
    return [
        f"# {'':>50}           out-of-place    {'':19}in-place",
        lead + half * 2,
        units + unit * 2,
    ]


UNITS = ("(us)", "(GB/s)", "(GB/s)", "")
HEADERS = {era: _header(era) for era in ("2.9", "2.13", "2.19i")}


def log(
    collective: str = "all_reduce",
    *,
    ranks: int = 16,
    nodes: int = 2,
    rows: Sequence[Point] | None = None,
    era: str = "2.13",
    closing: bool = True,
    devices: bool = True,
    started: bool | None = None,
    average: float = 52.9,
    out_of_bounds: int = 0,
) -> str:
    """Return a whole run."""
    new = era.startswith("2.19")
    started = new if started is None else started
    rows = points() if rows is None else rows
    lines = []
    if started:
        lines += [
            "# nccl-tests version 2.19.6 nccl-headers=23004 nccl-library=23004",
            f"# Collective test starting: {collective}_perf",
        ]
    lines.append(
        "# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 5"
        " iters: 20 agg iters: 1 validation: 1 graph: 0"
    )
    lines.append("#")
    if devices:
        lines.append("# Using devices")
        lines += device_lines(ranks, nodes, old=era == "2.9", new=new)
    lines.append("#")
    lines += HEADERS[era]
    lines += [row(collective, ranks, point, era) for point in rows]
    if closing:
        text = "OK" if not out_of_bounds else "FAILED"
        lines += [
            f"# Out of bounds values : {out_of_bounds} {text}",
            f"# Avg bus bandwidth    : {average:g} ",
            "#",
        ]
        if started:
            lines.append(f"# Collective test concluded: {collective}_perf")
    return "\n".join(lines) + "\n"
