"""A job for Volcano: its queue where Trainer looks for it, nothing of Kueue's, and why it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from railhead.base.errors import InputError
from railhead.config import parse
from railhead.contract import ClusterContract
from railhead.kube import jobs, volcano
from railhead.kube.client import Cluster
from railhead.kube.jobs import Phase
from railhead.launch.apis import apis, objects
from railhead.launch.asked import Asked
from railhead.launch.checks import queue
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.resolve.cluster import resolve
from tests import crds
from tests.components.recording import stack_cluster
from tests.unit.launch import world
from tests.unit.launch.fake_api import Api

KEY = "scheduling.volcano.sh/queue-name"
JOB = "name: demo\nnodes: 2\ncommand: [torchrun, train.py]\n"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/training/podgroups"


def contract(versions: str = "proven") -> ClusterContract:
    raw = stack_cluster("onprem-ib-sriov")
    raw |= {"queueing": {"scheduler": "volcano"}, "versions": versions}
    return resolve(parse(raw, where="stack")).contract


def plan(text: str = JOB, versions: str = "proven") -> Plan:
    return make_plan(parse_job(text, where="job"), (), contract(versions))


@pytest.mark.parametrize("versions", ["proven", "newest-read"])
def test_a_train_job_names_its_queue_where_its_trainer_reads_it(versions: str) -> None:
    text = f"{JOB}fabric: none\n"
    (job,) = objects(plan(text, versions))
    assert volcano.queue_of(job) == "training"
    assert not any("kueue" in key for key in job["metadata"]["labels"])
    schema = crds.schemas(versions)["trainer.kubeflow.org/v1alpha1", "TrainJob"]
    jsonschema.validate(job, schema)
    if versions == "proven":
        assert job["spec"]["annotations"] == {KEY: "training"}
        assert job["spec"]["podTemplateOverrides"]
    else:
        # One patch of ours, with the pods' part still in it.
        (patch,) = job["spec"]["runtimePatches"]
        template = patch["trainingRuntimeSpec"]["template"]
        assert template["metadata"] == {"annotations": {KEY: "training"}}
        assert template["spec"]["replicatedJobs"]


def test_another_kind_of_job_is_volcanos_own() -> None:
    (job,) = (o for o in apis()["volcano"].objects(plan()) if o["kind"] == "Job")
    assert (job["spec"]["queue"], job["spec"]["schedulerName"]) == ("training", "volcano")
    assert not any("kueue" in key for key in job["metadata"]["labels"])


@pytest.mark.parametrize("field", ["priority: production", "topology: leaf", "timeout: 1h"])
def test_fields_that_volcano_lacks_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field.partition(':')[0]}: .*TrainJob"):
        plan(f"{JOB}{field}\n")


def asked(cluster: Cluster) -> Asked:
    return Asked(cluster=cluster, plan=plan(), contract=contract())


def test_the_queue_is_asked_before_a_launch(api: Api, cluster: Cluster) -> None:
    (gone,) = queue.check(asked(cluster))
    assert (gone.name, gone.passed) == ("queue", False)
    there = api.put(QUEUES, {"metadata": {"name": "training"}, "spec": {}, "status": {}})
    assert [item.passed for item in queue.check(asked(cluster))] == [True, True]
    there["spec"]["capability"] = {"nvidia.com/gpu": "15"}
    _, short = queue.check(asked(cluster))
    assert short.passed is False
    assert "16 nvidia.com/gpu of 15" in short.text
    there["spec"]["capability"] = {"nvidia.com/gpu": "99"}
    whole = asked(cluster)
    small = replace(whole.plan, pool=whole.plan.pool.model_copy(update={"nodes": 1}))
    _, short = queue.check(replace(whole, plan=small))
    assert "16 nvidia.com/gpu of 8" in short.text
    there["status"] = {"state": "Closed"}
    (shut,) = queue.check(asked(cluster))
    assert (shut.name, shut.passed) == ("queue", False)
    assert "is closed" in shut.text


def train_job(api: Api) -> Any:
    job = world.job(api, "demo", queue="")
    job["spec"] |= {"suspend": False, "annotations": {KEY: "training"}}
    return job


def group(api: Api, **status: Any) -> Any:
    spec = {"minMember": 2, "minResources": {"nvidia.com/gpu": "16"}, "queue": "training"}
    return api.put(GROUPS, {"metadata": {"name": "demo"}, "spec": spec, "status": status})


def test_why_a_gang_waits_is_one_sentence(api: Api, cluster: Cluster) -> None:
    job = train_job(api)
    assert "has not made its PodGroup" in jobs.read_state(cluster, job).detail
    words = "2/2 tasks in gang unschedulable: 0/2 nodes are available"
    why = {"type": "Unschedulable", "status": "True", "message": words}
    made = group(api, phase="Inqueue", conditions=[why])
    state = jobs.read_state(cluster, job)
    assert (state.phase, state.charged, state.gpus_per_node) == (Phase.QUEUED, 2, 8)
    needs = "waiting in queue training: needs 2 x 8 nvidia.com/gpu"
    assert state.detail == f"{needs} (Volcano: {words})"
    assert jobs.read_states(cluster, ("training",)) == [state]
    shut = {"metadata": {"name": "training"}, "status": {"state": "Closing"}}
    api.put(QUEUES, shut)
    assert "is closing, and takes no jobs" in jobs.read_state(cluster, job).detail
    for index in range(2):
        world.pod(api, job, index, state={"running": {}})
    made["status"]["phase"] = "Running"
    assert jobs.read_state(cluster, job).phase is Phase.RUNNING
