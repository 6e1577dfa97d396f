"""The steps of a rehearsal and what became of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from railhead.base.errors import RailheadError
from railhead.kube.errors import ApiError, UnreachableError

Verdict = Literal["passed", "failed", "skipped"]


class FailedError(Exception):
    """A step's expectation that was not met, in words of a user."""


class SkippedError(Exception):
    """A step that has nothing to do on this stack; says why."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of a rehearsal.

    Args:
        name: what ``--only`` takes, such as ``edit:nodes-up``.
        does: what it does, for people.
        run: does it; returns what there is to say of it.
    """

    name: str
    does: str
    run: Callable[[], str]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a step.

    Args:
        name: the step's.
        does: what it does.
        verdict: passed, failed or skipped.
        seconds: how long it took.
        text: what there is to say; of a failed one, why it failed.
    """

    name: str
    does: str
    verdict: Verdict
    seconds: float
    text: str = ""


@dataclass
class Rehearsal:
    """Steps one after the other, each whatever became of those before it.

    Args:
        stack: the stack's name.
        begins: called with each step before it.
        ended: called with each outcome.
        always: names of steps that run even after a needed one failed.
        needed: names of steps without which no other makes sense.
        aside: returns what else to say where a step fails.
    """

    stack: str
    begins: Callable[[Step], None] = lambda _: None
    ended: Callable[[Outcome], None] = lambda _: None
    always: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()
    aside: Callable[[], str] = str
    outcomes: list[Outcome] = field(default_factory=list)
    broken: str = ""

    def run(self, steps: Sequence[Step], only: Sequence[str] = ()) -> None:
        """Run the steps that are wanted.

        Args:
            steps: all of them, in their order.
            only: beginnings of names; those of ``needed`` run in any case.
        """
        for step in steps:
            wanted = not only or step.name in self.needed or step.name.startswith(tuple(only))
            if not wanted:
                continue
            if self.broken and step.name not in self.always:
                self._note(step, "skipped", 0.0, f"after {self.broken} failed")
                continue
            self.begins(step)
            start = time.monotonic()
            try:
                text, verdict = step.run(), "passed"
            except SkippedError as skipped:
                text, verdict = str(skipped), "skipped"
            except (FailedError, RailheadError, ApiError, UnreachableError) as failed:
                text, verdict = f"{failed}{self.aside()}", "failed"
                if step.name in self.needed:
                    self.broken = step.name
            self._note(step, verdict, time.monotonic() - start, text)  # type: ignore[arg-type]

    def _note(self, step: Step, verdict: Verdict, seconds: float, text: str) -> None:
        outcome = Outcome(
            name=step.name, does=step.does, verdict=verdict, seconds=seconds, text=text
        )
        self.outcomes.append(outcome)
        self.ended(outcome)

    @property
    def failed(self) -> list[Outcome]:
        """The steps that failed."""
        return [outcome for outcome in self.outcomes if outcome.verdict == "failed"]
