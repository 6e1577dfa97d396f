"""A job's priority and how near its nodes are to each other: chosen, checked, rendered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from railhead.base.errors import InputError
from railhead.config import load
from railhead.launch import render
from railhead.launch.checks import topology
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.resolve.cluster import resolve
from tests import crds

REPO = Path(__file__).resolve().parents[3]
CONTRACT = resolve(load(REPO / "stacks/Pulumi.lab.yaml")).contract
JOB = "name: demo\nnodes: 2\ncommand: [torchrun, x.py]\n"
RACK, BLOCK = "topology.railhead.dev/rack", "topology.railhead.dev/block"


def plan(line: str = "", **contract: Any) -> Plan:
    job = parse_job(JOB + line, where="job")
    return make_plan(job, (), CONTRACT.model_copy(update=contract))


def patched(made: Plan) -> dict[str, str]:
    spec = render.train_job(made)["spec"]
    if "podTemplateOverrides" in spec:
        (override,) = spec["podTemplateOverrides"]
    else:
        template = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
        override = template["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    result: dict[str, str] = override["metadata"]["annotations"]
    return result


@pytest.mark.parametrize(
    ("words", "mode", "value"),
    [
        ("rack", "required", RACK),
        ("block", "required", BLOCK),
        (RACK, "required", RACK),
        ("hostname", "required", "kubernetes.io/hostname"),
        ("prefer block", "preferred", BLOCK),
        ("any", "unconstrained", "true"),
    ],
)
@pytest.mark.parametrize(
    ("field", "versions"), [("podTemplateOverrides", "lab"), ("runtimePatches", "newest-read")]
)
def test_a_placement_takes_the_runtimes_place(
    words: str, mode: str, value: str, field: str, versions: str
) -> None:
    made = plan(f"topology: {words}\n", placement_field=field)
    result = patched(made)
    own = CONTRACT.runtimes[0].pod["metadata"]["annotations"]
    kept = {key: text for key, text in own.items() if "topology" not in key}
    # The rails are among them: a pod without would be refused.
    assert "k8s.v1.cni.cncf.io/networks" in kept
    assert result == kept | {"$patch": "replace", f"kueue.x-k8s.io/podset-{mode}-topology": value}
    schema = crds.schemas(versions)["trainer.kubeflow.org/v1alpha1", "TrainJob"]
    jsonschema.Draft7Validator(schema).validate(render.train_job(made))


def test_slices_of_a_job_are_each_within_one_domain() -> None:
    """Tensor parallelism over more than a node stays on one NVLink domain."""
    result = patched(plan("topology: 2 in rack\n"))
    slices = "kueue.x-k8s.io/podset-slice-"
    assert result[f"{slices}required-topology"] == RACK
    assert result[f"{slices}size"] == "2"
    assert not [key for key in result if "topology" in key and slices not in key]
    for line in ("topology: 3 in rack\n", "topology: 2 in rack\nmin_nodes: 1\n"):
        with pytest.raises(InputError, match="is not for this job: its nodes are of one role"):
            plan(line)


def test_a_job_that_says_nothing_leaves_the_runtimes_placement() -> None:
    assert plan().annotations is None
    assert "podTemplateOverrides" not in render.train_job(plan())["spec"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topology: rakc", "did you mean 'rack'?"),
        ("topology: prefer", "prefer and a level"),
        ("topology: prefer rack block", "prefer and a level"),
        ("topology: row", "from the widest: block, rack, hostname"),
        ("priority: prodution", "did you mean 'production'?"),
        ("priority: high", "there are: production (1000), research (0), spare (-1000)"),
        ("namespace: other", "'other' has no such queue; these have one: training"),
    ],
)
def test_topology_that_the_cluster_lacks_is_refused(line: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(f"{line}\n")
    assert words in caught.value.problem


@pytest.mark.parametrize(("gpus", "pods"), [("8", 1), ("4", 2), ("3", 2), ("16", 1), ("0", 1)])
def test_a_machine_holds_whole_pods_and_one_at_least(gpus: str, pods: int) -> None:
    made = plan()
    pool = made.pool.model_copy(update={"capacity": {"nvidia.com/gpu": "8"}})
    asked = {"requests": {"nvidia.com/gpu": gpus, "cpu": "1"}}
    assert topology._each(replace(made, pool=pool, resources=asked)) == pods


def test_gang_of_a_queued_pool_is_not_placed() -> None:
    queued = [pool.model_copy(update={"queued": True}) for pool in CONTRACT.node_pools]
    assert plan(node_pools=tuple(queued)).annotations is None
    for words in ("rack", "prefer rack", "any"):
        with pytest.raises(InputError, match="come for each gang, from any part"):
            plan(f"topology: {words}\n", node_pools=tuple(queued))


def test_whole_label_distinguishes_levels_of_one_name() -> None:
    levels = ("a.example/rack", "b.example/rack", "kubernetes.io/hostname")
    with pytest.raises(InputError, match="several levels"):
        plan("topology: rack\n", topology_levels=levels)
    made = plan("topology: b.example/rack\n", topology_levels=levels)
    assert made.annotations is not None
    assert made.annotations["kueue.x-k8s.io/podset-required-topology"] == "b.example/rack"


def test_priority_comes_from_the_job_or_its_team() -> None:
    label = "kueue.x-k8s.io/priority-class"
    assert label not in render.train_job(plan())["metadata"]["labels"]
    made = plan("priority: production\n")
    assert render.train_job(made)["metadata"]["labels"][label] == "production"
    (queue,) = CONTRACT.queues
    of_team = queue.model_copy(update={"team": "language", "priority": "spare"})
    assert plan(queues=(of_team,)).priority == "spare"
    assert plan("priority: research\n", queues=(of_team,)).priority == "research"


def test_several_queues_of_teams_need_a_choice() -> None:
    (queue,) = CONTRACT.queues
    queues = tuple(
        queue.model_copy(update={"name": name, "namespace": where, "team": name})
        for name, where in (("language", "l1"), ("language", "l2"), ("vision", "v"))
    )
    with pytest.raises(InputError, match="several teams have one"):
        plan(queues=queues)
    assert plan("queue: language\n", queues=queues).namespace == "l1"
    assert plan("queue: language\nnamespace: l2\n", queues=queues).namespace == "l2"
    assert plan("namespace: v\n", queues=queues).queue == "vision"
