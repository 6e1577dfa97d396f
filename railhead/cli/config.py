"""`railhead config ...`: a stack's configuration without Pulumi. Heavy imports are made inside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from railhead.base.options import Context, Json

if TYPE_CHECKING:
    from railhead.model.cluster import Cluster

app = typer.Typer(
    no_args_is_help=True,
    help="Stack files: check them, and their JSON Schema for editors.\n\n"
    "Example: railhead config check lab",
)

Stack = Annotated[
    str, typer.Argument(metavar="STACK", help="A stack's name, such as lab, or its file.")
]


@app.callback()
def group() -> None:
    """Stack files."""


@app.command()
def check(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STACK]...", help="Stacks' names, such as lab, or files; all without any."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check stacks' files as `pulumi up` would, without Pulumi and without a cluster.

    Every mistake is named at once, with its line. What may be meant and mostly is not is a warning,
    and stops nothing; versions that never ran are a note. Of teams it says what each is promised,
    and what it may borrow of whom. Exits 0 for correct files, 3 for mistakes, 5 where there is no
    such stack.

    Example: [bold]railhead config check lab[/bold]
    """
    from railhead.base.errors import InputError

    files = [_file(stack) for stack in stacks or ()] or _files()
    mistakes: list[str] = []
    found: list[dict[str, object]] = []
    for path in files:
        try:
            row, said = _checked(path)
        except InputError as error:
            mistakes += error.problem.splitlines()
            row, said = {"file": str(path), "mistakes": error.problem.splitlines()}, ""
        found.append(row)
        if not as_json and said:
            typer.echo(said)
    if as_json:
        typer.echo(json.dumps(found[0] if stacks and len(stacks) == 1 else found))
        raise typer.Exit(InputError.exit_code if mistakes else 0)
    if mistakes:
        named = ", ".join(str(row["file"]) for row in found if row["mistakes"])
        raise InputError("\n".join(mistakes), remedy=f"edit {named}; nothing was changed")


def _checked(path: Path) -> tuple[dict[str, object], str]:
    """What is told of a correct file, as JSON and as a line."""
    from railhead import config
    from railhead.config.served import unproven
    from railhead.model.borrowing import borrowing, table
    from railhead.resolve.images import images, loose

    checked = config.check(path)
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
                f"team {team.name} {said}"
                for team in cluster.teams
                for said in borrowing(cluster, team)
            ),
            *(f"note: {note}" for note in notes),
        ]
    )


@app.command()
def pin(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STACK]...", help="Stacks' names, such as lab, or files; all without any."
        ),
    ] = None,
    update: Annotated[
        bool,
        typer.Option("--update", help="Record the new digest of a tag that has moved."),
    ] = False,
) -> None:
    """Record the digest of every image that stacks deploy, as their registries call it today.

    Registries, or the stack's mirrors of them, are asked with what `docker login` left. Digests go
    into `digests.yaml` beside the stacks; what the stack's own manifests name is then pulled by
    digest, what charts name by a tag whose digest is recorded. Run again, it refuses tags that have
    moved. Exits 0 when every digest is known, 6 when not.

    Example: [bold]railhead config pin aws-p5-prod[/bold]
    """
    from railhead import config
    from railhead.base.errors import RefusedError
    from railhead.catalog import digests
    from railhead.resolve.images import images

    files = [_file(stack) for stack in stacks or ()] or _files()
    wrong: list[str] = []
    for folder, paths in _by_folder(files).items():
        record = folder / digests.FILE
        clusters = [config.load(path) for path in paths]
        known = digests.read(record) if record.is_file() else {}
        wanted = {image: cluster for cluster in clusters for image in images(cluster)}
        found, problems = _asked(wanted, update=update)
        wrong += problems
        # A stack of images that are built where it runs leaves no file behind.
        if found:
            digests.write(record, known | found)
        typer.echo(f"{record}: {len(found)} of {len(wanted)} images")
    if wrong:
        raise RefusedError(
            "\n".join(wrong),
            remedy="log in with `docker login`, or take the digest of a moved tag with --update",
        )


