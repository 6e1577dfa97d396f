"""`railhead accept`: options become one :class:`Request`, which runs. Heavy imports are lazy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from railhead.accept import after, options
from railhead.base.options import Context, Kubeconfig, Lab, grouped

if TYPE_CHECKING:
    from rich.console import Console

    from railhead.accept.model import Report, Waiver
    from railhead.accept.runner import Runner, Suite
    from railhead.accept.site import Facts
    from railhead.kube.client import Cluster

app = typer.Typer(invoke_without_command=True)


@app.callback(invoke_without_command=True)
@grouped
def accept(
    context_: typer.Context,
    checks: options.Checks,
    place: options.Place,
    output: options.Output,
    waiving: options.Waiving,
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
    from railhead.kube.client import opened

    request = Request(
        checks=checks,
        output=output,
        suite=_suite(checks, _waivers(waiving)),
        key=_key(output.sign),
    )
    with opened(kubeconfig, context, lab) as cluster:
        facts = discover.facts(
            cluster,
            runtime=place.runtime,
            queue=place.queue,
            namespace=place.namespace,
            nodes=place.nodes,
            quick=checks.quick,
            may_lose=place.may_lose or (),
            lose_with=place.lose_with,
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
        checks: how the checks run.
        output: where the report goes.
        suite: the checks and waivers.
        key: the Ed25519 key that signs; None signs nothing.
    """

    checks: options.Checks
    output: options.Output
    suite: Suite
    key: Any

    def run(self, cluster: Cluster, facts: Facts) -> None:
        """Run the checks, write the report and exit by its verdict.

        Raises:
            typer.Exit: a check failed or is not proven, or a job could not be deleted.
        """
        from rich.console import Console

        from railhead.accept import screen

        # A report on standard output is for a machine; what people read goes to standard error.
        console = Console(stderr="-" in self.output.files.values())
        if self.checks.plan:
            screen.show_plan(self.suite.chosen, facts, console)
            return
        report, left = self._accepted(cluster, facts, console)
        self._write(report)
        names = {check.name for check in self.suite.checks}
        _end(report, left, console, of=self.suite.only if self.checks.partial else frozenset(names))

    def _accepted(
        self, cluster: Cluster, facts: Facts, console: Console
    ) -> tuple[Report, list[str]]:
        """Return the report and the jobs that could not be deleted."""
        from railhead.accept import discover, screen
        from railhead.accept.kept import Folder
        from railhead.accept.runner import Runner, default_folder

        folder = Folder(self.output.out or default_folder(facts.contract.cluster))
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
            screen.confirm(most, discover.idle(cluster, facts), facts, yes=self.checks.yes)
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
        for kind, path in self.output.files.items():
            if path is not None:
                outputs.write(path, texts[kind]())
        if self.output.keep is not None:
            typer.echo(f"kept as {baselines.keep(report, self.output.keep, self.key)}", err=True)


def _waivers(waiving: options.Waiving) -> tuple[Waiver, ...]:
    """Return the waivers of the options and of the file that they name.

    Raises:
        InputError: something of a waiver is missing or wrong.
    """
    from railhead.accept import waivers

    by_option = waivers.given(
        waiving.waive or (), by=waiving.by, reason=waiving.reason, until=waiving.until
    )
    return by_option + (waivers.read(waiving.waivers) if waiving.waivers is not None else ())


def _suite(asked: options.Checks, waivers: tuple[Waiver, ...]) -> Suite:
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
    only = [name.strip() for item in asked.only or () for name in item.split(",")]
    for name in only:
        if name not in names:
            raise InputError(
                f"--only {name!r}: there is no such check{choices(name, names)}",
                remedy="name one of them; --only is repeatable",
            )
    waived.check(waivers, names, datetime.now(UTC).date())
    return Suite(checks=every, only=frozenset(only or names), resume=asked.resume, waivers=waivers)


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
