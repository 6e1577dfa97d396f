"""`railhead-diagnose`, and what `railhead diagnose` shares with it. Heavy imports are lazy."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base import running
from railhead.base.errors import InputError
from railhead.base.options import Json
from railhead.base.version import __version__

if TYPE_CHECKING:
    from railhead.diagnose.inputs import Sorted
    from railhead.diagnose.objects import ClusterObjects
    from railhead.nccl.sources import Source

Logs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LOG",
        help="Logs, folders, patterns, - for standard input; PyTorch flight-recorder dumps, "
        "ncclras output, NCCL Inspector files, a bundle of --collect.",
        show_default=False,
    ),
]
Collect = Annotated[
    bool, typer.Option("--collect", help="Write logs and objects, redacted, into one file.")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File that --collect writes.")
]

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"railhead-diagnose {__version__}")
        raise typer.Exit


@app.command()
def diagnose(
    logs: Logs = None,
    as_json: Json = False,
    collect: Collect = False,
    output: Output = None,
    version: Annotated[  # noqa: ARG001 - its callback prints and exits
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Say why a run hung, failed or crawls, and what to do about it.

    Reads logs, flight-recorder dumps and NCCL's reports; needs no cluster. Several causes are
    ranked, with what distinguishes them; if the evidence names no cause, it says so and what to
    collect. `railhead diagnose`, of the distribution railhead, also reads a job in a cluster.

    Example: [bold]railhead-diagnose job.log dumps/[/bold]

    Exits 0 when everything could be read, with or without a cause.
    """
    if not logs:
        raise InputError("nothing to diagnose", remedy="name logs, or - for standard input")
    check_output(logs, collect=collect, output=output)
    words = ["railhead-diagnose", *(name for name in logs if name != "-"), "--collect"]
    answer(logs, command=shlex.join(words), as_json=as_json, collect=collect, output=output)


def check_output(logs: Sequence[str], *, collect: bool, output: Path | None) -> None:
    """Raise InputError for options that contradict each other."""
    if output is not None and not collect:
        raise InputError("--output is where --collect writes", remedy="add --collect")
    if collect and "-" in logs:
        raise InputError(
            "--collect needs to read the logs twice, and - can be read once",
            remedy="write standard input into a file first",
        )


def answer(
    logs: Sequence[str],
    *,
    command: str,
    as_json: bool,
    collect: bool,
    output: Path | None,
    live: tuple[list[Source], ClusterObjects] | None = None,
    subject: str = "logs",
) -> None:
    """Print what the logs and, if given, the cluster's own logs and objects show.

    Args:
        logs: files, folders, patterns and bundles.
        command: what collects the evidence, for a reader whose evidence names no cause.
        as_json: print JSON.
        collect: also write the evidence into one file.
        output: that file; by default it is named after ``subject`` and the time.
        live: logs and objects of a job or a pod.
        subject: the job's or pod's name.
    """
    from railhead.diagnose import bundle, inputs, report
    from railhead.diagnose.observations import observe
    from railhead.diagnose.ranking import rank
    from railhead.diagnose.reading import read

    bundles = [Path(name) for name in logs if bundle.is_bundle(Path(name))]
    taken = {str(path) for path in bundles}
    sorted_out = inputs.sort(name for name in logs if name not in taken)
    objects: ClusterObjects | None = None
    sources = _sources(sorted_out)
    for path in bundles:
        held, objects = bundle.read(path)
        sources += held
    if live is not None:
        sources += live[0]
        objects = live[1]
    reading = read(sources)
    seen = inputs.merge(sorted_out.everything(), observe(objects) if objects else {})
    findings = rank(reading, observed=seen)
    skipped = [*sorted_out.skipped, *(objects.unreadable if objects else [])]
    if as_json:
        reported = report.to_json(reading, findings, skipped=skipped, command=command)
        typer.echo(json.dumps(reported, indent=1))
    else:
        from rich.console import Console

        console = Console(soft_wrap=True)
        report.show(console, reading, findings, skipped=skipped, command=command)
    if collect:
        path = output or Path(bundle.default_name(subject))
        again = _sources(sorted_out) if live is None else sources
        names = bundle.write(path, sources=again, objects=objects, findings=findings)
        typer.echo(f"{path}: {len(names)} files, redacted, mode 0600", err=True)


def _sources(sorted_out: Sorted) -> list[Source]:
    from railhead.nccl.sources import resolve

    return resolve(sorted_out.logs) if sorted_out.logs else []


def main() -> None:
    """Run the console script."""
    running.end_with(lambda: running.run(app, sys.argv[1:], name="railhead-diagnose"))