def _by_folder(files: list[Path]) -> dict[Path, list[Path]]:
    found: dict[Path, list[Path]] = {}
    for path in files:
        found.setdefault(path.parent, []).append(path)
    return found


def _asked(wanted: Mapping[str, Cluster], *, update: bool) -> tuple[dict[str, str], list[str]]:
    """What registries say of images, from where their stack pulls them, and what is wrong."""
    import httpx

    from railhead.catalog import registry
    from railhead.catalog.digests import pinned
    from railhead.catalog.versions import mirrored

    found: dict[str, str] = {}
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
                found[image] = digest
            else:
                wrong.append(f"{image}: is {digest} now, and was {before} ({source})")
    return found, wrong


@app.command()
def verify(
    stack: Stack,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            "--kubeconfig",
            metavar="FILE",
            help="The cluster's kubeconfig. Else the one that the stack's file or its lab names.",
        ),
    ] = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """Hold the live nodes against what the stack promises of them, node by node.

    Against the contract that is published in the cluster; before the first `pulumi up`, against the
    stack's file, which does not ask for devices yet. A contract of another cluster is refused, by
    name, platform and pools; with `platform.uid`, any cluster that has another. Exits 0 when every
    pool has all of it, 6 when
    not, and names each node with what it lacks.

    Example: [bold]railhead config verify lab[/bold]
    """
    from railhead import config
    from railhead.base.errors import ExitCode, RefusedError
    from railhead.config.live import described, elsewhere, require_own, target
    from railhead.config.served import unserved
    from railhead.kube import client as kube
    from railhead.kube import nodes
    from railhead.kube.published import find_contract

    cluster = config.load(_file(stack))
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
        against = "the stack's file; no contract is published yet, so devices were not asked for"
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
        found = {"cluster": cluster.name, "against": against, "versions": not_served, "pools": rows}
        typer.echo(json.dumps(found))
        raise typer.Exit(ExitCode.REFUSED if failed else ExitCode.OK)
    typer.echo(f"against {against}:")
    for pool in checked:
        promise = pool.promise
        typer.echo(
            f"pool {promise.pool}: {len(pool.good)} of {promise.nodes} nodes have what is promised"
        )
    nodes.require(cluster.name, checked, also=not_served)


@app.command()
def schema() -> None:
    """Print the JSON Schema of a stack's file, for completion and checks in editors.

    In an editor with the YAML language server, a first line
    `# yaml-language-server: $schema=stack.schema.json` in the stack's file names it.

    Example: [bold]railhead config schema[/bold]
    """
    from railhead.config import use
    from railhead.config.schema import text

    use(_folder())
    typer.echo(text(), nl=False)


def _file(stack: str) -> Path:
    """The file of a stack that is named, or is itself a file.

    Raises:
        NotFoundError: no such stack; lists those there are.
    """
    from railhead.base.errors import NotFoundError, choices

    given = Path(stack)
    if given.is_file() or given.suffix in (".yaml", ".yml") or len(given.parts) > 1:
        return given
    folder = _folder()
    path = folder / f"Pulumi.{stack}.yaml"
    if path.is_file():
        return path
    names = sorted(
        p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in folder.glob("Pulumi.*.yaml")
    )
    raise NotFoundError(
        f"no stack {stack!r} in {folder}{choices(stack, names)}",
        remedy="name one of them, or a stack's file",
    )


def _files() -> list[Path]:
    """Every stack's file.

    Raises:
        NotFoundError: there is none.
    """
    from railhead.base.errors import NotFoundError

    folder = _folder()
    found = sorted(folder.glob("Pulumi.*.yaml"))
    if not found:
        raise NotFoundError(
            f"there is no stack in {folder}", remedy="run it in the project, or name a stack's file"
        )
    return found


def _folder() -> Path:
    """Where stack files are: ``stacks`` of the project that holds the current folder."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "Pulumi.yaml").is_file():
            stacks = folder / "stacks"
            return stacks.relative_to(here) if folder == here else stacks
    return Path("stacks")
