"""`railhead plan`: the resources that a stack would create."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.options import Stack

if TYPE_CHECKING:
    from railhead.lab.planning import Plan
    from railhead.model.cluster import Cluster

# Between two lines of progress where there is no terminal.
_EVERY_S = 10.0
# More siblings of one type than this are shown as one line.
_FOLD = 3


def plan(
    stack: Stack,
    policies: Annotated[
        bool,
        typer.Option("--policies/--no-policies", help="Check the plan against the policy pack."),
    ] = True,
    contract: Annotated[
        Path | None,
        typer.Option(
            help="The stack's last contract, from `pulumi stack output contract --json`. Default: "
            "the one in the cluster, if it can be reached."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what a first `pulumi up` of a stack would create, without credentials or a cloud.

    The stack's program and the policies run, with recorders in place of engine and clouds: no
    quota, price or name is checked. If the stack is already up, it also reports what the edit would
    lose, as `pulumi preview` does. Exits 0, 6 when a policy or a loss refuses the plan, 3 for
    mistakes in the file, 1 when the program fails, 4 when only `pulumi` can plan it and is missing.

    Example: [bold]railhead plan aws-p5-prod[/bold]
    """
    from railhead import config
    from railhead.base.errors import ExitCode
    from railhead.config.files import stack_file
    from railhead.lab import stack_plans

    path = stack_file(stack)
    checked = config.check(path)
    cluster = checked.cluster
    compared = _compared(cluster, contract)
    progress = _progress()
    planned = stack_plans.plan(path, policies=policies, progress=progress)
    progress(None)
    refused = [v for v in planned.violations if v.mandatory]
    if as_json:
        more = {"warnings": list(checked.doubts), "edits": compared.removeprefix("edits: ")}
        typer.echo(json.dumps(_document(planned, cluster) | more, default=str))
    else:
        warnings = [f"warning: {doubt}" for doubt in checked.doubts]
        for line in (*_lines(planned, cluster), *warnings, compared):
            typer.echo(line)
    raise typer.Exit(ExitCode.REFUSED if refused else ExitCode.OK)


def _compared(cluster: Cluster, file: Path | None) -> str:
    """Return what the edit of a deployed stack loses; raise RefusedError if it may not."""
    from railhead.base.errors import InputError
    from railhead.base.reading import read_text
    from railhead.config import edits, live
    from railhead.contract import ClusterContract
    from railhead.resolve.cluster import resolve

    if file is not None:
        try:
            text = read_text(file)
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
            "edits: not compared, the stack's last contract is not known here; `pulumi preview` "
            "compares, or give --contract"
        )
    stale = edits.stop(before, resolve(cluster).contract, cluster.removals)
    return f"edits: {stale or 'nothing is lost'}"


def _progress() -> Callable[[str | None], None]:
    """Return a receiver of progress: a line of a terminal, or one now and then.

    None ends the line of a terminal.
    """
    on_terminal, last = sys.stderr.isatty(), time.monotonic()

    def show(line: str | None) -> None:
        nonlocal last
        text = line or ""
        if on_terminal:
            end = "\r" if line is None else ""
            typer.echo(f"\r{text:<40}{end}", nl=False, err=True)
        elif text and time.monotonic() - last > _EVERY_S:
            last = time.monotonic()
            typer.echo(text, err=True)

    return show


def _pools(cluster: Cluster) -> list[dict[str, Any]]:
    from railhead.machines import MACHINES

    return [
        {
            "pool": pool.name,
            "nodes": pool.nodes,
            "instance_type": pool.instance_type,
            "gpus": pool.nodes * MACHINES[pool.instance_type].gpus,
        }
        for pool in cluster.pools
    ]


def _document(plan: Plan, cluster: Cluster) -> dict[str, Any]:
    from railhead.lab.planning import priced
    from railhead.platform.registry import platform_of

    return {
        "stack": plan.stack,
        "seconds": round(plan.seconds, 1),
        "counts": plan.counts(),
        "pools": _pools(cluster),
        "system_nodes": platform_of(cluster).system_nodes(cluster),
        "costs": [asdict(item) for item in priced(plan)],
        "resources": [
            {"urn": r.urn, "type": r.type, "name": r.name, "operation": r.operation}
            for r in plan.resources
        ],
        "policies": "run" if plan.judged else "not run",
        "violations": [asdict(v) for v in plan.violations],
    }


def _lines(plan: Plan, cluster: Cluster) -> list[str]:
    from railhead.lab.planning import priced
    from railhead.platform.registry import platform_of

    lines = [f"{plan.stack}: {len(plan.made)} resources would be created", ""]
    lines += _tree(plan)
    lines += ["", "what costs money while it exists (no prices are known here):"]
    for pool in _pools(cluster):
        lines.append(
            f"  {pool['nodes']} x {pool['instance_type']}  pool {pool['pool']}, {pool['gpus']} GPUs"
        )
    if system := platform_of(cluster).system_nodes(cluster):
        lines.append("  {} x {}  for the controllers".format(*system))
    for item in priced(plan):
        details = ", ".join(f"{k} {v}" for k, v in item.details.items())
        lines.append(f"  {item.what}  {item.name}{f': {details}' if details else ''}")
    lines.append("")
    if not plan.judged:
        lines.append("policies: not run")
    elif not plan.violations:
        lines.append("policies: every rule passes")
    for violation in plan.violations:
        level = "refused" if violation.mandatory else "advice"
        lines += [
            f"{level} by {violation.rule}:",
            *(f"  {line}" for line in violation.message.splitlines()),
        ]
    lines.append(f"planned in {plan.seconds:.1f} s; the clouds' answers are made up")
    return lines


def _tree(plan: Plan) -> list[str]:
    """Return each component and its resources; many siblings of one type are one line."""
    lines: list[str] = []
    resources = plan.resources
    leaf = [
        index + 1 == len(resources) or resources[index + 1].depth <= resource.depth
        for index, resource in enumerate(resources)
    ]
    for index, resource in enumerate(resources):
        pad = "  " * (resource.depth + 1)
        if resource.is_component:
            lines.append(f"{pad}{resource.name}  ({resource.type.rpartition(':')[2]})")
            continue
        alike = _alike(resources, leaf, index)
        if len(alike) <= _FOLD:
            mark = "+" if resource.operation == "create" else "="
            lines.append(f"{pad}{mark} {resource.type}  {resource.name}")
        elif alike[0] == index:
            lines.append(f"{pad}+ {resource.type}  x {len(alike)}")
    return lines


def _alike(resources: Any, leaf: list[bool], index: int) -> list[int]:
    """Return the leaves of the same type beside the one at ``index``, and that one."""
    resource = resources[index]
    if not leaf[index]:
        return [index]
    start = end = index
    while start and resources[start - 1].depth >= resource.depth:
        start -= 1
    while end + 1 < len(resources) and resources[end + 1].depth >= resource.depth:
        end += 1
    return [
        at
        for at in range(start, end + 1)
        if leaf[at]
        and resources[at].depth == resource.depth
        and (resources[at].type, resources[at].operation) == (resource.type, resource.operation)
    ]


def register(root: typer.Typer) -> None:
    """Add the command to the root application."""
    root.command()(plan)
