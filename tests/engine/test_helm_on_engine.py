"""Helm releases through the real engine."""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engine.conftest import Stack
from tests.engine.controlplane import locate

pytestmark = pytest.mark.controlplane


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A small chart; `pods` of its Deployment never start without a kubelet."""
    if locate("helm") is None:
        pytest.skip("no helm: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    folder = tmp_path / "chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(
        yaml.safe_dump({"apiVersion": "v2", "name": "small", "version": "0.1.0", "appVersion": "9"})
    )
    (folder / "values.yaml").write_text("pods: 0\nword: none\nbad: false\n")
    (folder / "templates" / "all.yaml").write_text(
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        'metadata: {name: "{{ .Release.Name }}-config"}\n'
        'data: {word: "{{ .Values.word }}"}\n'
        "---\n"
        "apiVersion: apps/v1\n"
        "kind: Deployment\n"
        'metadata: {name: "{{ .Release.Name }}"}\n'
        "spec:\n"
        "  replicas: {{ .Values.pods }}\n"
        '  selector: {matchLabels: {app: "{{ .Release.Name }}"}}\n'
        "  template:\n"
        '    metadata: {labels: {app: "{{ .Release.Name }}"}}\n'
        "    spec: {containers: [{name: c, image: x}]}\n"
        "{{- if .Values.bad }}\n"
        "---\n"
        "apiVersion: v1\n"
        "kind: Nonsense\n"
        "metadata: {name: nonsense}\n"
        "{{- end }}\n"
    )
    return folder


PROGRAM = """
release = k8s.helm.v3.Release(
    "small", chart="./chart", name="small", namespace=NS, create_namespace=True,
    timeout=int(config.get("timeout") or 60),
    values={
        "word": config.get("word") or "one", "pods": int(config.get("pods") or 0),
        "bad": config.get_bool("bad") or False, "secret": pulumi.Output.secret("tell-nobody"),
    },
    opts=o,
)
pulumi.export("status", release.status)
pulumi.export("names", release.resource_names)
"""


def records(stack: Stack) -> list[dict[str, Any]]:
    """Helm's records of the release."""
    path = f"/api/v1/namespaces/{stack.namespace}/secrets"
    query = {"labelSelector": "owner=helm,name=small"}
    items: list[dict[str, Any]] = stack.kube.request("GET", path, query=query).body["items"]
    return items


def word(stack: Stack) -> str:
    live = stack.get("/api/v1/namespaces/NS/configmaps/small-config")
    assert live is not None
    return str(live["data"]["word"])


