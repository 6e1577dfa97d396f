"""A rehearsal of a stack of this checkout, or of a copy of it in which a line is changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.errors import PrerequisiteError
from railhead.config import parse
from railhead.twin.plane import programs
from railhead.twin.program import DESTROY, NEEDED, Program
from railhead.twin.steps import Outcome, Rehearsal
from railhead.twin.twin import twin

REPO = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv*", "build", "dist", "tests", "docs", "__pycache__"
)


def rehearsed(
    folder: Path,
    stack: str,
    only: Sequence[str] = (),
    *,
    checkout: Path = REPO,
    change: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Outcome]:
    """Return the outcome of each step; skips where the lab's programs are not built."""
    try:
        programs()
    except PrerequisiteError as missing:
        pytest.skip(str(missing))
    data = yaml.safe_load((REPO / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    section = data["config"]["railhead:cluster"]
    change(section)
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    cluster = parse(section, where=stack)
    with twin(folder / "twin", stack=stack, file=file, checkout=checkout, cluster=cluster) as made:
        rehearsal = Rehearsal(
            stack, needed=NEEDED, always=frozenset({DESTROY}), aside=made.loop.troubles
        )
        rehearsal.run(list(Program(made).steps()), only)
    for outcome in rehearsal.outcomes:
        print(f"{outcome.verdict:8}{outcome.seconds:6.1f} {outcome.name}: {outcome.text}")
    return {outcome.name: outcome for outcome in rehearsal.outcomes}


def copied(folder: Path, file: str, old: str, new: str) -> Path:
    """Return a copy of the checkout in which one line of a file is another."""
    copy = folder / "checkout"
    shutil.copytree(REPO, copy, symlinks=True, ignore=_LEFT_OUT)
    path = copy / file
    text = path.read_text()
    assert old in text, f"{file} has no {old!r} any more: put the faulty line back otherwise"
    path.write_text(text.replace(old, new))
    return copy
