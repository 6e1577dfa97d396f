"""The verdict on what nodes said of each other, whole and sabotaged."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from railhead.accept import search
from railhead.accept.checks import slow_nodes
from railhead.accept.checks.slow_nodes import CHECK, Terms, terms
from railhead.accept.gathered import Gathered
from railhead.accept.model import Result, Verdict
from railhead.accept.site import Facts

Row = dict[str, Any]
Change = Callable[[list[list[Row]]], None]
PACE = 0.09


def timing(seconds: float, repeats: int) -> Row:
    """Repeats that scatter a little, by both clocks."""
    times = [seconds * (1 + 0.01 * (number % 3)) for number in range(repeats)]
    return {"seconds": times, "wall": list(times)}


def played(
    facts: Facts, *, slow: tuple[int, ...] = (), factor: float = 10.0, silent: tuple[int, ...] = ()
) -> list[list[Row]]:
    """Return the lines of a fleet's pods, by the program's own search."""
    asked = terms(facts)
    count = len(facts.real)
    compute = {"compute": timing(0.2, asked.repeats * slow_nodes.COMPUTES)}
    if asked.backend == "nccl":
        own: list[Row] = [compute] * asked.processes
    else:
        exchange = {"exchange": timing(PACE, asked.repeats)}
        own = [exchange | compute, exchange]
    alone: list[Row] = [
        {"do": "alone", "node": node, "processes": json.loads(json.dumps(own))}
        for node in range(count)
    ]
    pods: list[list[Row]] = [[row] for row in alone]
    floor = asked.floor
    if floor is None:
        assert asked.share is not None
        loops = search.loopbacks(alone, size=asked.size, repeats=asked.repeats)
        floor = search.loopback_floor(loops, asked.share)
    hunt = search.Search([str(index) for index in range(count)], seed=20, floor=floor)
    number = 0
    while groups := hunt.ask():
        pods[0].append({"do": "round", "round": number, "groups": [list(g) for g in groups]})
        outcomes = []
        for at, group in enumerate(groups):
            members = [int(node) for node in group]
            reports = []
            if not set(members) & set(silent):
                pace = asked.size / 1e9 / 48 if asked.ceiling else PACE
                pace *= factor if set(members) & set(slow) else 1
                for member in members:
                    report: Row = {
                        "do": "group",
                        "test": f"{number}.{at}",
                        "group": list(group),
                        "node": member,
                        "processes": [{"exchange": timing(pace, asked.repeats)}] * asked.processes,
                    }
                    if asked.proofs:
                        report |= {"proven": True, "shown": ["via NET/IB/0"]}
                    pods[member].append(report)
                    reports.append(report)
            outcomes.append(
                search.outcome(
                    group,
                    search.answers(f"{number}.{at}", reports, proofs=bool(asked.proofs)),
                    size=asked.size,
                    repeats=asked.repeats,
                    ceiling=asked.ceiling,
                )
            )
        hunt.tell(outcomes)
        number += 1
    pods[0].append({"do": "searched", "rounds": number, "tests": len(hunt.tests)})
    for node, rows in enumerate(pods):
        text = sum(row["do"] in ("alone", "group") for row in rows)
        rows.append({"do": "end", "node": node, "said": text})
    return pods


def gathered(facts: Facts, pods: list[list[Row]], **changed: Any) -> Gathered:
    fields: dict[str, Any] = {
        "command": tuple(terms(facts).command()),
        "asked": len(facts.real),
        "phase": "completed",
        "detail": "",
        "seconds": 60.0,
        "restarts": 0,
        "machines": facts.real,
        "lines": tuple(tuple(json.dumps(row) for row in rows) for rows in pods),
        "other_lines": ((),) * len(pods),
    }
    return Gathered(**(fields | changed))


def judged(facts: Facts, pods: list[list[Row]], **changed: Any) -> Result:
    # As the runner does it: what is judged was written and read.
    evidence = Gathered.model_validate_json(gathered(facts, pods, **changed).model_dump_json())
    return CHECK.judge(evidence, facts)


@pytest.fixture
def fleet(facts: Facts) -> Facts:
    """Nine nodes, for which halves and partners are needed."""
    return replace(facts, nodes=tuple(f"n{index}" for index in range(9)))


@pytest.fixture
def metal(facts: Facts) -> Facts:
    """Nine nodes with GPUs and NICs of 400 Gbit/s in all."""
    pool = facts.pool.model_copy(update={"accelerator": "H100", "line_rate_gbps": 400})
    fabric = facts.contract.fabric.model_copy(update={"proofs": ("via NET/IB",)})
    return replace(
        facts,
        nodes=tuple(f"n{index}" for index in range(9)),
        pool=pool,
        contract=facts.contract.model_copy(update={"fabric": fabric}),
    )


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["facts", "fleet", "metal"])
def test_a_good_fleet_passes(which: str, request: pytest.FixtureRequest) -> None:
    known: Facts = request.getfixturevalue(which)
    result = judged(known, played(known))
    assert result.verdict is Verdict.PASSED, result.summary
    assert f"All {len(known.real)} nodes are good" in result.summary
    assert ("without GPUs" in result.summary) is (which != "metal")


@pytest.mark.parametrize("which", ["fleet", "metal"])
def test_a_slow_node_is_named(which: str, request: pytest.FixtureRequest) -> None:
    known: Facts = request.getfixturevalue(which)
    result = judged(known, played(known, slow=(4,)))
    assert result.verdict is Verdict.FAILED
    assert "n4: " in result.summary
    assert "n3" not in result.summary
    assert "kubectl cordon" in result.remedy


def test_pair_of_slow_nodes_is_ambiguous(facts: Facts) -> None:
    result = judged(facts, played(facts, slow=(1,)))
    assert result.verdict is Verdict.FAILED
    assert "lab-node-0 or a partner" in result.summary
    assert "lab-node-1 or a partner" in result.summary


def test_a_node_that_computes_slowly_is_named(facts: Facts) -> None:
    pods = played(facts)
    pods[1][0]["processes"][0]["compute"] = timing(0.5, terms(facts).repeats * 5)
    result = judged(facts, pods)
    assert result.verdict is Verdict.FAILED
    assert "lab-node-1: computes at 40% of the fleet's pace" in result.summary


def test_a_node_that_says_nothing_is_never_good(fleet: Facts) -> None:
    result = judged(fleet, played(fleet, silent=(2,)))
    assert result.verdict is Verdict.FAILED
    assert "n2" in result.summary
    assert "n1" not in result.summary


def test_no_proof_of_the_transport_is_never_good(metal: Facts) -> None:
    pods = played(metal)
    for rows in pods:
        for row in rows:
            if "proven" in row:
                row["proven"] = False
    result = judged(metal, pods)
    # The program would have gone on to other groups: its record is not what was to be done.
    assert result.verdict is Verdict.NOT_PROVEN


def test_gpus_are_tested_over_nccl_alone(facts: Facts, metal: Facts) -> None:
    assert terms(facts).backend == "gloo"
    asked = terms(metal)
    assert asked.backend == "nccl"
    assert asked.proofs == ("via NET/IB",)
    assert asked.floor == pytest.approx(20)
    assert asked.ceiling == pytest.approx(50)


# -- sabotage -------------------------------------------------------------------------------------


def _drop_last(pods: list[list[Row]]) -> None:
    pods[1].pop()


def _drop_a_test(pods: list[list[Row]]) -> None:
    pods[1] = [row for row in pods[1] if row["do"] != "group"]


def _empty(pods: list[list[Row]]) -> None:
    pods[1].clear()


def _of_another(pods: list[list[Row]]) -> None:
    pods[1][0]["node"] = 0


def _twice(pods: list[list[Row]]) -> None:
    pods[1].insert(1, pods[1][1])
    pods[1][-1]["said"] += 1


def _no_round(pods: list[list[Row]]) -> None:
    pods[0] = [row for row in pods[0] if row["do"] != "round"]


def _another_round(pods: list[list[Row]]) -> None:
    next(row for row in pods[0] if row["do"] == "round")["groups"] = [["0"]]


def _backwards(pods: list[list[Row]]) -> None:
    for row in pods[1]:
        for process in row.get("processes", ()):
            if "exchange" in process:
                process["exchange"]["wall"][-1] *= -1


def _nan(pods: list[list[Row]]) -> None:
    for row in pods[1]:
        if row["do"] == "group":
            row["processes"][0]["exchange"]["seconds"][2] = math.nan


def _zero(pods: list[list[Row]]) -> None:
    for row in pods[1]:
        if row["do"] == "group":
            row["processes"][0]["exchange"]["seconds"][2] = 0


def _fewer_repeats(pods: list[list[Row]]) -> None:
    for row in pods[1]:
        if row["do"] == "group":
            row["processes"][0]["exchange"]["seconds"].pop()


def _fast(pods: list[list[Row]]) -> None:
    for row in pods[1]:
        if row["do"] == "group":
            row["processes"][0]["exchange"] = timing(PACE / 50, 9)


def _text(pods: list[list[Row]]) -> None:
    pods[1][1]["processes"] = "fine"


def _no_compute(pods: list[list[Row]]) -> None:
    del pods[1][0]["processes"][0]["compute"]


@pytest.mark.parametrize(
    "change",
    [
        _drop_last,
        _drop_a_test,
        _empty,
        _of_another,
        _twice,
        _no_round,
        _another_round,
        _backwards,
        _nan,
        _zero,
        _fewer_repeats,
        _fast,
        _text,
        _no_compute,
    ],
)
def test_sabotaged_evidence_proves_nothing(facts: Facts, change: Change) -> None:
    pods: list[list[Row]] = json.loads(json.dumps(played(facts)))
    change(pods)
    result = judged(facts, pods)
    assert result.verdict is Verdict.NOT_PROVEN, result.summary
    assert result.remedy


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"phase": "failed", "detail": "exited 1"}, "its job is failed, not completed (exited 1)"),
        ({"restarts": 1}, "started again"),
        ({"machines": ("lab-node-0", "lab-node-0")}, "it ran on 1 of 2 nodes, not on lab-node-1"),
        ({"machines": ("lab-node-0", "other")}, "not on lab-node-1"),
        ({"machines": ("lab-node-0",)}, "1 of 2 nodes"),
        ({"asked": 1}, "it ran on"),
        ({"command": ("true",)}, "other words"),
    ],
)
def test_a_job_that_is_not_whole_proves_nothing(
    facts: Facts, changed: dict[str, Any], says: str
) -> None:
    result = judged(facts, played(facts), **changed)
    assert result.verdict is Verdict.NOT_PROVEN
    assert says in result.summary


@pytest.mark.parametrize("slower", [0.1, 10.0])
def test_neither_of_two_nodes_is_slow_where_one_lies(facts: Facts, slower: float) -> None:
    pods: list[list[Row]] = json.loads(json.dumps(played(facts)))
    for row in pods[1]:
        for process in row.get("processes", ()):
            for timing in process.values():
                for clock, times in timing.items():
                    timing[clock] = [seconds * slower for seconds in times]
    result = judged(facts, pods)
    assert result.verdict is Verdict.NOT_PROVEN, result.summary
    assert "a clock lies" in result.summary
    assert "chronyc tracking" in result.remedy


def test_pods_that_do_not_meet_are_reported_with_the_cause(facts: Facts) -> None:
    lost = {"do": "unmet", "node": 1, "to": "node-0:29500", "why": "[Errno 111] refused"}
    pods = [played(facts)[0], [lost, {"do": "end", "node": 1, "said": 0}]]
    result = judged(facts, pods)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "lab-node-1 could not reach node-0:29500: [Errno 111] refused" in result.summary
    assert f"kubectl get networkpolicy -n {facts.queue.namespace}" in result.remedy


@pytest.mark.parametrize("cut", [1, 7, 30])
def test_output_that_is_cut_off_proves_nothing(facts: Facts, cut: int) -> None:
    made = gathered(facts, played(facts))
    lines = (made.lines[0], (*made.lines[1][:-1], made.lines[1][-1][:-cut]))
    result = CHECK.judge(made.model_copy(update={"lines": lines}), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "cannot be read" in result.summary
    assert "containerLogMaxSize" in result.remedy


# -- plan -----------------------------------------------------------------------------------------


def test_a_plan_says_what_is_missing(facts: Facts, metal: Facts) -> None:
    assert CHECK.plan(facts).missing == ""
    assert "1 real nodes" in CHECK.plan(replace(facts, nodes=("one",))).missing
    bare = metal.contract.fabric.model_copy(update={"proofs": ()})
    contract = metal.contract.model_copy(update={"fabric": bare})
    assert "proves" in CHECK.plan(replace(metal, contract=contract)).missing
    runtime = facts.runtime.model_copy(update={"reserved": {}})
    assert "--runtime" in CHECK.plan(replace(facts, runtime=runtime)).missing


def test_simulated_nodes_are_not_asked(facts: Facts) -> None:
    nodes = replace(facts, nodes=("a", "b", "c"), simulated=("c",))
    assert CHECK.plan(nodes).nodes == 2


def test_the_program_takes_the_command_line(facts: Facts, metal: Facts) -> None:
    from railhead.accept.programs import slow_nodes as program

    for known in (facts, metal):
        asked: Terms = terms(known)
        words = asked.command()
        assert words[:2] == ["python3", "/workspace/slow_nodes.py"]
        given = program.read_arguments(words[2:])
        assert (given.backend, given.mebibytes, given.repeats) == (
            asked.backend,
            asked.mebibytes,
            asked.repeats,
        )
        assert (given.floor, given.ceiling) == (asked.floor, asked.ceiling)
        assert tuple(given.proof) == asked.proofs
    assert program.MARK == slow_nodes.MARK
    assert program.COMPUTES == slow_nodes.COMPUTES
