"""The restart check passes trainings that came back whole, and tells each way in which none did."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from railhead.accept.checks import restart
from railhead.accept.checks.restart import CHECK, EVERY, Trainings, harmed, steps_of
from railhead.accept.losing import Lost
from railhead.accept.model import LinePlot, Verdict
from railhead.accept.programs import restart as program
from railhead.accept.record import Row
from railhead.accept.site import Facts, Testbed
from railhead.accept.training import Harm, LogLine, Trained, UnreadableError, attempts, diary

Job = dict[str, Any]


def loss(step: int) -> str:
    return f"{24.0 / (1 + step):.17g}"


def lines_of(harms: tuple[Harm, ...], steps: int) -> list[str]:
    """Return the diary of a training that does as it should."""
    results, done = [], 0
    ends = [harm.step for harm in harms] + [steps]
    for number, end in enumerate(ends, 1):
        results.append(f"begin attempt={number} pod=job-node-0-0-{number}")
        if number > 1:
            done = (ends[number - 2] // EVERY) * EVERY
            results.append(f"resumed step={done}")
        for step in range(done + 1, end + 1):
            results.append(f"step n={step} loss={loss(step)}")
            if step % EVERY == 0:
                results.append(f"saved step={step}")
    return results


def printed(lines: list[str]) -> list[dict[str, Any]]:
    """Return the lines of the last attempt, behind torchrun's prefix."""
    texts = [f"diary {number} {line}" for number, line in enumerate(lines, 1)]
    texts.append(f"diary lines={len(lines)}")
    return [{"t": 0, "node": 0, "text": f"[default0]:restart: {text}"} for text in texts]


def job(harms: tuple[Harm, ...], steps: int) -> Job:
    """Return a job that came back each time."""
    lines = lines_of(harms, steps)
    live, t = [], 1.0
    for line in lines:
        t += 0.5
        number = line.startswith("begin ") and int(line.split("=")[1].split()[0])
        if number and number > 1:
            text = f"restart: harm kind={harms[number - 2].kind} step={harms[number - 2].step}"
            live.append({"t": t, "node": 0, "text": text})
            t += 10
        live.append({"t": t, "node": 0, "text": f"restart: {line}"})
    rows = [
        {"t": 1.0, "rv": 10 * number + index, "kind": "pod", "event": "MODIFIED", "gang": "job"}
        | {"pod": f"p{number}-{index}", "uid": f"u{number}-{index}", "index": index, "node": "n"}
        for number in range(1, len(harms) + 2)
        for index in range(2)
    ]
    return {
        "name": "job",
        "nodes": 2,
        "steps": steps,
        "every": EVERY,
        "harms": harms,
        "phase": "completed",
        "restarts": len(harms),
        "rows": [Row.model_validate(row) for row in rows],
        "live": live,
        "last": printed(lines),
    }


def trainings(
    facts: Facts, edit: Callable[[Job], Job] = lambda item: item, **whole: Any
) -> Trainings:
    """Good ones; ``edit`` changes the first that was harmed."""
    steps = steps_of(facts)
    broken = [job(harms, steps) for harms in harmed(facts, pods=True)]
    broken[0] = edit(broken[0])
    return Trainings(
        unbroken=Trained.model_validate(job((), steps) | whole),
        broken=tuple(Trained.model_validate(entry) for entry in broken),
    )


@pytest.mark.parametrize("quick", [True, False])
def test_trainings_that_come_back_with_the_same_losses_pass(facts: Facts, quick: bool) -> None:
    facts = dataclasses.replace(facts, quick=quick)
    result = CHECK.judge(trainings(facts), facts)
    assert (result.verdict, result.remedy) == (Verdict.PASSED, "")
    assert "4 times" in result.summary
    assert all(item.passed is not False for item in result.measured)
    figures = {item.name: item.value for item in result.measured}
    assert figures["a rank was killed: steps lost"] == 2
    assert figures["a rank was killed: back after"] > 10
    (plot,) = result.plots
    assert isinstance(plot, LinePlot)
    assert len(plot.marks) == 4


def test_evidence_is_read_again_as_it_was_written(facts: Facts) -> None:
    result = trainings(facts)
    assert Trainings.model_validate_json(result.model_dump_json()) == result


def rewritten(one: Job, change: Callable[[list[str]], list[str]]) -> Job:
    """Return a job whose diary says something else, and that was heard saying so."""
    lines = change(lines_of(one["harms"], one["steps"]))
    heard = [item for item in one["live"] if not item["text"].startswith("restart: step")]
    return one | {"last": printed(lines), "live": heard}


