"""`railhead accept`: options become one :class:`Request`, which runs. Heavy imports are lazy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from railhead.accept import after, options
from railhead.base.options import Context, Kubeconfig, Lab

if TYPE_CHECKING:
    from rich.console import Console

    from railhead.accept.model import Report
    from railhead.accept.runner import Runner, Suite
    from railhead.accept.site import Facts
    from railhead.kube.client import Cluster

app = typer.Typer(invoke_without_command=True)


@app.callback(invoke_without_command=True)
def accept(
    context_: typer.Context,
    only: options.Only = None,
    nodes: options.Nodes = None,
    quick: options.Quick = False,
    partial: options.Partial = False,
    resume: options.Resume = False,
    yes: options.Yes = False,
    plan: options.Plan = False,
    as_json: options.JsonFile = None,
    html: options.HtmlFile = None,
    sign: options.Sign = None,
    keep: options.Keep = None,
    junit: options.JunitFile = None,
    markdown: options.MarkdownFile = None,
    out: options.Out = None,
    waive: options.Waive = None,
    by: options.By = None,
    reason: options.Reason = None,
    until: options.Until = None,
    waivers: options.Waivers = None,
    runtime: options.Runtime = None,
    queue: options.Queue = None,
    namespace: options.Namespace = None,
    may_lose: options.MayLose = None,
    lose_with: options.LoseWith = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Prove by runs that a cluster keeps what it promises, and write a report.

    RDMA is used, slow nodes are found, scaling is near linear, gangs are whole, the documented
    launches work, and a killed run comes back. What cannot be measured or read is not proven, and
    the cluster is then not accepted. Jobs wait in the queue at the lowest priority, and are
    deleted afterwards.

    Example: [bold]railhead accept --quick --json report.json[/bold]

    Exits 0 when every promise is proven or waived, 6 when one failed, 9 when one is not proven, 1
    when a job could not be deleted, 130 after Ctrl-C (`--resume` goes on from there).
    """
    if context_.invoked_subcommand is not None:
        return
    from railhead.accept import discover
    from railhead.accept import waivers as waived
    from railhead.kube.client import opened

    accepted = waived.given(waive or (), by=by, reason=reason, until=until)
    if waivers is not None:
        accepted += waived.read(waivers)
    request = Request(
        suite=_suite(only, accepted, resume=resume),
        partial=partial,
        plan=plan,
        yes=yes,
        evidence=out,
        files={"json": as_json, "html": html, "junit": junit, "markdown": markdown},
        keep=keep,
        key=_key(sign),
    )
    with opened(kubeconfig, context, lab) as cluster:
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
        request.run(cluster, facts)


@app.command()
def schema() -> None:
    """Print the JSON Schema of what `railhead accept --json` writes.

    Example: [bold]railhead accept schema[/bold]
    """
    from railhead.accept import outputs

    typer.echo(outputs.json_text(outputs.schema()), nl=False)


after.register(app)


