"""Waiting until objects are ready, through the real engine and the real controllers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.engine.conftest import Stack

pytestmark = pytest.mark.controlplane

WORKLOAD = """
    ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
"""


def be_kubelet(stack: Stack, phase: str = "Running") -> int:
    """Report every pod of the test's namespace as the kubelet of a working node would."""
    path = f"/api/v1/namespaces/{stack.namespace}/pods"
    pods: list[dict[str, Any]] = stack.kube.request("GET", path).body["items"]
    ready = "True" if phase == "Running" else "False"
    for number, pod in enumerate(pods):
        status: dict[str, Any] = {
            "phase": phase,
            "podIP": f"10.1.0.{number + 1}",
            "podIPs": [{"ip": f"10.1.0.{number + 1}"}],
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
                {"type": "ContainersReady", "status": ready},
                {"type": "Ready", "status": ready},
            ],
        }
        if (pod.get("status") or {}).get("phase") == phase:
            continue
        stack.kube.request(
            "PATCH",
            f"{path}/{pod['metadata']['name']}/status",
            body={"status": status},
            content_type="application/merge-patch+json",
        )
    return len(pods)


def test_workloads_are_waited_for(stack: Stack) -> None:
    """A Deployment, its Service and a Job are done when their pods are, and not before."""
    stack.program(
        WORKLOAD
        + """
    k8s.apps.v1.Deployment(
        "web", metadata={"name": "web", "namespace": NS},
        spec={"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        opts=opts(depends_on=[ns]),
    )
    k8s.core.v1.Service(
        "service", metadata={"name": "web", "namespace": NS},
        spec={"selector": {"app": "web"}, "ports": [{"port": 80}]},
        opts=opts(depends_on=[ns]),
    )
    k8s.core.v1.Service(
        "headless", metadata={"name": "headless", "namespace": NS},
        spec={"selector": {"app": "web"}, "clusterIP": "None", "ports": [{"port": 80}]},
        opts=opts(depends_on=[ns]),
    )
    k8s.core.v1.PersistentVolumeClaim(
        "claim", metadata={"name": "claim", "namespace": NS},
        spec={
            "accessModes": ["ReadWriteOnce"], "storageClassName": NS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
        opts=opts(depends_on=[ns, k8s.storage.v1.StorageClass(
            "class", metadata={"name": NS}, provisioner="example.com/none",
            volume_binding_mode="WaitForFirstConsumer", opts=o,
        )]),
    )
    """
    )
    process = stack.start_up()
    path = f"/api/v1/namespaces/{stack.namespace}/pods"
    stack.wait_for(lambda: len(stack.kube.request("GET", path).body["items"]) >= 2)
    time.sleep(1)
    assert process.poll() is None
    assert set(stack.resources()) & {"web", "service"} == set()
    stack.wait_for(lambda: be_kubelet(stack) and process.poll() is not None, 60)
    log = (stack.folder / "up.log").read_text()
    assert process.returncode == 0, log
    assert "Waiting for app" in log
    status = stack.resources()["web"]["outputs"]["status"]
    assert status["availableReplicas"] == 2
    stack.up("--expect-no-changes").ok()
    stack.refresh("--expect-no-changes").ok()


def test_a_failing_job_ends_the_wait(stack: Stack) -> None:
    """The engine stops waiting for a failed job and shows the reason."""
    stack.program(
        WORKLOAD
        + """
    k8s.batch.v1.Job(
        "job", metadata={"name": "job", "namespace": NS},
        spec={"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}],
        }}},
        opts=opts(depends_on=[ns]),
    )
    """
    )
    process = stack.start_up()
    stack.wait_for(
        lambda: stack.get("/api/v1/namespaces/NS/pods") and be_kubelet(stack, "Failed"), 60
    )
    stack.wait_for(lambda: process.poll() is not None, 60)
    log = (stack.folder / "up.log").read_text()
    assert process.returncode != 0
    assert "BackoffLimitExceeded" in log
    assert "job" in stack.resources()


