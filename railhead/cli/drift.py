"""`railhead drift`: what in the cluster differs from what its stack says."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.cli.config import Stack, _file

if TYPE_CHECKING:
    from railhead.drift import Drift


def drift(
    stack: Stack,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            help="A state by `pulumi stack export`. Else it is asked of Pulumi.",
        ),
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="The cluster's kubeconfig. Else the one that the stack's file or its lab names.",
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Hold the cluster against what the last update of its stack said, field by field.

    It only reads. Deleted guards and controllers scaled to zero come first, then what is gone, what
    was changed, and what was added by hand. Exits 0 without drift, 6 with.

    Example: [bold]railhead drift lab[/bold]
    """
    from railhead import config, drift
    from railhead.base.errors import ExitCode, InputError
    from railhead.config.live import target
    from railhead.kube import client as kube

    path = _file(stack)
    cluster = config.load(path)
    name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    exported = _read(state) if state else _export(name, path)
    compared = len(drift.objects(exported)) + len(drift.releases(exported))
    if not compared:
        raise InputError(
            f"the state of stack {name} has no object of a cluster, so there is nothing to compare",
            remedy="run `pulumi up` first, or name the state of another stack by --state FILE",
        )
    client = kube.Cluster(target(cluster, kubeconfig, context))
    found = drift.find(exported, client)
    if metrics is not None:
        _publish(metrics, name, found)
    if as_json:
        rows = [asdict(one) | {"severity": one.severity.name.lower()} for one in found]
        typer.echo(json.dumps({"stack": name, "compared": compared, "drift": rows}))
    else:
        for one in found:
            where = f" {one.field}" if one.field else ""
            said = f"the stack says {one.stack}, live is {one.live}"
            said = said if one.stack else f"the stack does not say it, live has {one.live}"
            typer.echo(f"{one.severity.name.lower():<8} {one.subject}{where}: {said}")
            typer.echo(f"         {one.remedy}")
        typer.echo(f"{name}: {len(found)} differences in {compared} objects and releases")
    raise typer.Exit(ExitCode.REFUSED if found else ExitCode.OK)


def _publish(file: Path, stack: str, found: list[Drift]) -> None:
    from railhead.base.errors import InputError
    from railhead.drift import metrics

    try:
        metrics.write(file, metrics.rendered(stack, found, time.time()))
    except OSError as error:
        raise InputError(
            f"--metrics {file}: {error.strerror}",
            remedy="name a file in a folder that you may write",
        ) from None


def _read(file: Path) -> dict[str, Any]:
    from railhead.base.errors import InputError

    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"--state {file}: {error}", remedy="name a file that `pulumi stack export` wrote"
        ) from None
    if not isinstance(found, dict) or not isinstance(found.get("deployment"), dict):
        raise InputError(
            f"--state {file}: no exported state, it has no `deployment`",
            remedy="name a file that `pulumi stack export` wrote",
        )
    return found


def _export(stack: str, file: Path) -> dict[str, Any]:
    """The state as Pulumi has it; secrets stay encrypted."""
    from railhead.base.errors import PrerequisiteError

    pulumi = shutil.which("pulumi")
    if pulumi is None and find_spec("railhead.lab"):
        from railhead.lab import artifacts

        built = artifacts.locate("pulumi")
        pulumi = str(built) if built else None
    if pulumi is None:
        raise PrerequisiteError(
            "the stack's state is asked of `pulumi`, which is not there",
            remedy="put it on PATH, or give a state by --state FILE",
        )
    project = file.absolute().parent.parent
    done = subprocess.run(
        [pulumi, "stack", "export", "--stack", stack, "--non-interactive"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise PrerequisiteError(
            f"`pulumi stack export --stack {stack}` failed: {done.stderr.strip()[-400:]}",
            remedy="log in to the state's backend (a lab's: eval \"$(railhead lab env)\"), or give "
            "a state by --state FILE",
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
