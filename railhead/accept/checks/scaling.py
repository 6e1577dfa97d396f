"""Scaling is near linear: one training step on 1, 2, 4, ... nodes, and where its time goes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from railhead.accept import remedies
from railhead.accept.check import CheckPlan
from railhead.accept.gathered import Gathered, UnprovenError, gather, must_be_whole, spoken
from railhead.accept.model import Axis, Evidence, LinePlot, Measured, Result, Series, Verdict
from railhead.accept.site import Facts, Testbed
from railhead.catalog.acceptance import SCALING_EFFICIENCY

NAME = "scaling"
PROMISE = "Training scales nearly linearly with nodes."
MARK = "scaling: "
# Two clocks of a process, or the times of two processes for one step in common.
CLOCKS = 0.25
SLACK_SECONDS = 0.1
# A step with its sum takes at least this much of the same without: below it a clock lies.
LEAST_OF_COMPUTE = 0.7
# More than this is no scaling, but a baseline that was disturbed.
MOST_EFFICIENCY = 1.1
# What the sum alone takes, with this much more beside the step's other work.
SUM_MARGIN = 1.25
# A drop counts as explained where the parts leave less of it, or of the step, than this.
UNEXPLAINED_OF_DROP, UNEXPLAINED_OF_STEP = 0.3, 0.03
CONFIDENCE = 0.05
# Student's t, 97.5 %, by degrees of freedom (any table of it).
_T = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
    10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110,
    18: 2.101, 19: 2.093, 20: 2.086, 25: 2.060, 30: 2.042,
}  # fmt: skip
_CAUSES = {
    "compute": (
        "each node computes slower when all compute",
        "look at what nodes share: power, cooling, the host under them, cores",
    ),
    "straggler": (
        "all wait for the slowest",
        "run `railhead accept --only slow-nodes`, and look for what disturbs single nodes",
    ),
    "data": (
        "steps wait for their batches",
        "look at the hosts' memory and cores, which prepare the batches",
    ),
    "communication": (
        "the sum over the nodes is not hidden behind computing",
        "run `railhead accept --only rdma`: its figures say what the network gives",
    ),
}

Rows = dict[tuple[str, int], dict[int, list[dict[str, Any]]]]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The sizes and repeats of a run, from facts alone."""

    backend: str
    nodes: int
    processes: int
    repeats: int
    steps: int
    batch: int
    width: int
    depth: int
    # Whether all nodes are one machine: then a node alone has cores that are others' later.
    shared: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """Groups' sizes: powers of two, and all nodes."""
        results = [1]
        while results[-1] * 2 <= self.nodes:
            results.append(results[-1] * 2)
        return tuple(sorted({*results, self.nodes}))

    def ranks(self, size: int) -> tuple[range, ...]:
        """Return the processes of each group of a size."""
        first = range(0, self.nodes - size + 1, size)
        return tuple(range(f * self.processes, (f + size) * self.processes) for f in first)

    def blocks(self, rank: int) -> list[tuple[str, int]]:
        """Return the blocks that a process times in each repeat, in order."""
        results = [("alone", 1)] if rank < self.processes else []
        for size in self.sizes:
            if any(rank in group for group in self.ranks(size)):
                results += [("weak", size), ("compute", size)]
                results += [("strong", size), ("sum", size)] if size > 1 else []
        return results

    def command(self) -> list[str]:
        """Return the program's command line."""
        return [
            "torchrun",
            "/workspace/scaling.py",
            f"--backend={self.backend}",
            f"--repeats={self.repeats}",
            f"--steps={self.steps}",
            f"--batch={self.batch}",
            f"--width={self.width}",
            f"--depth={self.depth}",
            "--sizes",
            *map(str, self.sizes),
        ]


