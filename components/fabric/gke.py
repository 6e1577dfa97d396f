"""Google's NCCL plugins on GKE nodes: an installer, and the device injector of their daemons.

The pods are privileged on purpose and in kube-system: they load a module, bind the NICs' apertures
and place the plugin on the node's disk, so that training pods need nothing of the kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.catalog.digests import exact
from railhead.catalog.versions import PARTS, mirrored
from railhead.components.fabric.objects import FabricArgs, ModeObjects
from railhead.fabric.gke import GkeFabric as Section
from railhead.fabric.plugin import NodePlugin

NAMESPACE = "kube-system"
_PRIVILEGED = {"privileged": True}
#: Gives containers the devices that an annotation of their pod lists.
DEVICE_INJECTOR, PAUSE = PARTS["nri-device-injector"].images


@dataclass(frozen=True, kw_only=True)
class GkeFabricArgs:
    """Arguments of :class:`GkeFabric`.

    Args:
        plugin: Google's plugin for one fabric: its image, its script, and the machines it is for
            (a fabric's ``node_plugin``).
        registry_mirrors: registry -> what takes its place in the images.
        after: resources that must exist before the DaemonSets.
    """

    plugin: NodePlugin
    registry_mirrors: Mapping[str, str] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


# The node's own, where plugins' libraries are; the marker is the last thing that is written.
_NODE, _INSIDE = "/home/kubernetes/bin", "/host/bin"
_BEFORE = """set -e
marker="/host/bin/railhead/$PLUGIN"
complete() {
  for library in $LIBRARIES; do
    [ -e "/host/bin/$library" ] || { echo "$library is not there"; return 1; }
  done
}
if [ "$(cat "$marker" 2>/dev/null)" = "$VERSION" ] && complete; then
  echo "$PLUGIN $VERSION is there"
  exit 0
fi
rm -f "$marker"
"""
_AFTER = """complete
mkdir -p /host/bin/railhead
printf %s "$VERSION" > "$marker.new"
mv "$marker.new" "$marker"
"""


def install_script(plugin: NodePlugin) -> str:
    """Return the installer's script: it does nothing on a node that has this version already.

    The plugin's own part copies with ``--remove-destination``: a rank that has a library open keeps
    the one it has.
    """
    return f"{_BEFORE}{plugin.script}{_AFTER}"


def _daemon_set(
    name: str, pod: dict[str, Any], accelerators: Sequence[str], strategy: dict[str, Any]
) -> dict[str, Any]:
    on = [
        {
            "key": "cloud.google.com/gke-accelerator",
            "operator": "In",
            "values": list(accelerators),
        }
    ]
    labels = {"app.kubernetes.io/name": name}
    return {
        "selector": {"matchLabels": labels},
        "updateStrategy": strategy,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "priorityClassName": "system-node-critical",
                # Before anything else may be there, whatever the pool is tainted with.
                "tolerations": [{"operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": on}]
                        }
                    }
                },
                "automountServiceAccountToken": False,
                **pod,
            },
        },
    }


def installer(plugin: NodePlugin, mirrors: Mapping[str, str]) -> dict[str, Any]:
    """Return the DaemonSet's spec that puts a plugin on its nodes."""
    volumes = [
        {"name": f"host-{index}", "hostPath": {"path": host, "type": "DirectoryOrCreate"}}
        for index, (host, _) in enumerate(plugin.mounts)
    ]
    mounts = [
        {"name": f"host-{index}", "mountPath": mount}
        for index, (_, mount) in enumerate(plugin.mounts)
    ]
    volumes.append({"name": "bin", "hostPath": {"path": _NODE, "type": "DirectoryOrCreate"}})
    mounts.append({"name": "bin", "mountPath": _INSIDE})
    environment = {
        "PLUGIN": plugin.name,
        "VERSION": plugin.release,
        "LIBRARIES": " ".join(plugin.libraries),
    }
    steps: list[dict[str, Any]] = []
    if plugin.prepare:
        steps.append(
            {
                "name": "prepare",
                "image": mirrored(exact(plugin.installer.reference), mirrors),
                # The node's own mounts and network, in which these commands are meant.
                "command": ["nsenter", "-at", "1", "--", "sh", "-c", plugin.prepare],
                "securityContext": _PRIVILEGED,
            }
        )
    steps.append(
        {
            "name": "install",
            "image": mirrored(exact(plugin.installer.reference), mirrors),
            "command": ["sh", "-c", install_script(plugin)],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "resources": {"requests": {"cpu": "150m"}},
            "securityContext": _PRIVILEGED,
            "volumeMounts": mounts,
        }
    )
    pod = {
        "hostNetwork": True,
        "hostPID": True,
        "initContainers": steps,
        "containers": [{"name": "pause", "image": mirrored(exact(PAUSE.reference), mirrors)}],
        "volumes": volumes,
    }
    # A rollout in the middle of jobs would leave the pods of one with two versions: the vendor asks
    # for none to be running (gpudirect-tcpxo/README.md, How to upgrade). Who drains a node
    # deletes the installer's pod on it; the gate says which nodes have the older one.
    strategy = {"type": "OnDelete"}
    return _daemon_set(f"railhead-{plugin.name}-installer", pod, plugin.accelerators, strategy)


def injector(plugin: NodePlugin, mirrors: Mapping[str, str]) -> dict[str, Any]:
    """Return the DaemonSet's spec of GKE's device injector, on the nodes of a plugin's machines."""
    pod = {
        "hostNetwork": True,
        "hostPID": True,
        "containers": [
            {
                "name": "device-injector",
                "image": mirrored(exact(DEVICE_INJECTOR.reference), mirrors),
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
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    return _daemon_set("railhead-device-injector", pod, plugin.accelerators, strategy)


class GkeFabric(pulumi.ComponentResource):
    """The DaemonSets of Google's NCCL plugin: its installer, and a device injector if needed."""

    def __init__(
        self, name: str, args: GkeFabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:GkeFabric", name, None, opts)
        results: dict[str, Any] = {
            f"railhead-{args.plugin.name}-installer": installer(args.plugin, args.registry_mirrors)
        }
        if args.plugin.injector:
            results["railhead-device-injector"] = injector(args.plugin, args.registry_mirrors)
        for daemon_set, spec in results.items():
            kubernetes.apps.v1.DaemonSet(
                f"{name}-{daemon_set.removeprefix('railhead-')}",
                metadata={
                    "name": daemon_set,
                    "namespace": NAMESPACE,
                    # Pods of a DaemonSet that waits for deletions are not new until then, nor do
                    # a thousand nodes wait for a dead one; the gate holds jobs back from nodes
                    # without it (pulumi-kubernetes 4.34, provider/pkg/await/daemonset.go).
                    "annotations": {"pulumi.com/skipAwait": "true"},
                },
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
        self.register_outputs({"daemon_sets": list(results)})


def installed(
    name: str,
    args: FabricArgs,
    install: bool,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Return the plugin of the fabric, where it has one and the stack installs it."""
    plugin = args.fabric.node_plugin
    if plugin is None or not install:
        return []
    wanted = GkeFabricArgs(plugin=plugin, registry_mirrors=args.registry_mirrors, after=after)
    return [GkeFabric(f"{name}-gke", wanted, opts=opts)]


class GkeObjects(ModeObjects):
    """Google's plugin; the platform makes the networks."""

    def after_gpus(
        self,
        name: str,
        args: FabricArgs,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """Return the installer, and the injector where its daemon needs one."""
        install = isinstance(args.fabric, Section) and args.fabric.install
        return installed(name, args, install, after, opts)
