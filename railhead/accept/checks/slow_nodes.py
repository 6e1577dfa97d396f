"""Slow nodes are found: groups of nodes test each other until each is known to be good or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from railhead.accept import remedies, search
from railhead.accept.check import CheckPlan
from railhead.accept.gathered import Gathered, UnprovenError, gather, must_be_whole, spoken
from railhead.accept.model import Cell, Evidence, Map, Measured, Result, Verdict
from railhead.accept.site import Facts, Testbed
from railhead.catalog.acceptance import (
    COMPUTE_SHARE,
    LINE_RATE,
    LOOPBACK_SHARE,
    SHARED_COMPUTE,
    Threshold,
)

NAME = "slow-nodes"
PROMISE = "Slow nodes are found, by groups that test each other."
PROGRAM = ("programs/slow_nodes.py", "search.py")
MARK = "slow-nodes: "
_SEED = 20
# As the program has it.
COMPUTES = 5
_REPRODUCE = "railhead accept --only slow-nodes"
_REMEDY_SLOW = (
    "cordon what is named (`kubectl cordon NODE`), look at its links, clocks and logs (`railhead "
    "diagnose`), and run this check again once it is mended or replaced"
)
_REMEDY_UNPROVEN = "see what stopped it below, mend that, and run the check again"
_REMEDY_PAIR = (
    "look at the cables, ports and switches between the nodes of each pair: each of them is fast "
    "with others"
)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of a test, from facts alone, so that a run and its judge agree."""

    backend: str
    mebibytes: int
    repeats: int
    limit: int
    processes: int
    floor: float | None
    ceiling: float | None
    share: float | None
    proofs: tuple[str, ...]
    # Of the fleet's pace, that a node must compute with.
    pace: Threshold

    @property
    def size(self) -> int:
        """Bytes that a node sends in one repeat."""
        return self.mebibytes * (1 << 20) * self.processes

    def command(self) -> list[str]:
        """Return the program's command line."""
        words = [
            "python3",
            "/workspace/slow_nodes.py",
            f"--backend={self.backend}",
            f"--mebibytes={self.mebibytes}",
            f"--repeats={self.repeats}",
            f"--limit={self.limit}",
            f"--seed={_SEED}",
        ]
        named = {"floor": self.floor, "ceiling": self.ceiling, "loopback-share": self.share}
        words += [f"--{name}={value!r}" for name, value in named.items() if value is not None]
        return words + [f"--proof={proof}" for proof in self.proofs]


def terms(facts: Facts) -> Terms:
    """NCCL over the fabric where there are GPUs; gloo where the nodes are stand-ins without."""
    pool, fabric = facts.pool, facts.contract.fabric
    gpus = pool.accelerator is not None
    rate = pool.line_rate_gbps / 8
    return Terms(
        backend="nccl" if gpus else "gloo",
        mebibytes=4096 if gpus else 64,
        repeats=7 if gpus else 9,
        limit=180 if gpus else 90,
        processes=facts.runtime.processes_per_node if gpus else 1,
        floor=rate * LINE_RATE.value if rate else None,
        ceiling=rate or None,
        share=None if rate else LOOPBACK_SHARE.value,
        proofs=fabric.proofs if gpus else (),
        pace=SHARED_COMPUTE if facts.contract.stand_in else COMPUTE_SHARE,
    )


class SlowNodes:
    """See :class:`railhead.accept.check.Check`."""

    name = NAME
    promise = PROMISE
    order = 15
    evidence = Gathered

    def plan(self, facts: Facts) -> CheckPlan:
        """Return one gang of all real nodes."""
        count = len(facts.real)
        missing = ""
        if "PET_NODE_RANK" not in facts.runtime.reserved:
            missing = (
                f"runtime {facts.runtime.name!r} sets no PET_ variables; name one of torch's with "
                "--runtime"
            )
        elif facts.pool.accelerator is not None and not facts.contract.fabric.proofs:
            missing = "the contract names nothing that proves the fabric's transport"
        elif count < 2:
            missing = f"{count} real nodes: a node is compared with others"
        seconds = 60.0 if facts.pool.accelerator is None else 300.0
        pools = "pools of about the square root of them, drawn twice at random"
        return CheckPlan(
            steps=(
                f"one job on {count} nodes: each computes alone, then {pools} exchange data",
                "suspects are halved, then tested with two partners that are known to be good",
            ),
            nodes=count,
            seconds=seconds,
            node_hours=count * seconds / 3600,
            missing=missing,
        )

    def run(self, site: Testbed) -> Gathered:
        """Return the job, to its end."""
        facts = site.facts
        asked = terms(facts)
        count = len(facts.real)
        site.say(f"{count} nodes test each other over {asked.backend}")
        return gather(
            site,
            NAME,
            nodes=count,
            command=asked.command(),
            files=PROGRAM,
            mark=MARK,
            launcher="own",
            processes_per_node=asked.processes,
        )

    def judge(self, evidence: Gathered, facts: Facts) -> Result:
        """Search again by what each node wrote itself, and hold the nodes to it."""
        try:
            return _judged(evidence, facts)
        except UnprovenError as why:
            return _result(
                Verdict.NOT_PROVEN,
                f"Not proven: {why}.",
                remedy=why.remedy or _REMEDY_UNPROVEN,
                evidence=_lines(evidence),
            )


