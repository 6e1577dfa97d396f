"""The display of a build: a bar for each step on a terminal, else a line now and then.

Both show the present step, the time that it has taken, and the time until all is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from railhead.lab.artifacts.steps import Step, critical_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

#: Seconds between lines where there is no terminal.
LINE_EVERY_S = 10.0

_DETAIL_WIDTH = 48
#: Narrower terminals get short bars and no details.
_ROOMY_COLUMNS = 130


def clock(seconds: float) -> str:
    """Return ``95`` as ``1m35s``."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


class Estimate:
    """The state of every step, and an estimate of when all will be done."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._lock = threading.Lock()
        self._started: dict[str, float] = {}
        self._done: set[str] = set()
        self._at: dict[str, tuple[float | None, str]] = {}

    def started(self, name: str) -> None:
        """Record that a step begins now."""
        with self._lock:
            self._started[name] = time.monotonic()

    def advanced(self, name: str, fraction: float | None, detail: str) -> None:
        """Record that a step is at ``fraction``."""
        with self._lock:
            self._at[name] = (fraction, detail)

    def finished(self, name: str) -> None:
        """Record that a step is done."""
        with self._lock:
            self._done.add(name)

    def running(self) -> list[Step]:
        """Return the steps in progress."""
        with self._lock:
            return [s for s in self._steps if s.name in self._started and s.name not in self._done]

    def elapsed(self, name: str) -> float:
        """Return the seconds since a step began."""
        return time.monotonic() - self._started[name]

    def detail(self, name: str) -> str:
        """Return a step's last words."""
        return self._at.get(name, (None, ""))[1]

    def fraction(self, step: Step) -> float:
        """Return a step's progress, 0 to 1: as reported, else its time over the expected one."""
        reported = self._at.get(step.name, (None, ""))[0]
        by_time = min(self.elapsed(step.name) / step.expected_s, 0.99) if step.expected_s else 0.99
        return by_time if reported is None else reported

    def remaining(self) -> float:
        """Return the seconds until everything is done, by the expected and the real durations."""
        left: dict[str, float] = {}
        for step in self._steps:
            if step.name in self._done:
                continue
            left[step.name] = step.expected_s
            if step.name in self._started:
                left[step.name] = self._left(step)
        return critical_seconds(left, self._steps)

    def _left(self, step: Step) -> float:
        elapsed = self.elapsed(step.name)
        fraction = self.fraction(step)
        expected = step.expected_s
        if fraction > 0.05 and step.name in self._at and self._at[step.name][0] is not None:
            # The further it is, the more its own pace counts against the table's.
            expected = (1 - fraction) * expected + fraction * elapsed / fraction
        return max(expected - elapsed, expected * (1 - fraction) * 0.5, 1.0)


class Silent:
    """A display that shows nothing, for tests and for callers with a display of their own."""

    def begin(self, steps: Sequence[Step]) -> None:
        """Do nothing."""

    def started(self, step: Step) -> None:
        """Do nothing."""

    def advanced(self, step: Step, fraction: float | None, detail: str) -> None:
        """Do nothing."""

    def finished(self, step: Step, seconds: float) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class Lines:
    """Plain lines, for logs and pipes: at every beginning and end, and every ten seconds."""

    def __init__(self, console: Console, *, every_s: float = LINE_EVERY_S) -> None:
        self._console = console
        self._every_s = every_s
        self._estimate = Estimate(())
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def begin(self, steps: Sequence[Step]) -> None:
        """Say what will be done and start the clock."""
        self._estimate = Estimate(steps)
        self._over.clear()
        self._say(f"{len(steps)} steps, about {clock(self._estimate.remaining())} on 2 cores")
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def started(self, step: Step) -> None:
        """Say that a step begins."""
        self._estimate.started(step.name)
        self._say(f"{step.title}: begins, about {clock(step.expected_s)}")

    def advanced(self, step: Step, fraction: float | None, detail: str) -> None:
        """Remember a step's progress for the next line."""
        self._estimate.advanced(step.name, fraction, detail)

    def finished(self, step: Step, seconds: float) -> None:
        """Say that a step is done."""
        self._estimate.finished(step.name)
        self._say(f"{step.title}: done in {clock(seconds)}")

    def note(self, text: str) -> None:
        """Print a note."""
        self._say(text)

    def end(self) -> None:
        """Stop the clock."""
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None

    def _tick(self) -> None:
        while not self._over.wait(self._every_s):
            for step in self._estimate.running():
                detail = self._estimate.detail(step.name)
                text = f" ({detail})" if detail else ""
                self._say(
                    f"{step.title}: {self._estimate.fraction(step):.0%} after "
                    f"{clock(self._estimate.elapsed(step.name))}{text}"
                )
            self._say(f"all of it: about {clock(self._estimate.remaining())} more")

    def _say(self, text: str) -> None:
        self._console.print(
            f"railhead lab build: {text}", markup=False, highlight=False, soft_wrap=True
        )


