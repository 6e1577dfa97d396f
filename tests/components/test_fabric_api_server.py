"""Every mode's objects on a real API server with the real CRDs, in order, and away again.

The operators do not run here; what they would do with the objects needs their hardware.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import crds
from tests.components.fabrics import Case, cluster, every
from tests.components.recording import run_stack
from tests.components.test_api_server import (
    Server,
    api_server,
    charts_or_skip,
    definitions,
    manifests,
)

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
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    charts_or_skip()
    with api_server(tmp_path_factory.mktemp("plane"), "helm") as server:
        own = crds.operators(*GROUPS)
        server.apply(listed([*definitions(server.binaries["helm"]), *own]))
        server.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        # The releases of operators make it; here nothing is released.
        for namespace in ("nvidia-network-operator",):
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        yield server


def listed(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": bodies}


@pytest.mark.parametrize("case", every(), ids=lambda c: c.id)
def test_the_server_takes_every_object_in_order_and_lets_it_go(
    server: Server, case: Case, tmp_path: Path
) -> None:
    recording = run_stack("lab", tmp_path, cluster=cluster(case))
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
    try:
        # kubectl goes by the list's order and stops at nothing, so one refusal shows them all.
        taken = server.run(
            "apply", "--server-side", "--validate=strict", "-f", "-", stdin=listed(bodies)
        )
        assert taken.returncode == 0, taken.stderr
        assert len(taken.stdout.splitlines()) == len(bodies)
        _pod_of_the_runtime_is_taken(server)
    finally:
        gone = server.run(
            "delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=listed(bodies[::-1])
        )
    assert gone.returncode == 0, gone.stderr
    # No finalizer of what is gone holds the namespaces, and so the next case.
    for namespace in (b["metadata"]["name"] for b in bodies if b["kind"] == "Namespace"):
        left = server.run("wait", "--for=delete", f"namespace/{namespace}", "--timeout=90s")
        assert left.returncode == 0, left.stderr


def _pod_of_the_runtime_is_taken(server: Server) -> None:
    """The runtime's template is opaque to its CRD in parts; as a Job the server reads all of it."""
    found = server.run("get", "clustertrainingruntime", "torch", "-o", "json")
    (job,) = json.loads(found.stdout)["spec"]["template"]["spec"]["replicatedJobs"]
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
