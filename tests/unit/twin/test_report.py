"""Steps and reports of a rehearsal, edits of shipped stacks, and the command's refusals."""

from __future__ import annotations

import copy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from railhead.base.errors import ExitCode, InputError
from railhead.cli import run
from railhead.config import parse
from railhead.lab import artifacts
from railhead.lab.artifacts import twin_operators
from railhead.launch.job import read_job
from railhead.launch.plan import make_plan
from railhead.resolve.cluster import resolve
from railhead.twin import jobs, report
from railhead.twin.edits import EDITS, Edit
from railhead.twin.steps import FailedError, Outcome, Rehearsal, SkippedError, Step
from tests import shipped
from tests.components.recording import STACKS

OUTCOMES = [
    Outcome(name="up", does="the first `up`", verdict="passed", seconds=40.04, text="147"),
    Outcome(name="job:a", does="a job", verdict="failed", seconds=60, text="no <pod>\nafter 60 s"),
    Outcome(name="edit:b", does="an edit", verdict="skipped", seconds=0, text="nothing to do"),
]


def step(name: str, fails: type[Exception] | None = None) -> Step:
    def act() -> str:
        if fails is not None:
            raise fails(f"{name} it is")
        return "done"

    return Step(name=name, does=name, run=act)


def rehearsed(*steps: Step, only: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    rehearsal = Rehearsal("s", needed=frozenset({"up"}), always=frozenset({"destroy"}))
    rehearsal.run(steps, only)
    return [(o.name, o.verdict) for o in rehearsal.outcomes]


def test_steps_go_on_after_one_that_failed() -> None:
    steps = [step("up"), step("job", FailedError), step("edit", SkippedError), step("destroy")]
    assert rehearsed(*steps) == [
        ("up", "passed"),
        ("job", "failed"),
        ("edit", "skipped"),
        ("destroy", "passed"),
    ]


def test_without_an_up_only_destroy_makes_sense() -> None:
    steps = [step("up", FailedError), step("job"), step("destroy")]
    assert rehearsed(*steps) == [("up", "failed"), ("job", "skipped"), ("destroy", "passed")]


def test_only_what_is_asked_for_runs_after_up() -> None:
    steps = [step("up"), step("job:a"), step("job:b"), step("destroy")]
    assert rehearsed(*steps, only=("job:b",)) == [("up", "passed"), ("job:b", "passed")]


def test_a_failure_says_what_keeps_players_from_playing() -> None:
    rehearsal = Rehearsal("s", aside=lambda: " (in the twin: x)")
    rehearsal.run([step("job", FailedError)])
    assert rehearsal.outcomes[0].text == "job it is (in the twin: x)"


def test_junit_names_each_step() -> None:
    suite = ElementTree.fromstring(report.junit("s", OUTCOMES))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [case.get("name") for case in suite] == ["up", "job:a", "edit:b"]
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "no <pod>"
    assert failure.text == "no <pod>\nafter 60 s"


def test_the_page_escapes_what_it_shows() -> None:
    page = report.page("s", OUTCOMES, report.unknown("aws"))
    assert "no &lt;pod&gt;" in page
    assert "failed at job:a" in page


def test_json_has_steps_and_what_is_not_known() -> None:
    whole = report.to_json("s", OUTCOMES, report.unknown("existing"), 1200)
    assert not whole["passed"]
    assert whole["steps"][0]["seconds"] == 40.0
    ids = {row["id"] for row in whole["unknown"]}
    assert {"hardware", "site"} <= ids
    assert "account" not in ids


@pytest.mark.parametrize("stack", [s for s in STACKS if not s.startswith("lab")])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_edits_of_shipped_stacks_are_valid(stack: str, edit: Edit, repo: Path) -> None:
    section = shipped.stack(stack)
    try:
        if edit.name == "team-less":
            next(e for e in EDITS if e.name == "team-more").change(section)
        before = copy.deepcopy(section)
        edit.change(section)
    except SkippedError:
        return
    assert section != before
    parse(section, where=stack)


@pytest.mark.parametrize("stack", [s for s in STACKS if not s.startswith("lab")])
def test_examples_fit_the_runtimes_of_shipped_stacks(stack: str, repo: Path) -> None:
    contract = resolve(parse(shipped.stack(stack), where=stack)).contract
    for example in jobs.examples(contract):
        plan = make_plan(*read_job(example.file, sets=example.sets), contract)
        assert (plan.runtime, plan.queue) == (example.runtime.name, example.queue.name)


def test_the_labs_stack_has_no_twin(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rehearse", "lab"]) == ExitCode.BAD_INPUT
    assert "railhead lab up" in capsys.readouterr().err


def test_a_step_that_does_not_exist_is_refused() -> None:
    from railhead.twin.cli import _known

    with pytest.raises(InputError, match="there are: up, job:a"):
        _known(["up", "job:a"], ["jub"])


@pytest.mark.parametrize(
    ("only", "code", "says"),
    [
        ("jub", ExitCode.BAD_INPUT, "no step begins with 'jub'; there are: up, up-again, nodes, "),
        ("job", ExitCode.MISSING_PREREQUISITE, "run `railhead lab build`"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_built(
    only: str,
    code: ExitCode,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(twin_operators, "ensure", lambda _: pytest.fail("they are built"))
    monkeypatch.setattr(artifacts, "locate", lambda _: None)
    assert run(["rehearse", "onprem-roce-shared", "--only", only]) == code
    assert says in " ".join(capsys.readouterr().err.split())
