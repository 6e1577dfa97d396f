"""A cluster whose etcd is lost: the same stack recreates it, and claims find their volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.contract import Checkpoint
from railhead.kube import client as kube
from railhead.lab.engine.provider.client import KubeClient
from railhead.storage import live
from railhead.storage.volumes import PROVISIONED
from tests.engine.conftest import Stack
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

PROGRAM = """
from railhead.components.namespaces.checkpoints import Checkpoints, CheckpointsArgs

space = k8s.core.v1.Namespace("space", metadata={"name": NS}, opts=o)
meta = {"name": "kept", "namespace": NS}
k8s.core.v1.ConfigMap("kept", metadata=meta, opts=opts(depends_on=space))
spec = {
    "accessModes": ["ReadWriteMany"],
    "storageClassName": "somewhere",
    "resources": {"requests": {"storage": "1Gi"}},
}
Checkpoints(
    "checkpoints",
    CheckpointsArgs(namespace=NS, claims={"checkpoints": spec}, after=[space]),
    opts=ResourceOptions(providers=[cluster]),
)
"""
VOLUMES = "/api/v1/persistentvolumes"


def volume(name: str, path: str, **metadata: Any) -> dict[str, Any]:
    """Return one as a provisioner makes it, for whichever claim of the class comes first."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, **metadata},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "somewhere",
            "nfs": {"server": "192.0.2.1", "path": path},
        },
    }


def saved(stack: Stack, plane: ControlPlane) -> dict[str, Any]:
    """Return what `railhead storage --save` would write of the one claim, read as YAML."""
    target = kube.Target(kubeconfig=plane.kubeconfig, context=None, why="the test")
    row = Checkpoint(
        claim="checkpoints", namespace=stack.namespace, mount_path="/checkpoints", size="1Gi"
    )
    result, body = live.volume(kube.Cluster(target), row)
    assert result.passed, result
    assert body is not None
    read: dict[str, Any] = yaml.safe_load(yaml.safe_dump(body))
    return read


def test_a_lost_etcd_costs_no_checkpoint(
    stack: Stack, control_plane: ControlPlane, tmp_path: Path
) -> None:
    stack.program(PROGRAM)
    data = f"/export/{stack.namespace}"
    mine = volume(f"old-{stack.namespace}", data, annotations={PROVISIONED: "example.com/nfs"})
    stack.kube.request("POST", VOLUMES, body=mine)
    stack.up().ok()

    def claim(client: KubeClient) -> dict[str, Any]:
        path = f"/api/v1/namespaces/{stack.namespace}/persistentvolumeclaims/checkpoints"
        result: dict[str, Any] = client.request("GET", path).body
        return result

    def bound(client: KubeClient) -> bool:
        return bool(claim(client)["status"]["phase"] == "Bound")

    stack.wait_for(lambda: bound(stack.kube))
    kept = saved(stack, control_plane)

    new = ControlPlane(tmp_path / "new", control_plane.binaries)
    new.start()
    try:
        client = new.client()
        # It came first, and would fit as well.
        client.request("POST", VOLUMES, body=volume("another", "/export/another"))
        client.request("POST", VOLUMES, body=kept)
        stack.environment["TEST_KUBECONFIG"] = str(new.kubeconfig)
        # Its address is another; a plain refresh would ask the one that the state remembers.
        stack.up("--refresh", "--run-program").ok()
        stack.wait_for(lambda: bound(client))
        again = client.request("GET", f"{VOLUMES}/{claim(client)['spec']['volumeName']}").body
        assert again["spec"]["nfs"]["path"] == data
        # The driver that created it would delete it with the next claim; Retain prevents that.
        assert again["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
        assert client.request("GET", f"/api/v1/namespaces/{stack.namespace}/configmaps/kept").body
        stack.up("--refresh", "--expect-no-changes").ok()
    finally:
        new.stop()


def test_what_the_stack_itself_makes_is_not_saved(
    stack: Stack, control_plane: ControlPlane
) -> None:
    stack.program(PROGRAM)
    stack.kube.request("POST", VOLUMES, body=volume(f"stack-{stack.namespace}", "/export"))
    stack.up().ok()
    path = f"/api/v1/namespaces/{stack.namespace}/persistentvolumeclaims/checkpoints"
    stack.wait_for(lambda: (stack.get(path) or {})["status"]["phase"] == "Bound")
    target = kube.Target(kubeconfig=control_plane.kubeconfig, context=None, why="the test")
    row = Checkpoint(claim="checkpoints", namespace=stack.namespace, mount_path="/c", size="1Gi")
    result, body = live.volume(kube.Cluster(target), row)
    assert (result.passed, body) == (True, None)
    assert "who made it makes it again" in result.text
    gone = row.model_copy(update={"claim": "other"})
    result, body = live.volume(kube.Cluster(target), gone)
    assert (result.passed, body) == (None, None)
    assert "is not there" in result.text
