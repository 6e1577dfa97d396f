"""`railhead storage`: what the checkpoint claims of a cluster are good for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.options import Context, Json, Kubeconfig, Lab

if TYPE_CHECKING:
    from railhead.base.finding import Finding
    from railhead.contract import Checkpoint, ClusterContract
    from railhead.kube.client import Cluster
    from railhead.storage.proof import PodReport

    #: Claims by ``NAMESPACE/CLAIM``.
    Claims = Mapping[str, Checkpoint]

_GIB = 1 << 30
_MARKS = {True: "ok", False: "FAILED", None: "unproven"}


def storage(
    claim: Annotated[
        str | None,
        typer.Argument(help="One claim, as NAMESPACE/CLAIM. Default: all of the stack's."),
    ] = None,
    prove: Annotated[
        bool,
        typer.Option(
            "--prove", help="Write on one node, read on another, and compare both mounts."
        ),
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Write the claims' volumes, to apply them to a recreated cluster.",
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
    as_json: Json = False,
) -> None:
    """Say of each checkpoint claim whether a gang can use it, and whether two nodes share it.

    With [bold]--prove[/bold] it runs two jobs of one pod on each claim and writes the verdict on
    the claim, where the checks before a launch read it; it takes the right to patch claims. Exits 0
    when all are proven, 6 when one cannot be used, 9 when one is not proven.

    With [bold]--save[/bold] it only writes the volumes: `kubectl apply` that file to a new cluster
    before `pulumi up`, and the claims find their data. Exits 9 when a claim has no volume.

    Example: [bold]railhead storage --prove[/bold]
    """
    from railhead.base.errors import InputError
    from railhead.kube import client as kube
    from railhead.kube.published import read_contract

    if save is not None and prove:
        raise InputError("--save with --prove", remedy="give one of them")
    with kube.opened(kubeconfig, context, lab) as cluster:
        contract = read_contract(cluster)
        claims = _chosen(contract, claim)
        if save is not None:
            rows = _saved(cluster, claims, save)
        else:
            rows = _examined(cluster, contract, claims, prove=prove)
    if as_json:
        typer.echo(json.dumps({"cluster": contract.cluster, "claims": rows}))
    else:
        _show(rows)
    _end(rows)


def _chosen(contract: ClusterContract, claim: str | None) -> Claims:
    """Return the claim that is named, or all. Raises NotFoundError if there is no such claim."""
    from railhead.base.errors import NotFoundError

    known = {f"{row.namespace}/{row.claim}": row for row in contract.checkpoints}
    if claim is None:
        return known
    if claim not in known:
        raise NotFoundError(
            f"claim {claim!r} is not one of cluster {contract.cluster!r}; there are: "
            f"{', '.join(known) or 'none'}",
            remedy="name one of them, or add it under `checkpoints` in the cluster's stack",
        )
    return {claim: known[claim]}


def _saved(cluster: Cluster, claims: Claims, path: Path) -> list[dict[str, Any]]:
    """Write the claims' volumes to ``path``; return one row a claim."""
    from railhead.storage import live

    kept = {name: live.volume(cluster, row) for name, row in claims.items()}
    _write(path, [volume for _, volume in kept.values() if volume])
    return [_row(name, finding) for name, (finding, _) in kept.items()]


def _examined(
    cluster: Cluster, contract: ClusterContract, claims: Claims, *, prove: bool
) -> list[dict[str, Any]]:
    """Return what is known of each claim; with ``prove``, after its two jobs."""
    from railhead.storage import live
    from railhead.storage.claims import findings

    rows: list[dict[str, Any]] = []
    for name, row in claims.items():
        result, events = live.claim(cluster, row)
        reports: Sequence[PodReport] = ()
        if prove and result is not None:
            _, reports = live.prove(
                cluster, contract, row, say=lambda text: typer.echo(text, err=True)
            )
            result, events = live.claim(cluster, row)
        rows += [_row(name, item) for item in findings(name, result, nodes=2, events=events)]
        rows += [_mount(name, report) for report in reports if report.total]
    return rows


def _row(claim: str, finding: Finding) -> dict[str, Any]:
    return {
        "claim": claim,
        "passed": finding.passed,
        "text": finding.text,
        "remedy": finding.remedy,
    }


def _mount(claim: str, report: PodReport) -> dict[str, Any]:
    """Return the row of one node's mount: its file system, what is free, how fast it wrote."""
    wrote = f", 32 MiB in {report.seconds:g} s" if report.seconds else ""
    free = f"{report.free / _GIB:.1f} of {report.total / _GIB:.1f} GiB free"
    return {
        "claim": claim,
        "passed": report.free > 0,
        "text": f"{report.node}: {report.type} {report.source}, {free}{wrote}",
        "remedy": "" if report.free else "delete old checkpoints, or grow it",
    }


def _show(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        typer.echo(f"{_MARKS[row['passed']]:<8} {row['text']}")
        if row["remedy"] and not row["passed"]:
            typer.echo(f"         {row['remedy']}")


def _end(rows: Sequence[Mapping[str, Any]]) -> None:
    """Exit by the worst row."""
    from railhead.base.errors import ExitCode

    verdicts = {row["passed"] for row in rows}
    if False in verdicts:
        raise typer.Exit(ExitCode.REFUSED)
    raise typer.Exit(ExitCode.UNPROVEN if None in verdicts else ExitCode.OK)


def _write(path: Path, volumes: list[dict[str, Any]]) -> None:
    """Write a List that `kubectl apply` takes. Raises InputError if the file cannot be written."""
    import yaml

    from railhead.base.errors import InputError

    body = {"apiVersion": "v1", "kind": "List", "items": volumes}
    try:
        path.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--save {str(path)!r} cannot be written: {error.strerror}",
            remedy="name a file in a folder that exists and is yours",
        ) from None
