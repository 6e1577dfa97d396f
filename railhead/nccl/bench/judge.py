"""Judgement of a run: formulas, correctness, the line rate, published figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from railhead import machines
from railhead.base.errors import NotFoundError, did_you_mean
from railhead.machines import Machine
from railhead.nccl.bench.collectives import COLLECTIVES, Collective
from railhead.nccl.bench.curve import GIB, Curve, curve_of
from railhead.nccl.bench.model import BenchRun, Row
from railhead.nccl.bench.published import Published, published_for

Level = Literal["bad", "warn", "note"]

# Sizes from here on are compared with the line rate: below, latency and the ramp are measured.
LARGE = GIB
# A rate of the catalogue is nominal, and a table rounds: this much above is still the NICs' path.
OVER = 1.03
# Thresholds for what a fraction of the line rate is called where nothing is published.
TCP_LIKE = 0.20
LOW = 0.50
# In-place and out-of-place differ when one is faster by more than this.
APART_HALVES = 1.10
# A figure this near to the published one is healthy.
NEAR = 0.85
FAR = 0.70


@dataclass(frozen=True, kw_only=True)
class Note:
    """One thing to know about a run.

    Attributes:
        id: kebab-case, for machines.
        level: ``bad`` is never a pass; ``warn`` wants a look; ``note`` explains.
        text: one sentence.
    """

    id: str
    level: Level
    text: str


@dataclass(frozen=True, kw_only=True)
class LineRate:
    """A measurement beside what the NICs can carry.

    Attributes:
        machine: the type of the catalogue.
        nics: interfaces of a node.
        unit: nodes that NVLink makes one: 1, or those of a domain that spans several.
        rate: GB/s of a unit and direction, all NICs together.
        size: the message that was compared.
        wire: GB/s that a unit's NICs must have carried at least, by ``algbw`` and the collective.
        fraction: wire / rate.
        bound: the greatest algbw that the NICs allow without reduction in the network, GB/s.
        why: where the bound comes from.
    """

    machine: str
    nics: int
    unit: int
    rate: float
    size: int
    wire: float
    fraction: float
    bound: float
    why: str


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A run with everything that is known about it.

    Attributes:
        factor: what busbw / algbw should be; None when ranks or collective are unknown.
        factor_ok: whether every row keeps to it; None when it could not be checked.
        line: None when it could not be compared, and then a note says why.
        published: rows of the catalogue for this machine, collective and node count.
        notes: worst first.
    """

    run: BenchRun
    curve: Curve
    factor: float | None = None
    factor_ok: bool | None = None
    line: LineRate | None = None
    published: tuple[Published, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def bad(self) -> bool:
        """True when the run must not pass anything."""
        return any(note.level == "bad" for note in self.notes)


def machine(name: str) -> Machine:
    """Return the machine type of that name.

    Raises:
        NotFoundError: the catalogue has none.
    """
    known = machines.MACHINES
    if name in known:
        return known[name]
    raise NotFoundError(
        f"--instance-type {name!r}: the catalogue has no such machine type"
        f"{did_you_mean(name, known)}",
        remedy=f"one of: {', '.join(sorted(known))}",
    )


def judge(run: BenchRun, *, instance_type: str | None = None, nodes: int | None = None) -> Judged:
    """Return everything that can be said about one run.

    Args:
        run: what was measured.
        instance_type: the machine type, where the log's own hint is not enough.
        nodes: hosts, where the log does not tell.

    Raises:
        NotFoundError: the catalogue has no such machine type.
    """
    curve = curve_of(run.rows)
    notes = [*_correctness(run), *_completeness(run)]
    collective = COLLECTIVES.get(run.collective)
    factor = (
        collective.factor(run.ranks)
        if collective and collective.factor and run.ranks and run.ranks > 1
        else None
    )
    factor_ok = None
    if collective and factor is not None and run.ranks:
        wrong_rows = [row for row in run.rows if not _keeps(row, factor)]
        measured = [row for row in run.rows if any(h.algbw for _, h in row.halves)]
        factor_ok = not wrong_rows if measured else None
        if wrong_rows and run.ranks_from != "factor":
            notes.append(_off(wrong_rows[-1], factor, collective, run.ranks))
        notes += _clock(run, collective, run.ranks)
    if run.collective == "all_reduce":
        notes += _impossible(run)
    count = nodes if nodes is not None else run.nodes
    name = instance_type or (run.hints[0] if len(run.hints) == 1 else None)
    kind = machine(name) if name else None
    line, why = _line_rate(run, collective, kind, count)
    notes += why
    notes += _filled(run, kind, count)
    rows = published_for(run, kind, count) if kind and count else ()
    notes += _verdict(line, rows)
    notes += _shape(curve)
    order = {"bad": 0, "warn": 1, "note": 2}
    return Judged(
        run=run,
        curve=curve,
        factor=factor,
        factor_ok=factor_ok,
        line=line,
        published=rows,
        notes=tuple(sorted(notes, key=lambda note: order[note.level])),
    )


def large(run: BenchRun, least: int = LARGE) -> Row | None:
    """Return the row to judge by: the largest of at least ``least`` bytes, or None."""
    row = run.largest
    return row if row is not None and row.size >= least else None


def _correctness(run: BenchRun) -> Iterable[Note]:
    wrong = run.wrong
    if wrong:
        yield Note(
            id="wrong-values",
            level="bad",
            text=f"{wrong} wrong values: data was corrupted on the way; no bandwidth counts",
        )
    if run.without_mpi:
        yield Note(
            id="without-mpi",
            level="bad",
            text="every process is rank 0: the program was built without MPI=1, so each ran alone",
        )
    elif run.ranks == 1:
        yield Note(
            id="one-rank",
            level="bad",
            text="one rank: the factor is 0, busbw is always 0, and nothing was sent",
        )
    if run.average_failed:
        yield Note(
            id="average-failed",
            level="bad",
            text="the program's own minimum of the average bandwidth (-c check) was missed: FAILED",
        )
    if run.checked is False:
        yield Note(
            id="not-checked", level="note", text="results were not validated (-c 0): #wrong is N/A"
        )
    for error in run.errors:
        yield Note(id="nccl-error", level="warn", text=f"NCCL's last error: {error}")


def _completeness(run: BenchRun) -> Iterable[Note]:
    if not run.rows:
        yield Note(id="no-rows", level="bad", text="no size was measured: the run died or was cut")
    elif not run.complete:
        yield Note(
            id="cut", level="warn", text="the closing lines are missing: the run or the log was cut"
        )
    if run.dropped:
        yield Note(id="dropped", level="note", text=f"{run.dropped} further rows were left out")
    if run.cpu_time:
        yield Note(
            id="cpu-time", level="note", text="times are of the CPU (-C 1), not of the operation"
        )
    if run.rows and not run.collective:
        yield Note(
            id="unknown-collective",
            level="warn",
            text="no line names the collective: give --collective, or keep the command in the log",
        )
    if run.average is not None and run.rows and len(run.rows) > 4:
        yield Note(
            id="average",
            level="note",
            text=f"the average of {run.average:g} GB/s is over all sizes, small ones too: judge by "
            "the largest",
        )


def _keeps(row: Row, factor: float) -> bool:
    """Return whether both halves keep busbw = algbw x factor within what rounding allows."""
    return all(
        abs(half.busbw - half.algbw * factor)
        <= half.busbw_step * 0.51 + half.algbw_step * 0.51 * factor + 1e-9
        for _, half in row.halves
    )


def _off(row: Row, factor: float, collective: Collective, ranks: int) -> Note:
    half = row.best
    assert half is not None  # noqa: S101 - a row that breaks the factor has figures
    return Note(
        id="factor",
        level="warn",
        text=f"busbw {half.busbw:g} at {size_text(row.size)} is not algbw {half.algbw:g} x "
        f"{collective.formula} = {half.algbw * factor:.2f} for {ranks} ranks: the rank count is "
        "another, or the figures were edited",
    )


def _clock(run: BenchRun, collective: Collective, ranks: int) -> Iterable[Note]:
    """Yield a note when algbw is not size / time, as in a table that someone edited."""
    if collective.base is None or run.cpu_time:
        return
    scale = collective.base(ranks)
    for row in reversed(run.rows):
        for _, half in row.halves:
            if half.time <= 0 or half.algbw <= 0:
                continue
            implied = row.size * scale / (half.time * 1e3)
            slack = half.algbw_step + implied * (half.time_step / half.time) + 0.002 * implied
            if abs(half.algbw - implied) > slack:
                yield Note(
                    id="clock",
                    level="warn",
                    text=f"algbw {half.algbw:g} at {size_text(row.size)} is not size / time = "
                    f"{implied:.2f} GB/s: the figures were edited, or are another program's",
                )
                return


def _impossible(run: BenchRun) -> Iterable[Note]:
    row = run.largest
    if row and row.best and run.ranks != 1 and row.best.algbw > 1 and row.best.busbw > 0:
        half = row.best
        if half.busbw + half.busbw_step < half.algbw - half.algbw_step:
            yield Note(
                id="busbw-below-algbw",
                level="warn",
                text="busbw is below algbw, which an all_reduce of two ranks or more cannot show",
            )


def _filled(run: BenchRun, kind: Machine | None, nodes: int | None) -> Iterable[Note]:
    """Yield a note when not every GPU of every node took part, as published figures assume."""
    if kind is not None and nodes and run.ranks and run.ranks != nodes * kind.gpus:
        yield Note(
            id="ranks-and-nodes",
            level="warn",
            text=f"{run.ranks} ranks are not {nodes} x {kind.gpus} GPUs of {kind.name}: some GPUs "
            "did not take part, or the node count is another",
        )


def _line_rate(
    run: BenchRun, collective: Collective | None, kind: Machine | None, nodes: int | None
) -> tuple[LineRate | None, list[Note]]:
    if not run.rows or run.ranks == 1:
        return None, []

    def without(text: str) -> tuple[None, list[Note]]:
        return None, [Note(id="no-line-rate", level="note", text=f"no line rate: {text}")]

    if nodes == 1:
        return without("one node: NVLink or shared memory was measured, not the network")
    row = large(run)
    if row is None or row.best is None:
        return without(f"no size of {size_text(LARGE)} or more was measured")
    if kind is None:
        message = ", ".join(run.hints)
        hint = f"the log names {message}; " if run.hints else ""
        return without(f"{hint}give --instance-type")
    if nodes is None:
        return without("no line tells how many nodes: give --nodes")
    unit = max(1, kind.nvlink_domain // kind.gpus)
    if nodes <= unit:
        return without(
            f"NVLink spans {kind.nvlink_domain} GPUs of {kind.name}: the network was not measured"
        )
    if nodes % unit:
        return without(f"{nodes} nodes are no whole number of NVLink domains of {unit}")
    rate = kind.line_rate_gbps / 8 * unit
    if rate <= 0:
        return without(f"{kind.name} has no nominal rate in the catalogue")
    if collective is None or collective.wire is None:
        return without("no bound is known for this collective")
    gpus = run.ranks // nodes if run.ranks and not run.ranks % nodes else kind.gpus
    share = collective.wire(nodes // unit, gpus * unit)
    wire = row.best.algbw * share
    line = LineRate(
        machine=kind.name,
        nics=len(kind.nics),
        unit=unit,
        rate=rate,
        size=row.size,
        wire=wire,
        fraction=wire / rate,
        bound=rate / share,
        why=collective.why,
    )
    return line, []


def _verdict(line: LineRate | None, rows: Sequence[Published]) -> Iterable[Note]:
    """Yield a verdict on all figures; published ones count before fractions of a nominal rate."""
    if line is None:
        return
    share = f"{line.fraction:.0%} of the line rate"
    if line.fraction > OVER:
        yield Note(
            id="above-the-line-rate",
            level="warn",
            text=f"{share}: the NICs cannot have carried that; NVLink across nodes (MNNVL), a "
            "reduction in the switches (SHARP), another machine type or another node count",
        )
        return
    if rows:
        best = rows[-1]
        text = (
            f"{best.measured:.0f} of {best.busbw:.0f} GB/s published for {best.nodes} nodes at "
            f"{size_text(best.size)} ({best.part:.0%}), {share}"
        )
        if best.part >= NEAR:
            yield Note(id="near-published", level="note", text=f"as published: {text}")
        else:
            level: Level = "warn" if best.part < FAR else "note"
            yield Note(id="below-published", level=level, text=f"below what is published: {text}")
        return
    if line.fraction < TCP_LIKE:
        yield Note(
            id="tcp-like",
            level="warn",
            text=f"{share}: so little is TCP or a broken fabric; `railhead-nccl read` tells which",
        )
    elif line.fraction < LOW:
        yield Note(
            id="low",
            level="warn",
            text=f"{share}: rails down or unused, no GPUDirect RDMA, or wrong affinity",
        )
    else:
        yield Note(id="line-rate", level="note", text=f"{share} at {size_text(line.size)}")


def _shape(curve: Curve) -> Iterable[Note]:
    if curve.slow_start:
        yield Note(
            id="slow-start",
            level="note",
            text=f"the first size took {curve.slow_start:.0f} times the latency: connections were "
            "still being made; more warm-up (-w) hides it",
        )
    if curve.rising:
        yield Note(
            id="rising",
            level="note",
            text=f"still gaining at {size_text(curve.peak_size)}: measure larger sizes (-e)",
        )
    for dip in curve.dips:
        span = size_text(dip.first)
        if dip.last != dip.first:
            span += f" to {size_text(dip.last)}"
        where = "" if dip.halves == "both" else f" ({dip.halves} only)"
        yield Note(
            id="dip" if dip.recovers else "falls-off",
            level="note" if dip.recovers and dip.halves != "both" else "warn",
            text=f"{span}{where}: {dip.busbw:.2f} GB/s after {dip.before:.2f} at a smaller size; "
            f"suggests {dip.suggests}",
        )
    if curve.halves is not None and not 1 / APART_HALVES <= curve.halves <= APART_HALVES:
        faster = "in-place" if curve.halves > 1 else "out-of-place"
        yield Note(
            id="halves-apart",
            level="note",
            text=f"{faster} is faster by {abs(curve.halves - 1):.0%} (median from 1 MiB on)",
        )


def size_text(size: int) -> str:
    """Return a size as text: ``1 GiB``, ``1.5 MiB``, ``8 B``."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size} B"