@pytest.mark.exhaustive
def test_timeouts_and_skip_await(stack: Stack) -> None:
    """The annotation and the option bound the wait; what was made is kept; skipAwait skips."""
    stack.program(
        WORKLOAD
        + """
    def deployment(name, annotations, **more):
        k8s.apps.v1.Deployment(
            name, metadata={"name": name, "namespace": NS, "annotations": annotations},
            spec={"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
            opts=opts(depends_on=[ns], **more),
        )

    deployment("skipped", {"pulumi.com/skipAwait": "true"})
    deployment("bounded", {"pulumi.com/timeoutSeconds": "3"})
    deployment("option", {}, custom_timeouts=pulumi.CustomTimeouts(create="4s"))
    """
    )
    # It ends in `up`'s own limit here, minutes before the ten that a Deployment has by default.
    failed = stack.up()
    assert failed.status != 0
    assert "'bounded' timed out waiting to be Ready after 3 s" in failed.text
    assert "'option' timed out waiting to be Ready after 4 s" in failed.text
    assert "Minimum number of live Pods was not attained" in failed.text
    state = stack.resources()
    assert state["bounded"]["outputs"]["metadata"]["uid"]
    assert state["bounded"]["initErrors"]
    assert "initErrors" not in state["skipped"]
    # The next run takes up where this one ended.
    process = stack.start_up()
    stack.wait_for(lambda: be_kubelet(stack) and process.poll() is not None, 60)
    assert process.returncode == 0, (stack.folder / "up.log").read_text()
    stack.up("--expect-no-changes").ok()


@pytest.mark.exhaustive
def test_wait_for(stack: Stack) -> None:
    """`pulumi.com/waitFor`: a path, a value, a condition, a list of these; bad ones are named."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        for name, wanted in {
            "path": "jsonpath={.metadata.uid}",
            "value": "jsonpath={.metadata.labels.ready}=yes",
            "both": '["jsonpath={.metadata.uid}", "jsonpath={.metadata.labels.ready}=yes"]',
        }.items():
            k8s.core.v1.ConfigMap(
                name,
                metadata={
                    "name": name, "namespace": NS, "annotations": {"pulumi.com/waitFor": wanted}
                },
                opts=opts(depends_on=[ns]),
            )
        """
    )
    process = stack.start_up()
    stack.wait_for(
        lambda: all(
            stack.get(f"/api/v1/namespaces/NS/configmaps/{name}") for name in ("value", "both")
        )
    )
    time.sleep(1)
    assert process.poll() is None
    for name in ("value", "both"):
        stack.patch(
            f"/api/v1/namespaces/NS/configmaps/{name}", {"metadata": {"labels": {"ready": "yes"}}}
        )
    stack.wait_for(lambda: process.poll() is not None)
    log = (stack.folder / "up.log").read_text()
    assert process.returncode == 0, log
    assert "{.metadata.labels.ready} selected nothing" in log
    stack.program(
        """
        k8s.core.v1.Namespace("ns", metadata={
            "name": NS, "annotations": {"pulumi.com/waitFor": "metadata.uid"},
        }, opts=o)
        """
    )
    failed = stack.up()
    assert failed.status != 0
    assert 'expected a "jsonpath=" or "condition=" prefix' in failed.text


def test_a_hanging_namespace_is_explained(stack: Stack) -> None:
    """An aggregated API that does not answer blocks namespace deletion; the error says which."""
    group = f"{stack.namespace}.example.com"
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 10,
            "service": {"name": "gone", "namespace": "default"},
            "insecureSkipTLSVerify": True,
        },
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    stack.program(
        """
        k8s.core.v1.Namespace(
            "ns", metadata={"name": NS},
            opts=opts(custom_timeouts=pulumi.CustomTimeouts(delete="10s")),
        )
        """
    )
    stack.up().ok()
    stack.kube.request("POST", path, body=service)
    try:
        failed = stack.destroy()
        assert failed.status != 0
        assert "NamespaceDeletionDiscoveryFailure" in failed.text
        assert group in failed.text
        assert "APIService" in failed.text
    finally:
        stack.kube.request("DELETE", f"{path}/v1.{group}")
    stack.destroy().ok()
