"""`railhead upgrade`: what the installed version changes. Heavy imports are made inside."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from railhead.base.options import Json

#: Operation of the engine -> the word for it; what is not here is a part of one, or no change.
WORDS = {
    "delete": "deleted",
    "replace": "replaced",
    "update": "changed",
    "create": "new",
    "import": "imported",
}
#: What loses an object, and with it what is inside.
LOSING = ("deleted", "replaced")
#: As long as a preview of a large stack takes, many times over.
LIMIT_S = 1800


@dataclass(frozen=True, kw_only=True)
class Change:
    """A resource that an update would not leave as it is. ``fields`` are those that differ."""

    change: str
    kind: str
    name: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        fields = f": {', '.join(self.fields)}" if self.fields else ""
        return f"{self.change:8} {self.kind} {self.name}{fields}"


def upgrade(
    stacks: Annotated[
        list[str] | None,
        typer.Argument(metavar="STACK", help="Stacks' names. Default: all of the project."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what this version of Railhead would change in stacks, before anything is changed.

    Compares each stack's state with what its file makes today, by `pulumi preview`, so it needs the
    stack's backend and credentials. Run it after raising the version in requirements.txt and before
    `pulumi up`; before an edit of the stack's file every change is the upgrade's.

    Exits 0 when objects are added or changed in place at most, 6 when one is deleted or replaced,
    1 when a preview fails, such as on what the edit guard refuses, 4 without `pulumi`.

    Example: [bold]railhead upgrade p5[/bold]
    """
    from railhead.base.errors import ExitCode, PrerequisiteError
    from railhead.base.version import __version__
    from railhead.config.files import stack_file, stack_files, stack_name

    pulumi = shutil.which("pulumi")
    if pulumi is None:
        raise PrerequisiteError("`pulumi` is not installed", remedy="put it on PATH")
    files = [stack_file(name) for name in stacks] if stacks else stack_files()
    code, results = ExitCode.OK, {}
    for file in files:
        changes = list(changes_of(previewed(pulumi, stack_name(file), file.absolute().parents[1])))
        results[stack_name(file)] = [asdict(change) for change in changes]
        if any(change.change in LOSING for change in changes):
            code = ExitCode.REFUSED
        if not as_json:
            typer.echo("\n".join(lines(stack_name(file), changes)))
    if as_json:
        typer.echo(json.dumps({"railhead": __version__, "stacks": results}, indent=1))
    raise typer.Exit(code)


def previewed(pulumi: str, stack: str, project: Path) -> list[dict[str, Any]]:
    """Return the steps of a stack's preview.

    Raises:
        RailheadError: it failed; the error holds the engine's messages.
    """
    from railhead.base.errors import RailheadError

    done = subprocess.run(
        [pulumi, "preview", "--stack", stack, "--json", "--non-interactive"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        document = {}
    if done.returncode or "steps" not in document:
        reported = [
            item["message"].strip()
            for item in document.get("diagnostics", [])
            if item["severity"] == "error"
        ]
        raise RailheadError(
            f"`pulumi preview --stack {stack}` failed:\n"
            + ("\n".join(reported) or done.stderr.strip()[-2000:]),
            remedy="follow the message; nothing was changed",
        )
    steps: list[dict[str, Any]] = document["steps"]
    return [step for step in steps if "::pulumi:pulumi:Stack::" not in step["urn"]]


def changes_of(steps: Sequence[Mapping[str, Any]]) -> Iterator[Change]:
    """Yield what a preview's steps would not leave as it is, the losing ones first."""
    order = list(WORDS)
    changing = [step for step in steps if step["op"] in WORDS]
    for step in sorted(changing, key=lambda step: order.index(step["op"])):
        state = step.get("newState") or step.get("oldState") or {}
        kind = step["urn"].split("::")[2].rsplit("$", 1)[-1]
        metadata = (state.get("inputs") or {}).get("metadata")
        names = metadata if isinstance(metadata, Mapping) else {}
        place = [str(part) for part in (names.get("namespace"), names.get("name")) if part]
        yield Change(
            change=WORDS[step["op"]],
            kind=kind.rpartition(":")[2],
            name="/".join(place) or step["urn"].rsplit("::", 1)[-1],
            fields=_fields(step),
        )


def _fields(step: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the inputs that differ: those that replace the resource, else all."""
    paths = step.get("replaceReasons") if step["op"] == "replace" else None
    paths = paths or list(step.get("detailedDiff") or {}) or step.get("diffReasons") or []
    return tuple(sorted({str(path) for path in paths} - {"__provider"}))


def lines(stack: str, changes: Sequence[Change]) -> Iterator[str]:
    """Yield the report on a stack."""
    from railhead.base.version import __version__

    yield f"{stack}: Railhead {__version__} changes {len(changes)} resources"
    yield from (f"  {change}" for change in changes)
    if changes:
        lost = sum(change.change in LOSING for change in changes)
        yield f"  {lost or 'none'} deleted or replaced" + ("; read each" if lost else "")
        if any(c.kind == "ClusterTrainingRuntime" and c.change == "changed" for c in changes):
            yield "  let TrainJobs of changed runtimes end first, or `railhead restart` each after"
