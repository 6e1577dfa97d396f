"""`railhead accept`: prove what makes a cluster fit for training. Heavy imports are made inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.accept import after
from railhead.base.options import Context, Kubeconfig, Lab

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from railhead.accept.check import Check
    from railhead.accept.model import Report
    from railhead.accept.runner import Runner, Suite
    from railhead.accept.site import Facts
    from railhead.kube.client import Cluster

app = typer.Typer(invoke_without_command=True)


@app.callback(invoke_without_command=True)
def accept(
    context_: typer.Context,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Run this check alone. Repeatable."),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="N|NAMES", help="How many nodes, or a,b,c; else all."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes and fewer repeats; the report says so.")
    ] = False,
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Exit by the checks of --only; the others stay unproven."),
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take kept evidence of checks that have finished.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Print what would run; run nothing.")
    ] = False,
    as_json: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Write it as one page that needs no network."),
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign page and JSON with this Ed25519 key (mode 0600)."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep the report there by cluster, hardware and version, for `accept compare`.",
        ),
    ] = None,
    junit: Annotated[
        str | None, typer.Option("--junit", metavar="FILE", help="Write it as JUnit XML.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Write it as Markdown.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Where evidence is kept; railhead-accept/CLUSTER by default.",
        ),
    ] = None,
    waive: Annotated[
        list[str] | None,
        typer.Option("--waive", metavar="CHECK", help="Accept it unproven. Repeatable."),
    ] = None,
    by: Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who waives it.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="Until which day.")
    ] = None,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", metavar="FILE", help="A YAML list of waivers.")
    ] = None,
    runtime: Annotated[
        str | None, typer.Option("--runtime", metavar="NAME", help="Else the first of torch's.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Else the pool's first.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Of the queue.")
    ] = None,
    may_lose: Annotated[
        list[str] | None,
        typer.Option("--may-lose", metavar="NODE", help="May be taken away. Repeatable."),
    ] = None,
    lose_with: Annotated[
        str | None,
        typer.Option(
            "--lose-with", metavar="COMMAND", help="Takes a node away; its name is appended."
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Prove by runs that a cluster keeps what it promises, and say so in a report.

    RDMA is used, slow nodes are found, scaling is near linear, gangs are whole, the documented
    launches work, and a killed run comes back. What cannot be measured or read is not proven, and
    the cluster is then not accepted. Jobs wait in the queue at the lowest priority, and are taken
    away again.

    Example: [bold]railhead accept --quick --json report.json[/bold]

    Exits 0 when every promise is proven or waived, 6 when one failed, 9 when one is not proven, 1
    when a job could not be taken away, 130 after Ctrl-C (`--resume` goes on from there).
    """
    if context_.invoked_subcommand is not None:
        return
    from datetime import UTC, datetime

    from railhead.accept import checks
    from railhead.accept import waivers as waived
    from railhead.kube.client import opened

    every = checks.every()
    names = [check.name for check in every]
    chosen = _chosen(only, names)
    accepted = waived.given(waive or (), by=by, reason=reason, until=until)
    if waivers is not None:
        accepted += waived.read(waivers)
    waived.check(accepted, names, datetime.now(UTC).date())
    key = _key(sign)
    files = {"json": as_json, "html": html, "junit": junit, "markdown": markdown}
    # A report on standard output is for a machine; what people read goes beside it.
    console = _console(beside="-" in files.values())
    with opened(kubeconfig, context, lab) as cluster:
        from railhead.accept import discover
        from railhead.accept.runner import Suite

        facts = discover.facts(
            cluster,
            runtime=runtime,
            queue=queue,
            namespace=namespace,
            nodes=nodes,
            quick=quick,
            may_lose=may_lose or (),
            lose_with=lose_with,
        )
        suite = Suite(checks=every, only=chosen, resume=resume, waivers=accepted)
        if plan:
            _show_plan(suite.chosen, facts, console)
            return
        report, left = _accept(cluster, facts, suite, console, out=out, yes=yes)
    _write(report, files, key)
    if keep is not None:
        _keep(report, keep, key)
    _end(report, left, console, of=chosen if partial else frozenset(names))


