"""`railhead drift`: differences between a cluster and its stack."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.options import Stack

if TYPE_CHECKING:
    from railhead.drift import Drift

_EXPORTED_WITHIN_S = 120


def drift(
    stack: Stack,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="A state from `pulumi stack export`. Default: Pulumi exports it.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="The cluster's kubeconfig. Default: that of the stack's file or of its lab.",
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="A context of the kubeconfig.")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            "--metrics",
            metavar="FILE",
            help="Also write Prometheus metrics, for node exporter's textfile collector (*.prom).",
        ),
    ] = None,
    definitions: Annotated[
        bool,
        typer.Option(
            "--definitions",
            help="Print the definitions that the stack's charts bring, which no update restores, "
            "for `kubectl apply --server-side --force-conflicts -f -`.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare the cluster with the last update of its stack, field by field.

    It only reads. Deleted guards and controllers scaled to zero come first, then deleted objects,
    changed fields, and objects added by hand. Exits 0 without drift, 6 with drift.

    Example: [bold]railhead drift lab[/bold]
    """
    from railhead import config, drift
    from railhead.base.errors import ExitCode, InputError
    from railhead.config.files import stack_file, stack_name
    from railhead.config.live import target
    from railhead.kube import client as kube

    path = stack_file(stack)
    cluster = config.load(path)
    name = stack_name(path)
    document = _read(state) if state else exported(name, path)
    compared = len(drift.objects(document)) + len(drift.releases(document))
    if not compared:
        raise InputError(
            f"the state of stack {name} has no object of a cluster, so there is nothing to compare",
            remedy="run `pulumi up` first, or name the state of another stack by --state FILE",
        )
    client = kube.Cluster(target(cluster, kubeconfig, context))
    if definitions:
        import yaml

        typer.echo(yaml.safe_dump_all(drift.definitions(document, client), sort_keys=False))
        return
    differences = drift.find(document, client)
    if metrics is not None:
        _publish(metrics, name, differences)
    if as_json:
        rows = [
            asdict(difference) | {"severity": difference.severity.name.lower()}
            for difference in differences
        ]
        typer.echo(json.dumps({"stack": name, "compared": compared, "drift": rows}))
    else:
        for difference in differences:
            where = f" {difference.field}" if difference.field else ""
            ours = f"has {difference.stack}" if difference.stack else "does not set it"
            level = f"{difference.severity.name.lower():<8}"
            typer.echo(
                f"{level} {difference.subject}{where}: the stack {ours}, live is {difference.live}"
            )
            typer.echo(f"         {difference.remedy}")
        typer.echo(f"{name}: {len(differences)} differences in {compared} objects and releases")
    raise typer.Exit(ExitCode.REFUSED if differences else ExitCode.OK)


def _publish(file: Path, stack: str, differences: list[Drift]) -> None:
    from railhead.base.errors import InputError
    from railhead.drift import metrics

    try:
        metrics.write(file, metrics.rendered(stack, differences, time.time()))
    except OSError as error:
        raise InputError(
            f"--metrics {file}: {error.strerror}",
            remedy="name a file in a folder that you may write",
        ) from None


def _read(file: Path) -> dict[str, Any]:
    from railhead.base.errors import InputError
    from railhead.base.reading import read_text

    try:
        document = json.loads(read_text(file))
    except (OSError, ValueError) as error:
        raise InputError(
            f"--state {file}: {error}", remedy="name a file that `pulumi stack export` wrote"
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("deployment"), dict):
        raise InputError(
            f"--state {file}: not an exported state, it has no `deployment`",
            remedy="name a file that `pulumi stack export` wrote",
        )
    return document


def exported(stack: str, file: Path) -> dict[str, Any]:
    """Return the state that Pulumi exports; secrets stay encrypted."""
    from railhead.base.errors import PrerequisiteError

    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise PrerequisiteError(
            "`pulumi`, which exports the stack's state, is not installed",
            remedy='put it on PATH (a lab\'s: eval "$(railhead lab env)"), or give a state by '
            "--state FILE",
        )
    project = file.absolute().parent.parent
    command = f"`pulumi stack export --stack {stack}`"
    log_in = (
        "log in to the state's backend (a lab's: eval \"$(railhead lab env)\"), or give a state by "
        "--state FILE"
    )
    try:
        done = subprocess.run(
            [pulumi, "stack", "export", "--stack", stack, "--non-interactive"],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
            timeout=_EXPORTED_WITHIN_S,
        )
    except subprocess.TimeoutExpired:
        raise PrerequisiteError(
            f"{command} did not end within {_EXPORTED_WITHIN_S} s",
            remedy=f"see whether the state's backend can be reached, and {log_in}",
        ) from None
    if done.returncode:
        raise PrerequisiteError(f"{command} failed: {done.stderr.strip()[-400:]}", remedy=log_in)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise PrerequisiteError(f"{command} printed no state", remedy=log_in)
    return document
