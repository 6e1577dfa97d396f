"""A judged run for machines (JSON) and for people (rich), and the gates over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from railhead.nccl.bench.curve import GIB
from railhead.nccl.bench.judge import OVER, Judged, large, size_text
from railhead.nccl.bench.model import Measure, Row
from railhead.nccl.bench.plot import heading, terminal, unit_text

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The figures that a run must reach; a gate that cannot be judged fails.

    Args:
        min_busbw: GB/s, None for no such gate.
        min_fraction: of the line rate, from 0 to 1, None for no such gate.
        min_size: bytes; a smaller message proves nothing.
    """

    min_busbw: float | None = None
    min_fraction: float | None = None
    min_size: int = GIB

    @property
    def set(self) -> bool:
        """True when any gate is set."""
        return self.min_busbw is not None or self.min_fraction is not None

    def failures(self, judged: Judged) -> list[str]:
        """Return why the run does not pass; empty when it passes or when no gate is set."""
        if not self.set:
            return []
        run = judged.run
        results = []
        if not run.complete:
            results.append("the closing lines are missing, so the run may have died")
        if run.ranks is None:
            results.append("no line tells how many ranks took part")
        row = large(run, self.min_size)
        if row is None:
            results.append(f"no size of {size_text(self.min_size)} or more was measured")
            return results
        if self.min_busbw is not None:
            results += self._busbw(row)
        if self.min_fraction is not None:
            if judged.line is None or judged.line.size < self.min_size:
                results.append("the line rate is not known, so no fraction of it is")
            elif judged.line.fraction < self.min_fraction:
                results.append(
                    f"{judged.line.fraction:.1%} of the line rate at "
                    f"{size_text(judged.line.size)}, less than {self.min_fraction:.1%}"
                )
            elif judged.line.fraction > OVER:
                results.append(
                    f"{judged.line.fraction:.1%} of the line rate: the NICs were not the path, so "
                    "the network was not measured"
                )
        return results

    def _busbw(self, row: Row) -> list[str]:
        assert self.min_busbw is not None  # noqa: S101 - asked for only when set
        return [
            f"busbw {half.busbw:g} GB/s {name} at {size_text(row.size)}, less than "
            f"{self.min_busbw:g}"
            for name, half in row.halves
            if half.busbw < self.min_busbw
        ]


def status(judged: Judged, gate: Gate) -> tuple[str, list[str]]:
    """Return ``pass``, ``fail`` or, without a gate, ``read``; and the reasons of a failure."""
    reasons = [note.text for note in judged.notes if note.level == "bad"]
    reasons += gate.failures(judged)
    if reasons:
        return "fail", reasons
    return ("pass" if gate.set else "read"), []


def to_json(runs: Sequence[Judged], gate: Gate) -> dict[str, Any]:
    """Return the object that ``--json`` prints; published keys never change."""
    shown = [_run(run, gate) for run in runs]
    failed = any(item["status"] == "fail" for item in shown)
    return {
        "status": "fail" if failed else "pass" if gate.set else "read",
        "gate": {
            "min_busbw": gate.min_busbw,
            "min_fraction": gate.min_fraction,
            "min_size": gate.min_size,
        },
        "runs": shown,
    }


def _run(judged: Judged, gate: Gate) -> dict[str, Any]:
    run, curve, line = judged.run, judged.curve, judged.line
    text, reasons = status(judged, gate)
    best = run.largest
    return {
        "file": run.file,
        "line": run.line,
        "status": text,
        "reasons": reasons,
        "collective": run.collective or None,
        "collective_from": run.collective_from or None,
        "ranks": run.ranks,
        "ranks_from": run.ranks_from or None,
        "nodes": run.nodes,
        "nccl_tests": run.version or None,
        "nccl": run.nccl or None,
        "complete": run.complete,
        "checked": run.checked,
        "wrong": run.wrong,
        "average_busbw": run.average,
        "largest": _row(best) if best else None,
        "factor": {"expected": judged.factor, "kept": judged.factor_ok},
        "line_rate": asdict(line) if line else None,
        "published": [asdict(row) for row in judged.published],
        "curve": {
            "latency_us": curve.latency,
            "peak_busbw": curve.peak,
            "peak_size": curve.peak_size,
            "half_peak_size": curve.half_size,
            "plateau_from": curve.plateau_from,
            "still_rising": curve.rising,
            "in_place_over_out_of_place": curve.halves,
            "dips": [asdict(dip) for dip in curve.dips],
        },
        "notes": [asdict(note) for note in judged.notes],
        "rows": [_row(row) for row in run.rows],
        "rows_left_out": run.dropped,
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop or None,
        "root": row.root,
        "out_of_place": _half(row.out_of_place),
        "in_place": _half(row.in_place),
        "line": row.line or None,
    }