@app.command()
def schema() -> None:
    """Print the JSON Schema of what `railhead accept --json` writes.

    Example: [bold]railhead accept schema[/bold]
    """
    from railhead.accept import outputs

    typer.echo(outputs.json_text(outputs.schema()), nl=False)


def register(root: typer.Typer) -> None:
    """Add the command and those below it to the root application."""
    after.register(app)
    root.add_typer(app, name="accept")


def _console(*, beside: bool) -> Console:
    from rich.console import Console

    return Console(stderr=beside)


def _chosen(only: Sequence[str] | None, names: Sequence[str]) -> frozenset[str]:
    from railhead.base.errors import InputError, choices

    asked = [name.strip() for item in only or () for name in item.split(",")]
    for name in asked:
        if name not in names:
            raise InputError(
                f"--only {name!r}: there is no such check{choices(name, names)}",
                remedy="name one of them; --only is repeatable",
            )
    return frozenset(asked or names)


def _accept(
    cluster: Cluster,
    facts: Facts,
    suite: Suite,
    console: Console,
    *,
    out: Path | None,
    yes: bool,
) -> tuple[Report, list[str]]:
    from railhead.accept import discover
    from railhead.accept.kept import Folder
    from railhead.accept.runner import Runner, default_folder

    folder = Folder(out or default_folder(facts.contract.cluster))
    with folder.locked():
        runner = Runner(
            facts=facts,
            cluster=cluster,
            uid=discover.identity(cluster),
            folder=folder,
            say=_Lines(),
            hardware=discover.hardware(cluster, facts),
        )
        most = _show_plan(suite.chosen, facts, console)
        _ask(most, discover.idle(cluster, facts), facts, yes=yes)
        with _ended_like_ctrl_c():
            try:
                report = runner.run(suite)
            except KeyboardInterrupt:
                _say_interrupted(runner, folder.path)
                raise
    return report, runner.left


def _say_interrupted(runner: Runner, folder: Path) -> None:
    if runner.left:
        text = f"jobs are still there: {'; '.join(runner.left)}; the next start takes them away"
    else:
        text = "its jobs were taken away"
    typer.echo(
        f"interrupted: {text}; evidence of what finished is kept in {folder}, and "
        "`railhead accept --resume` goes on from it",
        err=True,
    )


class _Lines:
    """Progress on standard error, each line with the seconds since the first."""

    def __init__(self) -> None:
        import time

        self._time = time.monotonic
        self._begin = self._time()

    def __call__(self, text: str) -> None:
        typer.echo(f"{self._time() - self._begin:6.1f}s  {text}", err=True)


def _ended_like_ctrl_c() -> Any:
    """A polite kill is a Ctrl-C: jobs are taken away before the end."""
    import signal
    from contextlib import contextmanager

    @contextmanager
    def held() -> Iterator[None]:
        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    return held()


def _show_plan(chosen: Sequence[Check[Any]], facts: Facts, console: Console) -> int:
    """Print it; returns the most nodes that are used at once."""
    from rich.markup import escape
    from rich.table import Table

    from railhead.accept.runner import plans

    made = plans(chosen, facts)
    table = Table(title=_title(facts), title_justify="left", pad_edge=False)
    for column in ("check", "what runs"):
        table.add_column(column, overflow="fold")
    for column in ("nodes", "about", "node-hours"):
        table.add_column(column, justify="right")
    for check, planned in made:
        steps = "\n".join(f"- {step}" for step in planned.steps)
        if planned.missing:
            steps = f"cannot run here: {planned.missing}; it will not be proven"
        table.add_row(
            check.name,
            escape(steps),
            str(planned.nodes),
            _span(planned.seconds),
            f"{planned.node_hours:.2f}",
        )
    able = [planned for _, planned in made if not planned.missing]
    table.add_section()
    table.add_row(
        "all",
        "without waiting in the queue",
        str(max((p.nodes for p in able), default=0)),
        _span(sum(p.seconds for p in able)),
        f"{sum(p.node_hours for p in able):.2f}",
    )
    console.print(table)
    return max((planned.nodes for planned in able), default=0)


