"""A RayJob of `launch --api rayjob` in the hands of KubeRay's own operator, under a stack's Kueue.

Kueue admits it, the operator makes its pods, and the stack's guards let them in. What a kubelet
would say of the pods this test says; no Ray runs in them.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.names import PODSET_LABEL
from railhead.lab.artifacts.operators import OPERATORS
from railhead.launch.apis import apis
from tests.api_server import Server
from tests.components.recording import fake_lab, run_program
from tests.crds import bare
from tests.engine.controlplane import running
from tests.engine.test_what_is_charged import GPU, NODES, WHERE, cluster, plan, queued
from tests.kueue_manager import as_controller, eventually
from tests.wiring import Pod, unmet

pytestmark = [pytest.mark.controlplane, pytest.mark.operators]

Body = dict[str, Any]
SYSTEM = "kuberay"
SIZE = 3


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    folder = tmp_path_factory.mktemp("kuberay")
    with queued(run_program(cluster(), cache), folder, NODES) as server, kuberay(server, folder):
        yield server


@contextlib.contextmanager
def kuberay(server: Server, folder: Path) -> Iterator[None]:
    """Run the operator, until the context ends."""
    operator = OPERATORS["kuberay-operator"]
    program = operator.binary()
    # The operator ends without this kind, which Kueue does not admit.
    other = operator.sources().parent / "crd/bases/ray.io_rayservices.yaml"
    definition = bare(yaml.load(other.read_text(), Loader=yaml.CSafeLoader))
    server.client.request("POST", server.path(definition, collection=True), body=definition)
    server.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    kubeconfig = as_controller(server, folder, SYSTEM, "kuberay-operator")
    words = [str(program), "--enable-leader-election=false"]
    words += ["--metrics-addr=0", "--health-probe-bind-address=0"]
    with running(words, folder / "kuberay.log", {"KUBECONFIG": str(kubeconfig)}):
        yield


def pods(server: Server, selector: str) -> list[Body]:
    path = f"/api/v1/namespaces/{WHERE}/pods"
    result = server.client.request("GET", path, query={"labelSelector": selector})
    items: list[Body] = result.body["items"]
    return sorted(items, key=lambda pod: pod["metadata"]["labels"].get("ray.io/node-type", ""))


def ready(server: Server, pod: Body) -> None:
    """Say for a kubelet that a pod runs and is ready."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    server.client.request(
        "PATCH",
        f"{server.path({'apiVersion': 'v1', 'kind': 'Pod'} | pod)}/status",
        body={"status": status},
        content_type="application/merge-patch+json",
    )


def wired(pod: Body, host: str) -> Pod:
    labels: Mapping[str, str] = pod["metadata"]["labels"]
    fields = {"metadata.name": pod["metadata"]["name"]}
    return Pod(host=host, spec=pod["spec"], template=pod, labels={**labels, **fields})


def test_kuberay_makes_the_gang_then_submits(server: Server) -> None:
    words = ("train.py", "--name=a b", "$(X)", "it's")
    job = replace(plan("ray", SIZE), program=words)
    (body,) = apis()["rayjob"].objects(job)
    server.apply(body)

    def gang() -> list[Body]:
        items = pods(server, "ray.io/cluster")
        return items if len(items) == SIZE else []

    head, *workers = eventually(gang)
    assert [p["metadata"]["labels"]["ray.io/node-type"] for p in workers] == ["worker"] * 2
    raised = head["metadata"]["labels"]["ray.io/cluster"]
    service = f"{raised}-head-svc.{WHERE}.svc.cluster.local"
    made = [wired(head, service), *(wired(p, p["metadata"]["name"]) for p in workers)]
    assert unmet("ray", job, made) == []
    for pod in made:
        assert pod.container["resources"]["limits"][GPU] == "8"
        assert "ray start" in pod.container["args"][0]
    # Not before the last is ready.
    for early in (head, workers[0]):
        ready(server, early)
    path = f"/apis/ray.io/v1/namespaces/{WHERE}/rayclusters/{raised}"
    eventually(
        lambda: server.client.request("GET", path).body["status"].get("readyWorkerReplicas") == 1
    )
    assert not pods(server, "batch.kubernetes.io/job-name=j")
    ready(server, workers[1])
    (submitter,) = eventually(lambda: pods(server, "batch.kubernetes.io/job-name=j"))
    assert PODSET_LABEL in submitter["metadata"]["labels"]
    (container,) = submitter["spec"]["containers"]
    assert GPU not in container["resources"]["limits"]
    assert not container.get("args"), "KubeRay leaves the command"
    variables = {item["name"] for item in container["env"]}
    assert {"RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID"} <= variables
    entrypoint = re.sub(r"\$\$", "$", container["command"][-1])
    assert tuple(shlex.split(entrypoint)) == ("python3", *words)
