"""Steps and their order; one step that compiles runs beside one that moves files."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from railhead.lab.artifacts.commands import Runner


class Lane(Enum):
    """A lane of steps, which run one after another; different lanes run side by side."""

    COMPILE = "compile"
    FILES = "files"


#: Reports a step's progress: a fraction from 0 to 1, or None when unknown, and a few words.
Tell = Callable[[float | None, str], None]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One piece of work that is missing from the cache.

    Args:
        name: short and stable, such as ``core``.
        title: what the user reads, such as ``Kubernetes and the controllers, from Go modules``.
        expected_s: seconds that it took on 2 cores.
        lane: the resource that it competes for.
        needs: names of steps that come first; one that is not in the plan is done already.
        action: does the work.
    """

    name: str
    title: str
    expected_s: float
    lane: Lane
    needs: tuple[str, ...] = ()
    action: Callable[[Runner, Tell], None] = field(repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The duration of a step.

    Args:
        started_s: seconds from the beginning of the whole.
        seconds: its own duration.
    """

    name: str
    title: str
    started_s: float
    seconds: float


class Progress(Protocol):
    """A receiver of progress; calls may come from any thread."""

    def begin(self, steps: Sequence[Step]) -> None:
        """Report that work begins on ``steps``."""

    def started(self, step: Step) -> None:
        """Report that ``step`` begins."""

    def advanced(self, step: Step, fraction: float | None, detail: str) -> None:
        """Report that ``step`` is at ``fraction`` (0 to 1, None when unknown)."""

    def finished(self, step: Step, seconds: float) -> None:
        """Report that ``step`` is done."""

    def note(self, text: str) -> None:
        """Report something that belongs to no step."""

    def end(self) -> None:
        """Report that work ended, with success or not."""


def critical_seconds(remaining: dict[str, float], steps: Sequence[Step]) -> float:
    """Return the seconds until everything ends, given the seconds left of each unfinished step.

    It simulates the lanes with the expected durations, so that waiting for another lane counts.
    """
    ends: dict[str, float] = {s.name: 0.0 for s in steps if s.name not in remaining}
    todo = [s for s in steps if s.name in remaining]
    names = {s.name for s in steps}
    free = dict.fromkeys(Lane, 0.0)
    while todo:
        ready = [s for s in todo if all(n in ends for n in s.needs if n in names)]
        if not ready:
            break
        starts = [
            max([free[s.lane], *(ends[n] for n in s.needs if n in names)], default=0.0)
            for s in ready
        ]
        first = min(range(len(ready)), key=lambda i: starts[i])
        step = ready[first]
        ends[step.name] = starts[first] + remaining[step.name]
        free[step.lane] = ends[step.name]
        todo.remove(step)
    return max(ends.values(), default=0.0)


def run_steps(steps: Sequence[Step], progress: Progress, runner: Runner) -> tuple[Timing, ...]:
    """Do all steps, each after those that it needs.

    The first failure stops the others and is raised; so is an interrupt from the keyboard.
    """
    names = {s.name for s in steps}
    waiting = list(steps)
    done: set[str] = set()
    busy: set[Lane] = set()
    timings: list[Timing] = []
    results: queue.Queue[tuple[Step, float, float, BaseException | None]] = queue.Queue()
    threads: list[threading.Thread] = []
    begin = time.monotonic()

    def work(step: Step) -> None:
        started = time.monotonic()
        error: BaseException | None = None
        try:
            step.action(runner, lambda fraction, detail: progress.advanced(step, fraction, detail))
        except BaseException as caught:  # noqa: BLE001 - raised again by the main thread
            error = caught
        results.put((step, started - begin, time.monotonic() - started, error))

    progress.begin(steps)
    try:
        while waiting or busy:
            for step in list(waiting):
                if step.lane not in busy and all(n in done for n in step.needs if n in names):
                    waiting.remove(step)
                    busy.add(step.lane)
                    progress.started(step)
                    thread = threading.Thread(target=work, args=(step,), daemon=True)
                    threads.append(thread)
                    thread.start()
            if not busy:
                unmet = ", ".join(s.name for s in waiting)
                raise AssertionError(f"steps wait for each other: {unmet}")
            step, started_s, seconds, error = results.get()
            if error is not None:
                raise error
            busy.discard(step.lane)
            done.add(step.name)
            timings.append(
                Timing(name=step.name, title=step.title, started_s=started_s, seconds=seconds)
            )
            progress.finished(step, seconds)
    except BaseException:
        runner.stop()
        for thread in threads:
            thread.join()
        raise
    finally:
        progress.end()
    return tuple(timings)
