"""A shipped stack with Volcano in Kueue's place, through the real engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.recorded import Project

pytestmark = pytest.mark.slow


def _volcano(cluster: dict[str, Any]) -> None:
    cluster["queueing"] = {"scheduler": "volcano"}


@pytest.mark.exhaustive
def test_volcano_stack_is_created_and_destroyed(tmp_path: Path) -> None:
    project = Project(tmp_path, "onprem-ib-sriov")
    project.change(_volcano)
    plan = project.preview()
    kinds = {urn.split("::")[2].rsplit("$", 1)[-1] for _, urn in plan.steps}
    assert "kubernetes:scheduling.volcano.sh/v1beta1:Queue" in kinds
    assert "kubernetes:scheduling.k8s.io/v1:PriorityClass" in kinds
    assert not any("kueue" in kind.lower() for kind in kinds)
    made = project.up()
    assert {entry["operation"] for entry in made} == {"create"}
    assert not project.up("--expect-no-changes")
    gone = project.destroy()
    assert {entry["operation"] for entry in gone} == {"delete"}
    ended = [entry["urn"] for entry in gone]
    queues = [at for at, urn in enumerate(ended) if ":Queue::" in urn]
    (release,) = (at for at, urn in enumerate(ended) if "Volcano$kubernetes:helm.sh" in urn)
    # Its webhooks must answer when a queue goes.
    assert max(queues) < release