def _title(facts: Facts) -> str:
    stand_ins = f", {len(facts.simulated)} of them simulated" if facts.simulated else ""
    size = ", quick" if facts.quick else ""
    return (
        f"Acceptance of cluster {facts.contract.cluster}: {len(facts.nodes)} nodes of pool "
        f"{facts.pool.name}{stand_ins}, runtime {facts.runtime.name}, queue "
        f"{facts.queue.namespace}/{facts.queue.name}, priority {facts.priority or 'of the queue'}"
        f"{size}"
    )


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _ask(most: int, idle: int | None, facts: Facts, *, yes: bool) -> None:
    """Ask before using more than lies idle.

    Raises:
        RefusedError: the answer is no, or nobody is there to give one.
    """
    import sys

    from railhead.base.errors import RefusedError

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


def _key(path: Path | None) -> Any:
    """The key is read before anything runs: it may be none."""
    if path is None:
        return None
    from railhead.accept.signing import private_key

    return private_key(path)


def _write(report: Report, files: dict[str, str | None], key: Any) -> None:
    from railhead.accept import outputs, signing

    texts = {
        "json": lambda: outputs.json_text(signing.sealed(report, key)),
        "html": lambda: signing.sealed_page(report, key),
        "junit": lambda: outputs.junit(report),
        "markdown": lambda: outputs.markdown(report),
    }
    for kind, path in files.items():
        if path is not None:
            outputs.write(path, texts[kind]())


def _keep(report: Report, folder: Path, key: Any) -> None:
    from railhead.accept import baselines

    typer.echo(f"kept as {baselines.keep(report, folder, key)}", err=True)


def _end(report: Report, left: Sequence[str], console: Console, *, of: frozenset[str]) -> None:
    """Say the verdict, and exit by those of some checks."""
    from railhead.accept.model import Verdict
    from railhead.base.errors import ExitCode

    _show(report, console)
    if left:
        typer.echo(f"error: jobs could not be taken away: {'; '.join(left)}", err=True)
        typer.echo("  fix: `railhead accept` tries again at its next start", err=True)
        raise typer.Exit(ExitCode.FAILED)
    found = {result.name: result for result in report.checks}
    bad = [name for name in of if name not in found or not report.stands(found[name])]
    if not bad:
        return
    failed = any(name in found and found[name].verdict is Verdict.FAILED for name in bad)
    raise typer.Exit(ExitCode.REFUSED if failed else ExitCode.UNPROVEN)


_STYLE = {"passed": "green", "failed": "bold red", "not-proven": "yellow"}


def _show(report: Report, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(pad_edge=False)
    for column in ("check", "verdict", "what was found"):
        table.add_column(column, overflow="fold")
    table.add_column("time", justify="right")
    for result in report.checks:
        verdict = result.verdict.value
        text = escape(result.summary)
        if not result.accepted and result.remedy:
            text += f"\n[dim]fix: {escape(result.remedy)}[/dim]"
        if (one := result.waiver) is not None:
            text += f"\nwaived by {escape(one.by)} until {one.until}: {escape(one.reason)}"
        table.add_row(result.name, f"[{_STYLE[verdict]}]{verdict}[/]", text, _span(result.seconds))
    console.print(table)
    said = "[green]accepted[/]" if report.accepted else "[bold red]not accepted[/]"
    console.print(f"cluster {escape(report.cluster)} is {said}")
