"""A run of the suite: what fails closed, what is kept, and that jobs are always taken away."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from railhead.accept.check import CheckPlan
from railhead.accept.kept import Folder
from railhead.accept.model import Result, Verdict, Waiver
from railhead.accept.runner import Runner, Suite, plans
from railhead.accept.site import Facts, Testbed
from railhead.base.errors import RailheadError, RefusedError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Seen(BaseModel):
    """Evidence of the made-up check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float


def _good(_: Testbed) -> Seen:
    return Seen(value=1.0)


@dataclass
class Fake:
    """A check whose parts are given."""

    name: str = "gangs"
    promise: str = "gangs are whole"
    order: int = 10
    evidence: type[Seen] = Seen
    does: Callable[[Testbed], Any] = _good
    missing: str = ""
    ran: int = 0
    judged: list[float] = field(default_factory=list)
    says: dict[str, Any] = field(default_factory=dict)

    def plan(self, facts: Facts) -> CheckPlan:
        return CheckPlan(steps=("one",), nodes=2, seconds=5, node_hours=0.5, missing=self.missing)

    def run(self, site: Testbed) -> Seen:
        self.ran += 1
        brought: Seen = self.does(site)
        return brought

    def judge(self, evidence: Seen, facts: Facts) -> Result:
        self.judged.append(evidence.value)
        verdict = Verdict.PASSED if evidence.value == 1.0 else Verdict.FAILED
        values = {"name": self.name, "promise": self.promise, "verdict": verdict, "summary": "seen"}
        return Result.model_validate(values | self.says)


@dataclass
class World:
    """A runner without a cluster, and what it did."""

    runner: Runner
    cleaned: list[str]
    lines: list[str]
    stuck: set[str]

    def run(self, *checks: Fake, **fields: Any) -> Any:
        fields.setdefault("only", frozenset(check.name for check in checks))
        return self.runner.run(Suite(checks=checks, **fields))


@pytest.fixture
def world(facts: Facts, tmp_path: Path) -> World:
    cleaned: list[str] = []
    stuck: set[str] = set()

    class Hands(Testbed):
        def clean(self) -> None:
            cleaned.append(self.folder.name)
            if self.folder.name in stuck:
                raise RailheadError("accept-x: its pods do not go")

    texts: list[str] = []
    runner = Runner(
        facts=facts,
        cluster=None,  # type: ignore[arg-type]
        uid="uid-1",
        folder=Folder(tmp_path / "out"),
        say=texts.append,
        make_site=Hands,
        clock=lambda: NOW,
    )
    return World(runner, cleaned, texts, stuck)


def test_all_passed_is_accepted(world: World) -> None:
    first, second = Fake(), Fake(name="rdma")
    report = world.run(first, second)
    assert report.accepted
    assert report.asked == ("gangs", "rdma")
    assert [r.node_hours for r in report.checks] == [0.5, 0.5]
    assert world.cleaned.count("gangs") == 2


def _raise(error: BaseException) -> Callable[[Testbed], Any]:
    def does(_: Testbed) -> Any:
        raise error

    return does


class Other(BaseModel):
    """Evidence of another shape."""

    other: int = 1


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (_raise(RefusedError("the queue is closed")), "the queue is closed"),
        (_raise(ValueError("x\ny")), "ValueError: x; y"),
        (_raise(AssertionError()), "AssertionError"),
        (lambda _: None, "cannot be kept"),
        (lambda _: Other(), "cannot be judged"),
        (lambda _: Seen(value=float("nan")), "does not survive"),
        (lambda _: Seen(value=float("inf")), "does not survive"),
    ],
)
def test_crashed_check_is_not_proven(world: World, does: Any, says: str) -> None:
    report = world.run(Fake(does=does))
    (result,) = report.checks
    assert result.verdict is Verdict.NOT_PROVEN
    assert says in result.summary
    assert not report.accepted
    assert world.cleaned == ["gangs", "gangs"]


def test_a_check_that_cannot_run_is_not_proven_and_is_not_tried(world: World) -> None:
    check = Fake(missing="one node")
    (result,) = world.run(check).checks
    assert (result.verdict, check.ran) == (Verdict.NOT_PROVEN, 0)
    assert "one node" in result.summary


def test_a_check_that_cannot_say_its_plan_is_missing(facts: Facts) -> None:
    class Planless(Fake):
        def plan(self, facts: Facts) -> CheckPlan:
            raise ZeroDivisionError("no nodes")

    ((_, planned),) = plans([Planless()], facts)
    assert "ZeroDivisionError: no nodes" in planned.missing


def test_a_verdict_may_not_be_anothers_nor_waive_itself(world: World) -> None:
    waiver = {"check": "gangs", "by": "me", "reason": "r", "until": date(2027, 1, 1)}
    for says in ({"name": "rdma"}, {"verdict": "failed", "waiver": waiver}):
        (result,) = world.run(Fake(says=says)).checks
        assert result.verdict is Verdict.NOT_PROVEN
        assert result.waiver is None


