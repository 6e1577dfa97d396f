"""RDMA is in use: the collectives of training over all nodes, with proof of the path on every rank.

TCP fails at any bandwidth, and RDMA that is too slow fails too. What shows neither is not proven.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from railhead.accept import nccltests, pairs, remedies
from railhead.accept import traffic as seen
from railhead.accept.check import Check, CheckPlan, Statement
from railhead.accept.model import (
    Axis,
    Cell,
    Evidence,
    LinePlot,
    Map,
    Measured,
    Result,
    Series,
    Verdict,
)
from railhead.accept.site import Facts, Testbed
from railhead.accept.traffic import Point, Tests, Traffic
from railhead.base.errors import RailheadError, TimedOutError
from railhead.catalog import acceptance as limits
from railhead.contract import Runtime
from railhead.machines import MACHINES
from railhead.nccl import ranks as proof
from railhead.nccl.bench.collectives import COLLECTIVES
from railhead.nccl.bench.judge import size_text
from railhead.nccl.bench.model import BenchRun, Measure, Row
from railhead.nccl.bench.published import Published, published_for

PROMISE = (
    "What ranks of different nodes send each other goes by RDMA, from GPU memory, at the rate of "
    "the NICs."
)
_PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
_PROGRAM = "rdma.py"
_FILES = [_PROGRAM, "verbs.py"]
MIB = 1 << 20
GIB = 1 << 30
# Held against the line rate; of the others no bound is known that every topology reaches.
_GATED = ("all_reduce", "all_gather", "reduce_scatter")
_ALL = (*_GATED, "alltoall", "sendrecv")
_LINES = 12
_LATE = "not done in time"
_REPRODUCE = (
    "railhead accept --only rdma",
    "railhead nccl read --expect rdma LOGS",
)
_WHY = (
    "`railhead diagnose` with NCCL's logs names the likeliest cause; look at the fabric's device "
    "resource in the pods, at what the image holds (docs/fabric.md), and at the nodes' gate"
)


def processes(facts: Facts) -> int:
    """Return the processes a node: as the runtime says, one a GPU; one on stand-ins for GPUs."""
    return 1 if facts.contract.stand_in else facts.runtime.processes_per_node or 1


class Rdma:
    """The check."""

    name = "rdma"
    promise = PROMISE
    order = 12
    evidence = Traffic

    def plan(self, facts: Facts) -> CheckPlan:
        """Return one job over all nodes."""
        nodes, missing = len(facts.real), ""
        if nodes < 2:
            missing = f"it takes two nodes on which processes run; there are {nodes}"
        elif facts.runtime.framework != "torch":
            missing = f"runtime {facts.runtime.name} starts no torchrun; name one with --runtime"
        seconds = 60.0 if facts.quick else 420.0
        if not facts.contract.stand_in and nccltests.runtime(facts.contract, facts.pool):
            seconds *= 2
        least, most, repeats, _ = _sizes(facts)
        return CheckPlan(
            steps=(
                f"one job of {nodes} nodes: {', '.join(_ALL)} of {size_text(least)} to "
                f"{size_text(most)}, {repeats} times each",
                "each rail with its like of the next node, all at once and each alone",
                f"nccl-tests' programs for {', '.join(_ALL)}, a job each, where an MPI runtime's "
                "image has them",
                "NCCL's log of every rank, and the ports' counters before and after",
                "ib_write_bw and ib_read_lat from node to node on each rail, where the image has "
                "them and the pods see verbs",
            ),
            nodes=nodes,
            seconds=seconds,
            node_hours=nodes * seconds / 3600,
            missing=missing,
        )

    def run(self, site: Testbed) -> Traffic:
        """BenchRun the jobs and bring all that they said."""
        facts = site.facts
        nodes, each = len(facts.real), processes(facts)
        least, most, repeats, warmup = _sizes(facts)
        words = ["--least", least, "--most", most, "--repeats", repeats, "--warmup", warmup]
        text, ended = _job(
            site,
            "rdma",
            ["torchrun", f"/workspace/{_PROGRAM}", *map(str, words)],
            files=_FILES,
            runtime=facts.runtime,
        )
        evidence = seen.gathered(text, pods=nodes, processes=each, **ended)
        return evidence.model_copy(update=_tested(site, evidence))

    def judge(self, evidence: Traffic, facts: Facts) -> Result:
        """TCP fails whatever else is shown; then what is missing; then the path, then the rate."""
        shown = proof.judge(
            dict(enumerate(evidence.log)),
            processes=evidence.processes,
            proofs=facts.contract.fabric.proofs,
            gpudirect=facts.contract.fabric.gpudirect,
        )
        tcp = _kernel(evidence, facts)
        if tcp is not None and shown.verdict is not Verdict.PASSED:
            return _result(evidence, facts, tcp, shown)
        if shown.verdict is Verdict.FAILED:
            message = Statement(verdict=shown.verdict, text=shown.text, remedy=_WHY)
            return _result(evidence, facts, message, shown)
        if lack := _lacks(evidence, facts):
            message = Statement(
                verdict=Verdict.NOT_PROVEN, text=lack, remedy=_mend(lack, evidence, facts)
            )
            return _result(evidence, facts, message, shown)
        if shown.verdict is Verdict.NOT_PROVEN:
            remedy = f"every rank's whole log must show the contract's proofs; {_WHY}"
            message = Statement(verdict=shown.verdict, text=shown.text, remedy=remedy)
            return _result(evidence, facts, message, shown)
        parts = [
            *_writers(evidence, shown),
            *_values(evidence),
            *_ports(evidence),
            *_rates(evidence, facts),
            *pairs.verdicts(evidence, _nic(facts)),
            *_tests(evidence, facts),
        ]
        if tcp is not None:
            parts.append(
                Statement(verdict=Verdict.NOT_PROVEN, text=f"{shown.text}, but {tcp.text}")
            )
        worst = [part for part in parts if part.verdict is Verdict.FAILED] or [
            part for part in parts if part.verdict is Verdict.NOT_PROVEN
        ]
        if worst:
            return _result(evidence, facts, worst[0], shown)
        message = Statement(verdict=Verdict.PASSED, text=f"{shown.text}; {_best(evidence)}")
        return _result(evidence, facts, message, shown)


def _job(
    site: Testbed, stem: str, command: list[str], *, files: list[str], runtime: Runtime
) -> tuple[list[tuple[int, str]], dict[str, Any]]:
    """Lines of a job of all nodes, each with its pod; its phase, its detail and its machines."""
    facts = site.facts
    nodes, each = len(facts.real), processes(facts)
    with site.job(
        stem,
        nodes=nodes,
        command=command,
        runtime=runtime.name,
        folder=_PROGRAMS,
        files=files,
        env={k: v for k, v in proof.DEBUG.items() if k not in runtime.reserved},
        processes_per_node=each,
    ) as run:
        site.say(f"job {run.name}: {nodes} nodes, {each} processes each")
        try:
            state = run.wait(timeout=site.timeout)
            phase, detail = state.phase.value, state.detail
        except TimedOutError as error:
            state = run.state()
            phase, detail = _LATE, error.problem
        site.say(f"job {run.name}: {phase}")
        machines = tuple(node.machine for node in state.nodes)
        ended = {"phase": phase, "detail": detail, "machines": machines}
        return [(line.node, line.text) for line in run.logs()], ended


def _tested(site: Testbed, evidence: Traffic) -> dict[str, Any]:
    """Return the results of nccl-tests, or why they were not run."""
    facts = site.facts
    runtime = _mpi(facts, evidence)
    if isinstance(runtime, str):
        return {"untested": runtime}
    least, most, repeats, warmup = _sizes(facts)
    results: list[Tests] = []
    for name in _ALL:
        words = nccltests.words(name, least=least, most=most, repeats=repeats, warmup=warmup)
        stem = f"nccl-{name.replace('_', '-')}"
        asked: dict[str, Any] = {"collective": name, "ranks": evidence.pods * evidence.processes}
        try:
            message, ended = _job(site, stem, words, files=[nccltests.PROGRAM], runtime=runtime)
            results.append(nccltests.gathered((text for _, text in message), **asked, **ended))
        except RailheadError as error:
            results.append(Tests(**asked, phase="not started", detail=error.problem))
        if not results[-1].program:
            break
    return {"tests": tuple(results)}


def _mpi(facts: Facts, evidence: Traffic) -> Runtime | str:
    """Return the runtime of nccl-tests, or why they are not asked."""
    if facts.contract.stand_in:
        return "they need GPUs, which this pool lacks"
    if evidence.phase != "completed":
        return "the job before them did not complete"
    result = nccltests.runtime(facts.contract, facts.pool)
    return result or f"no runtime of pool {facts.pool.name} is started by mpirun"


def _sizes(facts: Facts) -> tuple[int, int, int, int]:
    """Return the least and the largest message, repeats and warm-up."""
    if facts.contract.stand_in:
        return (MIB, 4 * MIB, 3, 1) if facts.quick else (MIB, 16 * MIB, 10, 2)
    return (64 * MIB, 4 * GIB, 5, 2) if facts.quick else (MIB, 16 * GIB, 20, 5)


def _again(evidence: Traffic) -> str:
    if evidence.phase != "completed":
        return "the job's last lines are below; mend what they say and run it again"
    return "run it again; where it stays so, the lines below say what was printed"


def _mend(lack: str, evidence: Traffic, facts: Facts) -> str:
    """Return the remedy of what is lacking."""
    if "clock" in lack:
        return remedies.CLOCK
    if evidence.phase == "completed" and ("not said its end" in lack or "have begun" in lack):
        return remedies.CUT_OFF
    if evidence.phase == _LATE and not evidence.ranks:
        return remedies.unreached(facts.queue.namespace)
    return _again(evidence)


# -- parts of the verdict -------------------------------------------------------------------------


def _kernel(evidence: Traffic, facts: Facts) -> Statement | None:
    """Return the verdict on the kernel's counters: RDMA traffic does not pass its interfaces."""
    sent, least = seen.kernel(evidence), seen.least(evidence)
    fabric = facts.contract.fabric
    # On the host's network the interfaces are everybody's, and may count what RDMA sent too.
    if sent is None or not least or fabric.counted or fabric.host_network:
        return None
    most = max(sent, key=sent.__getitem__)
    if sent[most] < limits.KERNEL.value * least:
        return None
    backends = ", ".join(sorted({rank.backend for rank in evidence.ranks}))
    return Statement(
        verdict=Verdict.FAILED,
        text=f"the transport is TCP: backend {backends}, and the kernel's interfaces of pod {most} "
        f"have sent {_bytes(sent[most])} while {_bytes(least)} had to leave each node",
        remedy="there is no GPU and no RDMA device in a lab; it cannot be accepted for RDMA"
        if facts.contract.stand_in
        else _WHY,
    )