def terms(facts: Facts) -> Terms:
    """Return the terms: on GPUs 8192 rows a process and 134 million weights, on CPU 100 ms a core.

    A step's computing and the bytes that it sums are in both about as those of a language model.
    """
    gpus = facts.pool.accelerator is not None
    return Terms(
        backend="nccl" if gpus else "gloo",
        nodes=len(facts.real),
        processes=facts.runtime.processes_per_node if gpus else 1,
        repeats=(10 if facts.quick else 20) if gpus else (24 if facts.quick else 60),
        steps=20 if gpus else 4,
        batch=8192 if gpus else 4096,
        width=4096 if gpus else 256,
        depth=8 if gpus else 4,
        shared=facts.contract.stand_in,
    )


class Scaling:
    """See :class:`railhead.accept.check.Check`."""

    name = NAME
    promise = PROMISE
    order = 30
    evidence = Gathered

    def plan(self, facts: Facts) -> CheckPlan:
        """Return one gang of all real nodes."""
        asked = terms(facts)
        missing = ""
        if asked.nodes < 2:
            missing = f"{asked.nodes} real nodes: there is nothing to scale to"
        elif "PET_NODE_RANK" not in facts.runtime.reserved:
            missing = (
                f"runtime {facts.runtime.name!r} is not started by torchrun; name one that is with "
                "--runtime"
            )
        seconds = 300.0 if asked.backend == "nccl" else 90.0
        sizes = ", ".join(map(str, asked.sizes))
        return CheckPlan(
            steps=(
                f"one job on {asked.nodes} nodes: the same training step on groups of {sizes} "
                f"nodes, weak and strong, {asked.repeats} times each in turn",
            ),
            nodes=asked.nodes,
            seconds=seconds,
            node_hours=asked.nodes * seconds / 3600,
            missing=missing,
        )

    def run(self, site: Testbed) -> Gathered:
        """Return the job, to its end."""
        asked = terms(site.facts)
        site.say(f"the same step on groups of {', '.join(map(str, asked.sizes))} nodes")
        return gather(
            site,
            NAME,
            nodes=asked.nodes,
            command=asked.command(),
            files=("programs/scaling.py",),
            mark=MARK,
            processes_per_node=asked.processes,
        )

    def judge(self, evidence: Gathered, facts: Facts) -> Result:
        """Efficiency with its interval, against the limit; a drop with its causes."""
        try:
            return _judged(evidence, facts)
        except UnprovenError as why:
            return _result(
                Verdict.NOT_PROVEN,
                f"Not proven: {why}.",
                remedy=why.remedy
                or "see what stopped it below, mend that, and run the check again",
                evidence=_besides(evidence),
            )


CHECK = Scaling()


def _result(verdict: Verdict, summary: str, **fields: Any) -> Result:
    return Result(
        name=NAME,
        promise=PROMISE,
        verdict=verdict,
        summary=summary,
        reproduce=("railhead accept --only scaling",),
        **fields,
    )


def _besides(gathered: Gathered) -> tuple[Evidence, ...]:
    pairs = zip(gathered.machines, gathered.other_lines, strict=False)
    return tuple(
        Evidence(title=f"the last lines of {machine or 'a pod'}", text="\n".join(lines))
        for machine, lines in list(pairs)[:8]
        if lines
    )


# -- evidence -------------------------------------------------------------------------------------


def _rows(gathered: Gathered, asked: Terms) -> Rows:
    """Return the times of each process, by block and process.

    Raises:
        UnprovenError: something is missing, cut off, impossible or another's.
    """
    rows: Rows = {}
    for index, machine in enumerate(gathered.machines):
        text = spoken(gathered, index)
        own = range(index * asked.processes, (index + 1) * asked.processes)
        if strangers := [row for row in text if row.get("rank") not in own]:
            raise UnprovenError(f"{machine} wrote of rank {strangers[0].get('rank')}")
        for rank in own:
            mine = [row for row in text if row["rank"] == rank]
            _rank(rank, mine, asked, gathered.seconds)
            for row in mine:
                if row["kind"] != "end":
                    block = rows.setdefault((row["kind"], row["nodes"]), {})
                    block[rank] = row["repeats"]
    _in_step(rows, asked)
    return rows


