"""Acceptance again and again on a real API server: its command, with no rights but its account's.

Nothing runs the pods here, so the job is admitted by nobody: the command submits it as it would,
waits, and takes it away when the pod is ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.names import PRIORITY_LABEL
from railhead.resolve.acceptance import NAME
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.recording import Recording, fake_lab, lab_cluster, run_program
from tests.components.test_api_server import manifests
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

SPACE, WHERE = "railhead-watching", "training"
JOBS = f"/apis/trainer.kubeflow.org/v1alpha1/namespaces/{WHERE}/trainjobs"
MAPS = f"/api/v1/namespaces/{WHERE}/configmaps"


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define([*lab_definitions(), *crds.operators("k8s.cni.cncf.io")])
        yield server


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    again = {"image": "registry.example.com/railhead:0.1.0", "checks": ["rdma"]}
    return run_program(lab_cluster() | {"watching": {"kind": "files", "acceptance": again}}, cache)


@pytest.fixture(scope="module")
def applied(server: Server, recording: Recording) -> Server:
    for body in manifests(recording):
        server.apply(body)
    data = recording.one("ConfigMap", "railhead-contract").inputs["data"]
    contract = json.loads(next(iter(data.values())))
    (pool,) = contract["node_pools"]
    for number in range(pool["nodes"]):
        levels = dict.fromkeys(contract["topology_levels"], f"gpu-{number}")
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"gpu-{number}", "labels": levels | pool["node_selector"]},
        }
        server.apply(node)
        status = {
            "capacity": pool["capacity"],
            "allocatable": pool["capacity"],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        server.client.request(
            "PATCH",
            f"/api/v1/nodes/gpu-{number}/status",
            body={"status": status},
            content_type="application/merge-patch+json",
        )
    return server


@pytest.fixture(scope="module")
def account(applied: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig with a token of its account and nothing else."""
    text = applied.run("-n", SPACE, "create", "token", NAME)
    assert text.returncode == 0, text.stderr
    config = yaml.safe_load(applied.plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": text.stdout.strip()}
    path = tmp_path_factory.mktemp("account") / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def pod(recording: Recording) -> dict[str, Any]:
    spec = recording.one("CronJob", NAME).inputs["spec"]
    result: dict[str, Any] = spec["jobTemplate"]["spec"]["template"]["spec"]
    return result


def until(found: Any, process: subprocess.Popen[str]) -> Any:
    end = time.monotonic() + 240
    while not (value := found()):
        assert process.poll() is None, "".join(process.communicate())
        assert time.monotonic() < end
        time.sleep(0.2)
    return value


def test_its_command_submits_and_takes_away(
    applied: Server, recording: Recording, account: Path, tmp_path: Path
) -> None:
    (container,) = pod(recording)["containers"]
    program, *words = container["command"]
    assert program == "railhead"
    assert words[-2:] == ["--out", "/tmp"]
    started = subprocess.Popen(
        [sys.executable, "-m", "railhead", *words[:-1], str(tmp_path)],
        env=os.environ | {"KUBECONFIG": str(account)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        job = until(lambda: applied.client.request("GET", JOBS).body["items"], started)[0]
        lowest = min(
            recording.kind("WorkloadPriorityClass"), key=lambda item: float(item.inputs["value"])
        )
        assert job["metadata"]["labels"][PRIORITY_LABEL] == lowest.inputs["metadata"]["name"]
        maps = [m["metadata"]["name"] for m in applied.client.request("GET", MAPS).body["items"]]
        assert f"{job['metadata']['name']}-files" in maps
        # As the kubelet ends a pod, of a run whose time is over or that gives way.
        started.send_signal(signal.SIGTERM)
        _, message = started.communicate(timeout=240)
    finally:
        started.kill()
    assert started.returncode == 130, message
    assert "its jobs were deleted" in message
    assert applied.client.request("GET", JOBS).body["items"] == []


def test_it_may_do_what_its_checks_do_and_no_more(applied: Server) -> None:
    user = f"--as=system:serviceaccount:{SPACE}:{NAME}"

    def may(verb: str, what: str, namespace: str = WHERE) -> bool:
        return applied.run("auth", "can-i", verb, what, user, "-n", namespace).returncode == 0

    # Nobody runs pods here, whose logs it would read.
    allowed = [("get", "pods/log"), ("list", "pods"), ("list", "nodes"), ("delete", "trainjobs")]
    assert [item for item in allowed if not may(*item)] == []
    refused = [
        ("create", "pods"),
        ("create", "pods/exec"),
        ("get", "secrets"),
        ("update", "localqueues"),
        ("patch", "nodes"),
        ("delete", "clusterqueues"),
    ]
    assert [item for item in refused if may(*item)] == []
    assert not may("create", "trainjobs", SPACE)
    assert not may("create", "trainjobs", "default")