def last_digit(one: Job) -> Job:
    """Return the loss of one step after the restart differs in its last digit."""

    def change(lines: list[str]) -> list[str]:
        place = max(i for i, line in enumerate(lines) if line.startswith("step n=5 "))
        wrong = lines[place][:-1] + ("1" if lines[place][-1] != "1" else "2")
        return [*lines[:place], wrong, *lines[place + 1 :]]

    return rewritten(one, change)


def one_too_many(one: Job) -> Job:
    return one | {"restarts": one["restarts"] + 1}


def one_pod_too_many(one: Job) -> Job:
    row = one["rows"][0].model_copy(update={"uid": "another", "rv": 999})
    return one | {"rows": [*one["rows"], row]}


def from_the_beginning(one: Job) -> Job:
    """Lose the checkpoint: the second attempt begins at step 1."""

    def change(lines: list[str]) -> list[str]:
        place = next(i for i, line in enumerate(lines) if line.startswith("resumed"))
        again = [f"step n={step} loss={loss(step)}" for step in range(1, EVERY + 1)]
        return [*lines[:place], *again, *lines[place + 1 :]]

    return rewritten(one, change)


def not_shared(one: Job) -> Job:
    texts = {"t": 3.0, "node": 1, "text": "restart: unshared node=1 file=x reads=0 another=ab"}
    return one | {"phase": "failed", "live": [texts], "last": []}


def not_started_again(one: Job) -> Job:
    """Switch the restart policy off: the first death is the last."""
    return one | {"phase": "failed", "restarts": 0, "last": [], "detail": "FailedJobs"}


@pytest.mark.parametrize(
    ("edit", "says", "remedy"),
    [
        (last_digit, "the loss of step 5", "storage"),
        (one_too_many, "attempts were to be made", "backoffLimit"),
        (one_pod_too_many, "attempts were to be made", "backoffLimit"),
        (from_the_beginning, "took up at step 0", "CHECKPOINT_DIR"),
        (not_shared, "not on all nodes", "ReadWriteMany"),
        (not_started_again, "was not started again", "failurePolicy"),
    ],
)
def test_incomplete_restart_fails(
    facts: Facts, edit: Callable[[Job], Job], says: str, remedy: str
) -> None:
    result = CHECK.judge(trainings(facts, edit), facts)
    assert result.verdict is Verdict.FAILED
    assert says in result.summary
    assert remedy in result.remedy


def no_harm_heard(one: Job) -> Job:
    return one | {"live": [item for item in one["live"] if " harm " not in item["text"]]}


def clock_goes_back(one: Job) -> Job:
    texts = [line | {"t": 500 - line["t"]} for line in one["live"]]
    return one | {"live": texts}


def before_it_was_harmed(one: Job) -> Job:
    """Report the job back before it was harmed: no time can be measured."""
    live = sorted(one["live"], key=lambda item: "harm" in item["text"])
    return one | {"live": [entry | {"t": 1.0 * i} for i, entry in enumerate(live)]}


def another_diary(one: Job) -> Job:
    """Make the lines that were followed differ from the diary."""
    live = [
        item | {"text": "restart: step n=2 loss=9.9"} if "step n=2 " in item["text"] else item
        for item in one["live"]
    ]
    return one | {"live": live}


