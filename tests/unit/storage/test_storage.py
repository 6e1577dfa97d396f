"""Claims as their objects say they are, and what proves that two nodes share one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from railhead.storage.claims import SHARED_ANNOTATION, findings
from railhead.storage.proof import SCRIPT, PodReport, job, verdict
from railhead.storage.volumes import PROVISIONED, provisioned, reserved

WRITER = PodReport(node="a", type="nfs4", source="filer:/export", sha256="1", free=1, total=2)
READER = replace(WRITER, node="b")


def test_read_on_another_node_proves_a_shared_mount() -> None:
    result = verdict(WRITER, READER)
    assert (result.shared, result.why) == ("yes", "a wrote and b read, nfs4 filer:/export")
    fuse = (replace(item, type="fuse.sshfs") for item in (WRITER, READER))
    assert verdict(*fuse).shared == "yes"


@pytest.mark.parametrize(
    ("writer", "reader", "shared", "why"),
    [
        # Two nodes of one machine: the content is right, and proves nothing.
        ({"type": "ext4"}, {"type": "ext4"}, "unproven", "local file system"),
        ({"type": ""}, {"type": ""}, "unproven", "no mount of its own"),
        ({}, {"type": "ext4"}, "unproven", "local file system"),
        ({}, {"source": "other:/export"}, "unproven", "two mounts"),
        ({}, {"node": "a"}, "unproven", "both pods were on a"),
        ({}, {"sha256": "2"}, "no", "b reads other bytes than a wrote"),
        ({}, {"error": "No such file or directory (/claim/x)"}, "no", "is not there on b"),
        ({}, {"error": "Stale file handle (/claim/x)"}, "unproven", "on b: Stale file handle"),
        ({"error": "No space left on device (/claim/x)"}, {}, "unproven", "No space left"),
        ({"error": "No such file or directory (/claim/x)"}, {}, "unproven", "on a: No such file"),
    ],
)
def test_anything_less_is_not(
    writer: dict[str, Any], reader: dict[str, Any], shared: str, why: str
) -> None:
    result = verdict(replace(WRITER, **writer), replace(READER, **reader))
    assert result.shared == shared
    assert why in result.why


def test_the_script_writes_reads_and_tells(tmp_path: Path) -> None:
    script = SCRIPT.replace('"/claim"', repr(str(tmp_path))).replace(
        "/dev/termination-log", str(tmp_path / "told")
    )

    def run(role: str, status: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", script, role, "nonce", "1"],
            env={**os.environ, "NODE": "a"},
            capture_output=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
        reported: dict[str, Any] = json.loads((tmp_path / "told").read_text())
        return reported

    wrote, read = run("write"), run("read")
    assert wrote["sha256"] == read["sha256"]
    assert read["size"] == (1 << 20) + len("nonce")
    assert wrote["total"] >= wrote["free"] > 0
    # It leaves nothing, and reports what is not there.
    assert not list((tmp_path / ".railhead-proof").iterdir())
    assert "No such file" in PodReport.of(json.dumps(run("read", status=1))).error


@pytest.mark.parametrize("said", ["", "Killed", "[1]", '{"node": 1, "type"'])
def test_a_pod_that_says_nothing_readable_is_an_error(said: str) -> None:
    assert PodReport.of(said).error


def test_the_job_waits_in_the_queue_and_mounts_the_claim() -> None:
    body = job(
        "write", name="n", nonce="x", namespace="training", claim="c", node="a", image="i",
        queue="q", tolerations=[], annotations={"gke-gcsfuse/volumes": "true"},
    )  # fmt: skip
    own = body["spec"]["template"]["metadata"]
    assert own == {"annotations": {"gke-gcsfuse/volumes": "true"}}
    assert body["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "q"}
    pod = body["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "claim", "persistentVolumeClaim": {"claimName": "c"}}]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "a"}
    assert body["spec"]["activeDeadlineSeconds"] > 0


def claim(**changes: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "metadata": {"name": "c", "annotations": {SHARED_ANNOTATION: "yes: a wrote, today"}},
        "spec": {"accessModes": ["ReadWriteMany"], "volumeName": "pv", "storageClassName": "s"},
        "status": {"phase": "Bound"},
    }
    for path, value in changes.items():
        section, key = path.split("__")
        body[section][key] = value
    return body


def said(body: dict[str, Any] | None, nodes: int = 2, *events: str) -> list[tuple[Any, str]]:
    return [
        (f.passed, f.text + f.remedy) for f in findings("ns/c", body, nodes=nodes, events=events)
    ]


def test_a_good_claim_has_nothing_against_it() -> None:
    assert said(claim()) == [
        (True, "checkpoint claim ns/c is shared between nodes: a wrote, today")
    ]
    assert said(claim(), 1) == []


@pytest.mark.parametrize(
    ("body", "passed", "text"),
    [
        (None, False, "`pulumi up --refresh`"),
        (claim(metadata__deletionTimestamp="now"), False, "is being deleted"),
        (claim(status__phase="Lost"), False, "its volume pv is gone"),
        (claim(spec__accessModes=["ReadWriteOnce"]), False, "one node can mount it"),
        (claim(metadata__annotations={}), None, "is not proven"),
        (claim(metadata__annotations={SHARED_ANNOTATION: "unproven: x"}), None, "not proven: x"),
        (claim(metadata__annotations={SHARED_ANNOTATION: "no: x"}), False, "is not shared"),
        (claim(metadata__annotations={SHARED_ANNOTATION: "yesno"}), None, "is not proven"),
        (claim(metadata__annotations={"railhead.dev/delete": "c"}), None, "may be deleted"),
    ],
)
def test_storage_that_makes_a_gang_wait_or_lose_is_reported(
    body: dict[str, Any] | None, passed: bool | None, text: str
) -> None:
    assert any(item[0] is passed and text in item[1] for item in said(body)), said(body)


def test_unbound_claim_names_its_cause_or_waits_for_first_job() -> None:
    pending = claim(status__phase="Pending")
    assert [passed for passed, _ in said(pending)] == [True]
    (first, _) = said(pending, 2, 'storageclass.storage.k8s.io "s" not found')
    assert first[0] is False
    assert "not found" in first[1]


VOLUME = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {
        "name": "pvc-1",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"kept": "yes"},
        "annotations": {
            PROVISIONED: "nfs.csi.k8s.io",
            "pv.kubernetes.io/bound-by-controller": "yes",
        },
        "finalizers": ["kubernetes.io/pv-protection"],
    },
    "spec": {
        "csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": "h"},
        "persistentVolumeReclaimPolicy": "Delete",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "training",
            "name": "checkpoints",
            "uid": "of-the-old-claim",
            "resourceVersion": "5",
        },
    },
    "status": {"phase": "Bound"},
}


def test_saved_volume_is_reserved_for_its_claim() -> None:
    before = json.dumps(VOLUME)
    assert provisioned(VOLUME)
    assert reserved(VOLUME) == {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": "pvc-1",
            "labels": {"kept": "yes"},
            "annotations": {PROVISIONED: "nfs.csi.k8s.io"},
        },
        "spec": {
            "csi": {"driver": "nfs.csi.k8s.io", "volumeHandle": "h"},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "training",
                "name": "checkpoints",
            },
        },
    }
    assert json.dumps(VOLUME) == before


def test_volume_made_by_hand_is_not_provisioned() -> None:
    assert not provisioned({"metadata": {"name": "lustre"}})
