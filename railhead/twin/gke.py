"""Objects that GKE brings into a cluster, and the player of its further networks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from railhead.twin.helm import definition
from railhead.twin.workloads import EVERYWHERE, workload
from railhead.twin.world import Body, Look, World

NETWORKS = "networking.gke.io/v1"
#: Add-on -> the input of the cluster that turns it on.
ADDONS: Mapping[str, str] = {
    "filestore": "gcpFilestoreCsiDriverConfig.enabled",
    "gcsfuse": "gcsFuseCsiDriverConfig.enabled",
    "lustre": "lustreCsiDriverConfig.enabled",
}
_KINDS = (
    {"group": "networking.gke.io", "version": "v1", "kind": "Network", "namespaced": False},
    {
        "group": "networking.gke.io",
        "version": "v1",
        "kind": "GKENetworkParamSet",
        "namespaced": False,
    },
    {"group": "autoscaling.x-k8s.io", "version": "v1", "kind": "ProvisioningRequest"},
)
#: The rows of truth that these objects follow.
ROWS: tuple[str, ...] = ("gcp.csi", "gcp.multinet-default")


def brought(addons: Iterable[str]) -> Iterator[Body]:
    """Yield the objects that are in a cluster as soon as GKE has made it."""
    for row in _KINDS:
        yield definition(row)
    terms = [
        {"key": f"cloud.google.com/{key}", "operator": "Exists"}
        for key in ("gke-accelerator", "gke-cpu-scaling-level")
    ]
    wanted = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}
    name = "nvidia-gpu-device-plugin-large-cos"
    yield workload("DaemonSet", name, EVERYWHERE, role="gpu-device-plugin", affinity=affinity)
    for addon in addons:
        driver = f"{addon}.csi.storage.gke.io"
        yield workload("DaemonSet", f"{addon}-node", EVERYWHERE, role="mounter", driver=driver)
    reference = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": "default"}
    yield {
        "apiVersion": NETWORKS,
        "kind": "Network",
        "metadata": {"name": "default"},
        "spec": {"type": "L3", "parametersRef": reference},
    }


def networks(world: World, look: Look) -> None:
    """Say which parameter sets are ready, and offer their networks on nodes with NICs in them."""
    named = {
        n["spec"]["parametersRef"]["name"]: n["metadata"]["name"]
        for n in world.list(NETWORKS, "Network")
        if n["spec"].get("type") == "Device"
    }
    sets = world.list(NETWORKS, "GKENetworkParamSet")
    taken: set[tuple[str, str]] = set()
    for item in sorted(sets, key=lambda s: s["metadata"]["creationTimestamp"]):
        place = (item["spec"]["vpc"], item["spec"]["vpcSubnet"])
        network = named.get(item["metadata"]["name"])
        _say(world, item, network, used="deviceMode" in item["spec"] and place in taken)
        if network is None or "deviceMode" not in item["spec"] or place in taken:
            continue
        taken.add(place)
        for name, node in look.nodes.items():
            machine = world.hardware.get(name)
            if machine is not None and place in machine.nics:
                for resource in (network, f"{network}.IP"):
                    world.offer(node, f"networking.gke.io.networks/{resource}", 1)


def _say(world: World, item: Body, network: str | None, *, used: bool) -> None:
    reason = "DeviceModeSubnetAlreadyInUse" if used else "GNPReady"
    condition = {"type": "Ready", "status": str(not used), "reason": reason}
    status: Body = {"conditions": [condition]}
    if network and not used:
        status["networkName"] = network
    if item.get("status") != status:
        world.patch(item, {"status": status}, status=True)
