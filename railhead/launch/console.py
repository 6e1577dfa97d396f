"""Helpers of the commands on jobs: printing, and finding the cluster and the namespaces."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from railhead.kube.client import Cluster
    from railhead.kube.jobs import JobState
    from railhead.launch.logs.stream import Line

JobName = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.")]
JobNames = Annotated[
    list[str],
    typer.Argument(metavar="NAME", help="The jobs' names, or patterns such as 'sweep-*'."),
]
Image = Annotated[str | None, typer.Option("--image", metavar="IMAGE", help="Else the runtime's.")]
Queue = Annotated[
    str | None, typer.Option("--queue", metavar="NAME", help="Else the first of the pool.")
]
Files = Annotated[
    list[str] | None,
    typer.Option("--files", metavar="PATH", help="A file or folder for /workspace. Repeatable."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Any other field of a job file. Repeatable."),
]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Print every value with where it comes from; create nothing."),
]


def say(text: str) -> None:
    """Print a line for people on standard error; standard output is for results."""
    typer.echo(text, err=True)


def out(text: str) -> None:
    """Print a result on standard output."""
    typer.echo(text)


def dump(value: Any) -> None:
    """Print a result as JSON on standard output."""
    out(json.dumps(value, indent=1, sort_keys=True))


def print_objects(objects: list[dict[str, Any]], *, as_json: bool) -> None:
    """Print objects as YAML, or as JSON, on standard output."""
    if as_json:
        dump(objects)
        return
    import yaml

    out(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True).rstrip())


# Rows of a table where no terminal says how wide it is; of a column whose text may wrap, at least.
WIDTH, NARROW = 160, 16


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    folded: Sequence[str] = (),
    styles: Sequence[str | None] = (),
) -> None:
    """Print a table on standard output: plain text, nothing in it is taken for markup.

    Only text that may wrap gives way to a narrow terminal, so that no number lacks its end.

    Args:
        columns: the headings.
        rows: one text for each column.
        folded: columns whose text may wrap.
        styles: the style of each row.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    every = [tuple(columns), *map(tuple, rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*every, strict=True)]
    least = [
        min(width, NARROW) if column in folded else width
        for column, width in zip(columns, widths, strict=True)
    ]
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, no_wrap=column not in folded, overflow="fold")
    for number, row in enumerate(every[1:]):
        style = styles[number] if number < len(styles) else None
        made.add_row(*map(escape, row), style=style)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    # Two columns have two blanks between them.
    console.width = max(console.width, sum(least) + 2 * len(least))
    console.print(made)


def connected(
    kubeconfig: Path | None, context: str | None, lab: str | None
) -> AbstractContextManager[Cluster]:
    """Return the cluster that the options mean; closed at the end."""
    from railhead.kube.client import opened

    return opened(kubeconfig, context, lab)


def namespaces_of(cluster: Cluster, namespace: str | None) -> tuple[str, ...]:
    """Return the namespace that is named, or all of the cluster's."""
    from railhead.kube.published import namespaces

    return namespaces(cluster, namespace)


def found(
    cluster: Cluster, namespaces: tuple[str, ...], name: str
) -> tuple[dict[str, Any], JobState]:
    """Return the job of that name and its state; raises NotFoundError if it does not exist."""
    from railhead.kube import jobs

    job = jobs.find_job(cluster, namespaces, name)
    return job, jobs.read_state(cluster, job)


def since(seconds: int) -> str:
    """Return a duration in its largest sensible unit, such as ``12m``."""
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172800 else f"{seconds // 86400}d"


class ConsoleProgress:
    """One line a change of phase; on a terminal also a live line while nothing changes.

    Of several jobs, which have no ``name`` together, each line has its own, and none is live.
    """

    def __init__(self, *, name: str = "", text: Callable[[Line], str] = str) -> None:
        self._name = name
        self._text = text
        self._begin = time.monotonic()
        self._spoken = self._begin
        self._last: dict[str, tuple[str, str]] = {}
        self._terminal = bool(name) and sys.stderr.isatty()
        self._live: Any = None

    def changed(self, state: JobState) -> None:
        """Show a state if it is news, or if nothing was said for 15 s."""
        now = time.monotonic()
        key = (state.phase.value, state.detail)
        last = self._last.get(state.uid)
        if key != last or (not self._terminal and now - self._spoken > 15):
            detail = f": {state.detail}" if state.detail else ""
            whose = "" if self._name else f"{state.name} "
            self._clear()
            say(f"{now - self._begin:6.1f}s  {whose}{state.phase.value}{detail}")
            self._spoken = now
            self._last[state.uid] = key
        if self._terminal:
            self._spin(state)

    def _spin(self, state: JobState) -> None:
        if state.phase.finished or state.phase.value == "running":
            self._clear()
            return
        if self._live is None:
            from rich.console import Console

            self._live = Console(stderr=True).status("")
            self._live.start()
        waited = int(time.monotonic() - self._begin)
        self._live.update(f"{self._name}: {state.phase.value}, {waited} s")

    def line(self, line: Line) -> None:
        """Show a log line, on standard output."""
        self._clear()
        out(self._text(line))

    def _clear(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        """Take the live line away."""
        self._clear()
