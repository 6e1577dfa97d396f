"""The file systems inside the cluster: storage classes, and volumes for claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import physical_name
from railhead.components.aws.file_systems import Elastic, Lustre
from railhead.model.cluster import CheckpointConfig
from railhead.platform.aws.facts import EFS_BASE

LUSTRE_DRIVER = "fsx.csi.aws.com"
EFS_DRIVER = "efs.csi.aws.com"


@dataclass(frozen=True, kw_only=True)
class VolumesArgs:
    """Arguments of :class:`Volumes`.

    Args:
        lustre: FSx for Lustre file systems, each a storage class.
        elastic: EFS file systems, each a storage class.
        checkpoints: claims with checkpoints; each on a Lustre class gets a volume.
    """

    lustre: Sequence[Lustre]
    elastic: Sequence[Elastic]
    checkpoints: Sequence[CheckpointConfig]


class Volumes(pulumi.ComponentResource):
    """A class for each file system; for each claim on Lustre, the volume that waits for it.

    A volume stays with its claim when the stack goes.

    The Lustre classes make nothing: a claim of them that the stack does not know stays pending,
    rather than buy a file system of its own.

    Attributes:
        made: the storage classes and the volumes.
    """

    made: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: VolumesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:Volumes", name, None, opts)
        made: list[pulumi.Resource] = []
        for system in args.lustre:
            made += self._lustre(name, system, args)
        made += [self._elastic(name, system) for system in args.elastic]
        self.made = made
        self.register_outputs({})

    def _lustre(self, name: str, system: Lustre, args: VolumesArgs) -> list[pulumi.Resource]:
        inside = pulumi.ResourceOptions(parent=self)
        config = system.config
        made: list[pulumi.Resource] = [
            kubernetes.storage.v1.StorageClass(
                f"{name}-class-{config.name}",
                metadata={"name": config.name},
                provisioner="kubernetes.io/no-provisioner",
                reclaim_policy="Retain",
                opts=inside,
            )
        ]
        for claim in args.checkpoints:
            if claim.storage_class != config.name:
                continue
            volume = physical_name(config.name, claim.namespace, claim.claim_name)
            made.append(
                kubernetes.core.v1.PersistentVolume(
                    f"{name}-{config.name}-{claim.namespace}-{claim.claim_name}",
                    metadata={"name": volume},
                    spec={
                        "access_modes": ["ReadWriteMany"],
                        "capacity": {"storage": claim.size},
                        "storage_class_name": config.name,
                        "persistent_volume_reclaim_policy": "Retain",
                        "claim_ref": {"namespace": claim.namespace, "name": claim.claim_name},
                        # Every node sees the other nodes' locks.
                        "mount_options": ["flock"],
                        "csi": {
                            "driver": LUSTRE_DRIVER,
                            # kubelet tells volumes apart by it, so each has its own.
                            "volume_handle": pulumi.Output.concat(
                                system.file_system.id, "/", volume
                            ),
                            "volume_attributes": {
                                "dnsname": system.file_system.dns_name,
                                "mountname": system.file_system.mount_name,
                            },
                        },
                    },
                    # As its claim is: Kubernetes does not let go of a volume that a claim is bound
                    # to (pkg/controller/volume/pvprotection), and `destroy` would wait for it.
                    opts=pulumi.ResourceOptions(parent=self, retain_on_delete=True),
                )
            )
        return made

    def _elastic(self, name: str, system: Elastic) -> pulumi.Resource:
        return kubernetes.storage.v1.StorageClass(
            f"{name}-class-{system.config.name}",
            metadata={"name": system.config.name},
            provisioner=EFS_DRIVER,
            parameters={
                "provisioningMode": "efs-ap",
                "fileSystemId": system.file_system.id,
                "directoryPerms": "700",
                "basePath": EFS_BASE,
                "subPathPattern": "${.PVC.namespace}/${.PVC.name}",
                "ensureUniqueDirectory": "true",
            },
            mount_options=["tls"],
            reclaim_policy="Retain",
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(system.targets.values())),
        )