CHECK = SlowNodes()


def _result(verdict: Verdict, summary: str, **fields: Any) -> Result:
    return Result(
        name=NAME,
        promise=PROMISE,
        verdict=verdict,
        summary=summary,
        reproduce=(_REPRODUCE,),
        **fields,
    )


def _lines(gathered: Gathered) -> tuple[Evidence, ...]:
    """Return the other lines of the pods, and the first that were measured."""
    results = []
    for index, machine in enumerate(gathered.machines):
        own = [*gathered.lines[index][:40], *(gathered.other_lines[index : index + 1] or ((),))[0]]
        text = "\n".join(line[:2000] for line in own)
        results.append(Evidence(title=f"what {machine or f'pod {index}'} wrote", text=text))
    return tuple(results[:16])


def _reports(gathered: Gathered, namespace: str) -> list[dict[str, Any]]:
    """Return every pod's own lines, whole.

    Raises:
        UnprovenError: one is cut off, missing or another's, or its pod did not meet the others.
    """
    reports: list[dict[str, Any]] = []
    for index, machine in enumerate(gathered.machines):
        own = spoken(gathered, index)
        if not own:
            raise UnprovenError(f"{machine} wrote nothing", remedies.CUT_OFF)
        if lost := next((row for row in own if row.get("do") == "unmet"), None):
            raise UnprovenError(
                f"{machine} could not reach {lost.get('to')}: {lost.get('why')}",
                remedies.unreached(namespace),
            )
        reported = [row for row in own if row.get("do") in ("alone", "group")]
        if any(row.get("node") != index for row in reported):
            raise UnprovenError(f"{machine} wrote lines of another node")
        tests = [row.get("test", "alone") for row in reported]
        if len(set(tests)) != len(tests):
            raise UnprovenError(f"{machine} wrote a test twice")
        ends = [row for row in own if row.get("do") == "end"]
        if [row.get("said") for row in ends] != [len(reported)]:
            raise UnprovenError(f"the output of {machine} is cut off", remedies.CUT_OFF)
        reports += own
    return reports


def _searched(
    reports: Sequence[Mapping[str, Any]], asked: Terms, count: int
) -> tuple[search.SearchResult, tuple[search.Test, ...], float | None]:
    """Return the search as the record has it.

    Raises:
        UnprovenError: the record is of other groups than the search asks for.
    """
    floor = asked.floor
    if floor is None and asked.share is not None:
        loops = search.loopbacks(reports, size=asked.size, repeats=asked.repeats)
        floor = search.loopback_floor(loops, asked.share)
    hunt = search.Search([str(index) for index in range(count)], seed=_SEED, floor=floor)
    rounds = [row.get("groups") for row in reports if row.get("do") == "round"]
    number = 0
    while groups := hunt.ask():
        if number >= len(rounds) or rounds[number] != [list(group) for group in groups]:
            raise UnprovenError(f"round {number + 1} of the tests was not done as it must be")
        hunt.tell(
            [
                search.outcome(
                    group,
                    search.answers(f"{number}.{at}", reports, proofs=bool(asked.proofs)),
                    size=asked.size,
                    repeats=asked.repeats,
                    ceiling=asked.ceiling,
                )
                for at, group in enumerate(groups)
            ]
        )
        number += 1
    if number != len(rounds):
        raise UnprovenError(f"{len(rounds)} rounds were done, {number} were to be")
    return hunt.found(), hunt.tests, floor


