"""Kueue ends pods on lost nodes where a stack asks for it: its gate, every pod, the refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from railhead.catalog.versions import COMBINATIONS
from railhead.components.controllers.charts import Chart
from railhead.components.controllers.kueue import KueueArgs, values
from railhead.config import parse
from railhead.framework import FRAMEWORKS
from railhead.launch.job import parse_job
from railhead.launch.plan import make_plan
from railhead.resolve.cluster import resolve
from railhead.resolve.queues import queues
from tests.components.recording import lab_cluster, recorded, stack_cluster
from tests.unit.config.test_config import Raw, mistakes
from tests.wiring import kinds, objects

# kueue v0.16.6, pkg/features/kube_features.go and pkg/controller/constants/constants.go.
GATE = "FailureRecoveryPolicy"
ANNOTATION = "kueue.x-k8s.io/safe-to-forcefully-delete"
ABLE = ["lab-jobset-0.11", "jobset-0.11", "lab-trainer-2.2", "trainer-2.2", "newest-read"]
METAL = ["onprem-ib-sriov", "onprem-roce-shared"]


def asking(versions: str = "jobset-0.11", ends: bool = True, **fields: Any) -> Raw:
    queueing = {"scheduler": "kueue", "end_lost_pods": ends}
    return lab_cluster() | {"versions": versions, "queueing": queueing} | fields


def of(framework: str, **asked: Any) -> Raw:
    raw = asking(**asked)
    own = {"name": "own", "framework": framework, "gpus_per_node": 8}
    return raw | {"runtimes": [raw["runtimes"][0] | own]}


def pods(inside: Any) -> Iterator[dict[str, Any]]:
    """Yield every template of pods in an object."""
    if isinstance(inside, dict):
        if "containers" in (inside.get("spec") or {}):
            yield inside
        inside = list(inside.values())
    for item in inside if isinstance(inside, list) else ():
        yield from pods(item)


def said(template: dict[str, Any]) -> str | None:
    result: str | None = template["metadata"].get("annotations", {}).get(ANNOTATION)
    return result


def test_catalogue_lists_kueue_versions_that_end_lost_pods() -> None:
    assert [name for name, row in COMBINATIONS.items() if row.lost_pods] == ABLE
    for name in ABLE:
        row = COMBINATIONS[name]
        assert row.lost_pods is not None
        assert (row.lost_pods.gate, row.lost_pods.annotation) == (GATE, ANNOTATION)
        assert f"tag {row.kueue.tag}, pkg/controller/failurerecovery/" in row.lost_pods.source


@pytest.mark.parametrize("versions", COMBINATIONS)
def test_it_is_refused_where_kueue_leaves_such_pods(versions: str) -> None:
    parse(asking(versions, ends=False), where="test")
    if versions in ABLE:
        parse(asking(versions), where="test")
        return
    (line,) = mistakes(asking(versions))
    kueue = COMBINATIONS[versions].kueue.version
    assert line.startswith(f"queueing.end_lost_pods: true: Kueue {kueue} of versions {versions!r} ")
    assert line.endswith(f"leave it out, or take versions with a newer one: {', '.join(ABLE)}")


def test_volcano_does_not_support_lost_pods() -> None:
    (line,) = mistakes(asking() | {"queueing": {"scheduler": "volcano", "end_lost_pods": True}})
    assert line.startswith("queueing.end_lost_pods: is not a field")


@pytest.mark.parametrize("ends", [True, False])
def test_kueue_ends_lost_pods_only_when_asked(ends: bool) -> None:
    resolved = queues(parse(asking("newest-read", ends), where="test"))
    row = COMBINATIONS["newest-read"].kueue
    args = KueueArgs(
        chart=Chart.of(row),
        image=row.image,
        tag=row.tag,
        settings=resolved.settings,
        gates={**row.gates, **resolved.gates},
    )
    reported = {g["name"]: g["enabled"] for g in values(args)["controllerManager"]["featureGates"]}
    # What the catalogue turns off for this Kueue stays off.
    assert reported.pop("KueueDRAIntegration") is False
    assert reported.get(GATE) is (True if ends else None)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("ends", [True, False])
def test_every_pod_of_every_kind_of_job_says_so(framework: str, ends: bool) -> None:
    resolved = resolve(parse(of(framework, ends=ends), where="test"))
    (runtime,) = resolved.runtimes
    templates = list(pods(runtime.spec))
    nodes = max(2, FRAMEWORKS[framework].fewest_nodes)
    words = f"name: run\nnodes: {nodes}\nframework: {framework}\ncommand: [train.py]\n"
    for placed in ("", "topology: any\n"):
        plan = make_plan(parse_job(words + placed, where="job"), (), resolved.contract)
        for api in kinds(framework):
            templates += pods(objects(api, plan)) if api != "trainjob" else ()
    assert {said(template) for template in templates} == {"true" if ends else None}


def test_a_job_with_a_place_of_its_own_keeps_it() -> None:
    """Trainer's pods then have the job's annotations in place of the runtime's."""
    words = "name: run\nnodes: 2\ncommand: [train.py]\ntopology: any\n"
    contract = resolve(parse(of("torch"), where="test")).contract
    (job,) = objects("trainjob", make_plan(parse_job(words, where="job"), (), contract))
    (patch,) = job["spec"]["podTemplateOverrides"]
    assert patch["metadata"]["annotations"]["$patch"] == "replace"
    assert said(patch) == "true"


@pytest.mark.slow
@pytest.mark.parametrize("stack", METAL)
def test_shipped_bare_metal_stacks_end_lost_pods(stack: str) -> None:
    """Bare metal has no cloud that deletes the node of a machine that is off."""
    assert stack_cluster(stack)["queueing"]["end_lost_pods"] is True
    rows = recorded(stack).resources.values()
    (kueue,) = (row for row in rows if row.name.endswith("-kueue-release"))
    gates = kueue.inputs["values"]["controllerManager"]["featureGates"]
    assert {"name": GATE, "enabled": True} in gates
    # What the catalogue turns off for this Kueue stays off.
    assert {"name": "FinishOrphanedWorkloads", "enabled": False} in gates
    runtimes = [row for row in rows if row.type.endswith(":ClusterTrainingRuntime")]
    assert runtimes
    assert {said(pod) for row in runtimes for pod in pods(dict(row.inputs))} == {"true"}


def test_no_cloud_stack_ends_lost_pods() -> None:
    """A cloud's node lifecycle controller deletes such a node, and keeps one that still runs."""
    for stack in ("aws-p5-prod", "aws-p5en-block", "gcp-a3-mega", "gcp-a3-ultra"):
        assert "queueing" not in stack_cluster(stack)
