"""The output of a check's job, node by node, and its machines as the API server has them."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railhead.accept import remedies
from railhead.accept.model import Model

if TYPE_CHECKING:
    from railhead.accept.site import Testbed

PROGRAMS = Path(__file__).resolve().parent
# Other lines of a program that are kept, to find out why it ended.
LAST_LINES = 8


class UnprovenError(Exception):
    """The evidence does not bear a verdict; the text says why, ``remedy`` what to do if known."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy


class Gathered(Model):
    """One job's whole story.

    ``machines`` and ``lines`` are by the pod's index, the latter without the program's mark;
    ``other_lines`` are the last other lines of each. ``seconds`` is what this side waited for it.
    """

    command: tuple[str, ...]
    asked: int
    phase: str
    detail: str
    seconds: float
    restarts: int
    machines: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    other_lines: tuple[tuple[str, ...], ...] = ()


def gather(
    site: Testbed,
    stem: str,
    *,
    nodes: int,
    command: Sequence[str],
    files: Sequence[str],
    mark: str,
    **fields: Any,
) -> Gathered:
    """Run a job of the programs of this package to its end.

    Args:
        site: the cluster.
        stem: of the job's name.
        nodes: machines.
        command: the program and its arguments.
        files: of this package, such as ``programs/scaling.py``; they lie in /workspace.
        mark: what the program's own lines begin with.
        fields: of a job file.

    Raises:
        RailheadError: it was refused, did not end in time, or its logs could not be read.
    """
    prefix = re.compile(site.facts.runtime.process_prefix or r"(?!)")
    with site.job(
        stem, nodes=nodes, command=list(command), folder=PROGRAMS, files=list(files), **fields
    ) as run:
        begin = time.monotonic()
        state = run.wait(timeout=site.timeout)
        lines: dict[int, list[str]] = {node.index: [] for node in state.nodes}
        other_lines: dict[int, list[str]] = {node.index: [] for node in state.nodes}
        for line in run.logs():
            text = prefix.sub("", line.text, count=1)
            if text.startswith(mark):
                lines.setdefault(line.node, []).append(text[len(mark) :])
            else:
                other_lines.setdefault(line.node, []).append(line.text[:300])
        state = run.state()
        indices = range(max(lines, default=-1) + 1)
        machine = {node.index: node.machine for node in state.nodes}
        return Gathered(
            command=tuple(command),
            asked=nodes,
            phase=state.phase.value,
            detail=state.detail,
            seconds=time.monotonic() - begin,
            restarts=state.restarts,
            machines=tuple(machine.get(index, "") for index in indices),
            lines=tuple(tuple(lines.get(index, ())) for index in indices),
            other_lines=tuple(tuple(other_lines.get(index, ())[-LAST_LINES:]) for index in indices),
        )


def read(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return a program's lines as the objects that they are.

    Raises:
        ValueError: a line is not JSON, as where a log was cut off.
    """
    results = []
    for line in lines:
        value = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError(f"not an object: {line[:60]}")
        results.append(value)
    return results


def spoken(gathered: Gathered, index: int) -> list[dict[str, Any]]:
    """Return one pod's lines, as :func:`read` reads them.

    Raises:
        UnprovenError: they cannot be read.
    """
    try:
        return read(gathered.lines[index])
    except ValueError:
        machine = gathered.machines[index]
        why = f"the output of {machine} cannot be read"
        raise UnprovenError(why, remedies.CUT_OFF) from None


def must_be_whole(gathered: Gathered, real: Sequence[str], command: Sequence[str]) -> None:
    """Refuse a job that did not run once on every real node, or that ran with other words.

    Raises:
        UnprovenError: what is missing.
    """
    if missing := _missing(gathered, real):
        raise UnprovenError(missing)
    if list(gathered.command) != list(command):
        raise UnprovenError("it was run with other words than these facts ask for")


def _missing(gathered: Gathered, real: Sequence[str]) -> str:
    if gathered.phase != "completed":
        why = f" ({gathered.detail})" if gathered.detail else ""
        return f"its job is {gathered.phase}, not completed{why}"
    if gathered.restarts:
        return f"its job was started again {gathered.restarts} times"
    if gathered.asked != len(real) or sorted(gathered.machines) != sorted(real):
        absent = sorted(set(real) - set(gathered.machines))
        return f"it ran on {len(set(gathered.machines) - {''})} of {len(real)} nodes" + (
            f", not on {', '.join(absent[:5])}" if absent else ""
        )
    if len(gathered.lines) != gathered.asked:
        return f"{len(gathered.lines)} of {gathered.asked} pods wrote a log"
    return ""
