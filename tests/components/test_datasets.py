"""Data sets: what pods mount, what the stack makes, and that nobody's pod writes to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead import config
from railhead.base.names import TRAINING_LABEL
from railhead.contract import ClusterContract
from railhead.resolve.cluster import resolve
from tests.api_server import Server
from tests.components.recording import fake_lab, lab_cluster, run_program
from tests.engine.controlplane import ControlPlane

NS = "training"
GUARD = "railhead-data-set"


def reading() -> dict[str, Any]:
    """Return the lab's stack that makes one data set's claim and finds another's."""
    cluster = lab_cluster()
    cluster["datasets"] = [
        {"name": "words", "namespace": NS, "volume": "words-a", "mount_path": "/data/words"},
        {"name": "images", "claim": "old-images", "namespace": NS, "mount_path": "/data/images"},
    ]
    cluster["runtimes"][0] |= {"datasets": ["images", "words"], "scratch": {"size": "20Gi"}}
    return cluster


def test_pods_read_what_they_are_given_and_have_scratch() -> None:
    (runtime,) = resolve(config.parse(reading(), where="test")).runtimes
    spec = runtime.pod["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    for name, claim in (("dataset-images", "old-images"), ("dataset-words", "words")):
        assert volumes[name]["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
        assert mounts[name]["readOnly"] is True
    assert mounts["dataset-words"]["mountPath"] == "/data/words"
    assert volumes["scratch"] == {"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}}
    assert mounts["scratch"] == {"name": "scratch", "mountPath": "/scratch"}
    # Checkpoints are written still.
    assert "readOnly" not in mounts["checkpoints"]


def test_the_stack_makes_the_claim_on_a_volume_and_leaves_it(tmp_path: Path) -> None:
    fake_lab(tmp_path)
    recording = run_program(reading(), tmp_path)
    claims = {c.inputs["metadata"]["name"]: c for c in recording.kind("PersistentVolumeClaim")}
    assert set(claims) == {"checkpoints", "words"}
    made = claims["words"]
    assert made.retain
    assert made.inputs["spec"] == {
        "accessModes": ["ReadOnlyMany"],
        "storageClassName": "",
        "volumeName": "words-a",
        "resources": {"requests": {"storage": "1Ki"}},
    }
    queue = recording.one("LocalQueue")
    assert made.urn in recording.before(queue.urn), "a job could start before its data"
    (space,) = (s for s in recording.kind("Namespace") if s.inputs["metadata"]["name"] == NS)
    assert space.retain, "a claim would go with its namespace"


def test_contract_lists_the_mounts(tmp_path: Path) -> None:
    fake_lab(tmp_path)
    recording = run_program(reading(), tmp_path)
    (text,) = (
        m.inputs["data"]["contract.json"]
        for m in recording.kind("ConfigMap")
        if "contract.json" in m.inputs.get("data", {})
    )
    contract = ClusterContract.from_json(text, where="test")
    assert [(dataset.name, dataset.claim, dataset.mount_path) for dataset in contract.datasets] == [
        ("words", "words", "/data/words"),
        ("images", "old-images", "/data/images"),
    ]
    paths = {mount["mountPath"] for mount in contract.runtimes[0].trainer["volumeMounts"]}
    assert {"/data/words", "/data/images", "/scratch"} <= paths


def test_a_stack_without_data_sets_has_no_such_guard() -> None:
    assert GUARD not in resolve(config.parse(lab_cluster(), where="test")).guards


# -- on a real API server -------------------------------------------------------------------------


def pod(claim: str | None, namespace: str = NS, **source: Any) -> dict[str, Any]:
    volume: dict[str, Any] = {"name": "v", "emptyDir": {}}
    if claim is not None:
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim, **source}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "reader", "namespace": namespace},
        "spec": {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]},
    }


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    guard = resolve(config.parse(reading(), where="test")).guards[GUARD]
    with Server(judging_plane) as server:
        for name, labels in ((NS, {TRAINING_LABEL: "true"}), ("aside", {})):
            metadata = {"name": name, "labels": labels}
            server.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        server.guard(GUARD, guard)
        server.policies_settled()
        yield server


@pytest.mark.controlplane
@pytest.mark.parametrize("claim", ["words", "old-images"])
def test_a_pod_that_would_write_is_refused(server: Server, claim: str) -> None:
    for body in (pod(claim), pod(claim, readOnly=False)):
        verdict = server.verdict(body)
        assert "a data set is read, and not written" in verdict
        assert f"training/{claim}" in verdict


@pytest.mark.controlplane
def test_reading_other_claims_and_other_namespaces_pass(server: Server) -> None:
    assert server.verdict(pod("words", readOnly=True)) == ""
    assert server.verdict(pod("checkpoints")) == ""
    assert server.verdict(pod(None)) == ""
    assert server.verdict(pod("words", namespace="aside")) == ""
