"""The platform's file systems inside the cluster: a storage class each, a volume a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import physical_name
from railhead.model.cluster import CheckpointConfig


@dataclass(frozen=True, kw_only=True)
class VolumeSource:
    """A file system as its CSI driver knows it.

    Volumes of one file system have one handle: the kubelet then mounts it once a node for all pods
    (kubernetes 1.34, pkg/volume/csi/csi_attacher.go: makeDeviceMountPath hashes the handle),
    and Lustre's driver refuses a second mount of one name (lustre-csi-driver v0.6.9,
    pkg/csi_driver/node.go: hasMountWithSameFSName).

    Args:
        driver: name of the CSI driver.
        handle: the file system's name for the driver.
        attributes: the driver's attributes of a volume, such as the server's address.
        mount_options: the driver's mount options.
        after: resources that a pod that mounts it also needs, such as its rights.
    """

    driver: str
    handle: pulumi.Input[str]
    attributes: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    mount_options: Sequence[str] = ()
    after: Sequence[pulumi.Resource] = ()


@dataclass(frozen=True, kw_only=True)
class VolumesArgs:
    """Arguments of :class:`Volumes`.

    Args:
        sources: name of a storage class -> its file system.
        claims: claims with checkpoints; each on one of the classes gets a volume.
    """

    sources: Mapping[str, VolumeSource]
    claims: Sequence[CheckpointConfig]


class Volumes(pulumi.ComponentResource):
    """Storage classes that provision nothing, and a volume that waits for each claim by name.

    A volume stays with its claim when the stack goes, and what is on the file system in any case.

    Attributes:
        classes: the storage classes.
        volumes: the volumes.
    """

    classes: Sequence[kubernetes.storage.v1.StorageClass]
    volumes: Sequence[kubernetes.core.v1.PersistentVolume]

    def __init__(
        self, name: str, args: VolumesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:Volumes", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        classes = {
            source: kubernetes.storage.v1.StorageClass(
                f"{name}-{source}",
                metadata={"name": source},
                provisioner="kubernetes.io/no-provisioner",
                reclaim_policy="Retain",
                volume_binding_mode="Immediate",
                opts=below,
            )
            for source in args.sources
        }
        self.classes = list(classes.values())
        self.volumes = [
            self._volume(
                f"{name}-{claim.namespace}-{claim.claim_name}",
                args.sources[claim.storage_class],
                claim,
                classes[claim.storage_class],
            )
            for claim in args.claims
            if claim.storage_class in args.sources
        ]
        self.register_outputs({"classes": list(args.sources)})

    def _volume(
        self,
        name: str,
        source: VolumeSource,
        claim: CheckpointConfig,
        storage_class: kubernetes.storage.v1.StorageClass,
    ) -> kubernetes.core.v1.PersistentVolume:
        return kubernetes.core.v1.PersistentVolume(
            name,
            metadata={"name": physical_name(claim.namespace, claim.claim_name)},
            spec={
                "storage_class_name": claim.storage_class,
                "capacity": {"storage": claim.size},
                "access_modes": ["ReadWriteMany"],
                "persistent_volume_reclaim_policy": "Retain",
                "volume_mode": "Filesystem",
                # For this claim and no other, whichever comes first.
                "claim_ref": {"namespace": claim.namespace, "name": claim.claim_name},
                "mount_options": list(source.mount_options) or None,
                "csi": {
                    "driver": source.driver,
                    "volume_handle": source.handle,
                    "volume_attributes": dict(source.attributes) or None,
                },
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[storage_class, *source.after],
                # As its claim is: Kubernetes does not let go of a volume that a claim is bound to
                # (pkg/controller/volume/pvprotection), and `destroy` would wait for it.
                retain_on_delete=True,
                # A volume's source is immutable, so the provider would replace it, and one that is
                # bound is not deleted: volumes of an earlier version keep the handle that they
                # were made with.
                ignore_changes=["spec.csi.volumeHandle"],
            ),
        )
