"""Every row of the ledger of existing clusters, asked of a real API server, and failed once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import config, contract
from railhead.base.errors import PrerequisiteError
from railhead.base.names import TRAINING_LABEL
from railhead.config.live import MANAGED, described
from railhead.kube import nodes
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.platform.existing.model import ExistingCluster
from railhead.preflight import existing as checks
from railhead.preflight import run
from railhead.preflight.ledger import ledger
from railhead.preflight.reading import Kubernetes
from railhead.resolve.cluster import resolve
from tests import crds
from tests.engine.controlplane import ControlPlane
from tests.shipped import stack

pytestmark = pytest.mark.controlplane
REPO = Path(__file__).resolve().parents[3]
ROWS = {row.id: row for row in ledger("existing") if row.proof == "call"}
NODES = ("dgx-0", "dgx-1")
# What nothing tells of nodes on which no discovery runs, and of kubelet where no plugin does.
OPEN = {"driver", "kubelet", "modules"}
MERGE = "application/merge-patch+json"
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def kube(own_plane: ControlPlane) -> KubeClient:
    return own_plane.client()


@pytest.fixture(scope="module")
def raw(own_plane: ControlPlane) -> Raw:
    section = stack("onprem-ib-sriov")
    section["platform"] = {"kind": "existing", "kubeconfig": str(own_plane.kubeconfig)}
    section["pools"][0]["nodes"] = len(NODES)
    return section


def parsed(raw: Raw) -> ExistingCluster:
    cluster = config.parse(raw, where="test")
    assert isinstance(cluster, ExistingCluster)
    return cluster


@pytest.fixture(scope="module")
def reader(raw: Raw) -> Iterator[Kubernetes]:
    with checks.opened(parsed(raw)) as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def cluster(kube: KubeClient, raw: Raw) -> None:
    """A cluster that is as the stack takes it to be."""
    [promise] = described(parsed(raw))
    labels = {**dict.fromkeys(promise.labels, "a"), **promise.selector}
    for name in NODES:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        kube.request("POST", "/api/v1/nodes", body=node)
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    body = storage | {"metadata": {"name": "lustre"}, "provisioner": "example.com/lustre"}
    kube.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body=body)


@pytest.fixture(autouse=True)
def ready(kube: KubeClient) -> None:
    """Say again what kubelets would: nobody else does, and a controller notices."""
    has = {"cpu": "224", "memory": "2000Gi", "nvidia.com/gpu": None}
    for name in NODES:
        status = {
            "capacity": has,
            "allocatable": has,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": info("containerd://2.1.4"),
        }
        patch(kube, f"/api/v1/nodes/{name}/status", {"status": status})
        patch(kube, f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def info(runtime: str) -> Raw:
    names = "machineID systemUUID bootID kernelVersion osImage kubeProxyVersion operatingSystem"
    known = {"kubeletVersion": "v1.34.1", "containerRuntimeVersion": runtime}
    return dict.fromkeys((*names.split(), "architecture"), "") | known


def patch(kube: KubeClient, path: str, body: Raw) -> None:
    kube.request("PATCH", path, body=body, content_type=MERGE)


@contextmanager
def made(kube: KubeClient, collection: str, body: Raw) -> Iterator[None]:
    kube.request("POST", collection, body=body)
    try:
        yield
    finally:
        kube.request("DELETE", f"{collection}/{body['metadata']['name']}")


#: Rows that a test saw fail.
FAILED: set[str] = set()


def fails(reader: Kubernetes, row: str, raw: Raw, text: str) -> None:
    findings = list(checks.ASKER.checks[row](reader, parsed(raw)))
    assert any(f.passed is False and text in f.text for f in findings), findings
    assert all(f.remedy or ROWS[row].remedy for f in findings if f.passed is False)
    FAILED.add(row)


def test_rows_hold_where_the_cluster_is_as_it_should(raw: Raw) -> None:
    results = {r.row.id: r for r in run.preflight(parsed(raw), lambda _: None)}
    asked = {name: result for name, result in results.items() if name in ROWS}
    # The host brings the GPUs' driver here, whatever its system is.
    assert {name for name, r in asked.items() if r.verdict != "ok"} == OPEN | {"system"}
    assert all(asked[name].unproven for name in OPEN)


def test_credentials_that_are_not_accepted_are_no_answer(raw: Raw, tmp_path: Path) -> None:
    access = yaml.safe_load(Path(raw["platform"]["kubeconfig"]).read_text())
    access["users"][0]["user"] = {"token": "another"}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(access))
    stranger = {"kind": "existing", "kubeconfig": str(tmp_path / "kubeconfig")}
    with pytest.raises(PrerequisiteError, match="does not accept these credentials"):
        run.preflight(parsed(raw | {"platform": stranger}), lambda _: None)


@dataclass
class Case:
    """One way in which a row does not hold, by what the stack says."""

    row: str
    text: str
    edit: Callable[[Raw], object]


CASES = [
    Case(
        "identity",
        "is another cluster",
        lambda raw: raw["platform"].update(uid="01234567-89ab-cdef-0123-456789abcdef"),
    ),
    Case("pools", "3 nodes promised, 2 carry", lambda raw: raw["pools"][0].update(nodes=3)),
    Case(
        "distribution",
        "dgx-0, dgx-1: kubelet is of kubeadm, and platform.distribution 'rke2'",
        lambda raw: raw["platform"].update(distribution="rke2"),
    ),
    Case(
        "storage",
        "there is no storage class none, which claims name; there are: lustre",
        lambda raw: raw["checkpoints"][0].update(storage_class="none"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.row)
def test_a_stack_that_says_otherwise_fails(reader: Kubernetes, raw: Raw, case: Case) -> None:
    edited = yaml.safe_load(yaml.safe_dump(raw))
    case.edit(edited)
    fails(reader, case.row, edited, case.text)


def test_a_stack_that_is_up_fails(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    text = resolve(parsed(raw)).contract.model_dump_json()
    name = {"metadata": {"name": contract.NAMESPACE}}
    path = f"/api/v1/namespaces/{contract.NAMESPACE}/configmaps"
    kube.request("POST", "/api/v1/namespaces", body=name)
    body = {"metadata": {"name": contract.CONFIG_MAP}, "data": {contract.KEY: text}}
    with made(kube, path, body):
        fails(reader, "identity", raw, "the stack ib-sriov is up in")


def test_a_minor_that_is_not_served_fails(
    reader: Kubernetes, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "live_minor", lambda _: "1.20")
    fails(reader, "kubernetes", raw, "Kubernetes 1.20 is not served")


def test_tainted_nodes_leave_controllers_no_room(
    reader: Kubernetes, kube: KubeClient, raw: Raw
) -> None:
    for name in NODES:
        taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
        patch(kube, f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
    fails(reader, "controllers", raw, "each of 2 nodes has a taint")


def test_a_moved_kubelet_fails(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    path = "/var/lib/k0s/kubelet/plugins/example.com"
    pod = {
        "containers": [{"name": "plugin", "image": "example.com/plugin"}],
        "volumes": [{"name": "plugins", "hostPath": {"path": path}}],
    }
    labels = {"app": "plugin"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    body = {"metadata": {"name": "example-csi"}, "spec": spec}
    with made(kube, "/apis/apps/v1/namespaces/default/daemonsets", body):
        fails(reader, "kubelet", raw, "example-csi mount /var/lib/k0s/kubelet, and the stack")
        moved = raw | {"platform": raw["platform"] | {"kubelet_directory": "/var/lib/k0s/kubelet"}}
        cluster = parsed(moved | {"fabric": {"kind": "ethernet", "mode": "none"}})
        assert [f.passed for f in checks.kubelet(reader, cluster)] == [True]


def test_either_name_of_a_linked_kubelet_is_right(raw: Raw) -> None:
    """MicroK8s links the usual directory to its own, and charts of others mount the usual one."""
    volumes = [{"hostPath": {"path": "/var/lib/kubelet/plugins/example.com"}}]
    plugin = {
        "metadata": {"name": "example-csi"},
        "spec": {"template": {"spec": {"volumes": volumes}}},
    }

    class Client:
        def list(self, path: str) -> list[Any]:
            return [plugin] if path.endswith("daemonsets") else []

    client: Any = Client()
    for name, passed in (("microk8s", True), ("kubeadm", True), ("k0s", False)):
        cluster = parsed(
            raw
            | {
                "platform": raw["platform"] | {"distribution": name},
                "fabric": {"kind": "ethernet", "mode": "none"},
            }
        )
        assert [f.passed for f in checks.kubelet(client, cluster)] == [passed], name


def test_another_runtime_fails(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    for runtime, passed in (
        ("docker://28.0.0", False),
        ("containerd://1.7.28", None),
        ("containerd://1.7.12-0ubuntu4", None),
        ("containerd://1.6.39", False),
        ("cri-o://1.29.13", False),
        ("cri-o://1.34.0", True),
    ):
        patch(kube, "/api/v1/nodes/dgx-1/status", {"status": {"nodeInfo": info(runtime)}})
        findings = list(checks.runtime(reader, parsed(raw)))
        assert {f.passed for f in findings} == {True, passed}
    brought = raw | {"gpu_operator": {"driver": "operator"}}
    fails(reader, "runtime", brought, "containerd: dgx-0; cri-o: dgx-1")
    fails(reader, "runtime", brought, "dgx-1: the GPU operator's toolkit is set up for containerd")
    # Its driver loads no nvidia_drm, so that nothing is written in CDI 0.7.
    # Whether containerd 1.7 keeps runc under the operator's toolkit is for its file to say.
    for runtime, passed in (
        ("containerd://2.3.4", True),
        ("containerd://1.7.12", None),
        ("containerd://1.6.39", False),
    ):
        patch(kube, "/api/v1/nodes/dgx-1/status", {"status": {"nodeInfo": info(runtime)}})
        findings = list(checks.runtime(reader, parsed(brought)))
        assert {f.passed for f in findings} == {True, passed}
    patch(kube, "/api/v1/nodes/dgx-1/status", {"status": {"nodeInfo": info("docker://28.0.0")}})
    fails(reader, "runtime", raw, "dgx-1: the runtime is docker://28.0.0, not")


def test_a_node_without_the_driver_fails(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    label = {"nvidia.com/cuda.driver-version.full": "580.105.08"}
    patch(kube, "/api/v1/nodes/dgx-0", {"metadata": {"labels": label}})
    fails(reader, "driver", raw, "dgx-1: without the driver that the others have")


def test_nodes_of_two_systems_fail(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    """The GPU operator takes one node's system for that of all when it loads a driver."""
    brought = raw | {"gpu_operator": {"driver": "operator"}}
    for old, passed in (
        ("Ubuntu 24.04.1 LTS", True),
        ("Rocky Linux 9.6 (Blue Onyx)", False),
        ("Ubuntu 22.04.5 LTS", False),
    ):
        for name, image in (("dgx-0", old), ("dgx-1", "Ubuntu 24.04.3 LTS")):
            status = {"nodeInfo": {"osImage": image}}
            patch(kube, f"/api/v1/nodes/{name}/status", {"status": status})
        assert [f.passed for f in checks.system(reader, parsed(brought))] == [passed], old
    fails(reader, "system", brought, "Ubuntu 22.04: dgx-0; Ubuntu 24.04: dgx-1")
    assert list(checks.system(reader, parsed(raw))) == [], "the host brings the driver"
    # Of no pool, but with GPUs, to which the operator goes as well.
    present = "feature.node.kubernetes.io/pci-10de.present"
    for gpus, passed in (("true", False), (None, True)):
        labels = {"railhead.dev/pool": "others", present: gpus}
        patch(kube, "/api/v1/nodes/dgx-1", {"metadata": {"labels": labels}})
        assert [f.passed for f in checks.system(reader, parsed(brought))] == [passed]
    patch(kube, "/api/v1/nodes/dgx-1", {"metadata": {"labels": {"railhead.dev/pool": "h100"}}})


