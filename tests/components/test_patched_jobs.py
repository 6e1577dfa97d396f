"""The guard of what a TrainJob changes in its pods, in the shape of Trainer 2.2 and newer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from railhead import config
from railhead.catalog.versions import COMBINATIONS
from railhead.resolve.guards import guards
from railhead.resolve.runtimes import runtimes
from tests import crds
from tests.api_server import Server
from tests.components.recording import lab_cluster
from tests.components.test_api_server import NETWORKS, env, train_job
from tests.components.test_pod_guards import namespace
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

NEWER = "newest-read"
NAMES = ("railhead-train-job", "railhead-train-job-pods", "railhead-train-job-author")


def patched(metadata: dict[str, Any], spec: dict[str, Any], **trainer: Any) -> dict[str, Any]:
    body = train_job(**trainer)
    pod = {"metadata": metadata, "spec": spec}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    body["spec"]["runtimePatches"] = [
        {
            "manager": "example.com/me",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }
    ]
    del body["spec"]["trainer"]["numProcPerNode"]
    return body


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    raw = lab_cluster() | {"versions": NEWER}
    raw["runtimes"].append(raw["runtimes"][0] | {"name": "mpi", "framework": "mpi"})
    cluster = config.parse(raw, where="test")
    with Server(judging_plane) as server:
        server.define(crds.of(COMBINATIONS[NEWER].trainer))
        server.apply(namespace("training", {"railhead.dev/training": "true"}))
        for name, guard in guards(cluster, runtimes(cluster)).items():
            if name in NAMES:
                server.guard(name, guard)
        server.eventually_refuses(patched({}, {}, env=env(NCCL_NET="Socket")))
        server.eventually_refuses(patched({"annotations": {NETWORKS: "[]"}}, {}))
        server.policies_settled()
        yield server


def test_the_policies_are_well_typed(server: Server) -> None:
    for name in NAMES:
        result = server.run("get", "validatingadmissionpolicy", name, "-o", "json")
        checked = json.loads(result.stdout).get("status", {}).get("typeChecking", {})
        assert not checked.get("expressionWarnings"), checked


NONE = {"labels": {"railhead.dev/fabric": "none"}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (patched({"annotations": {NETWORKS: "[]"}}, {}), "takes its pods off"),
        (
            patched({}, {"containers": [{"name": "node", "env": env(NCCL_IB_DISABLE="1")}]}),
            "spec.runtimePatches: a container's env chooses another network",
        ),
        (
            patched(
                {}, {"containers": [{"name": "node", "securityContext": {"privileged": True}}]}
            ),
            "a privileged container has the whole node",
        ),
        (patched({}, {}, env=env(NCCL_NET="Socket")), "spec.runtimePatches[] at template.spec"),
        (patched({}, {"tolerations": [{"operator": "Exists"}]}), "a toleration reaches nodes"),
        (patched({}, {"serviceAccountName": "builder"}), "jobs run as the namespace's account"),
        (
            patched({"annotations": {"v1.multus-cni.io/default-network": "kube-system/host"}}, {}),
            "takes the pods off the cluster's network",
        ),
        (patched({"labels": {"kueue.x-k8s.io/podset": "node"}}, {}), "Kueue alone says"),
    ],
)
def test_a_patch_off_the_network_is_refused(
    server: Server, body: dict[str, Any], words: str
) -> None:
    assert words in server.verdict(body)


@pytest.mark.parametrize(
    "body",
    [
        patched({"labels": {"a": "b"}}, {"nodeSelector": {"a": "b"}}),
        patched(NONE, {}, env=env(NCCL_NET="Socket")),
        patched(NONE | {"annotations": {NETWORKS: "[]"}}, {}),
    ],
)
def test_other_patches_pass(server: Server, body: dict[str, Any]) -> None:
    assert server.verdict(body) == ""


def test_mpi_has_no_job_of_one_node(server: Server) -> None:
    """Trainer would make two pods of it, and Kueue would charge them."""
    for nodes, words in ((1, "numNodes is too small"), (None, "numNodes is too small"), (2, "")):
        body = patched({}, {})
        body["spec"]["runtimeRef"] = {"name": "mpi"}
        body["spec"]["trainer"] |= {"numNodes": nodes}
        if nodes is None:
            del body["spec"]["trainer"]["numNodes"]
        verdict = server.verdict(body)
        assert words in verdict if words else not verdict, nodes