def _lacks(evidence: Traffic, facts: Facts) -> str:
    if evidence.pods != len(facts.real) or evidence.processes != processes(facts):
        return (
            f"{len(facts.real)} nodes of {processes(facts)} processes were to be looked at, and "
            f"{evidence.pods} of {evidence.processes} were"
        )
    if text := seen.missing(evidence):
        return text
    if elsewhere := sorted(set(evidence.machines) - set(facts.nodes)):
        return f"pods ran on {', '.join(elsewhere)}, which was not asked for"
    backend = evidence.ranks[0].backend
    if backend != "nccl":
        return f"the backend is {backend}, and nothing shows what carried its data"
    measured = {point.collective for point in seen.points(evidence)}
    if lacking := [name for name in _ALL if name not in measured]:
        reported = next((r.why for r in evidence.rows if r.collective == lacking[0] and r.why), "")
        return f"{lacking[0]} was not measured{f': {reported}' if reported else ''}"
    return ""


def _writers(evidence: Traffic, shown: proof.Transport) -> Iterable[Statement]:
    """Yield whether the log is of the very processes that measured."""
    wrote = {(process.pod, process.name.rpartition(":")[2]) for process in shown.processes}
    for rank in evidence.ranks:
        if (rank.pod, str(rank.pid)) not in wrote:
            yield Statement(
                verdict=Verdict.NOT_PROVEN,
                text=f"NCCL's log has no line of rank {rank.rank}, process {rank.pid}",
                remedy=_again(evidence),
            )


