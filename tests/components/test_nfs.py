"""NFS by its CSI driver: what is installed, what a claim gets, and what stays."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.catalog.versions import NFS_CSI
from tests.components.recording import run_stack, stack_cluster

pytestmark = pytest.mark.slow

STACK = "onprem-roce-shared"


def test_nfs_driver_precedes_its_class_and_keeps_data(tmp_path: Path) -> None:
    recording = run_stack(STACK, tmp_path)
    (release,) = (
        r
        for r in recording.of_type("kubernetes:helm.sh/v3:Release")
        if r.inputs["name"] == NFS_CSI.name
    )
    assert (release.inputs["chart"], release.inputs["version"]) == ("csi-driver-nfs", "4.13.4")
    # A DaemonSet of a thousand nodes, of which three are dead, holds nothing up.
    assert release.inputs["skipAwait"] is True
    assert release.inputs["values"]["controller"]["defaultOnDeletePolicy"] == "retain"
    assert release.inputs["values"]["feature"] == {"enableFSGroupPolicy": False}
    (made,) = recording.of_type("kubernetes:storage.k8s.io/v1:StorageClass")
    assert release.urn in recording.before(made.urn)
    assert made.inputs["provisioner"] == "nfs.csi.k8s.io"
    assert made.inputs["reclaimPolicy"] == "Retain"
    assert made.inputs["mountOptions"] == ["nfsvers=4.1", "hard"]
    assert made.inputs["parameters"] == {
        "server": "nfs.example.com",
        "share": "/export/training",
        "subDir": "roce-shared/${pvc.metadata.namespace}/${pvc.metadata.name}",
        "onDelete": "retain",
        "mountPermissions": "0777",
    }
    claims = recording.of_type("kubernetes:core/v1:PersistentVolumeClaim")
    assert {claim.inputs["metadata"]["namespace"] for claim in claims} == {"training", "research"}
    names = {claim.inputs["spec"]["storageClassName"] for claim in claims}
    assert names == {made.inputs["metadata"]["name"]}


@pytest.mark.parametrize(
    ("platform", "directory"),
    [
        ({"uid": "0a1b2c3d-0000-4000-8000-000000000001"}, "roce-shared-0a1b2c3d"),
        ({"uid": "ffffffff-0000-4000-8000-000000000001"}, "roce-shared-ffffffff"),
    ],
)
def test_a_copy_of_the_file_has_directories_of_its_own(
    platform: dict[str, Any], directory: str, tmp_path: Path
) -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    raw["platform"] |= platform
    del raw["platform"]["nfs"]["directory"]
    (made,) = run_stack(STACK, tmp_path, cluster=raw).of_type(
        "kubernetes:storage.k8s.io/v1:StorageClass"
    )
    assert made.inputs["parameters"]["subDir"].split("/")[0] == directory


@pytest.mark.parametrize(
    ("platform", "directory"),
    [
        ({}, "/var/lib/kubelet"),
        ({"distribution": "microk8s"}, "/var/snap/microk8s/common/var/lib/kubelet"),
        ({"kubelet_directory": "/data/kubelet"}, "/data/kubelet"),
    ],
)
def test_the_driver_mounts_where_kubelet_is(
    platform: dict[str, Any], directory: str, tmp_path: Path
) -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    raw["platform"] |= platform
    raw["fabric"] = {"kind": "ethernet", "mode": "none"}
    (release,) = (
        r
        for r in run_stack(STACK, tmp_path, cluster=raw).of_type("kubernetes:helm.sh/v3:Release")
        if r.inputs["name"] == NFS_CSI.name
    )
    assert release.inputs["values"]["kubeletDir"] == directory


def test_a_share_needs_a_directory_of_the_clusters_own() -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    del raw["platform"]["nfs"]["directory"]
    with pytest.raises(InputError, match="is missing: it names the directory"):
        config.parse(raw, where="test")


def test_a_directory_keeps_its_mode_where_the_file_says_so(tmp_path: Path) -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    raw["platform"]["nfs"]["classes"][0]["mode"] = "keep"
    (made,) = run_stack(STACK, tmp_path, cluster=raw).of_type(
        "kubernetes:storage.k8s.io/v1:StorageClass"
    )
    assert made.inputs["parameters"]["mountPermissions"] == "0"


def test_jobs_end_before_what_mounts_for_them_goes(tmp_path: Path) -> None:
    recording = run_stack(STACK, tmp_path)
    (release,) = (
        r
        for r in recording.of_type("kubernetes:helm.sh/v3:Release")
        if r.inputs["name"] == NFS_CSI.name
    )
    queue = recording.one("LocalQueue", "training")
    assert release.urn in recording.before(queue.urn)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"server": "nfs example"}, "platform.nfs.classes[0].server"),
        ({"server": "-x"}, "platform.nfs.classes[0].server"),
        ({"share": "export"}, "platform.nfs.classes[0].share"),
        ({"mount_options": ["nfsvers=4.1,soft"]}, "platform.nfs.classes[0].mount_options[0]"),
        ({"on_delete": "delete"}, "platform.nfs.classes[0].on_delete"),
        ({"mode": "rwx"}, "platform.nfs.classes[0].mode"),
    ],
)
def test_a_mistake_is_named(change: dict[str, Any], words: str) -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    raw["platform"]["nfs"]["classes"][0] |= change
    with pytest.raises(InputError, match="nfs") as caught:
        config.parse(raw, where="test")
    assert words in caught.value.problem


def test_a_class_that_no_claim_names_is_doubted() -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    assert config.check_values(raw, where="test").doubts == ()
    raw["platform"]["nfs"]["classes"][0]["name"] = "nfs-1"
    (doubt,) = config.check_values(raw, where="test").doubts
    assert "no claim of checkpoints names 'nfs-1'" in doubt


def test_addresses_of_both_families_are_servers() -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    for server in ("192.0.2.7", "2001:db8::7", "nfs-1"):
        raw["platform"]["nfs"]["classes"][0]["server"] = server
        config.parse(raw, where="test")


def test_no_classes_and_two_of_one_name_are_refused() -> None:
    raw = copy.deepcopy(stack_cluster(STACK))
    item = raw["platform"]["nfs"]["classes"][0]
    for classes in ([], [item, item]):
        raw["platform"]["nfs"]["classes"] = classes
        with pytest.raises(InputError, match=r"platform\.nfs\.classes"):
            config.parse(raw, where="test")
