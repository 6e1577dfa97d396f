"""`railhead rehearse`: a stack's whole life on a twin of its cluster, before it is paid for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railhead.base.errors import ExitCode, InputError, PrerequisiteError
from railhead.base.options import Json, Stack

if TYPE_CHECKING:
    from railhead.model.cluster import Cluster
    from railhead.twin.steps import Outcome, Step

#: Platforms whose nodes and refusals are rows of truth.
_TWINS = ("aws", "existing", "gcp")
_KEPT = "the twin is kept; look around with"


def rehearse(
    stack: Stack,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="STEP",
            help="Only steps whose names begin so, such as job or edit:nodes-up; `up` in any case. "
            "Repeatable.",
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=512, help="Nodes in the first pool.")
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave the twin running until Enter, to look around."),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FOLDER",
            help="Write report.html, report.json and junit.xml there.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Rehearse a stack: `up`, jobs, edits, `destroy`, on a twin of its cluster on this machine.

    No credentials, GPU, cloud or Docker: nodes are simulated as they are on this platform, Kueue,
    JobSet, Trainer, NFD, the SR-IOV operator and Kubernetes are real, and the cloud's answers are
    rows with sources. The operators are built first, once, in minutes.

    Example: [bold]railhead rehearse onprem-roce-shared[/bold]

    Exits 0 when every step passed, 1 when one failed, 3 for a mistake in the stack's file, 4 when
    the programs are not built (`railhead lab build`), 7 when the twin itself does not start.
    """
    import tempfile

    from rich.console import Console

    from railhead.config import parse
    from railhead.config.files import stack_file, stack_name
    from railhead.lab.artifacts import twin_operators
    from railhead.lab.planning import checkout_of
    from railhead.twin import report as reports
    from railhead.twin.plane import core_programs
    from railhead.twin.program import DESTROY, NEEDED, Program, names
    from railhead.twin.steps import Rehearsal
    from railhead.twin.twin import twin

    file = stack_file(stack)
    name = stack_name(file)
    with tempfile.TemporaryDirectory(prefix="railhead-rehearse-") as folder:
        file, section = _prepared(file, Path(folder) / "stacks", nodes)
        cluster = parse(section, where=file.name)
        _can(cluster)
        # What may be wrong is said before anything is built, which takes minutes.
        _known(names(cluster), only or ())
        core_programs()
        twin_operators.ensure(Console(stderr=True))
        screen = _Screen(name)
        with (
            screen,
            twin(
                Path(folder) / "twin",
                stack=name,
                file=file,
                checkout=checkout_of(stack_file(stack)),
                cluster=cluster,
            ) as made,
        ):
            program = Program(made, progress=screen.progress)
            rehearsal = Rehearsal(
                name,
                begins=screen.begins,
                ended=screen.ended,
                always=frozenset({DESTROY}),
                needed=NEEDED,
                aside=made.loop.troubles,
            )
            steps = list(program.steps())
            rehearsal.run([s for s in steps if not (keep and s.name == DESTROY)], only or ())
            memory = made.mebibytes()
            if keep:
                screen.stop()
                _wait(made.plane.kubeconfig)
    outcomes, platform = rehearsal.outcomes, cluster.platform.kind
    open_ = reports.unknown(platform)
    whole = reports.to_json(name, outcomes, open_, memory)
    if report is not None:
        reports.write(report, "report.json", reports.dump(whole) + "\n")
        reports.write(report, "junit.xml", reports.junit(name, outcomes))
        reports.write(report, "report.html", reports.page(name, outcomes, open_))
    if as_json:
        typer.echo(reports.dump(whole))
    else:
        _show(name, outcomes, [row.text for row in open_], memory)
    if rehearsal.failed:
        raise typer.Exit(ExitCode.FAILED)