def test_life_of_a_release(stack: Stack, chart: Path) -> None:
    """Install, no change, upgrade, chart change, failing upgrade and recovery, uninstall."""
    stack.program(PROGRAM)
    assert "+ 3 to create" in stack.preview().ok().text
    result = stack.up().ok()
    outputs = json.loads(stack.run("stack", "output", "--json").ok().text)
    assert outputs["status"] == {
        "appVersion": "9",
        "chart": "small",
        "name": "small",
        "namespace": stack.namespace,
        "revision": 1,
        "status": "deployed",
        "version": "0.1.0",
    }
    assert outputs["names"] == {
        "ConfigMap/v1": ["small-config"],
        "Deployment.apps/apps/v1": ["small"],
    }
    stack.up("--expect-no-changes").ok()
    stack.refresh("--expect-no-changes").ok()

    stack.set("word", "two")
    assert "1 updated" in stack.up().ok().text
    assert word(stack) == "two"

    # A new version of the chart is an upgrade.
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**metadata, "version": "0.2.0"}))
    assert "1 updated" in stack.up().ok().text
    assert stack.resources()["small"]["outputs"]["status"]["version"] == "0.2.0"

    # Drift: someone upgrades by hand.
    helm = locate("helm")
    assert helm is not None
    subprocess.run(
        [
            str(helm),
            "upgrade",
            "small",
            str(chart),
            "--namespace",
            stack.namespace,
            "--kubeconfig",
            stack.environment["TEST_KUBECONFIG"],
            "--set",
            "word=theirs",
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": str(stack.folder / "home")},
    )
    refreshed = stack.refresh("--diff").ok()
    assert "1 updated" in refreshed.text
    assert "1 updated" in stack.up().ok().text
    assert word(stack) == "two"

    stack.set("bad", "true")
    failed = stack.up()
    assert failed.status != 0
    assert "Nonsense" in failed.text
    stack.set("bad", "false")
    stack.set("word", "three")
    stack.up().ok()
    assert word(stack) == "three"

    shown = result.text + refreshed.text + stack.state_text()
    assert "tell-nobody" not in shown
    stack.destroy().ok()
    assert stack.get("/apis/apps/v1/namespaces/NS/deployments/small") is None
    assert records(stack) == []


def test_a_release_that_does_not_come_up(stack: Stack, chart: Path) -> None:
    """The time-out is an error with the release kept in the state, and mends itself."""
    stack.program(PROGRAM)
    stack.set("pods", "1")
    stack.set("timeout", "4")
    failed = stack.up()
    assert failed.status != 0
    assert "failed to initialize completely" in failed.text
    assert stack.resources()["small"]["initErrors"]
    stack.set("pods", "0")
    stack.up().ok()
    assert stack.resources()["small"]["outputs"]["status"]["status"] == "deployed"
    stack.up("--expect-no-changes").ok()


@pytest.mark.exhaustive
def test_killed_during_an_install(stack: Stack, chart: Path) -> None:
    """The next run recovers from the killed install and its record stuck in pending-install."""
    stack.program(PROGRAM)
    stack.set("pods", "1")
    process = stack.start_up()
    stack.wait_for(lambda: records(stack), 60)
    stack.wait_for(lambda: stack.get("/apis/apps/v1/namespaces/NS/deployments/small"), 60)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    stack.wait_for(lambda: not _helm_runs(stack), 20)
    stack.set("pods", "0")

    # As if Helm itself had been killed: its record stays pending-install.
    (record,) = records(stack)
    release = json.loads(
        gzip.decompress(base64.b64decode(base64.b64decode(record["data"]["release"])))
    )
    release["info"]["status"] = "pending-install"
    packed = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(release).encode())))
    record["data"]["release"] = packed.decode()
    record["metadata"]["labels"]["status"] = "pending-install"
    path = f"/api/v1/namespaces/{stack.namespace}/secrets/{record['metadata']['name']}"
    stack.kube.request("PUT", path, body=record)

    result = stack.up().ok()
    assert "interrupted (pending-install)" in result.text
    assert stack.resources()["small"]["outputs"]["status"]["status"] == "deployed"
    stack.up("--expect-no-changes").ok()

    # A stuck upgrade as well.
    (record,) = records(stack)
    labels = {**record["metadata"]["labels"], "status": "pending-upgrade", "version": "2"}
    stuck = {
        "metadata": {"name": "sh.helm.release.v1.small.v2", "labels": labels},
        "type": record["type"],
        "data": record["data"],
    }
    stack.kube.request("POST", f"/api/v1/namespaces/{stack.namespace}/secrets", body=stuck)
    stack.set("word", "after")
    assert "interrupted (pending-upgrade)" in stack.up().ok().text
    assert word(stack) == "after"
    stack.up("--expect-no-changes").ok()


def _helm_runs(stack: Stack) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if stack.namespace.encode() in command and b"helm" in command:
                return True
    return False


@pytest.mark.exhaustive
def test_missing_chart_and_import(stack: Stack, chart: Path) -> None:
    """A chart that is not there is refused before anything is done; a release can be imported."""
    stack.program(PROGRAM.replace("./chart", "./no-such-chart"))
    failed = stack.preview()
    assert failed.status != 0
    assert "no-such-chart" in failed.text
    helm = locate("helm")
    assert helm is not None
    subprocess.run(
        [
            str(helm),
            "install",
            "small",
            str(chart),
            "--namespace",
            stack.namespace,
            "--create-namespace",
            "--kubeconfig",
            stack.environment["TEST_KUBECONFIG"],
            "--set",
            "word=one",
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "HOME": str(stack.folder / "home")},
    )
    # Without an import the name is taken.
    stack.program(PROGRAM)
    taken = stack.up()
    assert taken.status != 0
    assert "cannot re-use a name that is still in use" in taken.text
    stack.program(
        """
        k8s.helm.v3.Release(
            "small", chart="small", name="small", namespace=NS, timeout=300, version="0.1.0",
            values={"word": "one"}, opts=opts(import_=f"{NS}/small"),
        )
        """
    )
    (chart / "Chart.yaml").rename(stack.folder / "kept")
    (stack.folder / "small" / "templates").mkdir(parents=True)
    (stack.folder / "kept").rename(stack.folder / "small" / "Chart.yaml")
    assert "1 imported" in stack.up().ok().text