def _rank(rank: int, said: Sequence[Mapping[str, Any]], asked: Terms, most: float) -> None:
    """Check one process: every block, every repeat, and clocks that go forward."""
    blocks = asked.blocks(rank)
    reported = [(row.get("kind"), row.get("nodes")) for row in said if row.get("kind") != "end"]
    ends = [row.get("said") for row in said if row.get("kind") == "end"]
    if not said:
        raise UnprovenError(f"rank {rank} wrote nothing")
    if ends != [len(reported)]:
        raise UnprovenError(f"the output of rank {rank} is cut off", remedies.CUT_OFF)
    if sorted(reported, key=str) != sorted(blocks, key=str):
        raise UnprovenError(f"rank {rank} timed other things than it was asked for")
    by_block = {(row["kind"], row["nodes"]): row.get("repeats") for row in said if "nodes" in row}
    before, total = 0.0, 0.0
    for repeat in range(asked.repeats):
        for block in blocks:
            rows = by_block[block]
            if not isinstance(rows, list) or len(rows) != asked.repeats:
                raise UnprovenError(f"rank {rank} did not repeat {block[0]} {asked.repeats} times")
            row = rows[repeat]
            _sound(rank, row, asked)
            if row["at"] < before - SLACK_SECONDS:
                raise UnprovenError(f"the clock of rank {rank} went backwards", remedies.CLOCK)
            before = row["at"] + row["wall"]
            total += row["seconds"]
    if total > most:
        raise UnprovenError(
            f"rank {rank} says that its steps took {total:.0f} s of a job of {most:.0f} s"
        )


def _sound(rank: int, row: Any, asked: Terms) -> None:
    try:
        steps = [float(value) for value in row["steps"]]
        single = [float(row[name]) for name in ("at", "seconds", "wall")]
        waited = float(row["waited"])
    except (TypeError, KeyError, ValueError):
        raise UnprovenError(f"a line of rank {rank} lacks a figure") from None
    if len(steps) != asked.steps:
        raise UnprovenError(f"rank {rank} timed {len(steps)} of {asked.steps} steps")
    if not all(math.isfinite(value) and value > 0 for value in (*steps, *single)):
        raise UnprovenError(f"a figure of rank {rank} is no time")
    _, seconds, wall = single
    if not 0 <= waited <= seconds:
        raise UnprovenError(f"rank {rank} waited {waited:g} s for data in {seconds:g} s")
    for what, value in (("two clocks", wall), ("steps and their sum", sum(steps))):
        if abs(value - seconds) > CLOCKS * max(value, seconds) + SLACK_SECONDS:
            raise UnprovenError(
                f"the {what} of rank {rank} differ: {value:g} and {seconds:g} s", remedies.CLOCK
            )


def _in_step(rows: Rows, asked: Terms) -> None:
    """Processes that sum together end together; no step with a sum is faster than without it."""
    for (kind, size), by_rank in rows.items():
        if kind == "compute":
            continue
        groups = asked.ranks(size)[:1] if kind == "alone" else asked.ranks(size)
        for group in groups:
            for repeat in range(asked.repeats):
                times = [by_rank[rank][repeat]["seconds"] for rank in group]
                if max(times) - min(times) > CLOCKS * max(times) + SLACK_SECONDS:
                    raise UnprovenError(
                        f"ranks of one group disagree about a step on {size} nodes: "
                        f"{min(times):g} and {max(times):g} s; a clock lies",
                        remedies.CLOCK,
                    )
    for size in asked.sizes:
        for rank, own in rows["weak", size].items():
            with_sum = sum(row["seconds"] for row in own)
            without = sum(row["seconds"] for row in rows["compute", size][rank])
            if with_sum < LEAST_OF_COMPUTE * without:
                raise UnprovenError(
                    f"rank {rank} says that a step on {size} nodes takes {with_sum / without:.0%} "
                    "of its computing alone; a clock lies",
                    remedies.CLOCK,
                )


