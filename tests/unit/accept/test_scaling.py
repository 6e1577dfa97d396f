"""The verdict on what processes timed, whole and sabotaged."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import pytest

from railhead.accept.checks import scaling
from railhead.accept.checks.scaling import CHECK, MARK, interval, middle, terms
from railhead.accept.gathered import Gathered
from railhead.accept.model import LinePlot, Result, Verdict
from railhead.accept.site import Facts

Row = dict[str, Any]
Pods = list[list[Row]]
STEP = 0.05


def played(
    facts: Facts,
    *,
    communication: float = 0.001,
    straggler: int | None = None,
    waits: float = 0.0,
    slower: float = 1.0,
    hidden: float = 0.0,
    scatter: float = 0.01,
    wild: int = 0,
) -> Pods:
    """Return the lines of the processes.

    Args:
        facts: nodes.
        communication: seconds that a step's sum over nodes takes, and adds.
        straggler: a node whose steps take half as long again.
        waits: seconds that a step on several nodes waits for its batch.
        slower: how much longer computing takes on several nodes.
        hidden: seconds of a step on several nodes that nothing measured accounts for.
        scatter: of each repeat, the same for all processes.
        wild: of so many repeats one takes three times as long on several nodes.
    """
    asked = terms(facts)
    source = random.Random(5)
    count = asked.nodes * asked.processes
    rows: list[dict[tuple[str, int], list[Row]]] = [{} for _ in range(count)]
    now = 1.7e9
    for number in range(asked.repeats):
        for block in asked.blocks(0):
            kind, size = block
            noise = 1 + source.gauss(0, scatter)
            if wild and number % wild == 0 and size > 1:
                noise *= 3
            longest = 0.0
            for rank in range(count):
                if block not in asked.blocks(rank):
                    continue
                group = next(g for g in asked.ranks(size) if rank in g)
                nodes = [member // asked.processes for member in group]
                own = STEP * (slower if size > 1 else 1) * noise
                pace = own * (1.5 if rank // asked.processes == straggler else 1)
                joined = own * (1.5 if straggler in nodes else 1)
                extra = (communication + hidden) * (size > 1)
                data = waits * (size > 1)
                step = {
                    "alone": pace,
                    "weak": joined + extra + data,
                    "compute": pace,
                    "strong": joined / size + extra + data,
                    "sum": communication,
                }[kind]
                waited = data if kind in ("weak", "strong") else 0.0
                seconds = step * asked.steps
                longest = max(longest, seconds)
                rows[rank].setdefault(block, []).append(
                    {
                        "at": now,
                        "seconds": seconds,
                        "wall": seconds,
                        "waited": waited * asked.steps,
                        "steps": [step] * asked.steps,
                    }
                )
            now += longest + 0.01
    pods: Pods = [[] for _ in range(asked.nodes)]
    for rank, blocks in enumerate(rows):
        pod = pods[rank // asked.processes]
        pod += [
            {"kind": kind, "nodes": size, "rank": rank, "repeats": repeats}
            for (kind, size), repeats in blocks.items()
        ]
        pod.append({"kind": "end", "rank": rank, "said": len(blocks), "device": "cpu"})
    return pods


def gathered(facts: Facts, pods: Pods, **changed: Any) -> Gathered:
    fields: dict[str, Any] = {
        "command": tuple(terms(facts).command()),
        "asked": len(facts.real),
        "phase": "completed",
        "detail": "",
        "seconds": 500.0,
        "restarts": 0,
        "machines": facts.real,
        "lines": tuple(tuple(json.dumps(row) for row in rows) for rows in pods),
        "other_lines": ((),) * len(pods),
    }
    return Gathered(**(fields | changed))


def judged(facts: Facts, pods: Pods, **changed: Any) -> Result:
    # As the runner does it: what is judged was written and read.
    evidence = Gathered.model_validate_json(gathered(facts, pods, **changed).model_dump_json())
    return CHECK.judge(evidence, facts)


@pytest.fixture
def metal(facts: Facts) -> Facts:
    """Five nodes of two GPUs that share nothing."""
    pool = facts.pool.model_copy(update={"accelerator": "H100"})
    return replace(
        facts,
        nodes=tuple(f"n{index}" for index in range(5)),
        pool=pool,
        runtime=facts.runtime.model_copy(update={"processes_per_node": 2}),
        contract=facts.contract.model_copy(update={"platform": "aws", "stand_in": False}),
    )


def value(result: Result, name: str) -> float:
    return next(item.value for item in result.measured if item.name == name)


def text(result: Result) -> str:
    return "\n".join(item.text for item in result.evidence)


# -- verdicts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["facts", "metal"])
def test_near_linear_passes(which: str, request: pytest.FixtureRequest) -> None:
    known: Facts = request.getfixturevalue(which)
    result = judged(known, played(known))
    assert result.verdict is Verdict.PASSED, result.summary
    most = max(terms(known).sizes)
    assert value(result, f"weak scaling on {most} nodes") == pytest.approx(50 / 51, abs=0.01)
    assert value(result, f"strong scaling on {most} nodes, times as fast") > 0.9 * most / (
        1 + most / 50
    )
    assert ("share one machine" in result.summary) is (which == "facts")
    (plot,) = result.plots
    assert isinstance(plot, LinePlot)
    assert [series.name for series in plot.series] == ["linear", "weak", "strong"]
    limits = [item for item in result.measured if item.limit is not None]
    assert limits
    assert all("1706.02677" in item.source for item in limits)


def test_sizes_are_powers_of_two_and_all_nodes(metal: Facts) -> None:
    asked = terms(metal)
    assert asked.sizes == (1, 2, 4, 5)
    assert asked.ranks(2) == (range(4), range(4, 8))
    assert ("weak", 2) not in asked.blocks(9)
    assert ("weak", 5) in asked.blocks(9)


@pytest.mark.parametrize(
    ("changed", "words", "remedy"),
    [
        ({"communication": 0.02}, "not hidden behind computing", "--only rdma"),
        ({"straggler": 1}, "all wait for the slowest", "--only slow-nodes"),
        ({"waits": 0.02}, "wait for their batches", "prepare the batches"),
        ({"slower": 1.5}, "each node computes slower", "power"),
        ({"hidden": 0.02}, "does not explain it", "profile"),
    ],
)
def test_drop_is_reported_with_its_cause(
    metal: Facts, changed: dict[str, Any], words: str, remedy: str
) -> None:
    result = judged(metal, played(metal, **changed))
    assert result.verdict is Verdict.FAILED, result.summary
    assert words in result.summary
    assert remedy in result.remedy
    assert words in text(result)


def test_an_interval_that_holds_both_proves_nothing(facts: Facts) -> None:
    pods = played(facts, communication=0.005, scatter=0.15)
    result = judged(facts, pods)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "the interval holds both" in result.summary


def test_more_than_linear_is_a_disturbed_baseline(facts: Facts) -> None:
    result = judged(facts, played(facts, slower=0.8))
    assert result.verdict is Verdict.NOT_PROVEN
    assert "more than linear" in result.summary


def test_alone_counts_where_nodes_share_nothing(metal: Facts, facts: Facts) -> None:
    """A step on all nodes is compared with a node that is faster while the others idle."""
    for known, verdict in ((metal, Verdict.FAILED), (facts, Verdict.PASSED)):
        pods = played(known)
        for row in pods[0]:
            if row["kind"] == "alone":
                for repeat in row["repeats"]:
                    repeat["steps"] = [step * 0.8 for step in repeat["steps"]]
                    repeat["seconds"] *= 0.8
                    repeat["wall"] *= 0.8
        assert judged(known, pods).verdict is verdict


def test_the_interval_is_students() -> None:
    ratios = [0.95, 0.97, 0.9, 0.93, 0.96, 0.94, 0.95, 0.92, 0.97, 0.93]
    logs = [math.log(ratio) for ratio in ratios]
    half = 2.262 * stdev(logs) / math.sqrt(10)
    got = interval(ratios)
    assert got.mean == pytest.approx(math.exp(fmean(logs)))
    assert got.low == pytest.approx(math.exp(fmean(logs) - half))
    assert got.high == pytest.approx(math.exp(fmean(logs) + half))
    wide = interval([0.9, 0.9])
    assert wide.low == pytest.approx(0.9)
    assert interval([0.9]).low == 0


def test_the_interval_of_the_median_is_the_sign_tests() -> None:
    """The interval of 30 values is the 10th to the 21st; five prove nothing."""
    ratios = [0.9 + number / 1000 for number in range(30)]
    random.Random(3).shuffle(ratios)
    got = middle(ratios)
    assert got.low == pytest.approx(0.909)
    assert got.high == pytest.approx(0.920)
    assert got.mean == pytest.approx(0.9145)
    assert middle([0.95] * 5).low == 0
    assert middle([0.95] * 6).low == pytest.approx(0.95)


def test_wild_repeats_of_a_machine_that_others_use_move_nothing(facts: Facts) -> None:
    result = judged(facts, played(facts, wild=5))
    assert result.verdict is Verdict.PASSED, result.summary


# -- sabotage -------------------------------------------------------------------------------------


def _each(pods: Pods, kinds: tuple[str, ...], change: Callable[[Row], None]) -> None:
    for row in pods[1]:
        if row["kind"] in kinds:
            for repeat in row["repeats"]:
                change(repeat)


def _no_end(pods: Pods) -> None:
    pods[1].pop()


def _no_rank(pods: Pods) -> None:
    pods[1].clear()


def _a_block_less(pods: Pods) -> None:
    pods[1].pop(0)


def _fewer_repeats(pods: Pods) -> None:
    pods[1][0]["repeats"].pop()


def _more_repeats(pods: Pods) -> None:
    pods[1][0]["repeats"].append(pods[1][0]["repeats"][0])


def _fewer_steps(pods: Pods) -> None:
    pods[1][0]["repeats"][0]["steps"].pop()


def _of_another(pods: Pods) -> None:
    pods[1][0]["rank"] = 0


def _backwards(pods: Pods) -> None:
    _each(pods, ("weak",), lambda row: row.update(at=row["at"] - 100))


def _one_clock_fast(pods: Pods) -> None:
    _each(pods, ("weak", "strong"), lambda row: row.update(wall=row["wall"] / 10 + 2))


def _faster_than_computing(pods: Pods) -> None:
    for pod in pods:
        for row in pod:
            if row["kind"] == "weak" and row["nodes"] == 2:
                for repeat in row["repeats"]:
                    repeat["steps"] = [step / 4 for step in repeat["steps"]]
                    repeat["seconds"] /= 4
                    repeat["wall"] /= 4


def _one_rank_faster(pods: Pods) -> None:
    def lie(row: Row) -> None:
        row["steps"] = [0.001 for _ in row["steps"]]
        row["seconds"] = row["wall"] = sum(row["steps"])

    _each(pods, ("weak", "strong", "sum", "compute"), lie)


def _nan(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["steps"][2] = math.nan


def _zero(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["seconds"] = 0


def _negative(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["steps"][2] = -0.05


def _infinite(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["wall"] = math.inf


def _words(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["seconds"] = "soon"


def _missing_figure(pods: Pods) -> None:
    del pods[1][0]["repeats"][3]["at"]


def _no_row(pods: Pods) -> None:
    pods[1][0]["repeats"][3] = None


def _no_list(pods: Pods) -> None:
    pods[1][0]["repeats"] = 7


def _waited_longer_than_it_took(pods: Pods) -> None:
    pods[1][0]["repeats"][3]["waited"] = 60


@pytest.mark.parametrize(
    "change",
    [
        _no_end,
        _no_rank,
        _a_block_less,
        _fewer_repeats,
        _more_repeats,
        _fewer_steps,
        _of_another,
        _backwards,
        _one_clock_fast,
        _faster_than_computing,
        _one_rank_faster,
        _nan,
        _zero,
        _negative,
        _infinite,
        _words,
        _missing_figure,
        _no_row,
        _no_list,
        _waited_longer_than_it_took,
    ],
)
def test_sabotaged_evidence_proves_nothing(facts: Facts, change: Callable[[Pods], None]) -> None:
    pods: Pods = json.loads(json.dumps(played(facts)))
    assert judged(facts, pods).verdict is Verdict.PASSED
    change(pods)
    result = judged(facts, pods)
    assert result.verdict is Verdict.NOT_PROVEN, result.summary
    assert result.remedy


@pytest.mark.parametrize(
    ("change", "mend"),
    [
        (_no_end, "containerLogMaxSize"),
        (_backwards, "chronyc tracking"),
        (_one_clock_fast, "chronyc tracking"),
        (_faster_than_computing, "chronyc tracking"),
        (_one_rank_faster, "chronyc tracking"),
    ],
)
def test_a_log_that_is_cut_and_a_clock_that_lies_have_remedies(
    facts: Facts, change: Callable[[Pods], None], mend: str
) -> None:
    pods: Pods = json.loads(json.dumps(played(facts)))
    change(pods)
    assert mend in judged(facts, pods).remedy


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"phase": "running"}, "its job is running, not completed"),
        ({"restarts": 2}, "started again"),
        ({"machines": ("lab-node-0", "lab-node-0")}, "1 of 2 nodes"),
        ({"seconds": 3.0}, "of a job of 3 s"),
        ({"command": ("torchrun", "x")}, "other words"),
    ],
)
def test_a_job_that_is_not_whole_proves_nothing(
    facts: Facts, changed: dict[str, Any], says: str
) -> None:
    result = judged(facts, played(facts), **changed)
    assert result.verdict is Verdict.NOT_PROVEN
    assert says in result.summary


@pytest.mark.parametrize("cut", [1, 9, 200])
def test_output_that_is_cut_off_proves_nothing(facts: Facts, cut: int) -> None:
    made = gathered(facts, played(facts))
    lines = (made.lines[0], (*made.lines[1][:-2], made.lines[1][-2][:-cut]))
    result = CHECK.judge(made.model_copy(update={"lines": lines}), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "cannot be read" in result.summary


# -- plan -----------------------------------------------------------------------------------------


def test_a_plan_says_what_is_missing(facts: Facts) -> None:
    assert CHECK.plan(facts).missing == ""
    assert "1 real nodes" in CHECK.plan(replace(facts, nodes=("one",))).missing
    runtime = facts.runtime.model_copy(update={"reserved": {}})
    assert "--runtime" in CHECK.plan(replace(facts, runtime=runtime)).missing


def test_quick_repeats_less(facts: Facts) -> None:
    assert terms(facts).repeats == 24
    assert terms(replace(facts, quick=False)).repeats == 60


def test_the_program_marks_its_lines_so() -> None:
    from pathlib import Path

    program = Path(scaling.__file__).parent.parent / "programs" / "scaling.py"
    assert f'MARK = "{MARK}"' in program.read_text()
