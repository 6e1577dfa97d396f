"""`railhead plan`: what a stack would make, by the real engine, without credentials."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead import __version__
from railhead.cli.config import Stack, _file

if TYPE_CHECKING:
    from railhead.lab.planning import Plan
    from railhead.model.cluster import Cluster

# Siblings of one type beyond this many are one line.
_FOLD = 3


def plan(
    stack: Stack,
    policies: Annotated[
        bool, typer.Option("--policies/--no-policies", help="Judge the plan by the policy pack.")
    ] = True,
    contract: Annotated[
        Path | None,
        typer.Option(
            help="What the stack made last, from `pulumi stack output contract --json`; by default "
            "what the cluster says, where it is there and answers."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a first `pulumi up` of a stack would make, without credentials and without a cloud.

    The real engine runs the stack's program and the policies; recorders stand for the clouds. It
    does not ask the cloud anything: no quota, price or name is checked. What an edit would lose of
    a stack that is up is told as `pulumi preview` tells it. Exits 0, 6 when a policy or a loss
    refuses the plan, 3 for mistakes in the file, 4 without `pulumi`, 1 when the preview fails.

    Example: [bold]railhead plan aws-p5-prod[/bold]
    """
    from railhead import config
    from railhead.base.errors import ExitCode, PrerequisiteError

    if not find_spec("railhead.lab"):
        raise PrerequisiteError(
            "`railhead plan` comes with railhead-lab, which is not installed",
            remedy=f"pip install railhead-lab=={__version__}",
        )
    from railhead.lab import planning

    path = _file(stack)
    cluster = config.load(path)
    compared = _compared(cluster, contract)
    name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    found = planning.plan(name, path, progress=_progress, policies=policies)
    _progress(None)
    refused = [v for v in found.violations if v.mandatory]
    if as_json:
        typer.echo(json.dumps(_document(found, cluster), default=str))
    else:
        for line in (*_lines(found, cluster), compared):
            typer.echo(line)
    raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.OK)


def _compared(cluster: Cluster, file: Path | None) -> str:
    """What the edit of a stack that is up loses; raises RefusedError as `pulumi preview` would."""
    from railhead.base.errors import InputError
    from railhead.config import edits, live
    from railhead.contract import ClusterContract
    from railhead.resolve.cluster import resolve

    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"--contract {file}: cannot be read: {error}",
                remedy="write it with `pulumi stack output contract --json`",
            ) from None
        before: ClusterContract | None = ClusterContract.from_json(text, where=str(file))
    else:
        before = live.published(cluster)
    if before is None:
        return (
            "edits: not compared, what the stack made last is not known here; `pulumi preview` "
            "compares, or give --contract"
        )
    stale = edits.stop(before, resolve(cluster).contract, cluster.removals)
    return f"edits: {stale or 'nothing is lost'}"


def _progress(resources: int | None) -> None:
    """Overwrite one line of a terminal's standard error; None ends it."""
    if sys.stderr.isatty():
        text = "" if resources is None else f"planning: {resources} resources ..."
        typer.echo(f"\r{text:<40}\r" if resources is None else f"\r{text:<40}", nl=False, err=True)


def _pools(cluster: Cluster) -> list[dict[str, Any]]:
    from railhead.catalog.machines import MACHINES

    return [
        {
            "pool": pool.name,
            "nodes": pool.nodes,
            "instance_type": pool.instance_type,
            "gpus": pool.nodes * MACHINES[pool.instance_type].gpus,
        }
        for pool in cluster.pools
    ]


def _document(found: Plan, cluster: Cluster) -> dict[str, Any]:
    from railhead.lab.planning import priced
    from railhead.platform.registry import platform_of

    return {
        "stack": found.stack,
        "seconds": round(found.seconds, 1),
        "counts": found.counts(),
        "pools": _pools(cluster),
        "system_nodes": platform_of(cluster).system_nodes(cluster),
        "costs": [asdict(item) for item in priced(found)],
        "resources": [
            {"urn": r.urn, "type": r.type, "name": r.name, "operation": r.operation}
            for r in found.resources
        ],
        "policies": "run" if found.judged else "not run",
        "violations": [asdict(v) for v in found.violations],
    }


def _lines(found: Plan, cluster: Cluster) -> list[str]:
    from railhead.lab.planning import priced
    from railhead.platform.registry import platform_of

    lines = [f"{found.stack}: {len(found.made)} resources would be made", ""]
    lines += _tree(found)
    lines += ["", "paid for while it exists (no prices are known here):"]
    for pool in _pools(cluster):
        lines.append(
            f"  {pool['nodes']} x {pool['instance_type']}  pool {pool['pool']}, {pool['gpus']} GPUs"
        )
    if system := platform_of(cluster).system_nodes(cluster):
        lines.append("  {} x {}  for the controllers".format(*system))
    for item in priced(found):
        details = ", ".join(f"{k} {v}" for k, v in item.details.items())
        lines.append(f"  {item.what}  {item.name}{f': {details}' if details else ''}")
    lines.append("")
    if not found.judged:
        lines.append("policies: not run")
    elif not found.violations:
        lines.append("policies: every rule passes")
    for one in found.violations:
        level = "refused" if one.mandatory else "advice"
        lines += [f"{level} by {one.rule}:", *(f"  {line}" for line in one.message.splitlines())]
    lines.append(f"planned in {found.seconds:.1f} s on made-up answers of the clouds")
    return lines


def _tree(found: Plan) -> list[str]:
    """Each component and its resources; many of one type side by side are one line."""
    lines: list[str] = []
    resources = found.resources
    leaf = [
        index + 1 == len(resources) or resources[index + 1].depth <= one.depth
        for index, one in enumerate(resources)
    ]
    for index, one in enumerate(resources):
        pad = "  " * (one.depth + 1)
        if one.is_component:
            lines.append(f"{pad}{one.name}  ({one.type.rpartition(':')[2]})")
            continue
        alike = _alike(resources, leaf, index)
        if len(alike) <= _FOLD:
            mark = "+" if one.operation == "create" else "="
            lines.append(f"{pad}{mark} {one.type}  {one.name}")
        elif alike[0] == index:
            lines.append(f"{pad}+ {one.type}  x {len(alike)}")
    return lines


def _alike(resources: Any, leaf: list[bool], index: int) -> list[int]:
    """Leaves of the same type beside the one at ``index``, itself among them."""
    one = resources[index]
    if not leaf[index]:
        return [index]
    start = end = index
    while start and resources[start - 1].depth >= one.depth:
        start -= 1
    while end + 1 < len(resources) and resources[end + 1].depth >= one.depth:
        end += 1
    return [
        at
        for at in range(start, end + 1)
        if leaf[at]
        and resources[at].depth == one.depth
        and (resources[at].type, resources[at].operation) == (one.type, one.operation)
    ]
