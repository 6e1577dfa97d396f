"""GKE's clusters and node pools in a twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.twin.account import Account, Made, at, refuse
from railhead.twin.asking import Asking, taints, until
from railhead.twin.gke import ADDONS, NETWORKS

CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"
POLICY = "gcp:compute/resourcePolicy:ResourcePolicy"
#: What makes GKE replace a pool's nodes, and is no replacement of the pool.
_ROLLS = ("machineType", "diskType", "diskSizeGb", "imageType", "kubeletConfig", "linuxNodeConfig")
#: The rows of truth that node pools follow.
ROWS: tuple[str, ...] = ("gcp.np-error",)


@dataclass
class Pools(Asking):
    """The nodes of GKE's pools, and what comes with a cluster."""

    def follow(self, operation: str, made: Made, before: Made | None) -> None:
        """Bring the twin's nodes to what a pool says, or the cluster's own objects.

        Raises:
            RefusalError: the nodes do not come.
        """
        if made.type == CLUSTER and operation != "delete":
            self._cluster(made)
        elif made.type == POOL:
            self._pool(operation, made, before)

    def _cluster(self, made: Made) -> None:
        addons = [name for name, key in ADDONS.items() if at(made.inputs, f"addonsConfig.{key}")]
        self.request("cluster", addons=addons)
        until(lambda: self.find(f"/apis/{NETWORKS}/networks/default"), limit_s=30.0)

    def _pool(self, operation: str, made: Made, before: Made | None) -> None:
        name, node = made.inputs["name"], made.inputs["nodeConfig"]
        selector = f"cloud.google.com/gke-nodepool={name}"
        if operation == "delete":
            self.request("scale", group=name, nodes=0)
            self.reached(selector, 0)
            return
        account = self.account()
        old = (before.inputs["nodeConfig"] if before else None) or {}
        nodes, capacity = _nodes(made.inputs), _capacity(made.inputs)
        self.request(
            "group",
            cloud="gcp",
            cluster=_cluster_name(account, made),
            group=name,
            machine=node["machineType"],
            zone=made.inputs["nodeLocations"][0],
            labels=node.get("labels") or {},
            taints=taints(node.get("taints")),
            capacity=capacity,
            driver=_driver(node),
            placed=list(_placed(account, made.inputs)),
            nics=[
                [nic["network"], nic["subnetwork"]]
                for nic in at(made.inputs, "networkConfig.additionalNodeNetworkConfigs") or ()
            ],
            nodes=nodes,
            most=int(at(made.inputs, "autoscaling.totalMaxNodeCount") or nodes),
            rolled=before is not None and any(old.get(k) != node.get(k) for k in _ROLLS),
        )
        if capacity != "queued" and not self.reached(selector, nodes):
            refuse("gcp.np-error", f": {name} has not {nodes} nodes")


def _cluster_name(account: Account, pool: Made) -> str:
    cluster = account.find(str(pool.inputs["cluster"]))
    return str(cluster.inputs["name"]) if cluster else str(pool.inputs["cluster"])


def _nodes(inputs: Mapping[str, Any]) -> int:
    """Return the nodes of a pool before a pod asks for more."""
    for key in ("nodeCount", "initialNodeCount", "autoscaling.totalMinNodeCount"):
        if (count := at(inputs, key)) is not None:
            return int(count)
    return 0


def _capacity(inputs: Mapping[str, Any]) -> str:
    if at(inputs, "queuedProvisioning.enabled"):
        return "queued"
    if at(inputs, "nodeConfig.flexStart"):
        return "flex-start"
    return "spot" if at(inputs, "nodeConfig.spot") else "standard"


def _driver(node: Mapping[str, Any]) -> str:
    for accelerator in node.get("guestAccelerators") or ():
        version = at(accelerator, "gpuDriverInstallationConfig.gpuDriverVersion")
        return str(version or "DEFAULT").lower()
    return ""


def _placed(account: Account, inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of a pool may give its nodes topology labels."""
    name = at(inputs, "placementPolicy.policyName")
    own = [p for p in account.of(POLICY) if name and p.inputs.get("name") == name]
    if inputs.get("placementPolicy"):
        yield "policy" if any(p.inputs.get("workloadPolicy") for p in own) else "compact"
    affinity = at(inputs, "nodeConfig.reservationAffinity.consumeReservationType")
    if affinity == "SPECIFIC_RESERVATION":
        yield "reservation"
    elif _capacity(inputs) == "standard":
        yield "on-demand"
