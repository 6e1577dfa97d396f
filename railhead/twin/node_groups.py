"""EKS' node groups and add-ons in a twin."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.lab.recorders.answers import ZONES
from railhead.twin.account import Made, RefusalError
from railhead.twin.asking import Asking, taints, until
from railhead.twin.refusals.aws import fabric_interface, machine_types

#: The rows of truth that nodes of groups and add-ons follow.
ROWS: tuple[str, ...] = ("aws.mng-delete", "aws.mng-join-timeout", "aws.addon-degraded")


@dataclass
class NodeGroups(Asking):
    """The nodes of EKS' node groups: they come, go and change as their group does."""

    def follow(self, operation: str, made: Made, before: Made | None) -> None:
        """Bring the twin's nodes to what a group says, or an add-on's pods.

        Raises:
            RefusalError: no node of it can become ready, or an add-on has no node.
        """
        if made.type == "aws:eks/nodeGroup:NodeGroup":
            self._group(operation, made, before)
        elif made.type == "aws:eks/addon:Addon":
            self._addon(operation, made)

    def _group(self, operation: str, made: Made, before: Made | None) -> None:
        account = self.account()
        name = made.inputs["nodeGroupName"]
        if operation == "delete":
            self.request("scale", group=name, nodes=0)
            self._wait(name, 0)
            return
        template = account.find(str(made.inputs.get("launchTemplate", {}).get("id", "")))
        subnet = account.find(str(made.inputs["subnetIds"][0]))
        known = ZONES.get(str(made.inputs["subnetIds"][0]), "us-east-2a")
        zone = str(subnet.inputs.get("availabilityZone") if subnet else known)
        interfaces = (template.inputs if template else {}).get("networkInterfaces") or ()
        nodes = int(made.inputs["scalingConfig"]["desiredSize"])
        rolled = before is not None and (
            before.inputs.get("launchTemplate") != made.inputs.get("launchTemplate")
            or before.inputs.get("version") != made.inputs.get("version")
        )
        self.request(
            "group",
            cloud="aws",
            group=name,
            machine=machine_types(account, made)[0],
            image=made.inputs.get("amiType") or "",
            zone=zone,
            labels=made.inputs.get("labels") or {},
            taints=taints(made.inputs.get("taints")),
            capacity=made.inputs.get("capacityType") or "ON_DEMAND",
            efa=len([i for i in interfaces if fabric_interface(i)]),
            nodes=nodes,
            rolled=rolled,
        )
        self._wait(name, nodes)

    def _wait(self, group: str, nodes: int) -> None:
        if not self.reached(f"eks.amazonaws.com/nodegroup={group}", nodes):
            raise RefusalError(
                "aws.mng-join-timeout",
                f"NodeCreationFailure: group {group} has not {nodes} nodes",
            )

    def _addon(self, operation: str, made: Made) -> None:
        name = made.inputs["addonName"]
        self.request("addon" if operation != "delete" else "addon-gone", addon=name)
        if operation == "delete" or name != "coredns":
            return
        if not until(self._resolves, limit_s=45.0):
            raise RefusalError(
                "aws.addon-degraded",
                "coredns stays DEGRADED: InsufficientNumberOfReplicas, no node",
            )

    def _resolves(self) -> bool:
        """Return whether a pod of coredns is available."""
        there = self.find("/apis/apps/v1/namespaces/kube-system/deployments/coredns") or {}
        return bool((there.get("status") or {}).get("availableReplicas"))