def _half(half: Measure | None) -> dict[str, Any] | None:
    if half is None:
        return None
    return {
        "time_us": half.time,
        "algbw": half.algbw,
        "busbw": half.busbw,
        "wrong": half.wrong,
    }


def show(console: Console, judged: Judged, gate: Gate, *, plot: bool = True) -> None:
    """Print one run for people."""
    from rich.markup import escape
    from rich.table import Table

    run = judged.run
    console.rule(escape(heading(judged)), align="left")
    table = Table(box=None, pad_edge=False)
    for column in ("size", "time us", "algbw", "busbw", "wrong", "in-place busbw"):
        table.add_column(column, justify="right")
    for row in _chosen(run.rows):
        half = row.best
        if half is None:
            continue
        wrong = "N/A" if half.wrong is None else str(half.wrong)
        inside = f"{row.in_place.busbw:.2f}" if row.in_place else ""
        table.add_row(
            size_text(row.size),
            f"{half.time:g}",
            f"{half.algbw:.2f}",
            f"{half.busbw:.2f}",
            f"[red]{wrong}[/red]" if half.wrong else wrong,
            inside,
        )
    console.print(table)
    if plot:
        utf8 = (console.encoding or "").lower().replace("-", "") == "utf8"
        width = min(72, max(24, console.width - 10))
        drawn = terminal(judged, width=width, plain=not utf8)
        console.print(drawn, markup=False, highlight=False)
    for text in _facts(judged):
        console.print(f"  {text}", markup=False, highlight=False, soft_wrap=True)
    colours = {"bad": "red", "warn": "yellow", "note": "dim"}
    for note in judged.notes:
        colour = colours[note.level]
        console.print(
            f"  [{colour}]{note.level:>4}[/{colour}]  {escape(note.text)}",
            highlight=False,
            soft_wrap=True,
        )
    message, reasons = status(judged, gate)
    if message == "pass":
        console.print("  [green]pass[/green]")
    for reason in reasons:
        console.print(f"  [red]fail[/red]  {escape(reason)}", highlight=False, soft_wrap=True)


def _chosen(rows: Sequence[Row]) -> list[Row]:
    """Return at most sixteen rows: all of the large sizes, some of the small ones."""
    if len(rows) <= 16:
        return list(rows)
    tail = list(rows[-10:])
    head = rows[:-10]
    step = max(1, len(head) // 6)
    return [*head[::step][:6], *tail]


def _facts(judged: Judged) -> list[str]:
    run, curve, line = judged.run, judged.curve, judged.line
    facts = []
    if judged.factor is not None:
        kept = {True: "kept by every row", False: "broken", None: "not checkable"}
        text = f"factor: {judged.factor:.4f} for {run.ranks} ranks, {kept[judged.factor_ok]}"
        if run.ranks_from == "factor":
            text += " (the rank count itself comes from the figures)"
        facts.append(text)
    if curve.latency is not None:
        facts.append(f"latency: {curve.latency:.1f} us up to 4 KiB")
    if curve.peak:
        text = f"peak: {curve.peak:.2f} GB/s busbw at {size_text(curve.peak_size)}"
        if curve.half_size:
            text += f", half of it from {size_text(curve.half_size)} on"
        if curve.plateau_from:
            text += f", plateau from {size_text(curve.plateau_from)}"
        facts.append(text)
    if line is not None:
        facts.append(
            f"line rate: {line.machine}, {line.nics} NICs a node, {line.rate:g} GB/s "
            f"{unit_text(line.unit)} and direction; at {size_text(line.size)} at least "
            f"{line.wire:.1f} GB/s crossed them ({line.fraction:.0%}): {line.why}"
        )
    facts += [
        f"published: {item.busbw:g} GB/s at {size_text(item.size)} on {item.nodes} nodes, here "
        f"{item.measured:g} ({item.source})"
        for item in judged.published
    ]
    for dip in curve.dips:
        facts.append(f"to confirm the dip at {size_text(dip.first)}: {dip.confirm}")
    return facts
