"""Every mode through the real engine: up in order, no change again, down in reverse and clean.

The operators' charts are not to be had here. A stand-in chart of one ConfigMap is released in place
of each, and a thread does to the custom resources what an operator does: it holds a finalizer that
it lets go of only while its release is there, and it says when a policy is ready.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab.engine.provider.client import KubeClient
from tests import crds
from tests.components.fabrics import Case, cases, cluster
from tests.engine.conftest import Stack
from tests.engine.controlplane import locate

pytestmark = pytest.mark.controlplane

GROUPS = ("mellanox.com", "sriovnetwork.openshift.io", "nv-ipam.nvidia.com")
FINALIZER = "stand-in.example.com/operator"
ALIVE = "/api/v1/namespaces/nvidia-network-operator/configmaps/network-operator-alive"

PROGRAM = """
import json
from railhead.components import arguments
from railhead.components.controllers import charts
from railhead.components.namespaces.claims import Claims, ClaimsArgs
from railhead.components.fabric.fabric import Fabric
from railhead.components.namespaces.nccl_profile import NcclProfile, NcclProfileArgs
from railhead.components.namespaces.networks import RailNetworks, RailNetworksArgs
from railhead.config import parse
from railhead.resolve.namespaces import namespaces
from railhead.resolve.runtimes import runtimes

charts.chart_source = lambda controller: charts.ChartSource(chart="./chart", version=None)
parsed = parse(json.load(open("case.json")), where="case")
below = pulumi.ResourceOptions(providers=[cluster])
fabric = Fabric("f", arguments.fabric(parsed), opts=below)
# What a training namespace adds of the fabric.
namespace = k8s.core.v1.Namespace(
    "namespace", metadata={"name": NS}, opts=opts(depends_on=list(fabric.ready))
)
inside = dict(namespace=NS, after=[namespace])
(resolved,) = namespaces(parsed, runtimes(parsed))
NcclProfile("profile", NcclProfileArgs(files=resolved.nccl_profile, **inside), opts=below)
networks = arguments.networks(parsed)
RailNetworks("networks", RailNetworksArgs(networks=networks, **inside), opts=below)
Claims("claims", ClaimsArgs(templates=resolved.nic_claims, **inside), opts=below)
"""


class Operator(threading.Thread):
    """A thread that updates objects as the network operator and its neighbours do."""

    def __init__(self, kube: KubeClient, paths: list[str]) -> None:
        super().__init__(daemon=True)
        self.kube, self.paths = kube, paths
        self.ended = threading.Event()
        self.deleted: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set():
            for path in self.paths:
                with contextlib.suppress(ApiError, UnreachableError):
                    for item in self.kube.request("GET", path).body["items"]:
                        self.serve(path, item)
            time.sleep(0.2)

    def serve(self, path: str, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        plural = path.rsplit("/", 1)[-1]
        base = path.removesuffix(f"/{plural}")
        if namespace := metadata.get("namespace"):
            base += f"/namespaces/{namespace}"
        at = f"{base}/{plural}/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            # An operator that is gone lets go of nothing.
            if self.alive() and FINALIZER in metadata.get("finalizers", []):
                self.patch(at, {"metadata": {"finalizers": []}})
                self.deleted.append(f"{plural}/{metadata['name']}")
        elif FINALIZER not in metadata.get("finalizers", []):
            self.patch(at, {"metadata": {"finalizers": [FINALIZER]}})
        elif plural == "nicclusterpolicies" and item.get("status", {}).get("state") != "ready":
            self.patch(f"{at}/status", {"status": {"state": "ready"}})

    def alive(self) -> bool:
        try:
            return bool(self.kube.request("GET", ALIVE).body)
        except ApiError:
            return False

    def patch(self, path: str, body: Any) -> None:
        self.kube.request("PATCH", path, body=body, content_type="application/merge-patch+json")


@pytest.fixture(scope="module")
def served(kube: KubeClient) -> list[str]:
    """URL paths of every kind that the operators serve, whose CRDs are there."""
    paths = []
    for body in crds.operators(*GROUPS, "k8s.cni.cncf.io"):
        with contextlib.suppress(ApiError):
            kube.request(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=body
            )
        spec = body["spec"]
        if spec["group"] not in GROUPS:
            continue
        version = next(v["name"] for v in spec["versions"] if v["storage"])
        paths.append(f"/apis/{spec['group']}/{version}/{spec['names']['plural']}")
    return paths


@pytest.fixture
def operator(kube: KubeClient, served: list[str]) -> Iterator[Operator]:
    thread = Operator(kube, served)
    thread.start()
    yield thread
    thread.ended.set()
    thread.join(timeout=10)


def chart(folder: Path) -> None:
    (folder / "chart" / "templates").mkdir(parents=True)
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: none\nversion: 0.1.0\n")
    (folder / "chart" / "templates" / "alive.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
        '  name: "{{ .Release.Name }}-alive"\n  namespace: "{{ .Release.Namespace }}"\n'
    )


# Rehearsals take stacks up, again and down; an API server takes the objects of other modes.
@pytest.mark.exhaustive
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_up_in_order_again_without_change_and_down_clean(
    stack: Stack, operator: Operator, served: list[str], case: Case
) -> None:
    if locate("helm") is None:
        pytest.skip("no helm: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    chart(stack.folder)
    raw = cluster(case)
    if case.platform == "existing":
        raw["gpu_operator"] = {}
    (stack.folder / "case.json").write_text(json.dumps(raw))
    stack.program(PROGRAM)
    stack.up().ok()
    policy = stack.get("/apis/mellanox.com/v1alpha1/nicclusterpolicies/nic-cluster-policy")
    operated = "network_operator" in raw["fabric"]
    assert bool(policy) is operated
    if policy:
        assert policy["status"]["state"] == "ready"
        assert FINALIZER in policy["metadata"]["finalizers"]
    assert stack.get("/api/v1/namespaces/NS/configmaps/railhead-nccl")
    stack.up("--expect-no-changes").ok()
    stack.destroy().ok()
    for path in served:
        assert stack.kube.request("GET", path).body["items"] == [], path
    assert stack.get(ALIVE) is None
    # Networks and policies of nodes went before the policy that brought CNI and drivers.
    if operated:
        assert operator.deleted[-1] == "nicclusterpolicies/nic-cluster-policy"
