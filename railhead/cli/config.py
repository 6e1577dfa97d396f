"""`railhead config ...`: a stack's configuration without Pulumi. Heavy imports are made inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Context, Json, Stack

if TYPE_CHECKING:
    from railhead.model.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True,
    help="Stack files: check them, and their JSON Schema for editors.\n\n"
    "Example: railhead config check lab",
)


@app.callback()
def group() -> None:
    """Stack files."""


@app.command()
def check(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STACK", help="Stacks' names, such as lab, or files; all without any."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check stacks' files as `pulumi up` would, without Pulumi and without a cluster.

    Reports every mistake at once, with its line. A likely mistake is a warning and stops nothing;
    versions that Railhead has never run are a note. For each team it prints what the team is
    promised, and what it may borrow from whom. Exits 0 for correct files, 3 for mistakes, 5 for an
    unknown stack.

    Example: [bold]railhead config check lab[/bold]
    """
    from railhead.base.errors import InputError
    from railhead.config.files import stack_file, stack_files

    files = [stack_file(stack) for stack in stacks or ()] or stack_files()
    mistakes: list[str] = []
    rows: list[dict[str, object]] = []
    for path in files:
        try:
            row, summary = _checked(path)
        except InputError as error:
            mistakes += error.problem.splitlines()
            row, summary = {"file": str(path), "mistakes": error.problem.splitlines()}, ""
        rows.append(row)
        if not as_json and summary:
            typer.echo(summary)
    if as_json:
        typer.echo(json.dumps(rows[0] if stacks and len(stacks) == 1 else rows))
        raise typer.Exit(InputError.exit_code if mistakes else 0)
    if mistakes:
        named = ", ".join(str(row["file"]) for row in rows if row["mistakes"])
        raise InputError("\n".join(mistakes), remedy=f"edit {named}; nothing was changed")


def _checked(path: Path) -> tuple[dict[str, object], str]:
    """Return the report on a correct file, as JSON and as text."""
    from railhead import config
    from railhead.config.served import unproven
    from railhead.model.borrowing import borrowing, table
    from railhead.resolve.cluster import resolve
    from railhead.resolve.images import images, loose

    checked = config.check(path)
    # Refuses a contract that no ConfigMap holds, which is the last of what `up` makes.
    resolve(checked.cluster)
    notes = [note] if (note := unproven(checked.cluster)) else []
    if moving := loose(checked.cluster):
        notes.append(
            f"no digest is known of {len(moving)} of its {len(images(checked.cluster))} images, "
            f"whose tags may move: `railhead config pin {path}` asks their registries"
        )
    for doubt in checked.doubts:
        typer.echo(f"warning: {doubt}", err=True)
    cluster = checked.cluster
    nodes = ", ".join(f"{p.nodes} x {p.instance_type}" for p in cluster.pools)
    return {
        "file": str(path),
        "mistakes": [],
        "warnings": list(checked.doubts),
        "notes": notes,
        "teams": table(cluster),
        "cluster": cluster.model_dump(mode="json"),
    }, "\n".join(
        [
            f"{path}: correct: cluster {cluster.name} on {cluster.platform.kind}, {nodes}, "
            f"fabric {cluster.fabric.kind} by {cluster.fabric.mode}",
            *(
                f"team {team.name} {sentence}"
                for team in cluster.teams
                for sentence in borrowing(cluster, team)
            ),
            *(f"note: {note}" for note in notes),
        ]
    )


@app.command()
def pin(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="STACK", help="Stacks' names, such as lab, or files; all without any."
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Record the new digest of a tag that has moved."),
    ] = False,
) -> None:
    """Record the digest that every image of the stacks has in its registry today.

    Asks the registries, or the stack's mirrors of them, with the credentials of `docker login`.
    Writes `digests.yaml` beside the stacks: images in the stack's own manifests are then pulled by
    digest, images in charts by a tag whose digest is recorded. A later run refuses tags that have
    moved. Exits 0 when every digest is known, 6 when not.

    Example: [bold]railhead config pin aws-p5-prod[/bold]
    """
    from railhead import config
    from railhead.base.errors import RefusedError
    from railhead.catalog import digests
    from railhead.config.files import stack_file, stack_files
    from railhead.resolve.images import images

    files = [stack_file(stack) for stack in stacks or ()] or stack_files()
    wrong: list[str] = []
    for folder, paths in _by_folder(files).items():
        record = folder / digests.FILE
        clusters = [config.load(path) for path in paths]
        known = digests.read(record) if record.is_file() else {}
        wanted = {image: cluster for cluster in clusters for image in images(cluster)}
        digest_of, problems = _asked(wanted, update=update)
        wrong += problems
        # A stack whose images are all built where it runs needs no file.
        if digest_of:
            digests.write(record, known | digest_of)
        typer.echo(f"{record}: {len(digest_of)} of {len(wanted)} images")
    if wrong:
        raise RefusedError(
            "\n".join(wrong),
            remedy="log in with `docker login`, or take the digest of a moved tag with --update",
        )