# -- figures --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean, and between what it lies with 95 % confidence."""

    mean: float
    low: float
    high: float


def interval(ratios: Sequence[float]) -> Interval:
    """Return the geometric mean of ratios, by Student's t of their logarithms."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = fmean(logs)
    freedom = len(logs) - 1
    known = max((n for n in _T if n <= freedom), default=None)
    if known is None:
        return Interval(mean=math.exp(middle), low=0.0, high=math.inf)
    half = _T[known] * stdev(logs) / math.sqrt(len(logs))
    return Interval(
        mean=math.exp(middle), low=math.exp(middle - half), high=math.exp(middle + half)
    )


def middle(ratios: Sequence[float]) -> Interval:
    """Return the median, and between what it lies whatever the distribution, by the sign test."""
    ordered, count = sorted(ratios), len(ratios)
    tail, rank = 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if tail > CONFIDENCE / 2:
            break
        rank += 1
    if rank == 0:
        return Interval(mean=median(ordered), low=0.0, high=math.inf)
    return Interval(mean=median(ordered), low=ordered[rank - 1], high=ordered[count - rank])


def _ratio(base: Sequence[float], times: Sequence[float], asked: Terms) -> Interval:
    """Return the speed-up, repeat by repeat; on a machine that others share it scatters widely."""
    ratios = [item / other for item, other in zip(base, times, strict=True)]
    return middle(ratios) if asked.shared else interval(ratios)


def _typical(steps: Sequence[float], asked: Terms) -> float:
    """Return the time of one step: the mean; on one machine that of a quick, undisturbed one."""
    return sorted(steps)[len(steps) // 4] if asked.shared else fmean(steps)


def _times(rows: Rows, asked: Terms, kind: str, size: int) -> list[float]:
    """Seconds of one step, each repeat: the mean over groups, each as slow as its slowest."""
    groups = asked.ranks(size)[:1] if kind == "alone" else asked.ranks(size)
    by_rank = rows[kind, size]
    return [
        fmean(
            _typical(_slowest([by_rank[rank][repeat] for rank in group]), asked) for group in groups
        )
        for repeat in range(asked.repeats)
    ]


def _slowest(own: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the time of the slowest process, step by step."""
    return [max(times) for times in zip(*(row["steps"] for row in own), strict=True)]