def _values(evidence: Traffic) -> Iterable[Statement]:
    wrong = sum(row.wrong or 0 for row in evidence.rows) + sum(r.wrong for r in evidence.rails)
    if wrong:
        yield Statement(
            verdict=Verdict.FAILED,
            text=f"{wrong} values were wrong: data was corrupted on the way",
            remedy="do not train on this cluster; find the node by halving --nodes",
        )
    if any(row.wrong is None for row in evidence.rows):
        yield Statement(verdict=Verdict.NOT_PROVEN, text="not every result was looked at")


def _ports(evidence: Traffic) -> Iterable[Statement]:
    carried, least = seen.carried(evidence), seen.least(evidence)
    if carried is None:
        return
    idle = min(carried, key=carried.__getitem__)
    if carried[idle] < limits.COUNTED.value * least:
        yield Statement(
            verdict=Verdict.NOT_PROVEN,
            text=f"the RDMA ports of {evidence.machines[idle]} have sent {_bytes(carried[idle])} "
            f"while {_bytes(least)} had to leave each node",
            remedy="something else carried the data, or these ports do not count; " + _WHY,
        )


def _rates(evidence: Traffic, facts: Facts) -> Iterable[Statement]:
    rate, why = _line_rate(facts, evidence.pods)
    if rate is None:
        yield Statement(
            verdict=Verdict.NOT_PROVEN,
            text=f"nothing says what the NICs can carry: {why}",
            remedy="name the machine type in the stack's pool, or describe it in the catalogue",
        )
        return
    for name in _GATED:
        point = _largest(evidence, name)
        if point is None:
            continue
        if point.size < limits.LARGE.value:
            yield Statement(
                verdict=Verdict.NOT_PROVEN,
                text=f"the largest {name} is of {size_text(point.size)}: too small to show what "
                "the network carries",
                remedy="free the GPUs' memory; sizes are cut to a quarter of what is free",
            )
        yield from _rate(point, _figures(evidence, facts, point, rate))
    yield from _rails(evidence, facts)