def _by_folder(files: list[Path]) -> dict[Path, list[Path]]:
    by_folder: dict[Path, list[Path]] = {}
    for path in files:
        by_folder.setdefault(path.parent, []).append(path)
    return by_folder


def _asked(wanted: Mapping[str, Cluster], *, update: bool) -> tuple[dict[str, str], list[str]]:
    """Return the digests of images in the registries that their stack uses, and the problems."""
    import httpx

    from railhead.catalog import registry
    from railhead.catalog.digests import pinned
    from railhead.catalog.versions import mirrored

    digest_of: dict[str, str] = {}
    wrong: list[str] = []
    with httpx.Client(follow_redirects=True) as client:
        for image, cluster in wanted.items():
            if "@" in image:
                continue
            try:
                digest = registry.digest(mirrored(image, cluster.registry_mirrors), client)
            except registry.RegistryError as error:
                wrong.append(error.problem)
                continue
            before, source = pinned(image)
            if before in ("", digest) or update:
                digest_of[image] = digest
            else:
                wrong.append(f"{image}: is {digest} now, and was {before} ({source})")
    return digest_of, wrong


@app.command()
def verify(
    stack: Stack,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="The cluster's kubeconfig. Default: that of the stack's file or of its lab.",
        ),
    ] = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Check each live node for what the stack promises.

    The promises come from the contract that is published in the cluster; before the first
    `pulumi up`, from the stack's file, without devices. Refuses the contract of another cluster, by
    its name, platform and pools; with `platform.uid`, any cluster that has another uid. Exits 0
    when every pool has all that is promised, else 6, and names what each node lacks.

    Example: [bold]railhead config verify lab[/bold]
    """
    from railhead import config
    from railhead.base.errors import ExitCode, RefusedError
    from railhead.config.files import stack_file
    from railhead.config.live import described, elsewhere, require_own, target
    from railhead.config.served import unserved
    from railhead.kube import client as kube
    from railhead.kube import nodes
    from railhead.kube.published import find_contract

    cluster = config.load(stack_file(stack))
    client = kube.Cluster(target(cluster, kubeconfig, context))
    require_own(cluster, client)
    contract = find_contract(client)
    if contract is not None:
        if why := elsewhere(cluster, contract):
            raise RefusedError(
                f"{client.server} ({client.target.why}): {why}",
                remedy="name the stack's own cluster by --kubeconfig and --context, or run "
                "`pulumi up` where the file is right",
            )
        promises = nodes.promised(contract)
        against = "the contract in the cluster"
    else:
        promises = described(cluster)
        against = "the stack's file; no contract is published yet, so devices were not checked"
    checked = nodes.verify(promises, nodes.live(client))
    not_served = unserved(cluster, nodes.live_minor(client))
    failed = bool(not_served) or not checked or any(pool.lines() for pool in checked)
    if as_json:
        rows = {
            v.promise.pool: {
                "promised": v.promise.nodes,
                "good": list(v.good),
                "missing": "" if v.pool.passed else v.pool.text,
                "lacks": {name: list(f.evidence) for name, f in v.nodes.items() if not f.passed},
            }
            for v in checked
        }
        report = {
            "cluster": cluster.name,
            "against": against,
            "versions": not_served,
            "pools": rows,
        }
        typer.echo(json.dumps(report))
        raise typer.Exit(ExitCode.REFUSED if failed else ExitCode.OK)
    typer.echo(f"against {against}:")
    for pool in checked:
        promise = pool.promise
        typer.echo(
            f"pool {promise.pool}: {len(pool.good)} of {promise.nodes} nodes have what is promised"
        )
    nodes.require(cluster.name, checked, also=not_served)


@app.command()
def guards(stack: Stack) -> None:
    """Print a stack's guards as YAML: its ValidatingAdmissionPolicies and their bindings.

    They are what `pulumi up` makes, for a reader, for `kubectl apply --dry-run=server`, and for a
    comparison of two versions. They know the stack's queues, runtimes and fabric, so those of one
    stack are not another's.

    Example: [bold]railhead config guards lab[/bold]
    """
    import yaml

    from railhead import config
    from railhead.config.files import stack_file
    from railhead.resolve.cluster import resolve
    from railhead.resolve.made import manifests

    resolved = resolve(config.load(stack_file(stack)))
    objects = manifests({**resolved.guards, **resolved.ending})
    typer.echo(yaml.safe_dump_all(objects, sort_keys=False, width=1000), nl=False)


@app.command()
def schema(
    contract: Annotated[
        bool,
        typer.Option("--contract", help="Print that of a published contract instead."),
    ] = False,
) -> None:
    """Print the JSON Schema of a stack's file, for completion and checks in editors.

    An editor with the YAML language server uses it if the stack's file begins with the line
    `# yaml-language-server: $schema=stack.schema.json`. That of the contract is for programs in
    other languages, which read the stack's output `contract`.

    Example: [bold]railhead config schema[/bold]
    """
    if contract:
        from railhead.contract import schema as published

        typer.echo(published.text(), nl=False)
        return
    from railhead.config import use
    from railhead.config.files import stacks_folder
    from railhead.config.schema import text

    use(stacks_folder())
    typer.echo(text(), nl=False)
