"""GPU hours of jobs, and how many of them restarts and evictions took, from what is recorded.

Kueue has how long a job was admitted, JobSet how often it was restarted. From which step a job went
on, only its output says: what it printed at a step twice, it did twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from railhead.launch import progress
from railhead.launch.console import since
from railhead.launch.logs import kept, stream

if TYPE_CHECKING:
    from railhead.contract import ClusterContract
    from railhead.kube.client import Cluster
    from railhead.kube.jobs import JobState

# Of the log of the pod that runs: enough to find its first step.
HEAD_BYTES = 4 << 20
Lines = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Use:
    """The GPU hours of one job, or of several, and what was lost of them.

    Attributes:
        by: whose it is, as the table has it.
        jobs: their number.
        user: of one job, who submitted it.
        queue: of one job, its namespace and queue.
        phase: of one job, its phase.
        restarts: times that a gang was recreated or put back into its queue.
        queued: seconds without an admission; None if Kueue has no record of any.
        gpu_hours: its GPUs times how long it was admitted; None if Kueue has no record of any.
        lost: of these, what restarts took.
        at_most: whether less may have been lost.
    """

    by: str
    jobs: int = 1
    user: str = ""
    queue: str = ""
    phase: str = ""
    restarts: int
    queued: int | None
    gpu_hours: float | None
    lost: float
    at_most: bool

    @property
    def goodput(self) -> float | None:
        """The share of its GPU hours that no restart took; None without any."""
        return 1 - self.lost / self.gpu_hours if self.gpu_hours else None

    def row(self, by: str) -> tuple[str, ...]:
        """Return the row of the table, whose columns are those of :func:`columns`."""
        own = (self.user, self.queue) if by == "job" else (str(self.jobs),)
        share = "" if self.goodput is None else f"{self.goodput:.0%}"
        return (
            self.by or "-",
            *(item or "-" for item in own),
            "-" if self.queued is None else since(self.queued),
            "-" if self.gpu_hours is None else f"{self.gpu_hours:.1f}",
            str(self.restarts),
            f"<= {self.lost:.1f}" if self.at_most else f"{self.lost:.1f}",
            (f">= {share}" if share and self.at_most else share) or "-",
        )

    def to_json(self, by: str) -> dict[str, Any]:
        """Return the object that ``--json`` prints, its key named as ``--hours`` has it."""
        own = {"user": self.user, "queue": self.queue, "phase": self.phase} if by == "job" else {}
        return own | {
            by: self.by,
            "jobs": self.jobs,
            "restarts": self.restarts,
            "queued_seconds": self.queued,
            "gpu_hours": None if self.gpu_hours is None else round(self.gpu_hours, 2),
            "lost_gpu_hours": round(self.lost, 2),
            "lost_at_most": self.at_most,
            "goodput": None if self.goodput is None else round(self.goodput, 3),
        }


def columns(by: str) -> tuple[str, ...]:
    """Return the headings of the table."""
    own = ("USER", "QUEUE") if by == "job" else ("JOBS",)
    return (by.upper(), *own, "QUEUED", "GPU HOURS", "RESTARTS", "LOST", "GOODPUT")


def keys(contract: ClusterContract | None) -> Mapping[str, Callable[[JobState], str]]:
    """Return what ``--hours`` adds up by -> the key of a job."""
    teams = {(q.namespace, q.name): q.team for q in contract.queues} if contract else {}
    return {
        "job": lambda state: f"{state.namespace}/{state.name}",
        "user": lambda state: state.user,
        "queue": lambda state: f"{state.namespace}/{state.queue}",
        "team": lambda state: teams.get((state.namespace, state.queue)) or "",
    }


def use_of(cluster: Cluster, state: JobState) -> Use:
    """Return what one job used; the logs kept on this machine are read if it was restarted."""
    again = state.restarts + state.evictions
    lost, at_most = 0, False
    if again:
        steps = _by_steps(cluster, state)
        lost, at_most = (state.before, True) if steps is None else (min(steps, state.held), False)
    return Use(
        by=state.name,
        user=state.user,
        queue=f"{state.namespace}/{state.queue}",
        phase=state.phase.value,
        restarts=again,
        queued=state.queued,
        gpu_hours=None if state.queued is None else state.held * state.gpus / 3600,
        lost=lost * state.gpus / 3600,
        at_most=at_most,
    )


def total(uses: Iterable[Use], by: str) -> Use:
    """Return what several used together."""
    several = list(uses)
    queued = [use.queued for use in several if use.queued is not None]
    hours = [use.gpu_hours for use in several if use.gpu_hours is not None]
    return Use(
        by=by,
        jobs=sum(use.jobs for use in several),
        restarts=sum(use.restarts for use in several),
        queued=sum(queued) if queued else None,
        gpu_hours=sum(hours) if hours else None,
        lost=sum(use.lost for use in several),
        at_most=any(use.at_most for use in several),
    )


def _by_steps(cluster: Cluster, state: JobState) -> int | None:
    """Return the seconds that a job lost, by what its first node printed; None if not all is here.

    Its earlier starts are what this machine kept; the present one's beginning may be its pod's.
    """
    starts = kept.folder_to_read(state.namespace, state.name, state.uid).starts(0)
    for node in state.nodes[:1]:
        if starts and node.started and (node.uid, node.restarts) not in starts:
            head = stream.stamped(cluster, state, node, most_bytes=HEAD_BYTES)
            starts[node.uid, node.restarts] = [
                (at, text) for at, _, text in (line.partition(" ") for line in head)
            ]
    ordered = sorted((lines for lines in starts.values() if lines), key=lambda lines: lines[0])
    if len(ordered) < state.restarts + state.evictions + 1:
        return None
    return lost_seconds(ordered, queued_between=bool(state.evictions))


def lost_seconds(starts: Sequence[Lines], *, queued_between: bool = False) -> int | None:
    """Return the seconds from the first time at a step to the last, over all steps done twice.

    So a restart costs the work since the checkpoint, the time without the gang, and the start of
    the next. None if the last start is at no step yet.

    Args:
        starts: (timestamp, text) lines of each start of one node, oldest first.
        queued_between: whether the time between starts is left out: without quota, it cost none.
    """
    printed = [progress.steps(lines) for lines in starts]
    kinds = [kind for rows in printed for _, kind, _ in rows]
    # A training loop prints its steps more often than anything else prints others.
    most = max(kinds, key=kinds.count, default="")
    clocks = [timedelta(0)]
    for earlier, later in pairwise(starts):
        end, begin = progress.when(earlier[-1][0]), progress.when(later[0][0])
        clocks.append(clocks[-1] + (begin - end if queued_between and begin and end else clocks[0]))
    rows = [
        [(at - clock, number) for at, kind, number in each if kind == most]
        for each, clock in zip(printed, clocks, strict=True)
    ]
    if not rows or not rows[-1]:
        return None
    lost, begin = timedelta(0), progress.when(starts[0][0][0])
    counts = rows[0]
    for each in rows[1:]:
        if not each:
            continue
        at, first = each[0]
        twice = [row for row in counts if row[1] >= first]
        reached = twice[0][0] if twice else counts[-1][0] if counts else begin
        lost += at - reached if reached else timedelta(0)
        counts = [row for row in counts if row[1] < first] + each
    return max(0, int(lost.total_seconds()))
