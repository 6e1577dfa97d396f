"""Finds the rank that failed first and its error, or the rank that is silent while a job hangs.

It reads the pods' states and the last lines of their logs, so no script has to be changed. This is
a first guess, not a proof: `railhead diagnose` looks for the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from railhead.kube import client as kube
from railhead.kube.jobs import OUT_OF_MEMORY, JobState, Node
from railhead.launch import progress
from railhead.launch.logs import stream

# Lines of a node's log that are looked at, and nodes of a gang whose log is read for a failure.
LOOKED_AT = 400
MOST_NODES = 16

#: What says why a process died, the plainest first.
_CAUSES = tuple(
    re.compile(pattern)
    for pattern in (
        # What `verify` stopped, in its program's words (programs/verify.py).
        r"^railhead verify: stopped",
        # The last line of a Python traceback: an exception's name and its text.
        r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)",
        r"CUDA out of memory|CUDA error|cuda runtime error|Xid|uncorrectable ECC",
        r"^Segmentation fault|^Bus error|^Killed|^Aborted|core dumped|terminate called after",
        r"NCCL WARN|ncclSystemError|ncclInternalError|ncclRemoteError|Watchdog caught collective",
        r"^(?:\S+ )?(?:FATAL|CRITICAL|ERROR|Error|error|fatal)\b[: ]",
    )
)
#: What a process says because another one died: told only where nobody says more.
_ECHOES = re.compile(
    r"ChildFailedError|SignalException|SIGTERM|Connection (?:reset|closed|refused)|Broken pipe"
    r"|closed by peer|[Rr]emote process exited|RendezvousConnectionError|RendezvousClosedError"
    r"|DistNetworkError|peer .* (?:gone|lost)"
)
# What a machine may do to a process; exit 128 is containerd's StartError.
_OF_A_MACHINE = re.compile(
    r"CUDA error|Xid|uncorrectable ECC|NVLink error|exited 128 \(|ncclSystemError"
)
# kubernetes.io, "Define Environment Variables for a Container": they override those of the image.
_NO_MODULE = (
    "  a runtime's PYTHONPATH replaces the image's own: if the module is found by that, name it in "
    "the job's `env`, as PYTHONPATH"
)
# torch.distributed.elastic.multiprocessing.errors, ChildFailedError.format_msg: its root cause.
_ROOT = re.compile(r"^\s*rank\s*:\s*(\d+) \(local_rank: (\d+)\)")


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The first process that failed.

    Attributes:
        node: its node's index.
        rank: its own; None where only the node is known.
        machine: where it ran.
        exit: how its container ended.
        line: what it said; empty where its log says nothing.
        at: when it said so, RFC 3339.
        job: the job's name.
        name: the node's name.
    """

    node: int
    rank: int | None
    machine: str
    exit: str
    line: str
    at: str
    job: str
    name: str

    def lines(self) -> list[str]:
        """Return the failure, and what to change if a machine or a variable may be its cause."""
        if self.line.startswith("ModuleNotFoundError"):
            return [self.text(), _NO_MODULE]
        if not self.machine or not _OF_A_MACHINE.search(f"{self.line} {self.exit}"):
            return [self.text()]
        again = f"`railhead restart {self.job} --avoid {self.machine}` runs it on other machines"
        return [self.text(), f"  {again}"]

    def text(self) -> str:
        """Return the failure in one line."""
        who = f"rank {self.rank} on {self.name}" if self.rank is not None else ""
        who = who or f"a process of {self.name}"
        where = f" ({self.machine})" if self.machine else ""
        message = f": {self.line}" if self.line else f": {self.exit}" if self.exit else ""
        return f"first to fail: {who}{where}{message}"

    def to_json(self) -> dict[str, Any]:
        """Return the failure as ``--json`` prints it."""
        return {
            "node": self.node,
            "rank": self.rank,
            "machine": self.machine,
            "exit": self.exit,
            "line": self.line,
            "at": self.at,
        }


