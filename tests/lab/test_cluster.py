"""The lab's cluster is real: pods, services, names, devices, rails, shared volumes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from railhead.fabric.kinds import FABRICS
from railhead.lab.artifacts import images
from railhead.lab.artifacts.packages import require_program
from railhead.lab.bootstrap import STORAGE_CLASS
from railhead.lab.cluster import Lab
from railhead.lab.spec import RAIL_LEASES
from railhead.machines import MACHINES
from tests.lab.conftest import Run, eventually, railhead, succeed

NAMESPACE = "lab-cluster-test"
BUSYBOX = "railhead.local/busybox:1"
Apply = Callable[[Sequence[dict[str, Any]]], None]


@pytest.fixture(scope="module")
def namespace(kubectl: Run, apply: Apply) -> Iterator[str]:
    apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
    yield NAMESPACE
    succeed(kubectl("delete", "namespace", NAMESPACE, "--timeout=60s"))


def pod(
    name: str,
    script: str,
    *,
    node: str | None = None,
    annotations: dict[str, str] | None = None,
    claim: str | None = None,
    limits: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", script],
        "resources": {"limits": limits or {}},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    if claim:
        container["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
        spec["volumes"] = [{"name": "shared", "persistentVolumeClaim": {"claimName": claim}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": spec,
    }


@pytest.fixture(scope="module")
def nodes(running_lab: str) -> tuple[str, str]:
    return f"{running_lab}-node-0", f"{running_lab}-node-1"


def phase(kubectl: Run, name: str) -> str:
    return kubectl("-n", NAMESPACE, "get", "pod", name, "-o", "jsonpath={.status.phase}").stdout


def finished(kubectl: Run, name: str, *, timeout: float = 60) -> str:
    """Wait until a pod has succeeded; returns what it printed."""

    def ended() -> bool:
        now = phase(kubectl, name)
        assert now != "Failed", kubectl("-n", NAMESPACE, "logs", name).stdout
        return now == "Succeeded"

    eventually(ended, timeout=timeout, what=f"pod {name} succeeded")
    return succeed(kubectl("-n", NAMESPACE, "logs", name)).stdout


def running(kubectl: Run, name: str) -> None:
    eventually(lambda: phase(kubectl, name) == "Running", timeout=60, what=f"pod {name} runs")


def test_an_image_of_ones_own_runs_on_every_node(
    namespace: str,
    running_lab: str,
    nodes: tuple[str, str],
    kubectl: Run,
    apply: Apply,
    tmp_path: Path,
) -> None:
    mine = "railhead.test/mine:1"
    image = images.busybox_image(require_program("busybox"), ("sh",), tmp_path)
    archive = tmp_path / "mine.tar"
    with archive.open("wb") as file:
        images.stream_archive(dataclasses.replace(image, reference=mine), file.write)
    text = succeed(railhead("lab", "load-image", str(archive), "--name", running_lab)).stdout
    assert text.split() == [mine]
    bodies = [pod(f"mine-{node}", "echo mine", node=node) for node in nodes]
    for body in bodies:
        body["spec"]["containers"][0]["image"] = mine
    apply(bodies)
    for node in nodes:
        assert finished(kubectl, f"mine-{node}") == "mine\n"


def test_a_volume_is_shared_by_two_pods_on_two_nodes(
    kubectl: Run, apply: Apply, namespace: str, nodes: tuple[str, str]
) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "both", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    look = "[ -f /shared/{0} ] && cat /shared/{0} && exit 0; sleep 0.2"
    wait = f"for i in $(seq 100); do {look}; done; exit 1"
    apply(
        [
            claim,
            pod(
                "first",
                f"echo from-first > /shared/a; {wait.format('b')}",
                node=nodes[0],
                claim="both",
            ),
            pod(
                "second",
                f"echo from-second > /shared/b; {wait.format('a')}",
                node=nodes[1],
                claim="both",
            ),
        ]
    )
    assert finished(kubectl, "first").strip() == "from-second"
    assert finished(kubectl, "second").strip() == "from-first"


def test_rail_reaches_across_nodes_and_leases_are_the_clusters(
    kubectl: Run, apply: Apply, namespace: str, nodes: tuple[str, str]
) -> None:
    network = {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": "rail", "namespace": namespace},
        "spec": {
            "config": json.dumps(
                {
                    "cniVersion": "0.3.1",
                    "name": "rail-test",
                    "type": "macvlan",
                    "master": "rail0",
                    "mode": "bridge",
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(RAIL_LEASES),
                        "ranges": [[{"subnet": "192.168.200.0/24"}]],
                    },
                }
            )
        },
    }
    joined = {"k8s.v1.cni.cncf.io/networks": "rail"}
    apply([network])
    apply(
        [
            pod("rail-a", "sleep 600", node=nodes[0], annotations=joined),
            pod("rail-b", "sleep 600", node=nodes[1], annotations=joined),
        ]
    )
    addresses = []
    for name in ("rail-a", "rail-b"):
        running(kubectl, name)
        text = succeed(
            kubectl("-n", namespace, "exec", name, "--", "ip", "-4", "-o", "addr", "show", "net1")
        ).stdout
        addresses.append(text.split()[3].split("/")[0])
    assert len(set(addresses)) == 2
    ping = ("ping", "-c", "2", "-W", "2", "-I", "net1", addresses[1])
    succeed(kubectl("-n", namespace, "exec", "rail-a", "--", *ping))
    # The rail is a network of its own: the pods' other interface has no way to it.
    elsewhere = kubectl(
        "-n",
        namespace,
        "exec",
        "rail-a",
        "--",
        "ping",
        "-c",
        "1",
        "-W",
        "1",
        "-I",
        "eth0",
        addresses[1],
    )
    assert elsewhere.returncode != 0
    succeed(kubectl("-n", namespace, "delete", "pod", "rail-a", "rail-b", "--timeout=30s"))


def test_services_and_names_work_on_every_node(
    kubectl: Run, apply: Apply, namespace: str, nodes: tuple[str, str]
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    serve = "mkdir /www && echo served > /www/index.html && httpd -f -p 8080 -h /www"
    apply([service, pod("web", serve, node=nodes[0], labels={"app": "web"})])
    running(kubectl, "web")
    # A static busybox looks nothing up in its wget; its nslookup and nc need no such library.
    ask = (
        f"for i in $(seq 50); do a=$(nslookup web.{namespace}.svc.cluster.local"
        " | awk '/^Address/ && !/:53/ {print $2}');"
        " printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 $a 80 | grep served && exit 0;"
        " sleep 0.2; done; exit 1"
    )
    # From the server's own node, where an unrouted pod network would lose the answer, and another.
    apply([pod(f"ask-{i}", ask, node=node) for i, node in enumerate(nodes)])
    for i in range(2):
        assert finished(kubectl, f"ask-{i}").strip() == "served"


def test_devices_are_counted_and_handed_out_by_the_kubelet(
    kubectl: Run, apply: Apply, namespace: str
) -> None:
    machine = MACHINES["lab.8gpu"]
    gpu = machine.gpu_resource
    rdma = FABRICS["roce"].devices[0].name
    apply(
        [
            pod("two-gpus", "env", limits={gpu: "2", rdma: "1"}),
            pod("too-many", "true", limits={gpu: str(machine.gpus + 1)}),
        ]
    )
    environment = dict(
        line.split("=", 1) for line in finished(kubectl, "two-gpus").splitlines() if "=" in line
    )
    assert len(environment["RAILHEAD_STANDIN_NVIDIA_COM_GPU"].split(",")) == 2
    assert len(environment["RAILHEAD_STANDIN_RDMA_RDMA_SHARED_DEVICE_A"].split(",")) == 1
    conditions = kubectl(
        "-n", namespace, "get", "pod", "too-many", "-o", "jsonpath={.status.conditions[*].message}"
    ).stdout
    assert f"Insufficient {gpu}" in conditions


def test_nodes_say_where_they_are(kubectl: Run, nodes: tuple[str, str]) -> None:
    result = json.loads(succeed(kubectl("get", "nodes", *nodes, "-o", "json")).stdout)["items"]
    for node in result:
        labels = node["metadata"]["labels"]
        assert labels["topology.railhead.dev/block"]
        assert labels["topology.railhead.dev/rack"]
        assert labels["kubernetes.io/hostname"] == node["metadata"]["name"]
        assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_rail_interfaces_hang_on_the_fabric_bridge(running_lab: str) -> None:
    lab = Lab(running_lab)
    outer = lab.init.run(["ip", "-o", "link", "show", "master", "fabric0"])
    assert "n0r0" in outer
    assert "n1r0" in outer
    assert "rail0" in lab.node_init(0).run(["ip", "-o", "link", "show", "rail0"])
