"""Deletions that the stack's guards refuse on a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from railhead import config
from railhead.base.names import CHECKPOINT_LABEL, DELETE_ANNOTATION, TRAINING_LABEL
from railhead.kube.errors import ApiError
from railhead.resolve.cluster import resolve
from railhead.resolve.guards import Guard
from tests.api_server import Server, lab_definitions
from tests.components.recording import lab_cluster
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NS = "kept"
MERGE = "application/merge-patch+json"


def keepers() -> dict[str, Guard]:
    cluster = lab_cluster()
    cluster["namespaces"] = [NS, "kept-second"]
    for row in (*cluster["queues"], *cluster["checkpoints"]):
        row["namespace"] = NS
    del cluster["runtimes"][0]["checkpoint"]
    result = resolve(config.parse(cluster, where="lab")).guards
    return {name: guard for name, guard in result.items() if name.startswith("railhead-keep-")}


def thing(version: str, kind: str, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def claim(name: str, namespace: str = NS) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    labels = {CHECKPOINT_LABEL: "true"}
    return thing("v1", "PersistentVolumeClaim", name, spec, namespace=namespace, labels=labels)


def pod(name: str, claimed: str) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "c", "image": "x"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claimed}}],
    }
    return thing("v1", "Pod", name, spec, namespace=NS)


def workload(name: str, namespace: str = NS, *, queue: str = "q") -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    spec = {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return thing("kueue.x-k8s.io/v1beta2", "Workload", name, spec, namespace=namespace)


def cluster_queue(*flavors: str, **more: Any) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": "1"}]
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [{"name": name, "resources": resources} for name in flavors],
        }
    ]
    return thing("kueue.x-k8s.io/v1beta2", "ClusterQueue", "cq", {"resourceGroups": groups, **more})


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define(lab_definitions())
        for name in (NS, "kept-second"):
            server.apply(thing("v1", "Namespace", name, labels={TRAINING_LABEL: "true"}))
        for name, guard in keepers().items():
            server.guard(name, guard)
        probe = claim("probe")
        server.apply(probe)
        refused(server, probe)
        yield server


def delete(server: Server, body: dict[str, Any], *, dry: bool = True) -> str:
    """Empty when it may be deleted, else why not."""
    query = {"dryRun": "All"} if dry else {"gracePeriodSeconds": "0"}
    try:
        server.client.request("DELETE", server.path(body), query=query)
    except ApiError as error:
        return error.message
    return ""


def update(server: Server, body: dict[str, Any]) -> str:
    try:
        server.client.request(
            "PATCH",
            server.path(body),
            body={"spec": body["spec"]},
            content_type=MERGE,
            query={"dryRun": "All"},
        )
    except ApiError as error:
        return error.message
    return ""


def patch(server: Server, body: dict[str, Any], change: dict[str, Any], sub: str = "") -> None:
    path = f"{server.path(body)}{f'/{sub}' if sub else ''}"
    server.client.request("PATCH", path, body=change, content_type=MERGE)


def eventually(judge: Callable[[], str], *, refuses: bool) -> str:
    """Return the verdict, once policies and their parameters have reached the server."""
    deadline = time.monotonic() + 30
    while bool(verdict := judge()) != refuses:
        assert time.monotonic() < deadline, verdict or "it is let through"
        time.sleep(0.2)
    return verdict


def refused(server: Server, body: dict[str, Any]) -> str:
    return eventually(lambda: delete(server, body), refuses=True)


def allowed(server: Server, body: dict[str, Any]) -> None:
    eventually(lambda: delete(server, body), refuses=False)


def finish(server: Server, body: dict[str, Any]) -> None:
    done = {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch(server, body, {"status": {"conditions": [done]}}, "status")


def gone(server: Server, *bodies: dict[str, Any]) -> None:
    server.delete(bodies)
    server.eventually_gone(bodies)


def test_the_policies_are_well_typed(server: Server) -> None:
    for name in keepers():
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
        deadline = time.monotonic() + 30
        while "typeChecking" not in (body := server.client.request("GET", path).body)["status"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert not body["status"]["typeChecking"].get("expressionWarnings"), name


def test_checkpoint_claim_is_deleted_once_annotated(server: Server) -> None:
    body = claim("weights")
    server.apply(body)
    reported = refused(server, body)
    assert f"kubectl -n {NS} annotate pvc weights {DELETE_ANNOTATION}=weights" in reported
    for value in ("true", "other"):
        patch(server, body, {"metadata": {"annotations": {DELETE_ANNOTATION: value}}})
        assert delete(server, body)
    # As a whole collection too.
    collection = server.path(body, collection=True)
    with pytest.raises(ApiError, match="holds checkpoints"):
        server.client.request("DELETE", collection, query={"dryRun": "All"})
    patch(server, body, {"metadata": {"annotations": {DELETE_ANNOTATION: "weights"}}})
    allowed(server, body)
    gone(server, body)


def test_a_claim_that_a_pod_mounts_is_never_left_terminating(server: Server) -> None:
    body, user = claim("mounted"), pod("user", "mounted")
    server.apply(body)
    server.apply(user)
    patch(server, body, {"metadata": {"annotations": {DELETE_ANNOTATION: "mounted"}}})
    reported = eventually(lambda: delete(server, body), refuses=True)
    assert "mounted by pod user" in reported
    patch(server, user, {"status": {"phase": "Succeeded"}}, "status")
    allowed(server, body)
    gone(server, body, user)


def test_a_namespace_with_claims_or_jobs_is_not_deleted(server: Server) -> None:
    space, second = thing("v1", "Namespace", NS), thing("v1", "Namespace", "kept-second")
    assert "holds checkpoints, claim probe" in refused(server, space)
    allowed(server, second)
    job = workload("job", "kept-second")
    server.apply(job)
    assert "has a job that would be lost: Workload kept-second/job" in refused(server, second)
    patch(server, job, {"spec": {"active": False}})
    allowed(server, second)
    patch(server, job, {"spec": {"active": True}})
    refused(server, second)
    finish(server, job)
    allowed(server, second)
    gone(server, job)


def test_deleted_namespace_takes_its_claims(server: Server) -> None:
    """The guard already decided on the namespace; refusing its parts leaves it Terminating."""
    body = claim("goes", "kept-second")
    space = thing("v1", "Namespace", "kept-second")
    server.apply(body)
    refused(server, space)
    patch(server, body, {"metadata": {"annotations": {DELETE_ANNOTATION: "goes"}}})
    allowed(server, space)
    assert delete(server, space, dry=False) == ""
    server.eventually_gone([body, space])


def test_a_queue_with_jobs_is_not_deleted(server: Server) -> None:
    api, spec = "kueue.x-k8s.io/v1beta2", {"clusterQueue": "cq"}
    queue, other = (thing(api, "LocalQueue", n, spec, namespace=NS) for n in ("q", "other"))
    server.apply(queue)
    server.apply(other)
    job = workload("in-queue")
    server.apply(job)
    assert f"queue q has a job: Workload {NS}/in-queue" in refused(server, queue)
    allowed(server, other)
    finish(server, job)
    allowed(server, queue)
    gone(server, queue, other, job)


def test_a_cluster_queue_whose_quota_is_held_is_not_deleted(server: Server) -> None:
    body = cluster_queue("one")
    server.apply(body)
    allowed(server, body)
    patch(server, body, {"status": {"reservingWorkloads": 2}}, "status")
    assert "has 2 jobs that hold quota" in refused(server, body)
    patch(server, body, {"status": {"reservingWorkloads": 0}}, "status")
    allowed(server, body)
    gone(server, body)


def test_flavor_in_use_stays_in_its_queue(server: Server) -> None:
    """The nodes of a renamed pool are never counted twice."""
    body, job = cluster_queue("one", "two"), workload("holds")
    server.apply(body)
    server.apply(job)
    admission = {
        "clusterQueue": "cq",
        "podSetAssignments": [{"name": "main", "flavors": {"cpu": "one"}, "count": 1}],
    }
    patch(server, job, {"status": {"admission": admission}}, "status")
    without_one, without_two = cluster_queue("two", "new"), cluster_queue("one", "new")
    reported = eventually(lambda: update(server, without_one), refuses=True)
    assert "given out twice" in reported
    assert f"Workload {NS}/holds" in reported
    assert update(server, without_two) == ""
    assert update(server, cluster_queue("one", "two", "new")) == ""
    finish(server, job)
    eventually(lambda: update(server, without_one), refuses=False)
    # What waits could be admitted in between, and what shares a cohort by another's door.
    patch(server, body, {"status": {"pendingWorkloads": 1}}, "status")
    reported = eventually(lambda: update(server, without_one), refuses=True)
    assert """kubectl patch clusterqueue cq --type merge -p '{"spec":{"stopPolicy":"Hold"}}'""" in (
        reported
    )
    patch(server, body, {"spec": {"stopPolicy": "Hold"}})
    eventually(lambda: update(server, without_one), refuses=False)
    patch(server, body, {"spec": {"stopPolicy": None}})
    patch(server, body, {"status": {"pendingWorkloads": 0}}, "status")
    eventually(lambda: update(server, without_one), refuses=False)
    patch(server, body, {"spec": {"cohortName": "teams"}})
    eventually(lambda: update(server, without_one), refuses=True)
    gone(server, body, job)
