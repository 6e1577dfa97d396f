"""Google's NCCL plugins on GKE nodes: an installer, and the device injector of their daemons.

The pods are privileged on purpose and in kube-system: they load a module, bind the NICs' apertures
and place the plugin on the node's disk, so that training pods need nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.fabric.fleet import patience
from components.fabric.objects import FabricArgs, Objects
from railhead.catalog.versions import PARTS
from railhead.fabric.gke import GkeFabric as Section
from railhead.fabric.kinds import FABRICS
from railhead.fabric.plugin import NodePlugin
from railhead.model.cluster import Cluster

NAMESPACE = "kube-system"
_PRIVILEGED = {"privileged": True}
#: Gives containers the devices that an annotation of their pod lists.
DEVICE_INJECTOR, PAUSE = PARTS["nri-device-injector"].images


@dataclass(frozen=True, kw_only=True)
class GkeFabricArgs:
    """Arguments of :class:`GkeFabric`."""

    cluster: Cluster
    plugin: NodePlugin
    after: Sequence[pulumi.Resource] = ()


def _daemon_set(name: str, pod: dict[str, Any], affinity: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": name}
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "priorityClassName": "system-node-critical",
                # Before anything else may be there, whatever the pool is tainted with.
                "tolerations": [{"operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": affinity}]
                        }
                    }
                },
                "automountServiceAccountToken": False,
                **pod,
            },
        },
    }


def installer(plugin: NodePlugin) -> dict[str, Any]:
    """The DaemonSet's spec that puts a plugin on its nodes."""
    volumes = [
        {"name": f"host-{index}", "hostPath": {"path": host, "type": "DirectoryOrCreate"}}
        for index, (host, _) in enumerate(plugin.mounts)
    ]
    mounts = [
        {"name": f"host-{index}", "mountPath": mount}
        for index, (_, mount) in enumerate(plugin.mounts)
    ]
    steps: list[dict[str, Any]] = []
    if plugin.prepare:
        steps.append(
            {
                "name": "prepare",
                "image": plugin.installer.reference,
                # The node's own mounts and network, in which these commands are meant.
                "command": ["nsenter", "-at", "1", "--", "sh", "-c", plugin.prepare],
                "securityContext": _PRIVILEGED,
            }
        )
    steps.append(
        {
            "name": "install",
            "image": plugin.installer.reference,
            "command": ["sh", "-c", plugin.script],
            "resources": {"requests": {"cpu": "150m"}},
            "securityContext": _PRIVILEGED,
            "volumeMounts": mounts,
        }
    )
    pod = {
        "hostNetwork": True,
        "hostPID": True,
        "initContainers": steps,
        "containers": [{"name": "pause", "image": PAUSE.reference}],
        "volumes": volumes,
    }
    on = [
        {
            "key": "cloud.google.com/gke-accelerator",
            "operator": "In",
            "values": list(plugin.accelerators),
        }
    ]
    return _daemon_set(f"railhead-{plugin.name}-installer", pod, on)


def injector() -> dict[str, Any]:
    """The DaemonSet's spec of GKE's device injector."""
    pod = {
        "hostNetwork": True,
        "hostPID": True,
        "containers": [
            {
                "name": "device-injector",
                "image": DEVICE_INJECTOR.reference,
                "resources": {"requests": {"cpu": "150m"}},
                "securityContext": _PRIVILEGED,
                "volumeMounts": [
                    {"name": "dev", "mountPath": "/dev"},
                    {"name": "nri", "mountPath": "/var/run/nri"},
                ],
            }
        ],
        "volumes": [
            {"name": "dev", "hostPath": {"path": "/dev"}},
            {"name": "nri", "hostPath": {"path": "/var/run/nri"}},
        ],
    }
    on = [{"key": "cloud.google.com/gke-gpu", "operator": "Exists"}]
    return _daemon_set("railhead-device-injector", pod, on)


class GkeFabric(pulumi.ComponentResource):
    """The DaemonSets of a fabric's plugin."""

    def __init__(
        self, name: str, args: GkeFabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:GkeFabric", name, None, opts)
        found: dict[str, Any] = {f"railhead-{args.plugin.name}-installer": installer(args.plugin)}
        if args.plugin.injector:
            found["railhead-device-injector"] = injector()
        for daemon_set, spec in found.items():
            kubernetes.apps.v1.DaemonSet(
                f"{name}-{daemon_set.removeprefix('railhead-')}",
                metadata={
                    "name": daemon_set,
                    "namespace": NAMESPACE,
                    "annotations": {"pulumi.com/timeoutSeconds": str(patience(args.cluster))},
                },
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
        self.register_outputs({"daemon_sets": list(found)})


def installed(
    name: str,
    cluster: Cluster,
    install: bool,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """The plugin of the cluster's fabric, where it has one and the stack installs it."""
    plugin = FABRICS[cluster.fabric.kind].plugin
    if plugin is None or not install:
        return []
    args = GkeFabricArgs(cluster=cluster, plugin=plugin, after=after)
    return [GkeFabric(f"{name}-gke", args, opts=opts)]


class GkeObjects(Objects):
    """Google's plugin; the platform makes the networks."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """The installer, and the injector where its daemon needs one."""
        fabric = args.cluster.fabric
        install = isinstance(fabric, Section) and fabric.install
        return installed(name, args.cluster, install, after, opts)