def _rate(point: Point, figures: Sequence[Measured]) -> Iterable[Statement]:
    if point.spread > limits.CLOCKS.value:
        yield Statement(
            verdict=Verdict.NOT_PROVEN,
            text=f"ranks tell {point.spread:.1f} times as much for one {point.collective} as "
            "others: a clock lies, or not all took part",
            remedy=remedies.CLOCK,
        )
    for figure in figures:
        if figure.passed is False and figure.at_least:
            yield Statement(
                verdict=Verdict.FAILED,
                text=f"too slow: {figure.name} is {figure.value:.3g} {figure.unit or ''}".rstrip()
                + f", at least {figure.limit:.3g} is asked",
                remedy="rails that are down or unused, no GPUDirect, wrong affinity: the map of "
                "rails shows where; `railhead diagnose` with NCCL's logs says why",
            )
        elif figure.passed is False:
            yield Statement(
                verdict=Verdict.NOT_PROVEN,
                text=f"{figure.name} is {figure.value:.3g}, more than the NICs can carry: "
                "they were not the path, or a clock lies",
                remedy="the machine type in the stack, or a clock of a node, is not what it says",
            )


def _tests(evidence: Traffic, facts: Facts) -> Iterable[Statement]:
    """Yield the verdicts on nccl-tests; their rates must reach what PyTorch's must."""
    fabric = facts.contract.fabric
    yield from nccltests.verdicts(
        evidence.tests,
        machines=evidence.machines,
        proofs=fabric.proofs,
        gpudirect=fabric.gpudirect,
    )
    rate, _ = _line_rate(facts, evidence.pods)
    for name, point in nccltests.points(evidence.tests).items():
        if name in _GATED:
            yield from _rate(point, _figures(evidence, facts, point, rate, by="nccl-tests, "))


