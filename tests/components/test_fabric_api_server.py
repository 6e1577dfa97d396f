"""Every mode's objects on a real API server with the real CRDs, in order, and away again.

The operators do not run here; what they would do with the objects needs their hardware.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.fabrics import Case, every, recorded, usual
from tests.components.recording import STACKS, stack_cluster
from tests.components.test_api_server import manifests
from tests.engine.controlplane import ControlPlane
from tests.marks import few

pytestmark = pytest.mark.controlplane

# Kinds that a mode makes and that Kubernetes does not have by itself.
GROUPS = (
    "mellanox.com",
    "sriovnetwork.openshift.io",
    "nv-ipam.nvidia.com",
    "k8s.cni.cncf.io",
)
# What the other parts of a stack make on a cloud; those parts have tests of their own.
ELSEWHERE = ("networking.gke.io", "storage.k8s.io")


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define([*lab_definitions(), *crds.operators(*GROUPS)])
        # The releases of operators make it; here nothing is released.
        for namespace in ("nvidia-network-operator",):
            server.apply(_namespace(namespace))
        yield server
        # The server is the worker's, and other tests make the same namespaces.
        left = [_namespace(name) for name in sorted(NAMESPACES)]
        server.delete(left)
        server.eventually_gone(left)


#: Namespaces that were made here.
NAMESPACES = {"nvidia-network-operator"}


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


# `make rehearse` takes the modes of the shipped stacks to an API server.
REHEARSED = {stack_cluster(stack)["fabric"]["mode"] for stack in STACKS if stack != "lab"}
FEW = [case.id for case in usual() if case.variant or case.mode not in REHEARSED]


@pytest.mark.parametrize("case", few(every(), FEW, lambda case: case.id))
def test_the_server_takes_every_object_in_order_and_lets_it_go(server: Server, case: Case) -> None:
    recording = recorded(case)
    bodies = [
        body
        for body in manifests(recording)
        if not body["apiVersion"].startswith(ELSEWHERE)
        # The release's own namespace is there already, with what the server adds to it.
        and body["metadata"]["name"] != "nvidia-network-operator"
        # Names of volumes are a cloud's; no node mounts anything here.
        and body["kind"] not in ("PersistentVolume", "PersistentVolumeClaim")
    ]
    assert len(bodies) > 15
    inside = [body for body in bodies if body["kind"] != "Namespace"]
    NAMESPACES.update(body["metadata"]["name"] for body in bodies if body["kind"] == "Namespace")
    try:
        for body in bodies:
            server.apply(body)
        # Else the pod would be taken because no guard was there yet.
        server.policies_settled()
        _pod_of_the_runtime_is_taken(server)
    finally:
        server.delete(inside)
    # No finalizer of theirs is left that would hold a namespace.
    server.eventually_gone(inside)


def _pod_of_the_runtime_is_taken(server: Server) -> None:
    """Apply the runtime's template as a Job: its CRD leaves parts of it unread."""
    result = server.run("get", "clustertrainingruntime", "torch", "-o", "json")
    (job,) = json.loads(result.stdout)["spec"]["template"]["spec"]["replicatedJobs"]
    template = job["template"]["spec"]["template"]
    verdict = server.verdict(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "probe",
                "namespace": "training",
                "labels": {"kueue.x-k8s.io/queue-name": "training"},
            },
            "spec": {"parallelism": 1, "suspend": True, "template": template},
        }
    )
    assert not verdict
