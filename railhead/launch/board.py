"""The board of `railhead top`: as tables, as JSON, and as one page that loads itself again."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railhead.base.errors import InputError
from railhead.kube import jobs
from railhead.kube.jobs import Phase
from railhead.launch import progress, team
from railhead.launch.console import out, since, table
from railhead.launch.logs import stream

if TYPE_CHECKING:
    from railhead.kube.client import Cluster
    from railhead.kube.jobs import JobState, Node

Row = dict[str, Any]

# Lines of a node's log that are looked at for its progress.
LOOKED_AT = 200
# A node without a line for this long is named; no framework is silent for longer by default.
SILENT_SECONDS = 300
#: A page without new data for this long says so: its command has ended, or sees no cluster.
STALE_SECONDS = 60

_QUEUES = ("QUEUE", "POOL", "GPUS USED", "FREE", "NODES USED", "NODES DOWN")
_RUNNING = ("NAME", "USER", "PHASE", "NODES", "GPUS", "STEP", "LOSS", "RATE", "RESTARTS", "AGE")
_WAITING = ("PLACE", "NAME", "USER", "PHASE", "NODES", "GPUS", "AGE", "WHY")


def read(cluster: Cluster, namespaces: tuple[str, ...], rooms: Sequence[team.Room]) -> Row:
    """Return a team's queues, the jobs that run, and those that wait by their places."""
    states = [state for state in jobs.read_states(cluster, namespaces) if not state.phase.finished]
    return {
        "queues": [room.to_json() for room in rooms],
        "running": [
            job(cluster, state, state.nodes[:1]) for state in states if state.phase is Phase.RUNNING
        ],
        "waiting": team.waiting_of(cluster, states),
    }


def job(cluster: Cluster, state: JobState, nodes: Sequence[Node]) -> Row:
    """Return a job's progress, as these of its nodes print it."""
    now = datetime.now(UTC)
    seen: dict[int, progress.Progress] = {}
    for node in nodes:
        if node.started:
            lines = stream.stamped(cluster, state, node, tail=LOOKED_AT)
            seen[node.index] = progress.read(lines)
    # Rank 0's node is the one that prints, nearly always.
    reported = [item for item in seen.values() if item.step or item.loss or item.rate]
    best = reported[0] if reported else progress.Progress()
    running = state.phase is Phase.RUNNING
    silent = {
        index: item.silent(now)
        for index, item in seen.items()
        if running and item.silent(now) >= SILENT_SECONDS
    }
    whole = running and len(nodes) == len(state.nodes)
    missing = [n for n in range(state.wanted) if n not in seen] if whole else []
    return {
        "name": state.name,
        "user": state.user,
        "queue": state.queue,
        "nodes": state.wanted,
        "gpus": state.gpus,
        "phase": state.phase.value,
        "unit": best.unit,
        "step": best.step,
        "loss": best.loss,
        "rate": best.rate,
        "restarts": state.restarts,
        "age_seconds": state.age(now),
        "silent_seconds": {state.name_of(index): seconds for index, seconds in silent.items()},
        "nodes_without_output": [state.name_of(n) for n in missing],
    }


def show(board: Row, rooms: Sequence[team.Room]) -> None:
    """Print a board as tables."""
    if rooms:
        table(_QUEUES, [room.row() for room in rooms])
        out("")
    show_jobs(board["running"])
    if board["waiting"]:
        out("")
        table(_WAITING, map(_waits, board["waiting"]), folded=("WHY",))


def show_jobs(rows: Sequence[Row]) -> None:
    """Print jobs that run, and which of their nodes are silent."""
    if not rows:
        out("no job runs")
        return
    table(_RUNNING, map(_runs, rows))
    for row in rows:
        for node, seconds in row["silent_seconds"].items():
            out(
                f"{row['name']}: {node} has printed nothing for {since(seconds)}; "
                f"`railhead diagnose --job {row['name']}` looks for a hang"
            )


def page(cluster: str, board: Row, rooms: Sequence[team.Room]) -> str:
    """Return a board as one HTML page that needs nothing else and loads itself again."""
    at = datetime.now(UTC)
    parts = (
        ("Queues", _QUEUES, [room.row() for room in rooms], "no queue of yours"),
        ("Running", _RUNNING, [_runs(row) for row in board["running"]], "no job runs"),
        ("Waiting", _WAITING, [_waits(row) for row in board["waiting"]], "no job waits"),
    )
    return _PAGE.format(
        cluster=html.escape(cluster),
        at=f"{at:%Y-%m-%d %H:%M:%S} UTC",
        stale=STALE_SECONDS * 1000,
        stamp=int(at.timestamp() * 1000),
        parts="\n".join(_part(*part) for part in parts),
    )


def write(file: Path, text: str) -> None:
    """Write a page whole, so that no browser loads half of one.

    Raises:
        InputError: it cannot be written there.
    """
    whole = file.with_name(f".{file.name}.new")
    try:
        whole.write_text(text, encoding="utf-8")
        whole.replace(file)
    except OSError as error:
        raise InputError(
            f"--html {file}: {error.strerror}", remedy="name a file in a folder that you may write"
        ) from error


def _part(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> str:
    if not rows:
        return f"<h2>{title}</h2>\n<p>{none}</p>"
    lines = [_cells("th", columns), *(_cells("td", row) for row in rows)]
    return f"<h2>{title}</h2>\n<table>\n" + "\n".join(lines) + "\n</table>"


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts) + "</tr>"


def _runs(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        row["user"] or "-",
        row["phase"],
        str(row["nodes"]),
        str(row["gpus"]),
        f"{row['unit']} {row['step']}" if row["step"] else "-",
        row["loss"] or "-",
        row["rate"] or "-",
        str(row["restarts"]),
        since(row["age_seconds"]),
    )


def _waits(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(row["place"] or "-"),
        row["name"],
        row["user"] or "-",
        row["phase"],
        str(row["nodes"]),
        str(row["gpus"]),
        since(row["age_seconds"]),
        row["why"],
    )


_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="10">
<title>{cluster}: queues and jobs</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3em .8em .3em 0; border-bottom: 1px solid #8884 }}
td {{ vertical-align: top; overflow-wrap: anywhere }}
#old {{ color: #b00; font-weight: bold }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd }} }}
</style>
<h1>{cluster}</h1>
<p>As of {at}. <span id="old" hidden>Nothing is newer: does `railhead top` run?</span></p>
{parts}
<script>if (Date.now() - {stamp} > {stale}) document.getElementById("old").hidden = false</script>
</html>
"""
