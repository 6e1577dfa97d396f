"""Every framework as every kind of job that runs it, applied to a real API server.

The definitions are the operators' own, of the releases that the kinds name as their source; fields
are validated strictly. What the server has stored is completed as the controllers do it, and each
rank's environment held against the frameworks' own documents, `tests.wiring`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.framework import FRAMEWORKS
from railhead.launch.apis import apis
from railhead.launch.plan import Plan
from tests import crds
from tests.api_server import CHARTS, Server, lab_definitions
from tests.engine.controlplane import ControlPlane
from tests.kueue_manager import eventually
from tests.wiring import EVERY, Pod, differences, objects, plan, pods

pytestmark = pytest.mark.controlplane

WHERE = "kinds"
NODES = 3
Body = dict[str, Any]


@pytest.fixture(scope="module")
def server(own_plane: ControlPlane) -> Iterator[Server]:
    with Server(own_plane) as server:
        volcano = [body for row in crds.KINDS_HELD for body in crds.of(row)]
        for body in (*crds.job_definitions(crds.KINDS_OF), *volcano):
            # Not applied: who owns which field of so large an object takes longer than the rest.
            server.client.request("POST", server.path(body, collection=True), body=crds.bare(body))
        lab = tuple(chart for chart in CHARTS if not chart.startswith("kueue-"))
        server.define([*lab_definitions(lab), *crds.operators("k8s.cni.cncf.io")])
        server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WHERE}})
        # Without its account the server takes no pod of a namespace.
        account = f"/api/v1/namespaces/{WHERE}/serviceaccounts"
        eventually(lambda: server.client.request("GET", account).body["items"])
        yield server


def made(framework: str, api: str, nodes: int = NODES) -> Plan:
    """Return a job of three nodes; two processes each where a framework starts several."""
    processes = 1 if FRAMEWORKS[framework].one_process else 2
    name = f"{framework}-{api}"
    return dataclasses.replace(plan(framework, nodes, processes, name=name), namespace=WHERE)


def applied(server: Server, bodies: list[Body]) -> list[Body]:
    """Apply the objects and return them as the server stores them."""
    for body in bodies:
        server.apply(body)
    return [server.client.request("GET", server.path(body)).body for body in bodies]


def as_pod(pod: Pod) -> Body:
    """Return the pod as its controller sends it."""
    name = pod.host.partition(".")[0]
    reported = pod.template.get("metadata") or {}
    metadata = {"labels": {**reported.get("labels", {}), **pod.labels}, "name": name}
    metadata |= {"namespace": WHERE, "annotations": reported.get("annotations") or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.spec}


@pytest.mark.parametrize(("framework", "api"), EVERY)
def test_api_server_accepts_the_job_and_ranks_find_their_world(
    server: Server, framework: str, api: str
) -> None:
    job = made(framework, api)
    stored = applied(server, objects(api, job))
    assert differences(framework, api, job, stored) == []
    for pod in pods(api, job, stored):
        assert server.verdict(as_pod(pod)) == ""


@pytest.mark.parametrize("api", apis())
def test_what_the_kind_does_not_know_is_refused(server: Server, api: str) -> None:
    """Unknown fields are refused in the job and in its pods, so the server does check them."""
    framework = next(framework for framework, kind in EVERY if kind == api)
    *_, body = objects(api, made(framework, api))
    for change in (body["spec"], first_container(body)):
        change["nonsense"] = 1
        assert "nonsense" in server.verdict(body)
        del change["nonsense"]
    del first_container(body)["name"]
    assert ".name: Required value" in server.verdict(body)


def first_container(value: Any) -> Body:
    """Return the first container of the first pod template in an object."""
    result: Body = next(containers(value))
    return result


def containers(value: Any) -> Iterator[Body]:
    if isinstance(value, list):
        for inner in value:
            yield from containers(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key == "containers":
                yield from inner
            else:
                yield from containers(inner)


def test_real_job_controller_makes_the_pods_of_the_table(server: Server) -> None:
    """Kubernetes' own Job controller runs beside the server, so it is no transcript of one."""
    job = dataclasses.replace(made("raw", "indexed-job"), name="really-made")
    stored = applied(server, objects("indexed-job", job))
    path = f"/api/v1/namespaces/{WHERE}/pods"
    query = {"labelSelector": "batch.kubernetes.io/job-name=really-made"}

    def real() -> list[Body]:
        items: list[Body] = server.client.request("GET", path, query=query).body["items"]
        return items if len(items) == NODES else []

    label = "batch.kubernetes.io/job-completion-index"
    by_number = {int(item["metadata"]["labels"][label]): item for item in eventually(real)}
    for number, pod in enumerate(pods("indexed-job", job, stored)):
        item = copy.deepcopy(by_number[number])
        names = {e["name"] for e in item["spec"]["containers"][0]["env"]}
        assert names == {e["name"] for e in pod.container["env"]}
        host = f"{item['spec']['hostname']}.{item['spec']['subdomain']}"
        assert host == pod.host
        assert pod.labels.items() <= item["metadata"]["labels"].items()
