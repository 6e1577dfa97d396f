"""`railhead upgrade`: what the present version changes in what an earlier one made, in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.base.version import __version__
from railhead.cli.upgrade import Change, changes_of
from tests.engine.before_states import earlier
from tests.engine.recorded import Project


def upgraded(project: Project, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "railhead", "upgrade", *options],
        cwd=project.folder,
        env={
            **project.environment,
            "PATH": f"{project.pulumi.parent}:{project.environment['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_an_upgrade_is_reported_before_it_changes_anything(tmp_path: Path) -> None:
    project = earlier("lab", tmp_path)
    done = upgraded(project)
    assert done.returncode == ExitCode.OK
    first, *changes, last, jobs = done.stdout.splitlines()
    assert first == f"lab: Railhead {__version__} changes {len(changes)} resources"
    assert last.strip() == "none deleted or replaced"
    assert jobs.startswith("  let TrainJobs of changed runtimes end first"), "it limits memory"
    assert "  changed  Release lab-kueue-release: values" in changes
    assert any(line.startswith("  new      Deployment railhead-gate/") for line in changes)
    assert not project.entries(), "it made something"


@pytest.mark.slow
def test_a_preview_that_is_refused_is_shown(tmp_path: Path) -> None:
    project = earlier("onprem-roce-shared", tmp_path)
    project.change(lambda cluster: cluster.pop("removals"))
    done = upgraded(project, "onprem-roce-shared")
    assert done.returncode == ExitCode.FAILED
    assert "removals" in done.stderr


def test_a_replaced_object_comes_first_with_its_reasons() -> None:
    urn = "urn:pulumi:p5::clusters::railhead:Cluster$kubernetes:kueue/v1:ClusterQueue::p5-queue"
    metadata = {"metadata": {"name": "training"}}
    steps: list[dict[str, Any]] = [
        {"op": "same", "urn": urn},
        {"op": "create", "urn": urn.replace("p5-queue", "new"), "newState": {"inputs": {}}},
        {
            "op": "replace",
            "urn": urn,
            "newState": {"inputs": metadata},
            "detailedDiff": {"spec.a": {}, "spec.b": {}},
            "replaceReasons": ["spec.b"],
        },
        {"op": "create-replacement", "urn": urn},
    ]
    assert list(changes_of(steps)) == [
        Change(change="replaced", kind="ClusterQueue", name="training", fields=("spec.b",)),
        Change(change="new", kind="ClusterQueue", name="new"),
    ]