@dataclass(frozen=True, kw_only=True)
class Silence:
    """A running job that says nothing, or nothing new.

    Attributes:
        node: the node that fell silent first; the one without any output where there is one.
        ranks: its ranks, or the one of them that is known to have fallen silent.
        seconds: since its last line; None where it never wrote one.
        others: seconds since the newest line of any node.
        step: the step at which the job stands, where lines come but no step does.
        name: the node's name.
    """

    node: int
    ranks: tuple[int, ...]
    seconds: int | None
    others: int
    name: str
    step: str = ""

    def text(self) -> str:
        """Return the silence in one line."""
        from railhead.launch.console import since

        if self.step:
            return (
                f"no progress: at step {self.step} for {since(self.seconds or 0)}, though lines "
                "come"
            )
        first, last = min(self.ranks), max(self.ranks)
        who = f"rank {first}" if first == last else f"ranks {first}-{last}"
        wrote = "has printed nothing at all" if self.seconds is None else "has been silent for "
        wrote += since(self.seconds) if self.seconds is not None else ""
        return (
            f"it may hang: {self.name} ({who}) {wrote}; the newest line of any node is "
            f"{since(self.others)} old"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the silence as ``--json`` prints it."""
        return {
            "node": self.node,
            "ranks": list(self.ranks),
            "silent_seconds": self.seconds,
            "newest_line_seconds": self.others,
            "step": self.step,
        }


def tails_of(cluster: kube.Cluster, state: JobState, nodes: Sequence[Node]) -> dict[int, list[str]]:
    """Return the last lines of each node, timestamps first; nodes at the same time."""
    with ThreadPoolExecutor(max_workers=stream.READERS) as pool:
        read = pool.map(lambda n: stream.stamped(cluster, state, n, tail=LOOKED_AT), nodes)
        return {node.index: lines for node, lines in zip(nodes, read, strict=True)}


def first_failure(
    cluster: kube.Cluster, state: JobState, *, prefix: str | None = None
) -> Failure | None:
    """Return the first rank that failed, and its line; None where no pod of it is left.

    Args:
        cluster: where it is.
        state: the job's.
        prefix: what starts each process' lines, as
            :class:`~railhead.launch.logs.stream.Selection` has it.
    """
    bad = [node for node in state.nodes if node.ended and node.reason]
    if not bad:
        return None
    # Who ended first is who failed, as far as the kubelets' clocks (whole seconds) can tell.
    bad.sort(key=lambda node: (node.finished or "~", node.index))
    tails = tails_of(cluster, state, [node for node in bad[:MOST_NODES] if node.started])
    results: dict[tuple[bool, str, int], Failure] = {}
    for node in bad[:MOST_NODES]:
        item = _blamed(node, tails.get(node.index, []), state, prefix)
        echo = not item.line or bool(_ECHOES.search(item.line))
        results[echo, item.at or "~", node.index] = item
    # A line that is no echo of another's death beats one that is; then the earliest.
    return results[min(results)]


def _blamed(node: Node, lines: Sequence[str], state: JobState, prefix: str | None) -> Failure:
    """Return a node's failure by its own log: the first clear cause in its last lines."""
    results: dict[tuple[bool, int, int], tuple[str, str, int | None]] = {}
    root: int | None = None
    mine = state.ranks_of(node.index)
    for number, raw in enumerate(lines):
        stamp, _, text = raw.partition(" ")
        local: int | None = None
        if prefix and (started := re.match(prefix, text)):
            local, text = int(started[1]), text[started.end() :].lstrip(": ")
        if named := _ROOT.match(text):
            root = int(named[1])
        for weight, cause in enumerate(_CAUSES):
            if cause.search(text):
                echo = bool(_ECHOES.search(text))
                results[echo, weight, number] = (stamp, text.strip(), local)
                break
    stamp, text, local = results[min(results)] if results else ("", "", None)
    if node.reason.startswith(OUT_OF_MEMORY):
        # The kernel ends all processes of a container at once, and leaves no line in its log.
        ranks = f"ranks {mine[0]}-{mine[-1]}"
        stamp, text, local = node.finished, f"{node.reason}, with {ranks}", None
    rank = root
    if local is not None and local < len(mine):
        rank = mine[local]
    elif rank is None and len(mine) == 1:
        rank = mine[0]
    return Failure(
        node=node.index,
        name=node.name,
        rank=rank,
        machine=node.machine,
        exit=node.reason,
        line=text[:400],
        at=stamp,
        job=state.name,
    )


def silence(
    state: JobState,
    tails: Mapping[int, Sequence[str]],
    now: datetime,
    *,
    limit: int,
    prefix: str | None = None,
) -> Silence | None:
    """Return who fell silent in a running job, or that its steps stand still; None if all is well.

    Args:
        state: the state of the job.
        tails: the last lines of each node that started, from :func:`tails_of`.
        now: the time by the cluster's clocks.
        limit: seconds of silence that are too long.
        prefix: as for :func:`first_failure`.
    """
    # Of this attempt: the one before it, whose node may have been lost, is over.
    running = min([state.age(now), *(node.runs(now) for node in state.nodes if node.since)])
    if running < limit:
        return None
    seen = {index: progress.read(lines) for index, lines in tails.items()}
    wrote = {index: entry.silent(now) for index, entry in seen.items() if entry.last is not None}
    newest = min(wrote.values(), default=running)
    mute = [node.index for node in state.nodes if node.started and node.index not in wrote]
    # Many scripts print on one node alone: nothing is wrong while that one prints.
    if newest < limit:
        return _standing(state, seen, now, limit, newest)
    index = mute[0] if mute else max(wrote, key=lambda item: (wrote[item], -item), default=0)
    ranks = tuple(state.ranks_of(index))
    if not mute and (local := _quietest(tails.get(index, []), prefix, len(ranks))) is not None:
        ranks = (ranks[local],)
    name = state.name_of(index)
    return Silence(node=index, name=name, ranks=ranks, seconds=wrote.get(index), others=newest)


def _standing(
    state: JobState, seen: dict[int, progress.Progress], now: datetime, limit: int, newest: int
) -> Silence | None:
    """Return the silence of a job whose lines come while its step is the same for too long."""
    reported = {
        index: entry for index, entry in seen.items() if entry.unit == "step" and entry.moved
    }
    if not reported:
        return None
    index = min(reported, key=lambda item: reported[item].still(now))
    seconds = reported[index].still(now)
    if seconds < limit or _done(reported[index].step):
        return None
    return Silence(
        node=index,
        name=state.name_of(index),
        ranks=(index,),
        seconds=seconds,
        others=newest,
        step=reported[index].step,
    )


def _done(step: str) -> bool:
    """Return the last step: what comes after it prints no other."""
    at, _, of = step.partition("/")
    return bool(of) and at == of


def _quietest(lines: Iterable[str], prefix: str | None, each: int) -> int | None:
    """Return the process of a node whose last line is the oldest; None unless each printed."""
    last: dict[int, str] = {}
    for raw in lines:
        stamp, _, text = raw.partition(" ")
        if prefix and (started := re.match(prefix, text)):
            last[int(started[1])] = stamp
    if len(last) < each or len(set(last.values())) == 1:
        return None
    return min(last, key=lambda local: (last[local], local))