def register(root: typer.Typer) -> None:
    """Add the command and those below it to the root application."""
    root.add_typer(app, name="accept")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One acceptance, as the command line asks for it.

    Attributes:
        suite: the checks and waivers.
        partial: exit by the checks that ran, not by all.
        plan: print the plan and run nothing.
        yes: do not ask before using busy nodes.
        evidence: the folder of the evidence; by the cluster's name when None.
        files: format -> file of the report; ``-`` is standard output, None writes nothing.
        keep: the folder of kept reports; None keeps nothing.
        key: the Ed25519 key that signs; None signs nothing.
    """

    suite: Suite
    partial: bool
    plan: bool
    yes: bool
    evidence: Path | None
    files: Mapping[str, str | None]
    keep: Path | None
    key: Any

    def run(self, cluster: Cluster, facts: Facts) -> None:
        """Run the checks, write the report and exit by its verdict.

        Raises:
            typer.Exit: a check failed or is not proven, or a job could not be deleted.
        """
        from rich.console import Console

        from railhead.accept import screen

        # A report on standard output is for a machine; what people read goes to standard error.
        console = Console(stderr="-" in self.files.values())
        if self.plan:
            screen.show_plan(self.suite.chosen, facts, console)
            return
        report, left = self._accepted(cluster, facts, console)
        self._write(report)
        names = {check.name for check in self.suite.checks}
        _end(report, left, console, of=self.suite.only if self.partial else frozenset(names))

    def _accepted(
        self, cluster: Cluster, facts: Facts, console: Console
    ) -> tuple[Report, list[str]]:
        """Return the report and the jobs that could not be deleted."""
        from railhead.accept import discover, screen
        from railhead.accept.kept import Folder
        from railhead.accept.runner import Runner, default_folder

        folder = Folder(self.evidence or default_folder(facts.contract.cluster))
        with folder.locked():
            runner = Runner(
                facts=facts,
                cluster=cluster,
                uid=discover.identity(cluster),
                folder=folder,
                say=screen.Progress(),
                hardware=discover.hardware(cluster, facts),
            )
            most = screen.show_plan(self.suite.chosen, facts, console)
            screen.confirm(most, discover.idle(cluster, facts), facts, yes=self.yes)
            with _terminated_as_interrupted():
                try:
                    report = runner.run(self.suite)
                except KeyboardInterrupt:
                    _report_interrupt(runner, folder.path)
                    raise
        return report, runner.left

    def _write(self, report: Report) -> None:
        from railhead.accept import baselines, outputs, signing

        texts = {
            "json": lambda: outputs.json_text(signing.sealed(report, self.key)),
            "html": lambda: signing.sealed_page(report, self.key),
            "junit": lambda: outputs.junit(report),
            "markdown": lambda: outputs.markdown(report),
        }
        for kind, path in self.files.items():
            if path is not None:
                outputs.write(path, texts[kind]())
        if self.keep is not None:
            typer.echo(f"kept as {baselines.keep(report, self.keep, self.key)}", err=True)


def _suite(only: Sequence[str] | None, waivers: Sequence[Any], *, resume: bool) -> Suite:
    """Return the checks that are asked for.

    Raises:
        InputError: a check of ``--only`` or of a waiver does not exist, or a waiver has expired.
    """
    from datetime import UTC, datetime

    from railhead.accept import checks
    from railhead.accept import waivers as waived
    from railhead.accept.runner import Suite
    from railhead.base.errors import InputError, choices

    every = checks.every()
    names = [check.name for check in every]
    asked = [name.strip() for item in only or () for name in item.split(",")]
    for name in asked:
        if name not in names:
            raise InputError(
                f"--only {name!r}: there is no such check{choices(name, names)}",
                remedy="name one of them; --only is repeatable",
            )
    waived.check(waivers, names, datetime.now(UTC).date())
    return Suite(
        checks=every, only=frozenset(asked or names), resume=resume, waivers=tuple(waivers)
    )


def _key(path: Path | None) -> Any:
    """Return the signing key, read before anything runs."""
    if path is None:
        return None
    from railhead.accept.signing import private_key

    return private_key(path)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP as Ctrl-C, so that jobs are deleted before the end."""
    import signal

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _report_interrupt(runner: Runner, folder: Path) -> None:
    if runner.left:
        text = f"jobs are still there: {'; '.join(runner.left)}; the next start deletes them"
    else:
        text = "its jobs were deleted"
    typer.echo(
        f"interrupted: {text}; evidence of what finished is kept in {folder}, and "
        "`railhead accept --resume` goes on from it",
        err=True,
    )


def _end(report: Report, left: Sequence[str], console: Console, *, of: frozenset[str]) -> None:
    """Print the verdict, and exit by those of the checks ``of``."""
    from railhead.accept import screen
    from railhead.accept.model import Verdict
    from railhead.base.errors import ExitCode

    screen.show_report(report, console)
    if left:
        typer.echo(f"error: jobs could not be deleted: {'; '.join(left)}", err=True)
        typer.echo("  fix: `railhead accept` tries again at its next start", err=True)
        raise typer.Exit(ExitCode.FAILED)
    results = {result.name: result for result in report.checks}
    bad = [name for name in of if name not in results or not report.stands(results[name])]
    if not bad:
        return
    failed = any(name in results and results[name].verdict is Verdict.FAILED for name in bad)
    raise typer.Exit(ExitCode.REFUSED if failed else ExitCode.UNPROVEN)