def _rails(evidence: Traffic, facts: Facts) -> Iterable[Statement]:
    share = _share(facts)
    wanted = {(rank, alone) for rank in range(len(evidence.ranks)) for alone in (True, False)}
    if {(r.rank, r.alone) for r in evidence.rails} != wanted or len(evidence.rails) != len(wanted):
        yield Statement(
            verdict=Verdict.NOT_PROVEN,
            text="not every rail of every node was measured",
            remedy=_again(evidence),
        )
        return
    if share is None:
        return
    slow = [r for r in evidence.rails if r.size / r.seconds / 1e9 < limits.LINE_RATE.value * share]
    if slow:
        worst = max(slow, key=lambda r: r.seconds)
        machine = evidence.machines[worst.rank // evidence.processes]
        yield Statement(
            verdict=Verdict.FAILED,
            text=f"rail {worst.rail} of {machine} carries {worst.size / worst.seconds / 1e9:.3g} "
            f"GB/s {'alone' if worst.alone else 'beside the others'}, of {share:.3g} that its NIC "
            f"can; so do {len(slow)} of {len(evidence.rails)} measurements",
            remedy=f"look at that rail's port, cable and switch on {machine} and on the next node",
        )


# -- figures --------------------------------------------------------------------------------------


def _unit(facts: Facts) -> int:
    """Nodes that NVLink makes one."""
    pool = facts.pool
    return max(1, pool.nvlink_domain // pool.gpus_per_node) if pool.gpus_per_node else 1


def _line_rate(facts: Facts, nodes: int) -> tuple[float | None, str]:
    """GB/s of a node's NICs together; None with the reason."""
    pool, unit = facts.pool, _unit(facts)
    if unit > 1:
        return None, (
            f"NVLink makes one of {unit} nodes of {pool.instance_type}, beside which {nodes} nodes "
            "say nothing of the NICs"
        )
    if pool.line_rate_gbps <= 0:
        return None, f"{pool.instance_type} has no nominal rate in the contract"
    return pool.line_rate_gbps / 8, ""


def _share(facts: Facts) -> float | None:
    """GB/s of the NICs that belong to one GPU."""
    rate, _ = _line_rate(facts, 0)
    return rate / facts.pool.gpus_per_node if rate and facts.pool.gpus_per_node else None


def _nic(facts: Facts) -> float | None:
    """Gbit/s of one NIC."""
    pool = facts.pool
    return pool.line_rate_gbps / pool.nics if pool.line_rate_gbps and pool.nics else None


def _largest(evidence: Traffic, name: str) -> Point | None:
    own = [point for point in seen.points(evidence) if point.collective == name]
    return max(own, key=lambda point: point.size, default=None)


def _figures(
    evidence: Traffic, facts: Facts, point: Point, rate: float | None, *, by: str = ""
) -> tuple[Measured, ...]:
    """Return a point's bandwidth, and its limit; ``by`` names the program that measured it."""
    named = f"{by}{point.collective} of {size_text(point.size)}"
    busbw = Measured(name=f"busbw, {named}", value=point.busbw, unit="GB/s")
    wire = COLLECTIVES[point.collective].wire
    if rate is None or wire is None:
        return (busbw,)
    part = point.algbw * wire(evidence.pods, evidence.processes) / rate
    reached = reaches(point.collective, point.busbw, part * rate) / rate
    gated = point.collective in _GATED
    known = _published(evidence, facts, point)
    figures = [
        busbw,
        Measured(
            name=f"part of the line rate, {named}",
            value=reached,
            limit=limits.LINE_RATE.value if gated and known is None else None,
            source=limits.LINE_RATE.source if gated and known is None else "",
        ),
    ]
    if gated:
        figures.append(
            Measured(
                name=f"at most the line rate, {named}",
                value=part,
                limit=limits.ABOVE.value,
                at_least=False,
                source=limits.ABOVE.source,
            )
        )
    if known is not None and gated:
        figures.append(
            Measured(
                name=f"part of the published {known.busbw:g} GB/s, {named}",
                value=known.part,
                limit=limits.PUBLISHED.value,
                source=f"{known.source}; {limits.PUBLISHED.source}",
            )
        )
    return tuple(figures)


def reaches(collective: str, busbw: float, wire: float) -> float:
    """GB/s that NICs show by an operation as NCCL does it, of its busbw and least traffic.

    Rings carry busbw over each border of nodes, and gather and scatter go by rings; all_reduce has
    trees too, of which the least traffic tells.
    """
    return wire if collective == "all_reduce" else max(wire, busbw)


def _published(evidence: Traffic, facts: Facts, point: Point) -> Published | None:
    """Return the published figure of the largest size for this machine, collective and nodes."""
    machine = MACHINES.get(facts.pool.instance_type)
    if machine is None or evidence.processes != machine.gpus:
        return None
    half = Measure(time=point.seconds * 1e6, algbw=point.algbw, busbw=point.busbw)
    row = Row(size=point.size, count=point.size // 4, out_of_place=half)
    run = BenchRun(file="", collective=point.collective, ranks=len(evidence.ranks), rows=(row,))
    return max(
        published_for(run, machine, evidence.pods),
        key=lambda item: (item.size, item.busbw),
        default=None,
    )


def _best(evidence: Traffic) -> str:
    point = _largest(evidence, "all_reduce")
    if point is None:
        return "nothing was measured"
    return f"all_reduce of {size_text(point.size)} has {point.busbw:.1f} GB/s busbw"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


# -- the page -------------------------------------------------------------------------------------


def _result(
    evidence: Traffic, facts: Facts, said: Statement, shown: proof.Transport | None = None
) -> Result:
    rate, _ = _line_rate(facts, evidence.pods)
    figures: list[Measured] = []
    for name in _ALL:
        point = _largest(evidence, name)
        if point is not None:
            figures += _figures(evidence, facts, point, rate)
    for point in nccltests.points(evidence.tests).values():
        figures += _figures(evidence, facts, point, rate, by="nccl-tests, ")
    figures += [*_counted(evidence), *pairs.figures(evidence, _nic(facts))]
    text = said.text[:1].upper() + said.text[1:]
    return Result(
        name=Rdma.name,
        promise=PROMISE,
        verdict=said.verdict,
        summary=text if text.endswith(".") else f"{text}.",
        measured=tuple(figures),
        evidence=tuple(_evidence(evidence, facts, shown)),
        plots=tuple(_plots(evidence, facts, rate)),
        remedy=said.remedy,
        reproduce=_REPRODUCE,
    )


def _counted(evidence: Traffic) -> Iterable[Measured]:
    least, carried, kernel = (
        seen.least(evidence),
        seen.carried(evidence),
        seen.kernel(evidence),
    )
    if not least:
        return
    yield Measured(name="bytes that had to leave each node, at least", value=least, unit="bytes")
    if carried is not None:
        yield Measured(
            name="bytes sent by RDMA ports, the idlest node",
            value=min(carried.values()),
            unit="bytes",
            limit=limits.COUNTED.value * least,
            source=limits.COUNTED.source,
        )
    if kernel is not None:
        yield Measured(
            name="bytes sent by the kernel's interfaces, the busiest node",
            value=max(kernel.values()),
            unit="bytes",
            limit=limits.KERNEL.value * least,
            at_least=False,
            source=limits.KERNEL.source,
        )


def _evidence(evidence: Traffic, facts: Facts, shown: proof.Transport | None) -> Iterable[Evidence]:
    fabric = facts.contract.fabric
    wanted = [*fabric.proofs, *([fabric.gpudirect] if fabric.gpudirect else [])]
    yield Evidence(
        title=f"what must be in the log of every process ({fabric.kind}, {fabric.mode})",
        text="\n".join(wanted) or "the contract names no proof, so no log is one",
    )
    ranks = [
        f"rank {r.rank} on {_machine(evidence, r.pod)}: {r.backend}, {r.device}, torch {r.torch}"
        + (f", NCCL {r.nccl}" if r.nccl else "")
        for r in sorted(evidence.ranks, key=lambda r: r.rank)
    ]
    yield Evidence(title="ranks", text="\n".join(_some(ranks)) or "none has begun")
    if shown is not None and shown.processes:
        text = [
            line
            for entry in sorted(shown.processes, key=lambda item: item.verdict is Verdict.PASSED)
            for line in (f"{entry.name}: {entry.verdict.value}: {entry.text}", *entry.lines)
        ]
        yield Evidence(title="NCCL's log, by process", text="\n".join(_some(text, 60)))
    counters = [
        f"{_machine(evidence, p.pod)} {p.name} {p.layer} {p.rate} {p.when}: "
        + ", ".join(f"{k} {v}" for k, v in sorted(p.counted.items()))
        for p in evidence.ports
    ]
    yield Evidence(
        title="RDMA ports as the pods see them",
        text="\n".join(_some(counters, 80)) or "no port is visible in a pod",
    )
    sent = [
        f"{_machine(evidence, i.pod)} {i.name} {i.when}: {i.sent} bytes sent"
        for i in evidence.interfaces
    ]
    yield Evidence(title="the kernel's interfaces", text="\n".join(_some(sent, 40)) or "none")
    reported = [
        f"{_machine(evidence, entry.node)} to {_machine(evidence, entry.to)}, rail {entry.rail} "
        f"({entry.device}, {test.link}): {entry.tool} "
        + (f"{test.gbps:.2f} Gbit/s" if test.gbps is not None else f"{test.usec:.2f} us")
        for entry, test in pairs.readable(evidence)
    ]
    text = [nccltests.used(evidence.tests, evidence.untested)]
    text += [line for entry in evidence.tests for line in entry.rest if not line.isspace()]
    yield Evidence(title="nccl-tests", text="\n".join(_some(text, 200)))
    why = pairs.lacking(evidence) or "nothing that could be read"
    yield Evidence(title="over verbs, node to node", text="\n".join(_some(reported, 80)) or why)
    if evidence.phase != "completed":
        yield Evidence(
            title=f"the job is {evidence.phase}",
            text="\n".join([evidence.detail, *evidence.rest]).strip(),
        )


def _machine(evidence: Traffic, pod: int) -> str:
    return evidence.machines[pod] if pod < len(evidence.machines) else f"pod {pod}"


def _some(lines: Sequence[str], count: int = _LINES) -> list[str]:
    if len(lines) <= count:
        return list(lines)
    return [*lines[:count], f"... and {len(lines) - count} more"]


def _plots(evidence: Traffic, facts: Facts, rate: float | None) -> Iterable[LinePlot | Map]:
    points = seen.points(evidence)
    series = [
        Series(
            name=name,
            points=tuple((float(p.size), p.busbw) for p in points if p.collective == name),
        )
        for name in _ALL
        if any(p.collective == name for p in points)
    ]
    if series:
        sizes = [float(point.size) for point in points]
        if rate is not None:
            ends = ((min(sizes), rate), (max(sizes), rate))
            series.append(Series(name="line rate of a node's NICs", points=ends, ideal=True))
        yield LinePlot(
            title="Bus bandwidth against message size",
            x=Axis(label="message size", unit="bytes", logarithmic=True),
            y=Axis(label="busbw", unit="GB/s"),
            series=tuple(series),
        )
    share = _share(facts)
    cells = [
        Cell(
            row=_machine(evidence, r.rank // evidence.processes),
            column=f"rail {r.rail}",
            value=r.size / r.seconds / 1e9,
            verdict=_cell(r.size / r.seconds / 1e9, share),
        )
        for r in sorted(evidence.rails, key=lambda r: r.rank)
        if not r.alone
    ]
    if cells:
        yield Map(title="Rails, all at once, to the next node", unit="GB/s", cells=tuple(cells))


def _cell(value: float, share: float | None) -> Verdict:
    if share is None:
        return Verdict.NOT_PROVEN
    return Verdict.PASSED if value >= limits.LINE_RATE.value * share else Verdict.FAILED


CHECK: Check[Traffic] = Rdma()
