"""Tests of what the user reads during a build."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.progress import Bars, Estimate, Lines, clock, display
from railhead.lab.artifacts.steps import Lane, Step, Tell, run_steps


def _compile(_runner: Runner, tell: Tell) -> None:
    tell(0.25, "package 100 of 400")
    time.sleep(0.5)


def _steps() -> list[Step]:
    return [
        Step(
            name="core",
            title="Kubernetes",
            expected_s=400,
            lane=Lane.COMPILE,
            action=_compile,
        ),
        Step(
            name="template",
            title="images",
            expected_s=10,
            lane=Lane.FILES,
            needs=("core",),
            action=lambda _runner, _tell: None,
        ),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (60, "1m00s"), (95, "1m35s"), (635, "10m35s")]
)
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_lines_say_what_how_far_and_how_long(runner: Runner) -> None:
    out = io.StringIO()
    run_steps(_steps(), Lines(Console(file=out, width=40), every_s=0.2), runner)
    lines = out.getvalue().splitlines()
    assert lines[0] == "railhead lab build: 2 steps, about 6m50s on 2 cores"
    assert lines[1] == "railhead lab build: Kubernetes: begins, about 6m40s"
    assert any("Kubernetes: 25% after" in line and "package 100 of 400" in line for line in lines)
    assert any("all of it: about" in line for line in lines)
    assert lines[-1].startswith("railhead lab build: images: done in")


def test_bars_on_a_terminal_lines_elsewhere(runner: Runner) -> None:
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=160)
    assert isinstance(display(terminal), Bars)
    assert isinstance(display(Console(file=out)), Lines)
    run_steps(_steps(), Bars(terminal, every_s=0.1), runner)
    text = out.getvalue()
    for expected in ("Kubernetes", "images", "all of it", "package 100 of 400", "about 6m40s"):
        assert expected in text


def test_remaining_follows_the_pace_that_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    estimate = Estimate(_steps())
    assert estimate.remaining() == 410
    estimate.started("core")
    now[0] += 200
    estimate.advanced("core", 0.9, "")
    fast = estimate.remaining()
    assert fast < 110
    now[0] += 1000
    estimate.advanced("core", 0.9, "")
    # Much slower than expected: it must not claim to be almost done.
    assert estimate.remaining() > 50
    estimate.finished("core")
    assert estimate.remaining() == 10