@pytest.mark.parametrize(
    "edit",
    [
        lambda one: one | {"last": one["last"][:-1]},
        lambda one: one | {"last": one["last"][: len(one["last"]) // 2]},
        lambda one: one | {"last": one["last"][1:]},
        lambda one: one | {"last": []},
        lambda one: one | {"rows": []},
        lambda one: one | {"rows": [row for row in one["rows"] if row.index == 0]},
        lambda one: one | {"rows": one["rows"][:-2]},
        lambda one: one | {"restarts": None},
        lambda item: item | {"restarts": 0},
        lambda entry: entry | {"phase": "running", "last": []},
        lambda one: one | {"gap": "too old resource version"},
        lambda one: rewritten(one, lambda lines: [*lines[:5], "step n=5 loss=nan", *lines[6:]]),
        lambda one: rewritten(one, lambda lines: [*lines[:5], "step n=5 loss=-1", *lines[6:]]),
        lambda one: rewritten(one, lambda lines: [*lines[:5], "step n=5 loss=0", *lines[6:]]),
        lambda one: rewritten(one, lambda lines: [*lines[:5], "step n=x loss=1", *lines[6:]]),
        lambda one: rewritten(one, lambda lines: [*lines[:5], "another line", *lines[6:]]),
        lambda one: rewritten(one, lambda lines: lines[:-3]),
        no_harm_heard,
        clock_goes_back,
        before_it_was_harmed,
        another_diary,
    ],
)
def test_incomplete_or_false_evidence_proves_nothing(
    facts: Facts, edit: Callable[[Job], Job]
) -> None:
    result = CHECK.judge(trainings(facts, edit), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert result.remedy


@pytest.mark.parametrize(
    "whole",
    [
        {"last": []},
        {"phase": "running"},
        {"restarts": 1},
        {"harms": (Harm(kind="kill", step=6),)},
        {"steps": 3},
    ],
)
def test_without_an_unbroken_run_nothing_is_proven(facts: Facts, whole: dict[str, Any]) -> None:
    assert CHECK.judge(trainings(facts, **whole), facts).verdict is not Verdict.PASSED


@pytest.mark.parametrize(("phase", "jobs"), [("failed", 1), ("completed", 3)])
def test_no_job_is_harmed_without_an_unbroken_run_to_compare(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, phase: str, jobs: int
) -> None:
    trained: list[tuple[Harm, ...]] = []

    def train(_: Testbed, harms: tuple[Harm, ...]) -> Trained:
        trained.append(harms)
        return Trained.model_validate(job(harms, steps_of(facts)) | {"phase": phase, "detail": "x"})

    monkeypatch.setattr(restart, "train", train)
    monkeypatch.setattr(restart, "_may_delete_pods", lambda _: True)
    site = cast("Testbed", SimpleNamespace(facts=facts, say=lambda _: None))
    result = CHECK.judge(CHECK.run(site), facts)
    assert len(trained) == jobs
    assert result.verdict is (Verdict.FAILED if phase == "failed" else Verdict.PASSED)


def test_a_loss_that_never_changes_shows_nothing(facts: Facts) -> None:
    lines = [
        " ".join([*line.split()[:2], "loss=1.5"]) if line.startswith("step") else line
        for line in lines_of((), steps_of(facts))
    ]
    result = trainings(facts, last=printed(lines), live=[])
    assert CHECK.judge(result, facts).verdict is not Verdict.PASSED


def test_untried_harm_is_reported(facts: Facts) -> None:
    match = trainings(facts)
    fewer = match.model_copy(update={"broken": match.broken[:1]})
    result = CHECK.judge(fewer, facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "a rank hung: was not tried" in result.summary


def test_user_who_cannot_delete_pods_deletes_none(facts: Facts) -> None:
    steps = steps_of(facts)
    match = Trainings(
        unbroken=Trained.model_validate(job((), steps)),
        broken=tuple(Trained.model_validate(job(h, steps)) for h in harmed(facts, pods=False)),
        not_part=("no pod was deleted: this user may not delete pods here",),
    )
    result = CHECK.judge(match, facts)
    assert result.verdict is Verdict.PASSED
    assert "3 times" in result.summary
    assert "may not delete pods" in " ".join(item.text for item in result.evidence)


LOST = {"node": "n2", "status": 0, "unready": 60.0, "after": "its object was deleted"}


def losing(facts: Facts, **lost: Any) -> tuple[Trainings, Facts]:
    """Return a run with a node that was lost; ``lost`` changes what became of it."""
    facts = dataclasses.replace(facts, may_lose=("n2",), lose_with=("off",))
    result = trainings(facts)
    last = result.broken[-1]
    assert [harm.kind for harm in last.harms] == ["node"]
    text = Lost.model_validate(LOST | lost) if lost != {"lost": None} else None
    changed = last.model_copy(update={"lost": text})
    return result.model_copy(update={"broken": (*result.broken[:-1], changed)}), facts


@pytest.mark.parametrize("quick", [True, False])
def test_a_lost_node_is_one_harm_more_where_one_may_be_lost(facts: Facts, quick: bool) -> None:
    evidence, facts = losing(dataclasses.replace(facts, quick=quick))
    result = CHECK.judge(evidence, facts)
    assert (result.verdict, result.remedy) == (Verdict.PASSED, "")
    assert "5 times" in result.summary
    figures = {item.name: item.value for item in result.measured}
    assert figures["a node was lost: steps lost"] == 2
    text = " ".join(item.text for item in result.evidence)
    assert "node n2: seen not ready at 60.00 s; its pods ended after its object was deleted" in text
    assert any("a node was lost" in step for step in CHECK.plan(facts).steps)


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        ({"lost": None}, "no node was lost"),
        ({"status": 3, "output": "no such BMC"}, "ended with 3: no such BMC"),
        ({"unready": None}, "was ready all the time"),
    ],
)
def test_a_node_that_was_not_really_lost_proves_nothing(
    facts: Facts, lost: dict[str, Any], text: str
) -> None:
    evidence, facts = losing(facts, **lost)
    result = CHECK.judge(evidence, facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert text in result.summary


@pytest.mark.parametrize(
    ("restarts", "verdict"),
    [(0, Verdict.PASSED), (1, Verdict.PASSED), (2, Verdict.FAILED), (None, Verdict.NOT_PROVEN)],
)
def test_a_gang_that_went_back_to_the_queue_counts_no_restart(
    facts: Facts, restarts: int | None, verdict: Verdict
) -> None:
    evidence, facts = losing(facts)
    last = evidence.broken[-1].model_copy(update={"restarts": restarts})
    result = CHECK.judge(
        evidence.model_copy(update={"broken": (*evidence.broken[:-1], last)}), facts
    )
    assert result.verdict is verdict


@pytest.mark.parametrize(("lost", "verdict"), [(True, Verdict.PASSED), (False, Verdict.FAILED)])
def test_pods_requeued_before_they_began_are_not_an_attempt(
    facts: Facts, lost: bool, verdict: Verdict
) -> None:
    evidence, facts = losing(facts) if lost else (trainings(facts), facts)
    last = evidence.broken[-1]
    pod = next(row for row in last.rows if row.kind == "pod" and row.node)
    more = last.model_copy(update={"rows": (*last.rows, pod.model_copy(update={"uid": "more"}))})
    changed = evidence.model_copy(update={"broken": (*evidence.broken[:-1], more)})
    assert CHECK.judge(changed, facts).verdict is verdict


def test_a_lost_node_that_nobody_clears_away_has_its_own_remedy(facts: Facts) -> None:
    evidence, facts = losing(facts)
    stuck = evidence.broken[-1].model_copy(update={"phase": "running"})
    result = CHECK.judge(
        evidence.model_copy(update={"broken": (*evidence.broken[:-1], stuck)}), facts
    )
    assert result.verdict is Verdict.NOT_PROVEN
    assert "out-of-service=nodeshutdown:NoExecute" in result.remedy


def test_untried_loss_of_a_node_is_reported(facts: Facts) -> None:
    evidence, facts = losing(facts)
    fewer = evidence.model_copy(update={"broken": evidence.broken[:-1]})
    assert "a node was lost: was not tried" in CHECK.judge(fewer, facts).summary


def test_a_runtime_without_a_claim_is_not_tried(facts: Facts) -> None:
    assert not CHECK.plan(facts).missing
    bare = dataclasses.replace(facts, runtime=facts.runtime.model_copy(update={"checkpoint": None}))
    assert "no claim" in CHECK.plan(bare).missing
    other = facts.runtime.model_copy(update={"framework": "jax"})
    assert "PyTorch" in CHECK.plan(dataclasses.replace(facts, runtime=other)).missing
    assert CHECK.plan(dataclasses.replace(facts, nodes=("one",))).missing


@pytest.mark.parametrize("lines", [["step n=1 loss=1"], ["begin attempt=2 pod=x"], ["begin pod=x"]])
def test_a_diary_that_the_program_cannot_have_written(lines: list[str]) -> None:
    with pytest.raises(UnreadableError):
        attempts(lines)


def test_a_repeated_diary_line_is_fine_a_missing_end_is_not() -> None:
    lines = [LogLine.model_validate(line) for line in printed(["begin attempt=1 pod=x"])]
    assert diary([lines[0], *lines]) == ["begin attempt=1 pod=x"]
    with pytest.raises(UnreadableError):
        diary(lines[:-1])


# -- the program, as far as it needs no PyTorch ---------------------------------------------------


def test_what_a_lost_rank_leaves_is_never_taken_for_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait with a time limit is on the CPU; without one, a hung rank left a wrong sum."""
    limits: list[timedelta] = []

    def collective(*_: object, async_op: bool = False, **__: object) -> SimpleNamespace:
        assert async_op
        return SimpleNamespace(wait=limits.append)

    names = ("all_reduce", "broadcast", "barrier")
    distributed = SimpleNamespace(
        ReduceOp=SimpleNamespace(MAX=1), **dict.fromkeys(names, collective)
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(distributed=distributed))
    world = program.World(20.0)
    world.add(object())
    world.most(object())
    world.share(object())
    world.meet()
    assert limits == [timedelta(seconds=20)] * 4
    elsewhere = Path(program.__file__).read_text().replace(inspect.getsource(program.World), "")
    assert not re.findall(r"(?:all_reduce|broadcast|barrier)\(", elsewhere)


def test_the_programs_file_is_there_and_knows_every_harm(facts: Facts) -> None:
    assert (restart.PROGRAMS / restart.PROGRAM).is_file()
    kinds = {item.kind for each in harmed(facts, pods=True) for item in each}
    assert kinds == set(program.HARMS)
    given = program.read_arguments(["--steps", "9", "--every", "4", "--harm", "kill@6"])
    assert given.harm == [("kill", 6)]
    for text in ("kill", "burn@3", "kill@", "kill@-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            program.harm_of(text)
