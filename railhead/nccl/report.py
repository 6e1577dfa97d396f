"""A reading for people and for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from railhead.nccl.reading import Claim, Communicator, Reading
from railhead.nccl.signs import Evidence

if TYPE_CHECKING:
    from rich.console import Console

STYLE = {
    "ok": "bold green",
    "measured": "bold",
    "wired": "bold",
    "tcp-fallback": "bold yellow",
    "low-bandwidth": "bold yellow",
    "init-failure": "bold red",
    "hang": "bold red",
    "timeout": "bold red",
    "other": "bold",
}
HEADS = ("transport", "gdr", "verdict")
SHOWN_COMMUNICATORS = 6


def _line(at: Evidence) -> dict[str, Any]:
    return {
        key: value
        for key, value in (
            ("file", at.file),
            ("line", at.line),
            ("text", at.text),
            ("rank", at.rank),
            ("node", at.node),
            ("time", at.time),
        )
        if value is not None
    }


def _claim(claim: Claim) -> dict[str, Any]:
    held: dict[str, Any] = {
        "value": claim.value,
        "why": claim.why,
        "evidence": [_line(at) for at in claim.evidence],
    }
    if claim.grade:
        held["grade"] = claim.grade
    return held


def _communicator(comm: Communicator) -> dict[str, Any]:
    return {
        "id": comm.id,
        "ranks": comm.ranks,
        "nodes": comm.nodes,
        "transport": comm.transport,
        "gdr": comm.gdr,
        "ranks_started": len(comm.started),
        "ranks_completed": len(comm.completed),
        "ranks_aborted": len(comm.aborted),
        "evidence": [_line(at) for at in comm.evidence],
    }


def to_json(reading: Reading) -> dict[str, Any]:
    """Return one object; ``transport``, ``gdr``, ``verdict``, ``cause`` keep their vocabulary."""
    return {
        "transport": reading.transport,
        "gdr": reading.gdr,
        "verdict": reading.verdict,
        "cause": reading.cause,
        "claims": {name: _claim(claim) for name, claim in reading.claims.items()},
        "ranks": reading.ranks,
        "nodes": sorted(reading.nodes)[:1024],
        "communicators": [_communicator(comm) for comm in reading.communicators[:1024]],
        "causes": [cause.to_json() for cause in reading.causes],
        "notes": [
            {"id": note.id, "text": note.text, "evidence": [_line(at) for at in note.evidence]}
            for note in reading.notes
        ],
        "input": {
            "files": list(reading.files),
            "lines": reading.lines,
            "bytes": reading.bytes,
            "engine": reading.engine,
            "sampled": sorted(reading.sampled),
        },
    }


def show(reading: Reading, console: Console, *, evidence: int) -> None:
    """Print the verdict first, then its evidence: at most ``evidence`` lines for each claim."""
    from rich.markup import escape
    from rich.table import Table

    def lines(found: tuple[Evidence, ...]) -> None:
        for at in found[:evidence]:
            console.print(
                f"      [dim]{escape(str(at))}[/dim]  {escape(at.text[:160])}", highlight=False
            )

    verdict = reading.claims["verdict"]
    style = STYLE.get(reading.verdict, "bold")
    console.print(f"[{style}]{reading.verdict}[/{style}]: {escape(verdict.why)}", highlight=False)
    lines(verdict.evidence)
    for name in HEADS[:2]:
        claim = reading.claims[name]
        why = f" ({escape(claim.why)})" if claim.why else ""
        console.print(f"[bold]{name}[/bold]: {claim.value}{why}", highlight=False)
        lines(claim.evidence)
    for cause in reading.causes[:3]:
        mark = "likeliest cause" if reading.cause == cause.cause.id else "possible cause"
        console.print(
            f"[bold]{mark}[/bold]: {escape(cause.cause.title)} "
            f"({cause.cause.id}, {cause.confidence:.0%}; {escape(cause.because)})",
            highlight=False,
        )
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    table.add_column(style="dim")
    if reading.ranks:
        table.add_row("ranks", str(reading.ranks), "")
    for name, claim in reading.claims.items():
        if name not in HEADS and claim.value != "unknown":
            at = str(claim.evidence[0]) if claim.evidence else ""
            table.add_row(name, escape(claim.value), escape(at))
    console.print(table)
    for comm in reading.communicators[:SHOWN_COMMUNICATORS]:
        size = f"{comm.ranks or '?'} ranks on {comm.nodes or '?'} nodes"
        console.print(
            f"communicator {escape(comm.id)}: {size}, transport {comm.transport}, gdr {comm.gdr}; "
            f"{len(comm.started)} ranks seen, {len(comm.completed)} completed",
            highlight=False,
        )
    if len(reading.communicators) > SHOWN_COMMUNICATORS:
        rest = len(reading.communicators) - SHOWN_COMMUNICATORS
        console.print(f"and {rest} communicators more (--json lists them)")
    for note in reading.notes:
        console.print(f"[yellow]note[/yellow]: {escape(note.text)}", highlight=False)
        lines(note.evidence)
    size = f"{reading.bytes / 1e6:.1f} MB" if reading.bytes >= 1e5 else f"{reading.bytes} bytes"
    console.print(
        f"[dim]read {size} of {len(reading.files)} input(s)[/dim]",
        highlight=False,
    )
