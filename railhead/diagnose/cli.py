"""`railhead diagnose`. Heavy imports are made inside the command."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.errors import InputError
from railhead.base.options import Context, Json, Kubeconfig, Lab, Namespace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railhead.diagnose.inputs import Sorted
    from railhead.diagnose.objects import Objects
    from railhead.nccl.sources import Source

HELP = """Say why a run hung, failed or crawls, and what to do about it.

Reads logs, flight-recorder dumps and NCCL's reports; with --job or --pod also pod specifications,
events, nodes and network policies. It never changes anything. Several causes are ranked, with what
distinguishes them; if the evidence names no cause, it says so and what to collect.

Example: [bold]railhead diagnose job.log dumps/[/bold]

Exits 0 when everything could be read, with or without a cause.
"""
LOG_HELP = (
    "Logs, folders, patterns, - for standard input; PyTorch flight-recorder dumps, ncclras output, "
    "NCCL Inspector files, a bundle of --collect."
)


def diagnose(
    logs: Annotated[
        list[str] | None, typer.Argument(metavar="[LOG]...", help=LOG_HELP, show_default=False)
    ] = None,
    job: Annotated[
        str | None, typer.Option("--job", metavar="NAME", help="Diagnose this job in the cluster.")
    ] = None,
    pod: Annotated[
        str | None, typer.Option("--pod", metavar="NAME", help="Diagnose this pod in the cluster.")
    ] = None,
    as_json: Json = False,
    collect: Annotated[
        bool, typer.Option("--collect", help="Write logs and objects, redacted, into one file.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File that --collect writes."),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Say why a run hung, failed or crawls."""
    _check(logs or [], job, pod, collect=collect, output=output)
    from railhead.diagnose import bundle, inputs, report
    from railhead.diagnose.observations import observe
    from railhead.diagnose.ranking import rank
    from railhead.diagnose.reading import read

    with ExitStack() as stack:
        objects: Objects | None = None
        bundles = [Path(name) for name in logs or [] if bundle.is_bundle(Path(name))]
        taken = {str(path) for path in bundles}
        sorted_out = inputs.sort(name for name in logs or [] if name not in taken)
        sources = _sources(sorted_out)
        for path in bundles:
            held, objects = bundle.read(path)
            sources += held
        if job or pod:
            live, objects = _live(stack, job, pod, namespace, kubeconfig, context, lab)
            sources += live
        reading = read(sources)
        seen = inputs.merge(sorted_out.everything(), observe(objects) if objects else {})
        findings = rank(reading, observed=seen)
        skipped = [*sorted_out.skipped, *(objects.unreadable if objects else [])]
        command = report.collect_command(job, pod, logs or [])
        if as_json:
            reported = report.to_json(reading, findings, skipped=skipped, command=command)
            typer.echo(json.dumps(reported, indent=1))
        else:
            from rich.console import Console

            console = Console(soft_wrap=True)
            report.show(console, reading, findings, skipped=skipped, command=command)
        if collect:
            path = output or Path(bundle.default_name(job or pod or "logs"))
            again = _sources(sorted_out) if not (job or pod) else sources
            names = bundle.write(path, sources=again, objects=objects, findings=findings)
            typer.echo(f"{path}: {len(names)} files, redacted, mode 0600", err=True)


def _check(
    logs: Sequence[str], job: str | None, pod: str | None, *, collect: bool, output: Path | None
) -> None:
    if job and pod:
        raise InputError("--job and --pod both name what to look at", remedy="give one of the two")
    if not logs and not job and not pod:
        raise InputError(
            "nothing to diagnose", remedy="name logs, or a job with --job, or a pod with --pod"
        )
    if output is not None and not collect:
        raise InputError("--output is where --collect writes", remedy="add --collect")
    if collect and "-" in logs:
        raise InputError(
            "--collect needs to read the logs twice, and - can be read once",
            remedy="write standard input into a file first",
        )


def _sources(sorted_out: Sorted) -> list[Source]:
    from railhead.nccl.sources import resolve

    return resolve(sorted_out.logs) if sorted_out.logs else []


def _live(
    stack: ExitStack,
    job: str | None,
    pod: str | None,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    lab: str | None,
) -> tuple[list[Source], Objects]:
    """Return the logs and the objects of a job or a pod of the cluster that is meant."""
    from railhead.diagnose import live
    from railhead.kube.client import opened
    from railhead.kube.published import namespaces

    cluster = stack.enter_context(opened(kubeconfig, context, lab))
    return live.evidence(cluster, namespaces(cluster, namespace), job=job, pod=pod)


def register(app: typer.Typer) -> None:
    """Add the command to the root."""
    app.command("diagnose", help=HELP)(diagnose)