def _baseline(rows: Rows, asked: Terms) -> tuple[list[float], str]:
    """Return a step on one node: the faster of alone and beside others."""
    beside = _times(rows, asked, "weak", 1)
    alone = _times(rows, asked, "alone", 1)
    if asked.shared or fmean(beside) <= fmean(alone):
        return beside, "on one node, with all nodes busy"
    return alone, "on one node, with the others idle"


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The seconds of one step, by cause."""

    step: float
    compute: float
    straggler: float
    data: float
    sum_alone: float

    @property
    def rest(self) -> float:
        """Seconds beyond computing, waiting for data and waiting for the slowest."""
        return self.step - self.compute - self.straggler - self.data


def _parts(rows: Rows, asked: Terms, size: int, step: float) -> Parts:
    by_rank = rows["compute", size]
    means, waits, gaps = [], [], []
    for group in asked.ranks(size):
        for repeat in range(asked.repeats):
            own = [by_rank[rank][repeat] for rank in group]
            mean = fmean(_typical(row["steps"], asked) for row in own)
            means.append(mean - fmean(row["waited"] for row in own) / asked.steps)
            waits.append(max(rows["weak", size][r][repeat]["waited"] for r in group) / asked.steps)
            gaps.append(_typical(_slowest(own), asked) - mean)
    alone = fmean(_times(rows, asked, "sum", size)) if size > 1 else 0.0
    return Parts(
        step=step, compute=fmean(means), straggler=fmean(gaps), data=fmean(waits), sum_alone=alone
    )


@dataclass(frozen=True, kw_only=True)
class Drop:
    """The extra seconds of a step on several nodes, by cause."""

    seconds: float
    causes: dict[str, float]

    @property
    def unexplained(self) -> float:
        """Seconds that no cause explains."""
        return self.seconds - sum(self.causes.values())


def _drop(one: Parts, many: Parts) -> Drop:
    exposed = max(0.0, many.rest - max(0.0, one.rest))
    return Drop(
        seconds=many.step - one.step,
        causes={
            "compute": many.compute - one.compute,
            "straggler": many.straggler - one.straggler,
            "data": many.data - one.data,
            # No more than the sum takes that was timed on its own.
            "communication": min(exposed, SUM_MARGIN * many.sum_alone),
        },
    )


def _explained(drop: Drop, step: float) -> tuple[str, str]:
    """Return the cause of the drop and its remedy, or that it is not explained."""
    cause = max(drop.causes, key=lambda name: drop.causes[name])
    left = abs(drop.unexplained)
    if left > max(UNEXPLAINED_OF_DROP * drop.seconds, UNEXPLAINED_OF_STEP * step):
        return (
            f"what was measured does not explain it ({drop.unexplained * 1e3:+.1f} of "
            f"{drop.seconds * 1e3:.1f} ms a step)",
            "profile a step of the job itself, on one node and on all",
        )
    words, remedy = _CAUSES[cause]
    share = drop.causes[cause] * 1e3
    return f"{words} ({share:.1f} of {drop.seconds * 1e3:.1f} ms a step)", remedy


# -- verdict --------------------------------------------------------------------------------------


def _judged(gathered: Gathered, facts: Facts) -> Result:
    asked = terms(facts)
    must_be_whole(gathered, facts.real, asked.command())
    if asked.nodes < 2:
        raise UnprovenError("on one node there is nothing to scale to")
    rows = _rows(gathered, asked)
    base, against = _baseline(rows, asked)
    weak: dict[int, Interval] = {}
    strong: dict[int, Interval] = {}
    table = [_row("nodes", "step", "compute", "straggler", "data", "rest", "sum alone")]
    drops: dict[int, Drop] = {}
    item = _parts(rows, asked, 1, fmean(_times(rows, asked, "weak", 1)))
    for size in asked.sizes:
        times = _times(rows, asked, "weak", size)
        many = _parts(rows, asked, size, fmean(times))
        table.append(_row(str(size), *_milliseconds(many)))
        if size > 1:
            weak[size] = _ratio(base, times, asked)
            split = _times(rows, asked, "strong", size)
            strong[size] = _ratio(base, split, asked)
            drops[size] = _drop(item, many)
    fields: dict[str, Any] = {
        "measured": tuple(_measured(weak, strong, base)),
        "evidence": (
            Evidence(
                title="where a weak step's milliseconds go, by nodes of a group",
                text="\n".join(table),
            ),
            Evidence(title="what causes each drop", text="\n".join(_told(drops, base))),
            *_besides(gathered),
        ),
        "plots": (_plot(weak, strong),),
    }
    return _verdict(weak, drops, base, against, asked, fields)


def _verdict(
    weak: Mapping[int, Interval],
    drops: Mapping[int, Drop],
    base: Sequence[float],
    against: str,
    asked: Terms,
    fields: dict[str, Any],
) -> Result:
    limit = SCALING_EFFICIENCY.value
    worst = min(weak, key=lambda size: weak[size].low)
    got = weak[worst]
    figures = f"{got.mean:.1%} ({got.low:.1%} to {got.high:.1%}) on {worst} nodes"
    asks = f"at least {limit:.0%} is asked, against a step {against}"
    note = (
        ""
        if not asked.shared
        else " The nodes share one machine, so this says what joining them costs, not what another "
        "machine would bring, by the steps that other work on it disturbed least."
    )
    why, remedy = _explained(drops[worst], fmean(base))
    if any(item.low > MOST_EFFICIENCY for item in weak.values()):
        return _result(
            Verdict.NOT_PROVEN,
            f"Not proven: more than linear, {max(item.mean for item in weak.values()):.0%}; the "
            "baseline was disturbed.",
            remedy="run it again while nothing else uses the nodes",
            **fields,
        )
    if got.low >= limit:
        text = f"Weak scaling is {figures}; {asks}.{note}"
        return _result(Verdict.PASSED, text, **fields)
    if any(item.high < limit for item in weak.values()):
        worst = min(weak, key=lambda size: weak[size].high)
        why, remedy = _explained(drops[worst], fmean(base))
        got = weak[worst]
        text = (
            f"Weak scaling is {got.mean:.1%} ({got.low:.1%} to {got.high:.1%}) on {worst} nodes; "
            f"{asks}: {why}.{note}"
        )
        return _result(Verdict.FAILED, text, remedy=remedy, **fields)
    return _result(
        Verdict.NOT_PROVEN,
        f"Not proven: weak scaling is {figures}; {asks}, and the interval holds both: {why}.{note}",
        remedy="run it again without --quick, while nothing else uses the nodes; then: " + remedy,
        **fields,
    )


def _row(*cells: str) -> str:
    return "".join(f"{cell:>11}" for cell in cells)


def _milliseconds(parts: Parts) -> list[str]:
    values = (
        parts.step,
        parts.compute,
        parts.straggler,
        parts.data,
        parts.rest,
        parts.sum_alone,
    )
    return [f"{value * 1e3:.2f}" for value in values]


def _told(drops: Mapping[int, Drop], base: Sequence[float]) -> list[str]:
    results = []
    for size, drop in drops.items():
        causes = ", ".join(f"{name} {value * 1e3:+.2f}" for name, value in drop.causes.items())
        results.append(
            f"{size} nodes: {drop.seconds * 1e3:+.2f} ms: {causes}, not explained "
            f"{drop.unexplained * 1e3:+.2f}; {_explained(drop, fmean(base))[0]}"
        )
    return results


def _measured(
    weak: Mapping[int, Interval], strong: Mapping[int, Interval], base: Sequence[float]
) -> list[Measured]:
    results = [Measured(name="step on one node", value=round(fmean(base) * 1e3, 3), unit="ms")]
    for size, item in weak.items():
        results.append(
            Measured(
                name=f"weak scaling on {size} nodes, lower end of 95 %",
                value=round(item.low, 4),
                limit=SCALING_EFFICIENCY.value,
                source=SCALING_EFFICIENCY.source,
            )
        )
        results.append(Measured(name=f"weak scaling on {size} nodes", value=round(item.mean, 4)))
    results += [
        Measured(name=f"strong scaling on {size} nodes, times as fast", value=round(entry.mean, 4))
        for size, entry in strong.items()
    ]
    return results


def _plot(weak: Mapping[int, Interval], strong: Mapping[int, Interval]) -> LinePlot:
    sizes = (1, *weak)

    def series(name: str, by_size: Mapping[int, Interval], factor: Mapping[int, int]) -> Series:
        return Series(
            name=name,
            points=((1, 1), *((n, item.mean * factor[n]) for n, item in by_size.items())),
            low=(1, *(item.low * factor[n] for n, item in by_size.items())),
            high=(1, *(item.high * factor[n] for n, item in by_size.items())),
        )

    return LinePlot(
        title="Work done by groups of nodes, one node's being 1",
        x=Axis(label="nodes", logarithmic=True),
        y=Axis(label="times one node", logarithmic=True),
        series=(
            Series(name="linear", points=tuple((n, n) for n in sizes), ideal=True),
            series("weak", weak, {n: n for n in weak}),
            series("strong", strong, dict.fromkeys(strong, 1)),
        ),
    )
