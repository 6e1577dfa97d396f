"""`railhead preflight`: what a stack takes for granted, asked for before the first `up`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Json, Stack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.model.cluster import Cluster
    from railhead.preflight.run import Result


def preflight(
    stack: Stack,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Print the ledger and ask nobody; no credentials."),
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit's XML.")] = None,
    as_json: Json = False,
) -> None:
    """Ask, before the first `up`, for everything that a stack takes for granted.

    On AWS and Google Cloud: quotas, zones, reservations, networks, images, versions, names that are
    taken, your permissions. On a cluster that is there: nodes, runtimes, operators and webhooks of
    others. All calls only read, and take under a minute.

    Exits 0 when every row that was asked holds, 6 when one does not, 9 when none failed and one
    could not be asked, 3 for a mistake in the stack's file, 4 without credentials.

    Example: [bold]railhead preflight aws-p5-prod --offline[/bold]
    """
    import time

    from railhead import config
    from railhead.base.errors import ExitCode
    from railhead.config.files import stack_file, stack_name
    from railhead.preflight import report, run

    file = stack_file(stack)
    name, cluster = stack_name(file), config.load(file)
    started = time.monotonic()
    results = run.offline(cluster) if offline else _asked(cluster)
    seconds = time.monotonic() - started
    if junit is not None:
        junit.write_text(report.junit(name, results), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(report.to_json(name, results, seconds), indent=1))
    else:
        _show(name, results, seconds)
    if any(result.verdict == "failed" for result in results):
        raise typer.Exit(ExitCode.REFUSED)
    if any(result.unproven for result in results):
        raise typer.Exit(ExitCode.UNPROVEN)


def _asked(cluster: Cluster) -> Sequence[Result]:
    """Ask, with a line on standard error for each row as its answer comes."""
    from rich.console import Console

    from railhead.preflight import run

    console = Console(stderr=True)

    def progress(result: Result) -> None:
        line = f"{result.verdict:10}{result.seconds:5.1f} s  {result.row.id}"
        console.print(line, markup=False, highlight=False)

    with console.status("asking"):
        return run.preflight(cluster, progress)


def _show(name: str, results: Sequence[Result], seconds: float) -> None:
    from rich.console import Console

    from railhead.preflight import report

    console = Console()
    console.print(report.table(name, results))
    failed = sum(result.verdict == "failed" for result in results)
    unproven = sum(result.unproven for result in results)
    holds = sum(result.verdict == "ok" for result in results)
    console.print(
        f"{holds} rows hold, {failed} failed, {unproven} could not be asked, in {seconds:.0f} s; "
        f"the other {len(results) - holds - failed - unproven} say how they are proved"
    )
