"""The launch check passes examples that ran as a researcher's, and nothing that needed more."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from railhead.accept import examples as shipped
from railhead.accept.checks import launch
from railhead.accept.checks.launch import BEYOND, CHECK, Launched, Launches, groups_of
from railhead.accept.examples import NAMES, examples, unfit
from railhead.accept.model import Verdict
from railhead.accept.site import Facts
from railhead.base.errors import TimedOutError
from railhead.contract import Team
from railhead.kube.jobs import JobState, Phase
from railhead.launch.api import Run
from railhead.launch.logs.stream import Line
from tests.docs import commands

REPO = Path(__file__).resolve().parents[3]
RANKS = {"torch-ddp": 4, "fsdp": 4, "jax": 2, "mpi": 4}


def said(example: str) -> tuple[str, ...]:
    """Return the lines of the example's processes, behind a launcher's prefix."""
    ranks = RANKS[example]
    if example == "jax":
        return tuple(f"[node-{i}] process={i} processes={ranks} devices=2" for i in range(ranks))
    lines = [f"[node-0] [default{i}]:rank={i} world_size={ranks} node=0" for i in range(ranks)]
    return (*lines, "[node-0] [default0]:epoch=1 loss=1.5")


def launched(example: str, **changed: Any) -> Launched:
    (results,) = [item for item in examples() if item.name == example]
    fields = {
        "example": example,
        "text": results.text,
        "name": f"accept-{example}-abcdef",
        "nodes": 2,
        "ranks": RANKS[example],
        "phase": "completed",
        "lines": said(example),
    }
    return Launched.model_validate(fields | changed)


def launches(facts: Facts, **changed: Any) -> Launches:
    """Return all that the cluster has a runtime for; ``changed`` is of the first."""
    fit = [example.name for example in examples() if not unfit(example, facts.contract)]
    first, *rest = fit
    return Launches(
        user="railhead-accept",
        groups=("railhead:researchers",),
        beyond={f"{verb} {resource}": False for _, resource, verb in BEYOND},
        launched=(launched(first, **changed), *(launched(item) for item in rest)),
    )


def test_examples_that_ran_as_documented_pass(facts: Facts) -> None:
    evidence = launches(facts)
    assert evidence.launched
    result = CHECK.judge(evidence, facts)
    assert (result.verdict, result.remedy) == (Verdict.PASSED, "")
    assert Launches.model_validate_json(evidence.model_dump_json()) == evidence


@pytest.mark.parametrize(
    ("changed", "says", "remedy"),
    [
        (
            {"refused": 'configmaps is forbidden: User "x" cannot create', "phase": ""},
            "was refused",
            "role of researchers",
        ),
        ({"refused": "nodes: 2 is more than there are", "phase": ""}, "was refused", "--dry-run"),
        ({"phase": "failed", "detail": "exited 64"}, "failed: exited 64", "lines of the job"),
        (
            {"lines": ("[node-0] rank=0 world_size=1", "[node-1] rank=0 world_size=1")},
            "a world of 1, it asked for 4",
            "lines of the job",
        ),
        (
            {"phase": "running", "hung": True, "lines": ("[node-1] connecting",)},
            "ran for 300 s, and none of its 4 ranks met another",
            "kubectl get networkpolicy -n training",
        ),
    ],
)
def test_an_example_that_does_not_run_fails(
    facts: Facts, changed: dict[str, Any], says: str, remedy: str
) -> None:
    result = CHECK.judge(launches(facts, **changed), facts)
    assert result.verdict is Verdict.FAILED
    assert says in result.summary
    assert remedy in result.remedy


@pytest.mark.parametrize(
    "changed",
    [
        {"phase": "running"},
        {"phase": "running", "hung": True},
        {"phase": ""},
        {"lines": ()},
        {"lines": said("torch-ddp")[:3]},
        {"ranks": 0, "lines": ()},
        {"nodes": 1},
        {"text": "another: file\n"},
    ],
)
def test_cut_off_or_foreign_logs_prove_nothing(facts: Facts, changed: dict[str, Any]) -> None:
    result = CHECK.judge(launches(facts, **changed), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert result.remedy


def test_silent_rank_gets_a_hint_on_log_size(facts: Facts) -> None:
    result = CHECK.judge(launches(facts, lines=said("torch-ddp")[:3]), facts)
    assert "3 of 4 ranks" in result.summary
    assert "containerLogMaxSize" in result.remedy


def test_an_administrators_launch_proves_no_researchers_rights(facts: Facts) -> None:
    evidence = launches(facts)
    for right in evidence.beyond:
        more = evidence.model_copy(update={"beyond": evidence.beyond | {right: True}})
        result = CHECK.judge(more, facts)
        assert result.verdict is Verdict.NOT_PROVEN
        assert right in result.summary
        assert "impersonate" in result.remedy


def test_unknown_rights_or_no_example_prove_nothing(facts: Facts) -> None:
    evidence = launches(facts)
    for changed in [dict[str, Any](beyond={}), dict[str, Any](launched=())]:
        result = CHECK.judge(evidence.model_copy(update=changed), facts)
        assert result.verdict is Verdict.NOT_PROVEN


def test_researchers_are_the_queues_teams_or_the_clusters(facts: Facts) -> None:
    team = Team(name="vision", namespaces=("training",), researchers=("vision:people",))
    contract = facts.contract.model_copy(update={"teams": (team,), "researchers": "all"})
    assert groups_of(contract, facts.queue) == ("all",)
    mine = facts.queue.model_copy(update={"team": "vision"})
    assert groups_of(contract, mine) == ("vision:people",)
    nobody = contract.model_copy(update={"researchers": None})
    assert groups_of(nobody, facts.queue) == ()


def test_jobs_that_the_cluster_cannot_run_are_reported(facts: Facts) -> None:
    assert not CHECK.plan(facts).missing
    bare = facts.contract.model_copy(update={"runtimes": ()})
    assert "no runtime" in CHECK.plan(dataclasses.replace(facts, contract=bare)).missing
    assert "2 nodes" in CHECK.plan(dataclasses.replace(facts, nodes=("one",))).missing


def test_without_examples_nothing_is_proven(
    facts: Facts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evidence = launches(facts)
    monkeypatch.setattr(shipped, "_FOLDERS", (tmp_path,))
    assert "not installed" in CHECK.plan(facts).missing
    empty = evidence.model_copy(update={"launched": ()})
    assert CHECK.judge(empty, facts).verdict is Verdict.NOT_PROVEN


def test_documented_launches_are_covered() -> None:
    """A page that shows another example has it accepted, too."""
    texts = [
        command.text
        for page in commands.pages(REPO)
        for command in commands.commands(REPO, page)
        if command.text.startswith("railhead launch examples/")
    ]
    shown = {text.split()[2].removeprefix("examples/").removesuffix(".yaml") for text in texts}
    assert shown
    assert shown <= set(NAMES)
    assert [example.name for example in examples()] == list(NAMES)


class _Stuck:
    """A job that is queued for a while, and then runs and says no more than this."""

    def __init__(self, says: str) -> None:
        self.seconds = 0.0
        self.says = says

    def logs(self) -> list[Line]:
        return [Line(node=0, text=self.says)]

    def time(self) -> float:
        return self.seconds

    def state(self) -> JobState:
        return cast("JobState", SimpleNamespace(phase=Phase.QUEUED))

    def watch(self, *, timeout: float) -> Iterator[JobState]:
        while self.seconds < timeout:
            self.seconds += 1
            phase = Phase.QUEUED if self.seconds < 500 else Phase.RUNNING
            yield cast("JobState", SimpleNamespace(phase=phase))
        raise TimedOutError("late", remedy="wait")


@pytest.mark.parametrize(
    ("says", "timeout", "hung", "seconds"),
    [
        ("connecting", 1800, True, 801),
        ("connecting", 700, False, 700),
        ("[default0]:rank=0 world_size=4 node=0", 1800, False, 1800),
    ],
)
def test_only_ranks_that_run_and_never_meet_are_given_up(
    monkeypatch: pytest.MonkeyPatch, says: str, timeout: float, hung: bool, seconds: float
) -> None:
    run = _Stuck(says)
    monkeypatch.setattr("railhead.accept.checks.launch.time.monotonic", run.time)
    state, given_up = launch._followed(cast("Run", run), timeout)
    assert (state.phase, given_up) == (Phase.RUNNING, hung)
    assert run.seconds == seconds
