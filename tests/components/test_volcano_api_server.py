"""A stack whose gangs Volcano admits, on a real API server with the definitions of its release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.catalog.versions import ADDONS
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.components.test_api_server import gpu_pod, manifests, train_job, without
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

QUEUE = "scheduling.volcano.sh/queue-name"
OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "mine-node-0",
    "uid": "1",
    "controller": True,
}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(lab_cluster() | {"queueing": {"scheduler": "volcano"}}, cache)


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane, recording: Recording) -> Iterator[Server]:
    volcano = crds.of(ADDONS["volcano"])
    with Server(judging_plane) as server:
        server.define([*lab_definitions(), *crds.operators("k8s.cni.cncf.io"), *volcano])
        for body in manifests(recording):
            server.apply(body)
        server.policies_settled()
        yield server


def queued(queue: str = "training", **trainer: Any) -> dict[str, Any]:
    """Return a TrainJob as `launch` sends it to such a stack."""
    job = without(train_job(**trainer), "metadata", "labels")
    job["spec"]["annotations"] = {QUEUE: queue}
    return job


def group(queue: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"minMember": 2} | ({"queue": queue} if queue else {})
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mine", "namespace": "training"},
        "spec": spec,
    }


def test_nothing_of_kueue_is_made(recording: Recording) -> None:
    groups = {
        str(r.inputs.get("apiVersion")).partition("/")[0] for r in recording.resources.values()
    }
    assert "scheduling.volcano.sh" in groups
    assert "kueue.x-k8s.io" not in groups
    releases = {r.inputs["name"] for r in recording.of_type("kubernetes:helm.sh/v3:Release")}
    assert releases == {"volcano", "jobset", "kubeflow-trainer"}


def test_trainer_starts_after_the_kinds_that_it_looks_for(recording: Recording) -> None:
    trainer, volcano = (
        next(
            r
            for r in recording.of_type("kubernetes:helm.sh/v3:Release")
            if r.inputs["name"] == name
        )
        for name in ("kubeflow-trainer", "volcano")
    )
    assert volcano.urn in recording.before(trainer.urn)


def test_the_policies_are_well_typed(server: Server, recording: Recording) -> None:
    listed = json.loads(server.run("get", "validatingadmissionpolicies", "-o", "json").stdout)
    mine = {r.inputs["metadata"]["name"] for r in recording.kind("ValidatingAdmissionPolicy")}
    policies = [item for item in listed["items"] if item["metadata"]["name"] in mine]
    assert len(policies) == len(mine) >= 6
    for policy in policies:
        warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
        assert not warnings, json.dumps(warnings, indent=1)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (without(train_job(), "metadata", "labels"), f"set the annotation {QUEUE}"),
        (train_job(), "would be charged to no team"),
        (queued("default"), "names the queue default, which namespace training has not"),
        (group("default"), "names the queue default"),
        # The definition's own default is Volcano's queue.
        (group(None), "names the queue default"),
        (gpu_pod(), "no queue was charged"),
        (gpu_pod(ownerReferences=[OWNER]), "submit a TrainJob or a Job of batch.volcano.sh"),
    ],
    ids=["none", "kueue's label", "default", "group", "group without", "bare pod", "other's pod"],
)
def test_nothing_goes_around_the_queues(server: Server, body: dict[str, Any], words: str) -> None:
    assert words in server.verdict(body)


def test_a_gang_that_would_be_placed_one_by_one_is_refused(server: Server) -> None:
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "training"},
        "spec": {"template": {"spec": {"restartPolicy": "Never"} | gpu_pod()["spec"]}},
    }
    assert "one by one: submit a TrainJob or a Job of batch.volcano.sh" in server.verdict(job)
    made = {**OWNER, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "mine"}
    job["metadata"]["ownerReferences"] = [made]
    jobsets = server.controller("jobset-system", "jobset-controller-manager")
    assert server.verdict(job, jobsets) == ""
    assert "only controllers say what they made" in server.verdict(job)


def test_pods_with_a_queue_are_accepted(server: Server) -> None:
    assert server.verdict(queued()) == ""
    assert server.verdict(group("training")) == ""
    member = {"scheduling.k8s.io/group-name": "mine"}
    pod = gpu_pod(ownerReferences=[OWNER], annotations=member)
    pod["spec"]["schedulerName"] = "volcano"
    assert server.verdict(pod, server.controller("kube-system", "job-controller")) == ""