def _computing(reports: Sequence[Mapping[str, Any]], asked: Terms) -> dict[str, float]:
    """Computing alone, repeats per second, by the median of the times."""
    each = search.alone("compute", reports, repeats=asked.repeats * COMPUTES)
    return {node: 1 / median(answer.seconds) for node, answer in each.items()}


@dataclass(frozen=True, kw_only=True)
class _Findings:
    """Everything that the record of one search shows; nodes are known by their index.

    Attributes:
        terms: of the tests.
        concluded: the conclusions of the search.
        tests: in order.
        floor: GB/s that every group must reach; None where nothing absolute is known.
        machine: node -> its name.
        rates: node -> computations a second, alone.
        fastest: the fleet's pace, in computations a second.
        slow: node -> why it is slow.
        doubted: node -> why it is not known to be good.
    """

    terms: Terms
    concluded: search.SearchResult
    tests: tuple[search.Test, ...]
    floor: float | None
    machine: Mapping[str, str]
    rates: Mapping[str, float]
    fastest: float
    slow: Mapping[str, str]
    doubted: Mapping[str, str]

    @property
    def least_rate(self) -> float:
        """Computations a second that a node must make."""
        return self.fastest * self.terms.pace.value


def _findings(gathered: Gathered, facts: Facts) -> _Findings:
    """Return what the nodes' own lines show.

    Raises:
        UnprovenError: the record is cut off, of other nodes, or of other tests.
    """
    asked = terms(facts)
    must_be_whole(gathered, facts.real, asked.command())
    reports = _reports(gathered, facts.queue.namespace)
    concluded, tests, floor = _searched(reports, asked, gathered.asked)
    rates = _computing(reports, asked)
    # The pace of a node whose times of a test are false says nothing of the others.
    lying = {node for test in tests if test.outcome for node in _lying(test.outcome)}
    honest = [rate for node, rate in rates.items() if node not in lying]
    level = search.reference(honest)
    fastest = level[0] if level else max(honest, default=0.0)
    slow = {n: why for n, why in concluded.reasons.items() if concluded.nodes[n] == search.SLOW}
    doubted = {
        n: why for n, why in concluded.reasons.items() if concluded.nodes[n] == search.SUSPECT
    }
    for node in concluded.nodes:
        if node not in rates:
            doubted[node] = "its clock lies, or it did not compute"
        elif level is not None and rates[node] > level[0] / asked.pace.value:
            doubted[node] = "computes faster than its equals can: its clock lies"
        elif rates[node] < fastest * asked.pace.value:
            slow[node] = f"computes at {rates[node] / fastest:.0%} of the fleet's pace"
    return _Findings(
        terms=asked,
        concluded=concluded,
        tests=tests,
        floor=floor,
        machine=dict(zip(map(str, range(gathered.asked)), gathered.machines, strict=True)),
        rates=rates,
        fastest=fastest,
        slow=slow,
        doubted=doubted,
    )


def _judged(gathered: Gathered, facts: Facts) -> Result:
    findings = _findings(gathered, facts)
    fields: dict[str, Any] = {
        "measured": (*_exchange_figures(findings), *_compute_figures(findings)),
        "evidence": (_test_log(findings), *_lines(gathered)),
        "plots": (_map(findings),),
    }
    return (
        _failed(findings, fields)
        or _doubted(findings, fields)
        or _result(
            Verdict.PASSED,
            f"All {gathered.asked} nodes are good: {findings.concluded.tests} tests in "
            f"{findings.concluded.rounds} rounds, {_over(findings.terms)}.",
            **fields,
        )
    )


def _over(asked: Terms) -> str:
    return "NCCL over the fabric" if asked.backend == "nccl" else "gloo over TCP, without GPUs"


def _failed(findings: _Findings, fields: Mapping[str, Any]) -> Result | None:
    """Return the verdict on slow nodes and slow pairs; None where there are not any."""
    machine = findings.machine
    bad = [*findings.concluded.pairs, *findings.concluded.links]
    below = _all_below(findings.tests, findings.doubted, findings.floor)
    if not (findings.slow or bad or below):
        return None
    words = [f"{machine[node]}: {why}" for node, why in sorted(findings.slow.items())]
    words += [f"{' with '.join(machine[n] for n in pair)}: slow together alone" for pair in bad]
    words += [f"{machine[node]} or a partner: {why}" for node, why in sorted(below.items())]
    remedy = _REMEDY_SLOW if findings.slow or below else _REMEDY_PAIR
    return _result(Verdict.FAILED, f"Slow: {'; '.join(words)}.", remedy=remedy, **fields)


