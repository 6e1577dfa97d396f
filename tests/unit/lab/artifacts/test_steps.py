"""Order, overlap, failure and the estimate."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from railhead.lab.artifacts.commands import CommandError, Runner, StoppedError
from railhead.lab.artifacts.progress import Silent
from railhead.lab.artifacts.steps import Lane, Step, Tell, critical_seconds, run_steps


def step(
    name: str,
    lane: Lane = Lane.COMPILE,
    needs: tuple[str, ...] = (),
    action: Callable[[Runner, Tell], None] = lambda _runner, _tell: None,
    expected_s: float = 1,
) -> Step:
    return Step(name=name, title=name, expected_s=expected_s, lane=lane, needs=needs, action=action)


def test_each_step_comes_after_what_it_needs(runner: Runner) -> None:
    order: list[str] = []

    def note(name: str) -> Callable[[Runner, Tell], None]:
        return lambda _runner, _tell: order.append(name)

    steps = [
        step("template", Lane.FILES, ("core", "base"), note("template")),
        step("core", Lane.COMPILE, ("sources",), note("core")),
        step("base", Lane.FILES, (), note("base")),
        # Not in the plan: done by an earlier build.
        step("sources", Lane.COMPILE, ("packages",), note("sources")),
    ]
    timings = run_steps(steps, Silent(), runner)
    assert sorted(order) == ["base", "core", "sources", "template"]
    assert order[-1] == "template"
    assert order.index("sources") < order.index("core")
    assert {t.name for t in timings} == set(order)


def test_two_lanes_run_in_parallel_and_one_in_order(runner: Runner) -> None:
    both = threading.Barrier(2, timeout=60)
    alone = threading.Lock()

    def meet(_runner: Runner, _tell: Tell) -> None:
        assert alone.acquire(blocking=False)
        both.wait()
        alone.release()

    def other(_runner: Runner, _tell: Tell) -> None:
        both.wait()

    steps = [
        step("a", Lane.COMPILE, (), meet),
        step("b", Lane.COMPILE, (), meet),
        step("c", Lane.FILES, (), other),
        step("d", Lane.FILES, (), other),
    ]
    run_steps(steps, Silent(), runner)


def test_a_failure_stops_the_other_lane_and_is_the_error(tmp_path: Path, runner: Runner) -> None:
    started = threading.Event()
    ended: list[BaseException] = []

    def long(running: Runner, _tell: Tell) -> None:
        started.set()
        try:
            running.run(["sleep", "100"], log=tmp_path / "long")
        except StoppedError as error:
            ended.append(error)
            raise

    def fails(running: Runner, _tell: Tell) -> None:
        started.wait(5)
        running.run(["false"], log=tmp_path / "false")

    reached: list[str] = []
    steps = [
        step("long", Lane.COMPILE, (), long),
        step("fails", Lane.FILES, (), fails),
        step("after", Lane.FILES, ("fails",), lambda _r, _t: reached.append("after")),
    ]
    with pytest.raises(CommandError, match="`false` ended with status 1"):
        run_steps(steps, Silent(), runner)
    assert len(ended) == 1
    assert reached == []


def test_steps_that_wait_for_each_other_are_refused(runner: Runner) -> None:
    with pytest.raises(AssertionError, match="a, b"):
        run_steps([step("a", needs=("b",)), step("b", needs=("a",))], Silent(), runner)


def test_the_estimate_plays_both_lanes_through() -> None:
    steps = [
        step("sources", Lane.COMPILE, (), expected_s=30),
        step("core", Lane.COMPILE, ("sources",), expected_s=400),
        step("training", Lane.FILES, (), expected_s=60),
        step("template", Lane.FILES, ("core", "training"), expected_s=10),
        step("pulumi", Lane.COMPILE, ("core",), expected_s=200),
    ]
    left = {s.name: s.expected_s for s in steps}
    # The template is made beside Pulumi's build.
    assert critical_seconds(left, steps) == 630
    del left["pulumi"]
    assert critical_seconds(left, steps) == 440
    assert critical_seconds({}, steps) == 0
