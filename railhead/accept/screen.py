"""Tables and questions of `railhead accept` on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from railhead.accept.check import Check
from railhead.accept.model import Report
from railhead.accept.runner import plans
from railhead.accept.site import Facts
from railhead.base.errors import RefusedError

_STYLE = {"passed": "green", "failed": "bold red", "not-proven": "yellow"}


class Progress:
    """Lines on standard error, each with the seconds since the first."""

    def __init__(self) -> None:
        self._begin = time.monotonic()

    def __call__(self, text: str) -> None:
        """Print one line."""
        typer.echo(f"{time.monotonic() - self._begin:6.1f}s  {text}", err=True)


def show_plan(chosen: Sequence[Check[Any]], facts: Facts, console: Console) -> int:
    """Print the jobs of each check; return the largest number of nodes in use at once."""
    table = Table(title=_title(facts), title_justify="left", pad_edge=False)
    for column in ("check", "what runs"):
        table.add_column(column, overflow="fold")
    for column in ("nodes", "about", "node-hours"):
        table.add_column(column, justify="right")
    checks = plans(chosen, facts)
    for check, planned in checks:
        steps = "\n".join(f"- {step}" for step in planned.steps)
        if planned.missing:
            steps = f"cannot run here: {planned.missing}; it will not be proven"
        table.add_row(
            check.name,
            escape(steps),
            str(planned.nodes),
            span(planned.seconds),
            f"{planned.node_hours:.2f}",
        )
    able = [planned for _, planned in checks if not planned.missing]
    most = max((planned.nodes for planned in able), default=0)
    table.add_section()
    table.add_row(
        "all",
        "without waiting in the queue",
        str(most),
        span(sum(planned.seconds for planned in able)),
        f"{sum(planned.node_hours for planned in able):.2f}",
    )
    console.print(table)
    return most


def _title(facts: Facts) -> str:
    stand_ins = f", {len(facts.simulated)} of them simulated" if facts.simulated else ""
    size = ", quick" if facts.quick else ""
    return (
        f"Acceptance of cluster {facts.contract.cluster}: {len(facts.nodes)} nodes of pool "
        f"{facts.pool.name}{stand_ins}, runtime {facts.runtime.name}, queue "
        f"{facts.queue.namespace}/{facts.queue.name}, priority {facts.priority or 'of the queue'}"
        f"{size}"
    )


def span(seconds: float) -> str:
    """Return a duration in the unit that suits its length."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def confirm(most: int, idle: int | None, facts: Facts, *, yes: bool) -> None:
    """Ask before using more nodes than are idle.

    Args:
        most: the number of nodes in use at once.
        idle: the number of idle nodes; None where it is not known.
        facts: the cluster's.
        yes: go on without asking.

    Raises:
        RefusedError: the answer is no, or standard input is no terminal.
    """
    if yes or (idle is not None and most <= idle):
        return
    free = "how much is idle is not known" if idle is None else f"{idle} are idle"
    text = (
        f"{most} nodes are needed at once and {free} in queue {facts.queue.name}; the jobs would "
        "wait their turn at the lowest priority"
    )
    if not sys.stdin.isatty():
        raise RefusedError(text, remedy="--yes goes on without asking, --nodes takes fewer")
    typer.echo(text, err=True)
    if not typer.confirm("Go on?", err=True):
        raise RefusedError("nothing was run", remedy="--nodes takes fewer nodes")


def show_report(report: Report, console: Console) -> None:
    """Print the verdict of each check and of the whole."""
    table = Table(pad_edge=False)
    for column in ("check", "verdict", "what was found"):
        table.add_column(column, overflow="fold")
    table.add_column("time", justify="right")
    for result in report.checks:
        verdict = result.verdict.value
        text = escape(result.summary)
        if not result.accepted and result.remedy:
            text += f"\n[dim]fix: {escape(result.remedy)}[/dim]"
        if (waiver := result.waiver) is not None:
            text += f"\nwaived by {escape(waiver.by)} until {waiver.until}: {escape(waiver.reason)}"
        table.add_row(result.name, f"[{_STYLE[verdict]}]{verdict}[/]", text, span(result.seconds))
    console.print(table)
    outcome = "[green]accepted[/]" if report.accepted else "[bold red]not accepted[/]"
    console.print(f"cluster {escape(report.cluster)} is {outcome}")