def test_unrequested_check_is_not_proven(world: World) -> None:
    report = world.run(Fake(), Fake(name="rdma"), only=frozenset({"gangs"}))
    assert [r.verdict for r in report.checks] == [Verdict.PASSED, Verdict.NOT_PROVEN]
    assert not report.accepted


def test_an_interrupt_takes_jobs_away_and_what_finished_is_kept(world: World) -> None:
    done, cut = Fake(), Fake(name="rdma", does=_raise(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        world.run(done, cut)
    assert world.cleaned == ["gangs", "rdma", "gangs", "rdma"]
    cut.does = _good
    report = world.run(done, cut, resume=True)
    assert report.accepted
    assert (done.ran, cut.ran) == (1, 2)
    # The kept evidence is judged again.
    assert done.judged == [1.0, 1.0]


def test_without_resume_nothing_of_an_earlier_run_is_taken(world: World) -> None:
    check = Fake()
    world.run(check)
    world.run(check)
    assert check.ran == 2


def test_another_check_keeps_old_evidence_and_reports_its_age(
    world: World,
) -> None:
    first, second = Fake(), Fake(name="rdma")
    world.run(first)
    world.runner.clock = lambda: NOW + timedelta(days=6)
    world.run(first, second, only=frozenset({"rdma"}))
    report = world.run(first, second, only=frozenset(), resume=True)
    assert report.accepted
    assert report.begun == NOW
    assert (first.ran, second.ran) == (1, 1)


@pytest.mark.parametrize("age", [timedelta(days=8), timedelta(hours=-1)])
def test_evidence_that_is_too_old_or_of_tomorrow_is_not_taken(world: World, age: timedelta) -> None:
    world.run(Fake())
    world.runner.clock = lambda: NOW + age
    (result,) = world.run(Fake(), only=frozenset(), resume=True).checks
    assert result.verdict is Verdict.NOT_PROVEN
    assert "is of 2026-03-01" in result.summary


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"nodes": ("lab-node-0",)}, "another nodes"),
        ({"quick": False}, "another quick"),
        ({"contract": None}, "another contract"),
    ],
)
def test_evidence_of_another_run_is_not_taken(
    world: World, facts: Facts, fields: dict[str, Any], says: str
) -> None:
    check = Fake()
    world.run(check)
    if "contract" in fields:
        versions = {"trainer": "9"}
        fields = {"contract": facts.contract.model_copy(update={"versions": versions})}
    world.runner.facts = replace(facts, **fields)
    world.run(check, resume=True)
    assert check.ran == 2
    world.runner.facts = facts
    (result,) = world.run(check, only=frozenset(), resume=True).checks
    assert says in result.summary


def test_evidence_of_another_cluster_of_one_name_is_refused(world: World) -> None:
    check = Fake()
    world.run(check)
    world.runner.uid = "uid-2"
    world.run(check, resume=True)
    assert check.ran == 2


@pytest.mark.parametrize("spoil", ["cut", "renamed", "edited"])
def test_kept_evidence_that_was_spoilt_is_not_taken(world: World, spoil: str) -> None:
    check, other = Fake(does=lambda _: Seen(value=0.5)), Fake(name="rdma")
    world.run(check, other)
    folder = world.runner.folder.path
    file = folder / "gangs.evidence.json"
    if spoil == "cut":
        file.write_text(file.read_text()[:-20])
    elif spoil == "renamed":
        file.write_text((folder / "rdma.evidence.json").read_text())
    else:
        held = json.loads(file.read_text())
        held["evidence"]["more"] = 1
        file.write_text(json.dumps(held))
    report = world.run(check, other, resume=True)
    assert not report.accepted
    assert report.checks[0].verdict is not Verdict.PASSED


def test_a_job_that_cannot_be_deleted_does_not_stop_the_rest(world: World) -> None:
    world.stuck.add("gangs")
    report = world.run(Fake(), Fake(name="rdma"))
    assert [r.verdict for r in report.checks] == [Verdict.PASSED, Verdict.PASSED]
    assert world.runner.left == ["gangs: accept-x: its pods do not go"]


def test_two_runs_do_not_share_a_folder(world: World) -> None:
    folder = world.runner.folder
    with (
        folder.locked(),
        pytest.raises(RefusedError, match="another acceptance"),
        Folder(folder.path).locked(),
    ):
        pass
    with folder.locked():
        pass


def test_a_waiver_accepts_and_leaves_the_verdict(world: World) -> None:
    waiver = Waiver(check="gangs", by="Ada", reason="lab", until=date(2027, 1, 1))
    bad = Fake(does=lambda _: Seen(value=0.5))
    report = world.run(bad, Fake(name="rdma"), waivers=(waiver,))
    assert report.accepted
    assert report.checks[0].verdict is Verdict.FAILED
    assert report.checks[0].waiver == waiver
    passed = world.run(Fake(), Fake(name="rdma"), waivers=(waiver,))
    assert passed.checks[0].waiver is None
