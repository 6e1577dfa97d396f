"""Every stack that is shipped, through the real engine: planned, made, made again, taken away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.components.recording import STACKS
from tests.engine.recorded import Project

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_is_planned_made_and_made_again_without_a_change(
    stack: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    project = Project(tmp_path, stack)
    plan = project.preview()
    assert set(plan.operations) <= {"create", "read"}
    assert not project.entries(), "a preview made something"
    record_property("resources", plan.operations["create"])
    record_property("preview_seconds", round(plan.seconds, 1))
    print(f"\n{stack}: {plan.operations['create']} resources, preview {plan.seconds:.1f} s")
    made = project.up()
    assert {entry["operation"] for entry in made} == {"create"}
    urns = [entry["urn"] for entry in made]
    assert len(urns) == len(set(urns))
    assert not project.up("--expect-no-changes")