def _doubted(findings: _Findings, fields: Mapping[str, Any]) -> Result | None:
    """Return the verdict on nodes that are not known to be good; None where all are."""
    if not findings.doubted:
        return None
    reasons = sorted(findings.doubted.items())
    words = [f"{findings.machine[node]}: {why}" for node, why in reasons]
    clock = any("clock lies" in why for _, why in reasons)
    return _result(
        Verdict.NOT_PROVEN,
        f"Not known to be good: {'; '.join(words)}.",
        remedy=remedies.CLOCK if clock else _REMEDY_UNPROVEN,
        **fields,
    )


def _lying(outcome: search.Outcome) -> Iterator[str]:
    """Nodes whose own times of a test cannot be true."""
    for node, why in outcome.faults.items():
        if why not in (search.SILENT, search.UNSHOWN):
            yield node


def _all_below(
    tests: Sequence[search.Test], doubted: Mapping[str, str], floor: float | None
) -> dict[str, str]:
    """Doubted nodes of which every test has a figure, and each is below the absolute floor."""
    if floor is None:
        return {}
    results = {}
    for node, why in doubted.items():
        own = [test.outcome for test in tests if node in test.group]
        figures = [what.figure for what in own if what is not None and what.figure is not None]
        if figures and len(figures) == len(own) and max(figures) < floor:
            results[node] = why
    return results


def _exchange_figures(findings: _Findings) -> tuple[Measured, ...]:
    figures = [
        test.outcome.figure
        for test in findings.tests
        if test.outcome and test.outcome.figure is not None
    ]
    floor = findings.floor
    source = LINE_RATE.source if findings.terms.floor is not None else LOOPBACK_SHARE.source
    rows = [
        Measured(name="tests", value=findings.concluded.tests),
        Measured(name="rounds of tests side by side", value=findings.concluded.rounds),
    ]
    if figures:
        rows.append(
            Measured(
                name="slowest group",
                value=round(min(figures), 4),
                unit="GB/s a node",
                limit=None if floor is None else round(floor, 4),
                source=source if floor is not None else "",
            )
        )
    for kind, (middle, least) in findings.concluded.expected.items():
        rows.append(
            Measured(
                name=f"the fleet's own {kind}s",
                value=round(middle, 4),
                unit="GB/s a node",
                limit=round(least, 4),
                source="the highest level on which two groups agree, less its scatter",
            )
        )
    return tuple(rows)


def _compute_figures(findings: _Findings) -> tuple[Measured, ...]:
    rates, pace = findings.rates, findings.terms.pace
    if not rates or not findings.fastest:
        return ()
    slowest = min(rates, key=lambda node: rates[node])
    return (
        Measured(
            name=f"slowest computing, {findings.machine[slowest]}",
            value=round(rates[slowest] / findings.fastest, 4),
            unit="of the fleet's pace",
            limit=pace.value,
            source=pace.source,
        ),
    )


def _test_log(findings: _Findings) -> Evidence:
    machine = findings.machine
    rows = []
    for test in findings.tests:
        outcome = test.outcome
        result = "no figure"
        if outcome is not None and outcome.figure is not None:
            result = f"{outcome.figure:.4g} GB/s"
        elif outcome is not None and outcome.faults:
            result = "; ".join(f"{machine[node]} {why}" for node, why in outcome.faults.items())
        members = ", ".join(machine[node] for node in test.group)
        rows.append(f"round {test.round + 1}, {test.why}: {members}: {result}")
    return Evidence(title="every test, in order", text="\n".join(rows) or "none")


def _map(findings: _Findings) -> Map:
    cells = []
    for node in findings.concluded.nodes:
        figures = [t.outcome.figure for t in findings.tests if node in t.group and t.outcome]
        best = max((figure for figure in figures if figure is not None), default=None)
        verdict = (
            Verdict.FAILED
            if node in findings.slow
            else Verdict.NOT_PROVEN
            if node in findings.doubted
            else Verdict.PASSED
        )
        name, rate = findings.machine[node], findings.rates.get(node)
        cells.append(Cell(row=name, column="exchange, GB/s", value=best, verdict=verdict))
        paced = Verdict.NOT_PROVEN
        if rate is not None:
            paced = Verdict.PASSED if rate >= findings.least_rate else Verdict.FAILED
        cells.append(Cell(row=name, column="computing, a second", value=rate, verdict=paced))
    return Map(title="Each node's best exchange and its computing alone", cells=tuple(cells))
