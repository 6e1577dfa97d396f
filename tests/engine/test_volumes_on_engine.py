"""Volumes of Google's file systems: one that is bound outlives a new handle."""

from __future__ import annotations

import pytest

from railhead.kube.errors import ApiError
from tests.engine.conftest import Stack

PROGRAM = """
from railhead.components.gcp.volumes import Volumes, VolumesArgs, VolumeSource
from railhead.model.cluster import CheckpointConfig

source = VolumeSource(
    driver="lustre.csi.storage.gke.io", handle="HANDLE", attributes={"ip": "10.0.0.2"}
)
claim = CheckpointConfig(
    name="checkpoints", namespace=NS, storage_class=f"lustre-{NS}", size="SIZE", mount_path="/c"
)
k8s.core.v1.Namespace("space", metadata={"name": NS}, opts=o)
volumes = Volumes(
    "volumes",
    VolumesArgs(sources={f"lustre-{NS}": source}, claims=[claim]),
    opts=ResourceOptions(providers=[cluster]),
)
k8s.core.v1.PersistentVolumeClaim(
    "claim",
    metadata={"name": "checkpoints", "namespace": NS},
    spec={
        "accessModes": ["ReadWriteMany"],
        "storageClassName": f"lustre-{NS}",
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": volumes.volumes[0].metadata.name,
    },
    opts=opts(depends_on=volumes.volumes),
)
"""


@pytest.mark.controlplane
def test_a_bound_volume_keeps_the_handle_that_it_was_made_with(stack: Stack) -> None:
    old, new = "project/zone/lustre:training-checkpoints", "project/zone/lustre"
    stack.program(PROGRAM.replace("HANDLE", old).replace("SIZE", "1Gi"))
    stack.up().ok()
    made = stack.resources()[f"volumes-{stack.namespace}-checkpoints"]["outputs"]
    path = f"/api/v1/persistentvolumes/{made['metadata']['name']}"
    stack.wait_for(lambda: (stack.get(path) or {})["status"]["phase"] == "Bound")
    before = stack.get(path)
    assert before is not None

    # An update would have failed.
    with pytest.raises(ApiError, match="immutable"):
        stack.patch(path, {"spec": {"csi": {"volumeHandle": new}}})
    stack.program(PROGRAM.replace("HANDLE", new).replace("SIZE", "1Gi"))
    stack.up("--expect-no-changes").ok()
    # What may change still does.
    stack.program(PROGRAM.replace("HANDLE", new).replace("SIZE", "2Gi"))
    stack.up().ok()
    after = stack.get(path)
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["csi"]["volumeHandle"] == old
    assert after["spec"]["capacity"] == {"storage": "2Gi"}
    assert after["status"]["phase"] == "Bound"
    stack.destroy().ok()