def _prepared(file: Path, folder: Path, nodes: int | None) -> tuple[Path, dict[str, Any]]:
    """Return a copy of a stack's file with so many nodes in its first pool, and its section."""
    import yaml

    from railhead.base.reading import read_bytes, read_text
    from railhead.config import KEY, PROJECT, load

    load(file)
    data = yaml.safe_load(read_text(file))
    section: dict[str, Any] = data["config"][f"{PROJECT}:{KEY}"]
    if nodes is not None:
        section["pools"][0]["nodes"] = nodes
    folder.mkdir()
    copy = folder / file.name
    copy.write_text(yaml.safe_dump(data, sort_keys=False))
    for beside in file.parent.glob("*.yaml"):
        named = beside.name != file.name and not beside.name.startswith("Pulumi.")
        if named and beside.is_file():
            (folder / beside.name).write_bytes(read_bytes(beside))
    return copy, section


def _can(cluster: Cluster) -> None:
    """Refuse what has no twin.

    Raises:
        InputError: the stack is the lab's.
        PrerequisiteError: it needs a controller that is not in a twin.
    """
    if cluster.platform.kind == "lab":
        raise InputError(
            "the lab's stack has a real cluster on this machine, and no twin",
            remedy="`railhead lab up`, then `pulumi up -s lab`",
        )
    if cluster.platform.kind not in _TWINS:
        raise PrerequisiteError(
            f"platform {cluster.platform.kind} has no twin yet; these have: {', '.join(_TWINS)}",
            remedy="`railhead plan` shows what the stack would make",
        )
    if cluster.queueing.scheduler != "kueue":
        raise PrerequisiteError(
            f"the scheduler {cluster.queueing.scheduler} is not in a twin yet",
            remedy="rehearse the stack with Kueue, or try it in a lab (docs/lab.md)",
        )
    gpus = cluster.gpu_operator
    if cluster.fabric.attachment == "claim" or (
        gpus is not None and (gpus.allocation == "dra" or gpus.compute_domains)
    ):
        raise PrerequisiteError(
            "devices by ResourceClaim are not in a twin yet: no driver publishes any there, and "
            "every job would wait",
            remedy="`railhead plan` shows what the stack would make; rehearse it without them",
        )


def _known(names: list[str], only: list[str] | tuple[str, ...]) -> None:
    for wanted in only:
        if not any(name.startswith(wanted) for name in names):
            raise InputError(
                f"no step begins with {wanted!r}; there are: {', '.join(names)}",
                remedy="correct --only",
            )


def _wait(kubeconfig: Path) -> None:
    typer.echo(f"{_KEPT} `kubectl --kubeconfig {kubeconfig}`; Enter ends it", err=True)
    sys.stdin.readline()


def _show(name: str, outcomes: list[Outcome], open_: list[str], memory: int) -> None:
    from rich.console import Console

    from railhead.twin import report as reports

    console = Console()
    console.print(reports.table(name, outcomes))
    seconds = sum(outcome.seconds for outcome in outcomes)
    console.print(f"{seconds:.0f} s, {memory} MiB\n\nWhat the twin cannot know:")
    for text in open_:
        console.print(f"- {text}", markup=False, soft_wrap=True)


class _Screen:
    """Progress on standard error: one line that changes, or a line a step without a terminal."""

    def __init__(self, name: str) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._status = self._console.status(f"{name}: starting the twin")
        self._does = ""

    def __enter__(self) -> _Screen:
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the line."""
        self._status.stop()

    def begins(self, step: Step) -> None:
        """Show what goes on."""
        self._does = step.does
        self._status.update(step.does)

    def progress(self, text: str) -> None:
        """Show how far it is."""
        self._status.update(f"{self._does}: {text}")

    def ended(self, outcome: Outcome) -> None:
        """Leave a line of what became of a step."""
        line = f"{outcome.verdict:8}{outcome.seconds:6.1f} s  {outcome.name}"
        self._console.print(line, markup=False, highlight=False)


def register(root: typer.Typer) -> None:
    """Add the command to the root application."""
    root.command()(rehearse)
