"""`railhead state`: what stops commands on a stack's state, and what an update left open in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from railhead.base.backend import Fault
from railhead.base.finding import Finding
from railhead.base.options import Json, Stack
from railhead.cli.findings import rows, show


def state(
    stack: Stack,
    mend: Annotated[
        bool, typer.Option("--mend", help="Remove what a killed `pulumi` left and nobody needs.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what is wrong with a stack's state: locks, empty files, operations without an end.

    --mend removes locks whose process is gone and empty files beside the state, in a backend on
    this machine's disk; it changes neither the state nor the cluster.

    Example: [bold]railhead state lab --mend[/bold]

    Exits 0 when nothing is wrong or all is mended, 6 when something is left.
    """
    from railhead.base import backend
    from railhead.base.errors import ExitCode, PrerequisiteError
    from railhead.cli.drift import exported
    from railhead.config.files import project_name, stack_file, stack_name

    file = stack_file(stack)
    name, project = stack_name(file), project_name(file)
    folder = backend.backend_folder()
    removed = backend.mend(folder, name, project) if folder and mend else []
    findings = [_mended(fault) for fault in removed]
    left = backend.faults(folder, name, project) if folder else ()
    findings += [_stops(fault, name) for fault in left]
    if all(finding.passed for finding in findings):
        try:
            document = exported(name, file)
            findings += [*_left_open(document, name), *_gone(document, file)]
        except PrerequisiteError as error:
            findings.append(
                Finding(name="state", passed=False, text=error.problem, remedy=error.remedy)
            )
    _show(findings, name, as_json=as_json)
    if any(finding.passed is False for finding in findings):
        raise typer.Exit(ExitCode.REFUSED)


def _mended(fault: Fault) -> Finding:
    return Finding(name=str(fault.file), passed=True, text=f"{fault.text}: removed")


def _stops(fault: Fault, stack: str) -> Finding:
    remedy = fault.remedy.replace("STACK", stack) or f"railhead state {stack} --mend"
    return Finding(name=str(fault.file), passed=False, text=fault.text, remedy=remedy)


def _left_open(document: Mapping[str, Any], stack: str) -> Iterator[Finding]:
    """Yield the operations of an exported state whose end the engine did not see."""
    for operation in (document.get("deployment") or {}).get("pending_operations") or ():
        urn = str((operation.get("resource") or {}).get("urn", "")).rsplit("::", 1)[-1]
        yield Finding(
            name=urn,
            passed=False,
            text=f"{operation.get('type', 'an operation')} had no end that the engine saw",
            remedy="`pulumi up` carries on with it; then `pulumi refresh --yes "
            f"--clear-pending-creates --stack {stack}` ends the warning",
        )


def _gone(document: Mapping[str, Any], file: Path) -> Iterator[Finding]:
    """Yield the objects of the state that the cluster has not; one finding if it is away."""
    from railhead import config, drift
    from railhead.base.errors import RailheadError
    from railhead.config.live import target
    from railhead.kube import client as kube

    try:
        client = kube.Cluster(target(config.load(file), None, None))
        differences = drift.find(document, client)
    except RailheadError as error:
        yield Finding(
            name="cluster",
            passed=None,
            text=f"not compared with the state: {error.problem}",
            remedy=error.remedy,
        )
        return
    for difference in differences:
        if difference.live == "gone" and not difference.field:
            yield Finding(
                name=difference.subject,
                passed=False,
                text="in the state, and gone from the cluster",
                remedy=difference.remedy,
            )


def _show(findings: list[Finding], stack: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"stack": stack, "findings": rows(findings)}))
        return
    show(findings, {True: "mended", False: "wrong", None: "unknown"})
    if not any(finding.passed is False for finding in findings):
        typer.echo(f"{stack}: nothing is wrong with its state")
