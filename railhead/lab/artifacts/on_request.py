"""Builds on request, once even if several processes ask at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import building
from railhead.lab.artifacts.progress import display
from railhead.lab.artifacts.space import check_space
from railhead.lab.artifacts.steps import Step, run_steps

if TYPE_CHECKING:
    from rich.console import Console


def build_once(
    ready: Callable[[], bool], steps: Callable[[], Sequence[Step]], console: Console
) -> None:
    """Run the steps unless all is there.

    Args:
        ready: returns whether everything is built.
        steps: returns the steps that build it; called when it is this process' turn.
        console: shows the progress.

    Raises:
        PrerequisiteError: there is no space, or the cache cannot be written.
    """
    if ready():
        return
    progress = display(console)
    with building(lambda who: progress.note(f"{who} is building already; waiting for it")):
        # Another process may have built it while this one waited.
        if not ready():
            planned = steps()
            check_space(planned)
            run_steps(planned, progress, Runner())
