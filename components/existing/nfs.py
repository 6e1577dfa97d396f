"""NFS by its CSI driver: the driver's release, and a storage class for each share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.controllers.gpu_operator import MAX_UNAVAILABLE
from railhead.catalog.versions import Controller
from railhead.platform.existing.storage import NfsClassConfig, NfsConfig

DRIVER = "nfs.csi.k8s.io"


@dataclass(frozen=True, kw_only=True)
class NfsArgs:
    """Arguments of :class:`Nfs`; ``cluster`` is what one share's clusters are told apart by."""

    cluster: str
    config: NfsConfig
    driver: Controller


def values(config: NfsConfig) -> dict[str, Any]:
    """Values of the chart; what is not said is the chart's.

    Its node plugin tolerates everything, and is privileged: it mounts for pods.
    """
    return {
        "kubeletDir": config.kubelet_directory,
        "controller": {
            # It asks for definitions of snapshots, which the stack does not bring.
            "enableSnapshotter": False,
            # Of volumes that no class of the stack made, too.
            "defaultOnDeletePolicy": "retain",
        },
        "node": {"maxUnavailable": MAX_UNAVAILABLE},
    }


def parameters(cluster: str, config: NfsClassConfig) -> dict[str, str]:
    """Of the storage class (csi-driver-nfs, docs/driver-parameters.md)."""
    return {
        "server": config.server,
        "share": config.share,
        # One that can be found again: a claim that is made anew has its old data.
        "subDir": f"{cluster}/${{pvc.metadata.namespace}}/${{pvc.metadata.name}}",
        # The driver's default removes the directory with the volume.
        "onDelete": "retain",
        # Without, it is root's alone, and so no image's that runs as somebody. Who reaches the
        # directory is the server's matter, and whose pods mount the claim is Kubernetes'.
        "mountPermissions": "0777",
    }


class Nfs(pulumi.ComponentResource):
    """The driver, and the classes that it serves."""

    release: kubernetes.helm.v3.Release
    classes: Sequence[kubernetes.storage.v1.StorageClass]

    def __init__(
        self, name: str, args: NfsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:existing:Nfs", name, None, opts)
        self.release = charts.release(
            f"{name}-release",
            args.driver,
            values(args.config),
            pulumi.ResourceOptions(parent=self),
            wait=False,
        )
        self.classes = [
            kubernetes.storage.v1.StorageClass(
                f"{name}-{config.name}",
                metadata={"name": config.name},
                provisioner=DRIVER,
                parameters=parameters(args.cluster, config),
                mount_options=list(config.mount_options),
                reclaim_policy="Retain",
                volume_binding_mode="Immediate",
                allow_volume_expansion=True,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
            )
            for config in args.config.classes
        ]
        self.register_outputs({"classes": [config.name for config in args.config.classes]})
