"""NFS by its CSI driver: the driver's release, and a storage class for each share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.controllers import charts
from railhead.components.controllers.gpu_operator import MAX_UNAVAILABLE
from railhead.platform.existing.storage import NfsClassConfig

DRIVER = "nfs.csi.k8s.io"


@dataclass(frozen=True, kw_only=True)
class NfsArgs:
    """Arguments of :class:`Nfs`.

    Args:
        chart: the chart of csi-driver-nfs.
        directory: the directory of each share that has the claims' directories below it; each
            cluster's own, where clusters use one share.
        kubelet_directory: kubelet's directory on the nodes.
        classes: a storage class each, with its server, share and mount options.
    """

    chart: charts.Chart
    directory: str
    kubelet_directory: str = "/var/lib/kubelet"
    classes: Sequence[NfsClassConfig]


def values(kubelet_directory: str) -> dict[str, Any]:
    """Values of the chart; what is not said is the chart's.

    Its node plugin tolerates everything, and is privileged: it mounts for pods.
    """
    return {
        "kubeletDir": kubelet_directory,
        "controller": {
            # It asks for definitions of snapshots, which the stack does not bring.
            "enableSnapshotter": False,
            # Of volumes that no class of the stack made, too.
            "defaultOnDeletePolicy": "retain",
        },
        # By the chart's default kubelet gives every file to a pod's fsGroup. It marks a claim that
        # is done by setgid, which `mountPermissions` takes off again (driver v4.13.4,
        # pkg/nfs/utils.go: chmodIfPermissionMismatch): each pod would walk the whole claim.
        "feature": {"enableFSGroupPolicy": False},
        "node": {"maxUnavailable": MAX_UNAVAILABLE},
    }


def parameters(directory: str, config: NfsClassConfig) -> dict[str, str]:
    """Return the storage class's parameters (csi-driver-nfs, docs/driver-parameters.md)."""
    return {
        "server": config.server,
        "share": config.share,
        # One that can be found again: a claim that is recreated has its old data.
        "subDir": f"{directory}/${{pvc.metadata.namespace}}/${{pvc.metadata.name}}",
        # The driver's default removes the directory with the volume.
        "onDelete": "retain",
        # The driver sets it at creation and again at every mount (pkg/nfs/nodeserver.go, v4.13.4);
        # 0 is never. Then a directory is root's alone at first.
        "mountPermissions": "0" if config.mode == "keep" else config.mode,
    }


class Nfs(pulumi.ComponentResource):
    """The driver, and the classes that it serves.

    Attributes:
        release: the driver's Helm release.
        classes: the storage classes.
    """

    release: kubernetes.helm.v3.Release
    classes: Sequence[kubernetes.storage.v1.StorageClass]

    def __init__(
        self, name: str, args: NfsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:existing:Nfs", name, None, opts)
        self.release = charts.release(
            f"{name}-release",
            args.chart,
            values(args.kubelet_directory),
            pulumi.ResourceOptions(parent=self),
            wait=False,
        )
        self.classes = [
            kubernetes.storage.v1.StorageClass(
                f"{name}-{config.name}",
                metadata={"name": config.name},
                provisioner=DRIVER,
                parameters=parameters(args.directory, config),
                mount_options=list(config.mount_options),
                reclaim_policy="Retain",
                volume_binding_mode="Immediate",
                allow_volume_expansion=True,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release]),
            )
            for config in args.classes
        ]
        self.register_outputs({"classes": [config.name for config in args.classes]})
