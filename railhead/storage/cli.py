"""`railhead storage`: what the checkpoint claims of a cluster are good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from railhead.base.finding import Finding

_GIB = 1 << 30


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
    kubeconfig: Annotated[
        Path | None, typer.Option("--kubeconfig", metavar="FILE", help="The cluster's kubeconfig.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="A context of the kubeconfig.")
    ] = None,
    lab: Annotated[str | None, typer.Option("--lab", metavar="NAME", help="A running lab.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say of each checkpoint claim whether a gang can use it, and whether two nodes share it.

    With [bold]--prove[/bold] it runs two jobs of one pod on each claim and writes the verdict on
    the claim, where the checks before a launch read it; it takes the right to patch claims. Exits 0
    when all are proven, 6 when one cannot be used, 9 when one is not proven.

    With [bold]--save[/bold] it only writes the volumes: `kubectl apply` that file to a new cluster
    before `pulumi up`, and the claims find their data. Exits 9 when a claim has no volume.

    Example: [bold]railhead storage --prove[/bold]
    """
    from railhead.base.errors import ExitCode, InputError, NotFoundError
    from railhead.kube import client as kube
    from railhead.kube.published import read_contract
    from railhead.storage import live
    from railhead.storage.claims import findings

    if save is not None and prove:
        raise InputError("--save with --prove", remedy="give one of them")
    rows: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []
    with kube.opened(kubeconfig, context, lab) as cluster:
        contract = read_contract(cluster)
        known = {f"{row.namespace}/{row.claim}": row for row in contract.checkpoints}
        if claim is not None and claim not in known:
            raise NotFoundError(
                f"claim {claim!r} is not one of cluster {contract.cluster!r}; there are: "
                f"{', '.join(known) or 'none'}",
                remedy="name one of them, or add it under `checkpoints` in the cluster's stack",
            )
        for name, row in known.items():
            if claim not in (None, name):
                continue
            if save is not None:
                told_of, volume = live.volume(cluster, row)
                volumes += [volume] if volume else []
                rows.append(_row(name, told_of))
                continue
            result, events = live.claim(cluster, row)
            reported: tuple[Any, ...] = ()
            if prove and result is not None:
                _, reported = live.prove(
                    cluster, contract, row, say=lambda text: typer.echo(text, err=True)
                )
                result, events = live.claim(cluster, row)
            rows += [
                _row(name, finding) for finding in findings(name, result, nodes=2, events=events)
            ]
            for item in reported:
                if item.total:
                    wrote = f", 32 MiB in {item.seconds:g} s" if item.seconds else ""
                    free = f"{item.free / _GIB:.1f} of {item.total / _GIB:.1f} GiB free"
                    rows.append(
                        {
                            "claim": name,
                            "passed": item.free > 0,
                            "text": f"{item.node}: {item.type} {item.source}, {free}{wrote}",
                            "remedy": "" if item.free else "delete old checkpoints, or grow it",
                        }
                    )
    if save is not None:
        _write(save, volumes)
    if as_json:
        typer.echo(json.dumps({"cluster": contract.cluster, "claims": rows}))
    else:
        marks = {True: "ok", False: "FAILED", None: "unproven"}
        for line in rows:
            typer.echo(f"{marks[line['passed']]:<8} {line['text']}")
            if line["remedy"] and not line["passed"]:
                typer.echo(f"         {line['remedy']}")
    verdicts = {line["passed"] for line in rows}
    if False in verdicts:
        raise typer.Exit(ExitCode.REFUSED)
    raise typer.Exit(ExitCode.UNPROVEN if None in verdicts else ExitCode.OK)


def _row(claim: str, found: Finding) -> dict[str, Any]:
    return {"claim": claim, "passed": found.passed, "text": found.text, "remedy": found.remedy}


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
