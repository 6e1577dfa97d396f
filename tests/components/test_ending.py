"""`destroy` begins with the jobs' owner: refused while one runs, and ended jobs go with it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from railhead import config
from railhead.base.names import JOBS_OWNER, KUEUE_API, TRAINER_API
from railhead.kube.errors import ApiError
from railhead.resolve.ending import ending
from tests.api_server import Server, lab_definitions
from tests.components.recording import lab_cluster
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
NAMESPACE = "ending"
OWNER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": JOBS_OWNER, "namespace": NAMESPACE},
}
MADE = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define(lab_definitions())
        space = {"name": NAMESPACE, "labels": {"railhead.dev/training": "true"}}
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
        for name, guard in ending(config.parse(lab_cluster(), where="test")).items():
            server.guard(name, guard)
        server.policies_settled()
        yield server


def _made(server: Server, api: str, kind: str, name: str, spec: Any, owner: Any = None) -> Any:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if owner:
        metadata["ownerReferences"] = [owner]
    body = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
    server.apply(body)
    return body


def _condition(server: Server, body: Mapping[str, Any], kind: str) -> None:
    condition = {
        "type": kind,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": MADE,
    }
    server.client.request(
        "PATCH",
        f"{server.path(body)}/status",
        body={"status": {"conditions": [condition]}},
        content_type="application/merge-patch+json",
    )


def _refusal(server: Server) -> str:
    try:
        server.client.request("DELETE", server.path(OWNER), query={"dryRun": "All"})
    except ApiError as error:
        return error.message
    return ""


def test_running_jobs_hold_a_stack_and_ended_ones_go_with_it(server: Server) -> None:
    server.apply(OWNER)
    uid = server.client.request("GET", server.path(OWNER)).body["metadata"]["uid"]
    owned = {"apiVersion": "v1", "kind": "ConfigMap", "name": JOBS_OWNER, "uid": uid}
    assert _settled(server, "") == ""
    runtime = {"runtimeRef": {"name": "torch"}}
    job = _made(server, TRAINER_API, "TrainJob", "demo", runtime, owned)
    by_kubectl = _made(server, TRAINER_API, "TrainJob", "other", runtime)
    pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    by_ray = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "ray", "uid": "x"}
    workload = _made(server, KUEUE_API, "Workload", "ray-1", {"podSets": [pods]}, by_ray)

    _condition(server, by_kubectl, "Complete")
    _condition(server, workload, "Finished")
    refusal = _settled(server, "demo")
    assert f"TrainJob {NAMESPACE}/demo has not ended" in refusal
    assert "railhead cancel demo" in refusal

    _condition(server, job, "Failed")
    refusal = _settled(server, "other")
    assert "was not made by `railhead launch`, and keeps its runtime" in refusal
    server.delete([by_kubectl])

    _condition(server, workload, "Evicted")
    refusal = _settled(server, "ray")
    assert f"RayJob {NAMESPACE}/ray has not ended" in refusal
    _condition(server, workload, "Finished")

    assert _settled(server, "") == ""
    server.client.request("DELETE", server.path(OWNER))
    server.eventually_gone([job])


def test_a_server_that_cannot_ask_refuses(server: Server) -> None:
    """One that has just started knows no job's kind yet."""
    guard = next(iter(ending(config.parse(lab_cluster(), where="test")).values()))
    kind = {"apiVersion": TRAINER_API, "kind": "Unknown"}
    server.apply(OWNER)
    with Server(server.plane) as other:
        other.guard("unasked", replace(guard, policy={**guard.policy, "paramKind": kind}))
        assert "failed to find resource" in _settled(server, "paramKind:")


def _settled(server: Server, name: str) -> str:
    """Return the refusal once it names that job: the server reads what it asks by a watch."""
    deadline = time.monotonic() + 20
    while True:
        refusal = _refusal(server)
        if (name and f" {name} " in refusal.replace("/", " ")) or (not name and not refusal):
            return refusal
        assert time.monotonic() < deadline, refusal
        time.sleep(0.2)
