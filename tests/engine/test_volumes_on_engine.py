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


KEPT = """
from types import SimpleNamespace

from railhead.components.aws.volumes import Volumes, VolumesArgs
from railhead.components.namespaces.checkpoints import Checkpoints, CheckpointsArgs
from railhead.model.cluster import CheckpointConfig

# A file system as FSx has made it.
made = SimpleNamespace(
    config=SimpleNamespace(name=f"lustre-{NS}"),
    file_system=SimpleNamespace(
        id=pulumi.Output.from_input("fs-0a1b2c3d4e5f60718"),
        dns_name="fs-0a1b2c3d4e5f60718.fsx.us-east-2.amazonaws.com",
        mount_name="abcdefgh",
    ),
)
claim = CheckpointConfig(
    name="checkpoints", namespace=NS, storage_class=f"lustre-{NS}", size="1Gi", mount_path="/c"
)
inside = ResourceOptions(providers=[cluster])
volumes = Volumes(
    "volumes", VolumesArgs(lustre=[made], elastic=[], checkpoints=[claim]), opts=inside
)
space = k8s.core.v1.Namespace(
    "space", metadata={"name": NS}, opts=opts(depends_on=volumes.made, retain_on_delete=True)
)
spec = {
    "accessModes": ["ReadWriteMany"],
    "storageClassName": f"lustre-{NS}",
    "resources": {"requests": {"storage": "1Gi"}},
}
Checkpoints(
    "checkpoints",
    CheckpointsArgs(namespace=NS, claims={"checkpoints": spec}, after=[space]),
    opts=inside,
)
"""


@pytest.mark.exhaustive
@pytest.mark.controlplane
def test_a_stack_goes_and_leaves_claims_with_their_volumes(stack: Stack) -> None:
    """A bound volume is not deleted: `destroy` would wait for it, and stop, each time."""
    stack.program(KEPT)
    stack.up().ok()
    claim = f"/api/v1/namespaces/{stack.namespace}/persistentvolumeclaims/checkpoints"
    stack.wait_for(lambda: (stack.get(claim) or {})["status"]["phase"] == "Bound")
    bound = stack.get(claim)
    assert bound is not None
    stack.destroy().ok()
    volume = stack.get(f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}")
    assert volume is not None
    assert "deletionTimestamp" not in volume["metadata"]
    kept = stack.get(claim)
    assert kept is not None
    assert kept["status"]["phase"] == "Bound"