def test_a_node_from_which_operators_are_kept_fails(
    reader: Kubernetes, kube: KubeClient, raw: Raw
) -> None:
    for value, passed in (("false", False), (None, True)):
        labels = {"nvidia.com/gpu.deploy.operands": value}
        patch(kube, "/api/v1/nodes/dgx-1", {"metadata": {"labels": labels}})
        assert [f.passed for f in checks.labels(reader, parsed(raw))] == [passed]


def test_a_node_that_is_virtual_to_an_operator_fails(
    reader: Kubernetes, kube: KubeClient, raw: Raw
) -> None:
    """The SR-IOV operator would make no function, though it is bare metal."""
    assert [f.passed for f in checks.functions(reader, parsed(raw))] == [True]
    shared = raw | {"fabric": {"kind": "infiniband", "mode": "rdma-shared"}}
    node = {"apiVersion": "v1", "kind": "Node", "spec": {"providerID": "openstack:///dgx-9"}}
    labels = {"railhead.dev/pool": "h100"}
    node |= {"metadata": {"name": "dgx-9", "labels": labels}}
    with made(kube, "/api/v1/nodes", node):
        fails(reader, "functions", raw, "dgx-9: with a providerID")
        assert list(checks.functions(reader, parsed(shared))) == []


def test_devices_come_from_one_plugin(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    """OKE has a plugin for GPUs of its own, which an operator would be beside."""
    bare = {key: value for key, value in raw.items() if key != "gpu_operator"}
    fails(reader, "devices", bare, "dgx-0, dgx-1: no nvidia.com/gpu, which nothing of the stack")
    for name in NODES:
        status = {"allocatable": {"cpu": "224", "nvidia.com/gpu": "8"}}
        patch(kube, f"/api/v1/nodes/{name}/status", {"status": status})
    fails(reader, "devices", raw, "dgx-0, dgx-1: nvidia.com/gpu is there already")
    assert [f.passed for f in checks.devices(reader, parsed(bare))] == [True]


def test_webhooks_that_nothing_answers_fail(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    hook = {
        "name": "pods.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [rule],
        "clientConfig": {"service": {"name": "gone", "namespace": "default"}},
    }
    base = "/apis/admissionregistration.k8s.io/v1"
    body = {"metadata": {"name": "example"}, "webhooks": [hook]}
    collection = f"{base}/validatingwebhookconfigurations"
    with made(kube, collection, body):
        fails(reader, "webhooks", raw, "example/pods.example.com must pass every pod, and nothing")
        endpoints = {
            "metadata": {"name": "gone", "labels": {"kubernetes.io/service-name": "gone"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": True}}],
        }
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        with made(kube, slices, endpoints):
            [finding] = checks.webhooks(reader, parsed(raw))
            assert finding.passed is None
            assert "seen by `up` alone" in finding.text
    body["webhooks"] = [hook | {"failurePolicy": "Ignore"}]
    with made(kube, collection, body):
        assert [f.passed for f in checks.webhooks(reader, parsed(raw))] == [True]


def test_namespaces_of_others_fail(reader: Kubernetes, kube: KubeClient, raw: Raw) -> None:
    kube.request("POST", "/api/v1/namespaces", body={"metadata": {"name": "training"}})
    fails(reader, "names", raw, "namespace training is there already")
    labels = {MANAGED: "true", TRAINING_LABEL: "true"}
    patch(kube, "/api/v1/namespaces/training", {"metadata": {"labels": labels}})
    assert [f.passed for f in checks.names(reader, parsed(raw))] == [True]


def test_operators_and_modules_of_others_fail(
    reader: Kubernetes, kube: KubeClient, raw: Raw
) -> None:
    """Last: the server keeps a definition for a while."""
    assert "sriovnetwork.openshift.io" in checks.releases(parsed(raw))
    theirs = raw | {"fabric": raw["fabric"] | {"network_operator": {"nfd": "existing", "ofed": {}}}}
    hosts = raw | {"fabric": raw["fabric"] | {"network_operator": {"nfd": "existing"}}}
    fails(reader, "labels", theirs, "does not run here: nobody serves nfd.k8s-sigs.io")
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for body in crds.operators("nvidia.com", "nfd.k8s-sigs.io"):
        if body["spec"]["names"]["kind"] == "ClusterPolicy":
            notes = {"meta.helm.sh/release-name": "gpu", "meta.helm.sh/release-namespace": "ops"}
            body["metadata"].setdefault("annotations", {}).update(notes)
        kube.request("POST", definitions, body=body)
    assert _eventually_served(reader)
    fails(reader, "operators", raw, "nvidia.com is served already, by definition")
    fails(reader, "operators", raw, "release ops/gpu")
    fails(reader, "operators", raw, "nfd.k8s-sigs.io is served already")

    prefix = "feature.node.kubernetes.io/"
    for label in (
        "pci-0302_10de.present",
        "system-os_release.ID",
        "system-os_release.VERSION_ID",
        "kernel-version.full",
    ):
        for name in NODES:
            fails(reader, "labels", theirs, name)
            if label != "kernel-version.full":
                fails(reader, "labels", hosts, name)
            labels = {f"{prefix}{label}": "true"}
            patch(kube, f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    assert [f.passed for f in checks.labels(reader, parsed(theirs))] == [True]
    assert [f.passed for f in checks.labels(reader, parsed(raw))] == [True]

    features = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures"
    for name, module in (("dgx-0", "mlx5_core"), ("dgx-1", "ext4")):
        flags: Raw = {"kernel.loadedmodule": {"elements": {module: {}}}}
        body = {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {"name": name, "labels": {"nfd.node.kubernetes.io/node-name": name}},
            "spec": {"features": {"flags": flags, "attributes": {}, "instances": {}}},
        }
        kube.request("POST", features, body=body)
    fails(reader, "modules", raw, "dgx-1: the module mlx5_core is not loaded")
    operator = raw["gpu_operator"] | {"gpudirect": "peermem"}
    fails(reader, "modules", raw | {"gpu_operator": operator}, "dgx-0: nvidia_peermem is not")
    b200 = raw | {"pools": [raw["pools"][0] | {"instance_type": "dgx-b200"}]}
    fails(reader, "modules", b200, "dgx-0: mlx5_ib and ib_umad not loaded, through which Fabric")
    fabric = raw["fabric"] | {"network_operator": {"nfd": "operator", "ofed": {}}}
    brought = parsed(b200 | {"fabric": fabric})
    assert "dgx-0: mlx5_core is loaded" in [f.text for f in checks.modules(reader, brought)]
    more: Raw = {"flags": {"kernel.loadedmodule": {"elements": {"irdma": {}}}}}
    patch(kube, f"{features}/dgx-0", {"spec": {"features": more}})
    fails(reader, "modules", b200 | {"fabric": fabric}, "dgx-0: irdma loaded, which hold")
    fabric["network_operator"]["ofed"]["environment"] = {"UNLOAD_THIRD_PARTY_RDMA_MODULES": "true"}
    unloads = parsed(b200 | {"fabric": fabric})
    assert "dgx-0: mlx5_core is loaded" in [f.text for f in checks.modules(reader, unloads)]


def _eventually_served(reader: Kubernetes) -> bool:
    for _ in range(100):
        try:
            reader.list(checks._FEATURES)
        except ApiError:
            time.sleep(0.1)
        else:
            return True
    return False


def test_every_row_is_failed_once() -> None:
    if "modules" not in FAILED:
        pytest.skip("the tests of all rows run before it")
    assert set(ROWS) == FAILED
