"""Edits that would lose something, on the real engine: `pulumi preview` and `up` stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.components.variants import VARIANTS, variant
from tests.engine.recorded import Project

pytestmark = pytest.mark.slow


def _claim(cluster: dict[str, Any]) -> None:
    cluster["checkpoints"][0]["name"] = "weights"
    for runtime in cluster["runtimes"]:
        runtime["checkpoint"] = "weights"


def _claim_removed(cluster: dict[str, Any]) -> None:
    cluster["checkpoints"] = []
    for runtime in cluster["runtimes"]:
        del runtime["checkpoint"]


def _namespace(cluster: dict[str, Any]) -> None:
    cluster["namespaces"] = ["research"]
    for row in (*cluster["queues"], *cluster["checkpoints"]):
        row["namespace"] = "research"


OLD = [
    {"kind": "checkpoint", "name": "training/checkpoints", "loses": ["data"]},
    {"kind": "namespace", "name": "training", "loses": ["jobs"]},
]


@pytest.mark.long
def test_edit_that_loses_something_stops_before_any_change(tmp_path: Path) -> None:
    project = Project(tmp_path, "lab")
    project.up()
    kept = project.file.read_text()
    before = project.entries()
    project.change(_claim)
    # The second run too: one that was stopped does not forget what was made last.
    for words in (("up", "--yes", "--skip-preview"), ("up", "--yes"), ("preview",)):
        text = project.run(*words, status=1)
        assert "checkpoint training/checkpoints" in text, (words, text)
        assert "or lose it: under `removals`" in text
    assert project.entries() == before
    assert '"training"' in project.run("stack", "output", "contract")
    # A claim of another name in the file alone is the same one.
    project.file.write_text(kept)
    project.change(_claim)
    project.change(lambda cluster: cluster["checkpoints"][0].update(claim="checkpoints"))
    assert not project.up("--expect-no-changes")
    # What the file allows by name goes; nothing else of the same kind would.
    project.file.write_text(kept)
    project.change(_namespace)
    project.change(lambda cluster: cluster.update(removals=OLD[:1]))
    assert "namespace training would go" in project.run("preview", status=1)
    project.change(lambda cluster: cluster.update(removals=OLD))
    project.up()
    assert not project.up("--expect-no-changes")


@pytest.mark.exhaustive
def test_a_mistake_in_the_file_does_not_make_the_stack_forget(tmp_path: Path) -> None:
    project = Project(tmp_path, "lab")
    project.up()
    kept = project.file.read_text()
    project.change(lambda cluster: cluster.update(nonsense=1))
    project.run("up", "--yes", "--skip-preview", status=1)
    project.file.write_text(kept)
    project.change(_claim_removed)
    stopped = project.run("up", "--yes", "--skip-preview", status=1)
    assert "checkpoint training/checkpoints" in stopped


@pytest.mark.exhaustive
@pytest.mark.parametrize("stack", ["aws-p5-prod", "gcp-a3-ultra", "onprem-ib-sriov"])
def test_lossy_edit_stops_on_every_platform(stack: str, tmp_path: Path) -> None:
    project = Project(tmp_path, stack)
    project.up()

    def rename(cluster: dict[str, Any]) -> None:
        old = cluster["checkpoints"][0]["name"]
        for row in (*cluster["checkpoints"], *cluster["runtimes"]):
            for key in ("name", "checkpoint"):
                if row.get(key) == old:
                    row[key] = "weights"

    project.change(rename)
    before = project.entries()
    assert "would no longer be the stack's" in project.run("preview", status=1)
    assert "would no longer be the stack's" in project.run("up", "--yes", status=1)
    assert project.entries() == before


@pytest.mark.exhaustive
def test_an_unprotected_file_system_is_not_replaced_unasked(tmp_path: Path) -> None:
    project = Project(tmp_path, "aws-p5en-block")
    project.up()
    project.change(lambda cluster: cluster["platform"]["storage"][0].update(efa=False))
    before = project.entries()
    for words in (("preview",), ("up", "--yes", "--skip-preview")):
        text = project.run(*words, status=1)
        assert "storage lustre (of training/checkpoints) cannot go from" in text
        assert "efa True to False" in text
    assert project.entries() == before


@pytest.mark.exhaustive
def test_one_edit_may_unprotect_and_replace(tmp_path: Path) -> None:
    """The engine allows it (pulumi, step_generator.go: ``new.Protect && old.Protect``)."""
    project = Project(tmp_path, "gcp-a3-ultra")
    project.up()

    def change(cluster: dict[str, Any]) -> None:
        cluster["platform"]["deletion_protection"] = False
        cluster["platform"]["storage"][0]["throughput"] = 1000
        cluster["pools"][0]["driver"] = "latest"
        # A claim would stay bound to a volume of the file system that goes.
        del cluster["checkpoints"][0]
        for runtime in cluster["runtimes"]:
            runtime["checkpoint"] = "datasets"

    project.change(change)
    before = project.entries()
    text = project.run("up", "--yes", "--skip-preview", status=1)
    assert "throughput 500 to 1000" in text
    assert "pool h200 would lose nodes that it has, with the jobs on them: driver" in text
    assert project.entries() == before
    jobs = {"kind": "pool", "name": "h200", "loses": ["jobs"]}
    data = {"kind": "storage", "name": "lustre", "loses": ["data"]}
    claim = {"kind": "checkpoint", "name": "training/checkpoints", "loses": ["data"]}
    project.change(lambda cluster: cluster.update(removals=[jobs, data, claim]))
    steps = [urn for operation, urn in project.preview().steps if operation == "replace"]
    assert any("gcp:lustre/instance:Instance" in urn for urn in steps)


def _others_interfaces(cluster: dict[str, Any]) -> None:
    cluster["fabric"]["selector"] = cluster["fabric"]["selector"].replace("ibp", "ibs")


def _another_value(cluster: dict[str, Any]) -> None:
    cluster["priorities"] = [
        {"name": "production", "value": 2000, "description": "has a date to meet"},
        {"name": "research", "value": 0, "description": "everyday work"},
        {"name": "spare", "value": -1000, "description": "only what nobody else wants"},
    ]


@pytest.mark.parametrize(
    ("name", "edit", "kind", "count"),
    [
        ("dranet", _others_interfaces, "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate", 2),
        pytest.param(
            *("volcano", _another_value, "kubernetes:scheduling.k8s.io/v1:PriorityClass", 1),
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_what_the_api_server_fixes_is_recreated(
    tmp_path: Path, name: str, edit: Callable[[dict[str, Any]], None], kind: str, count: int
) -> None:
    """Updates of these are refused, and the provider knows only some of the kinds."""
    project = Project(tmp_path, VARIANTS[name])
    project.change(lambda cluster: cluster.update(variant(name)))
    project.up()
    project.change(edit)
    replaced = [urn for operation, urn in project.preview().steps if operation == "replace"]
    assert [urn.split("::")[2].rsplit("$", 1)[-1] for urn in replaced] == [kind] * count
    made = project.up()
    for urn in replaced:
        assert [e["operation"] for e in made if e["urn"] == urn] == ["delete", "create"]


def _guests(cluster: dict[str, Any]) -> None:
    """Add a pool and a runtime, and two namespaces for them, one of which has a claim."""
    selector = {"railhead.dev/pool": "guests"}
    pool = cluster["pools"][0] | {"name": "guests", "nodes": 4, "node_selector": selector}
    cluster["pools"].append(pool)
    cluster["runtimes"].append(cluster["runtimes"][0] | {"name": "guests", "pool": "guests"})
    cluster["checkpoints"].append(cluster["checkpoints"][0] | {"namespace": "kept"})
    for name in ("guests", "kept"):
        queue = {"name": name, "namespace": name, "cluster_queue": "guests", "pools": ["guests"]}
        cluster["namespaces"].append(name)
        cluster["queues"].append(queue)


def _without_claims(cluster: dict[str, Any]) -> None:
    for runtime in cluster["runtimes"]:
        del runtime["checkpoint"]


def test_jobs_go_before_the_runtime_that_they_hold(tmp_path: Path) -> None:
    """Trainer keeps a runtime while a TrainJob names it, even an ended one."""
    project = Project(tmp_path, "onprem-ib-sriov")
    project.change(_without_claims)
    kept = project.file.read_text()
    project.change(_guests)
    project.up()
    project.file.write_text(kept)
    gone = [
        {"kind": "pool", "name": "guests", "loses": ["jobs", "quota"]},
        {"kind": "namespace", "name": "guests", "loses": ["jobs"]},
        {"kind": "namespace", "name": "kept", "loses": ["jobs"]},
        {"kind": "checkpoint", "name": "kept/checkpoints", "loses": ["data"]},
    ]
    project.change(lambda cluster: cluster.update(removals=gone))
    names = [e["urn"].rpartition("::")[2] for e in project.up() if e["operation"] == "delete"]
    turn = {name.removeprefix("ib-sriov-"): number for number, name in enumerate(names)}
    # One goes with its jobs; from the other, which stays for its claim, they go first.
    assert turn["namespace-guests-namespace"] < turn["runtimes-guests"]
    assert turn["jobs-kept"] < turn["namespace-kept-queue-kept"] < turn["runtimes-guests"]