class Bars:
    """A bar for every step and one for the whole, on a terminal."""

    def __init__(self, console: Console, *, every_s: float = 0.5) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self._every_s = every_s
        self._estimate = Estimate(())
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None
        self._tasks: dict[str, TaskID] = {}
        self._whole: TaskID | None = None
        self._began = 0.0
        roomy = console.width >= _ROOMY_COLUMNS
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24 if roomy else 8),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[times]}"),
            *([TextColumn("[dim]{task.fields[detail]}[/]")] if roomy else []),
            console=console,
        )

    def begin(self, steps: Sequence[Step]) -> None:
        """Draw the bars."""
        self._estimate = Estimate(steps)
        self._over.clear()
        self._began = time.monotonic()
        for step in steps:
            self._tasks[step.name] = self._progress.add_task(
                step.title,
                total=1.0,
                start=False,
                times=f"about {clock(step.expected_s)}",
                detail="",
            )
        self._whole = self._progress.add_task("[bold]all of it[/]", total=1.0, times="", detail="")
        self._progress.start()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()

    def started(self, step: Step) -> None:
        """Start its clock."""
        self._estimate.started(step.name)
        self._progress.start_task(self._tasks[step.name])

    def advanced(self, step: Step, fraction: float | None, detail: str) -> None:
        """Move its bar at the next tick."""
        self._estimate.advanced(step.name, fraction, detail)

    def finished(self, step: Step, seconds: float) -> None:
        """Fill its bar."""
        self._estimate.finished(step.name)
        self._progress.update(
            self._tasks[step.name], completed=1.0, times=f"took {clock(seconds)}", detail=""
        )

    def note(self, text: str) -> None:
        """Print it above the bars."""
        self._progress.console.print(text)

    def end(self) -> None:
        """Leave the bars as they are."""
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()
            self._ticker = None
        self._draw()
        self._progress.stop()

    def _tick(self) -> None:
        while not self._over.wait(self._every_s):
            self._draw()

    def _draw(self) -> None:
        for step in self._estimate.running():
            elapsed = self._estimate.elapsed(step.name)
            self._progress.update(
                self._tasks[step.name],
                completed=self._estimate.fraction(step),
                times=f"{clock(elapsed)} of about {clock(max(step.expected_s, elapsed))}",
                detail=self._estimate.detail(step.name)[:_DETAIL_WIDTH],
            )
        if self._whole is not None:
            elapsed = time.monotonic() - self._began
            left = self._estimate.remaining()
            times = f"{clock(elapsed)}, about {clock(left)} more" if left else clock(elapsed)
            self._progress.update(self._whole, completed=elapsed / (elapsed + left), times=times)


def display(console: Console) -> Bars | Lines:
    """Return bars on a terminal, lines elsewhere."""
    return Bars(console) if console.is_terminal else Lines(console)
