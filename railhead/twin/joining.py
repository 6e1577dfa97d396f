"""Nodes of groups and pools and pods of add-ons, as a cloud brings them into the cluster.

The cloud's provider is a process of the engine's; it leaves its requests in a folder, and the twin
carries them out in its loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.twin import gke, machines
from railhead.twin.truth import Node, Taint
from railhead.twin.workloads import EVERYWHERE, workload
from railhead.twin.world import Body, World

_CRITICAL = [{"key": "CriticalAddonsOnly", "operator": "Exists"}]
_DRIVERS: Mapping[str, str] = {
    "aws-fsx-csi-driver": "fsx.csi.aws.com",
    "aws-efs-csi-driver": "efs.csi.aws.com",
    "aws-ebs-csi-driver": "ebs.csi.aws.com",
}


@dataclass
class Joining:
    """Requests of a cloud's provider, carried out in their order.

    Args:
        folder: where they lie.
        world: the cluster.
        add: makes a node.
        remove: takes a node away with its pods.
    """

    folder: Path
    world: World
    add: Callable[[Node], None]
    remove: Callable[[str], None]
    _groups: dict[str, dict[str, Node]] = field(default_factory=dict)
    _requests: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def turn(self) -> None:
        """Carry out what there is."""
        for file in sorted(self.folder.glob("*.json")):
            request = json.loads(file.read_text())
            {
                "group": self._group,
                "scale": self._scale,
                "cluster": self._cluster,
                "addon": self._addon,
                "addon-gone": self._addon_gone,
            }[request["do"]](request)
            file.unlink()

    def _group(self, request: Mapping[str, Any]) -> None:
        name, there = request["group"], self._groups.setdefault(request["group"], {})
        self._requests[name] = {**request, "rolled": False}
        if request["rolled"]:
            for old in sorted(there):
                self.remove(old)
            there.clear()
        wanted = {}
        for number in range(int(request["nodes"])):
            node = built(request, number)
            wanted[node.name] = node
        for gone in sorted(set(there) - set(wanted)):
            self.remove(gone)
            there.pop(gone)
        for node in wanted.values():
            if node.name not in there:
                self.add(node)
            elif there[node.name] != node:
                self._changed(there[node.name], node)
            there[node.name] = node

    def _changed(self, before: Node, node: Node) -> None:
        """Set labels and taints of a node that is there, as EKS does in place."""
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node.name}}
        labels: dict[str, Any] = dict.fromkeys(set(before.labels) - set(node.labels))
        self.world.patch(
            body,
            {
                "metadata": {"labels": labels | dict(node.labels)},
                "spec": {"taints": [t.model_dump() for t in node.taints]},
            },
        )
        self.world.hardware[node.name] = node

    def _scale(self, request: Mapping[str, Any]) -> None:
        if (last := self._requests.get(request["group"])) is not None:
            self._group({**last, "nodes": request["nodes"]})

    def queued(self) -> list[Mapping[str, Any]]:
        """Return the pools whose nodes come for a ProvisioningRequest alone."""
        return [r for r in self._requests.values() if r["capacity"] == "queued"]

    def _cluster(self, request: Mapping[str, Any]) -> None:
        for body in gke.brought(request["addons"]):
            self.world.apply(body)

    def _addon(self, request: Mapping[str, Any]) -> None:
        for body in addon(request["addon"]):
            self.world.apply(body)

    def _addon_gone(self, request: Mapping[str, Any]) -> None:
        for body in addon(request["addon"]):
            self.world.delete(body)


#: What a request says of its group or pool, not of a node.
_OF_GROUP = frozenset({"do", "nodes", "rolled", "cloud", "most"})


def built(request: Mapping[str, Any], number: int, **more: Any) -> Node:
    """Return a node of a group or pool, by what its cloud's provider asked for."""
    given = {k: v for k, v in request.items() if k not in _OF_GROUP}
    given |= {"taints": [Taint(**taint) for taint in request["taints"]], **more}
    make: Callable[..., Node] = machines.on_gcp if request["cloud"] == "gcp" else machines.on_aws
    return make(number=number, **given)


def addon(name: str) -> list[Body]:
    """Return the pods of an EKS add-on: on every node, or a few anywhere."""
    if name == "coredns":
        return [workload("Deployment", "coredns", _CRITICAL, replicas=2)]
    driver = _DRIVERS.get(name)
    if driver is None:
        return [workload("DaemonSet", name, EVERYWHERE)]
    return [
        workload("Deployment", f"{name}-controller", _CRITICAL, role="provisioner", driver=driver),
        workload("DaemonSet", f"{name}-node", EVERYWHERE, role="mounter", driver=driver),
    ]
