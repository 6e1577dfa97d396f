"""The exporter of guards against a real API server, with only the rights of its account.

A guard is deleted, a guard and a queue are edited, a controller is scaled to zero: the exporter
reports each, and reads no state of the stack.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.config import parse
from railhead.gate.api import Api, ApiError
from railhead.resolve.watching import controllers
from railhead.watch import exporter
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.components.test_api_server import manifests
from tests.components.test_watching import container
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SPACE = "railhead-watching"


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define([*lab_definitions(), *crds.operators("k8s.cni.cncf.io")])
        yield server


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(lab_cluster() | {"watching": {"kind": "files"}}, cache)


def deployment(namespace: str, name: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    }


@pytest.fixture(scope="module")
def applied(server: Server, recording: Recording) -> Server:
    for body in manifests(recording):
        server.apply(body)
    for name, namespace in controllers(parse(lab_cluster(), where="lab")).items():
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        server.apply(space)
        server.apply(deployment(namespace, name))
    return server


@pytest.fixture(scope="module")
def api(applied: Server, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """The exporter's own client, with a token of its account."""
    config = yaml.safe_load(applied.plane.kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    text = applied.run("-n", SPACE, "create", "token", "railhead-guards")
    assert text.returncode == 0, text.stderr
    account = tmp_path_factory.mktemp("account")
    (account / "token").write_text(text.stdout.strip())
    shutil.copy(cluster["certificate-authority"], account / "ca.crt")
    return Api(server=cluster["server"], account=account)


@pytest.fixture
def told(applied: Server, api: Api, recording: Recording, tmp_path: Path) -> Any:
    """Return what the exporter reports as wrong: name -> labels' values."""
    text = recording.one("ConfigMap", "made").inputs["data"]["made.json"]
    (tmp_path / "made.json").write_text(text)
    arguments = [
        f"--made={tmp_path / 'made.json'}" if argument.startswith("--made=") else argument
        for argument in container(recording, "railhead-guards")["command"][3:]
    ]
    options = exporter._options().parse_args(arguments)

    def look() -> set[tuple[str, ...]]:
        held = exporter.Held()
        exporter.turn(options, api, held)
        lines = [line for line in held.text.splitlines() if not line.startswith("#")]
        for name in ("guard_bound", "controller_replicas", "object_as_made"):
            assert any(line.startswith(f"railhead_{name}") for line in lines), held.text
        return {
            tuple(part.split('"')[0] for part in line.split('="')[1:])
            for line in lines
            if line.endswith(" 0")
        }

    return look


def patched(server: Server, path: str, body: Any) -> None:
    server.client.request("PATCH", path, body=body, content_type="application/merge-patch+json")


def test_exporter_reports_each_change_and_nothing_else(applied: Server, told: Any) -> None:
    assert told() == set(), "what the server fills in is no difference"

    queue = "/apis/kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training"
    patched(applied, queue, {"spec": {"fairSharing": {"weight": "2"}}})
    assert told() == set(), "a field that the stack does not give is others'"
    patched(applied, queue, {"spec": {"stopPolicy": "Hold"}})
    cluster_queue = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"
    patched(applied, cluster_queue, {"spec": {"queueingStrategy": "StrictFIFO"}})
    runtime = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch"
    applied.client.request("DELETE", runtime)
    patched(
        applied,
        f"{ADMISSION}/validatingadmissionpolicies/railhead-queued-job",
        {"spec": {"failurePolicy": "Ignore"}},
    )
    applied.client.request(
        "DELETE", f"{ADMISSION}/validatingadmissionpolicybindings/railhead-train-job"
    )
    kueue = "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager"
    patched(applied, kueue, {"spec": {"replicas": 0}})
    applied.client.request(
        "DELETE", "/apis/apps/v1/namespaces/jobset-system/deployments/jobset-controller"
    )
    assert told() == {
        ("railhead-train-job",),
        ("ValidatingAdmissionPolicyBinding", "", "railhead-train-job"),
        ("ValidatingAdmissionPolicy", "", "railhead-queued-job"),
        ("ClusterQueue", "", "training"),
        # Nobody gave it, and it stops what the stack is for.
        ("LocalQueue", "training", "training"),
        ("ClusterTrainingRuntime", "", "torch"),
        ("kueue-system", "kueue-controller-manager"),
        ("jobset-system", "jobset-controller"),
    }


def test_exporter_may_only_list(api: Api) -> None:
    for method, path in (
        ("GET", "/apis/apps/v1/deployments"),
        ("GET", "/apis/apps/v1/namespaces/kube-system/deployments"),
        ("GET", f"{ADMISSION}/validatingadmissionpolicies/railhead-train-job"),
        ("DELETE", f"{ADMISSION}/validatingadmissionpolicies/railhead-train-job"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/configmaps"),
    ):
        with pytest.raises(ApiError, match=" 403 "):
            api.call(method, path)
