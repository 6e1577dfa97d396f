"""Refusals of Google Cloud, by the rows of truth whose ids are here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from railhead.twin.account import Account, Dependants, Made, Unique, at, refuse

_CLUSTER = "gcp:container/cluster:Cluster"
_POOL = "gcp:container/nodePool:NodePool"
_CONNECTION = "gcp:servicenetworking/connection:Connection"
_LUSTRE = "gcp:lustre/instance:Instance"
#: What a producer keeps of a connection when its instance is gone, for hours to days.
HELD = "producer of private services access"
_NETWORK = "gcp:compute/network:Network"
_SUBNET = "gcp:compute/subnetwork:Subnetwork"
_ADDRESS = "gcp:compute/globalAddress:GlobalAddress"
_IN_NETWORK = {
    _SUBNET: ("network",),
    "gcp:compute/firewall:Firewall": ("network",),
    "gcp:compute/router:Router": ("network",),
    _ADDRESS: ("network",),
    _CLUSTER: ("network",),
}
UNIQUE: Mapping[str, Unique] = {
    _POOL: Unique(row="gcp.np-exists", keys=("cluster", "name")),
    **{
        f"gcp:compute/{kind[0].lower()}{kind[1:]}:{kind}": Unique(
            row="gcp.name-taken", keys=("region", "name")
        )
        for kind in (
            "Network",
            "Subnetwork",
            "Firewall",
            "Router",
            "GlobalAddress",
            "ResourcePolicy",
        )
    },
}
DEPENDANTS: Mapping[str, Dependants] = {
    _NETWORK: Dependants(row="gcp.network-in-use", users=_IN_NETWORK),
    _SUBNET: Dependants(
        row="gcp.subnet-in-use",
        users={
            _CLUSTER: ("subnetwork",),
            _POOL: ("networkConfig.additionalNodeNetworkConfigs",),
        },
    ),
}


def _flex(_: Account, pool: Made) -> None:
    node = pool.inputs.get("nodeConfig") or {}
    queued = at(pool.inputs, "queuedProvisioning.enabled")
    if node.get("spot") and (node.get("flexStart") or queued):
        refuse("gcp.spot-flex")
    if not node.get("flexStart"):
        return
    if at(pool.inputs, "management.autoRepair"):
        refuse("gcp.flex-autorepair")
    if at(node, "reservationAffinity.consumeReservationType") != "NO_RESERVATION":
        refuse("gcp.flex-reservation")
    if pool.inputs.get("nodeCount") is not None or not pool.inputs.get("autoscaling"):
        refuse("gcp.flex-static")
    least = ("totalMinNodeCount", "minNodeCount")
    if queued and any(int(at(pool.inputs, f"autoscaling.{key}") or 0) for key in least):
        refuse("gcp.queued-min")


def _reserved(_: Account, pool: Made) -> None:
    kind = at(pool.inputs, "nodeConfig.reservationAffinity.consumeReservationType")
    if at(pool.inputs, "nodeConfig.spot") and kind not in (None, "NO_RESERVATION"):
        refuse("gcp.spot-reservation")


def _placed(_: Account, pool: Made) -> None:
    if not pool.inputs.get("placementPolicy"):
        return
    machine = str(at(pool.inputs, "nodeConfig.machineType"))
    if at(pool.inputs, "queuedProvisioning.enabled"):
        refuse("gcp.placement-queued")
    if at(pool.inputs, "nodeConfig.flexStart") and machine.startswith(
        ("a2-", "a3-high", "a3-mega")
    ):
        refuse("gcp.placement-flex")
    if len(pool.inputs.get("nodeLocations") or ()) != 1:
        refuse("gcp.placement-single-zone")


def _disk(_: Account, pool: Made) -> None:
    machine = str(at(pool.inputs, "nodeConfig.machineType"))
    disk = str(at(pool.inputs, "nodeConfig.diskType") or "")
    if machine.startswith(("a3-ultra", "a4")) and disk.startswith("pd-"):
        refuse("gcp.disk-hyperdisk")
    if machine.startswith(("a3-high", "a3-mega")) and disk == "pd-standard":
        refuse("gcp.disk-a3")


def _sizes(_: Account, pool: Made) -> None:
    if pool.inputs.get("nodeCount") is not None and pool.inputs.get("initialNodeCount") is not None:
        refuse("gcp.np-count-both")
    surge = pool.inputs.get("upgradeSettings") or {"maxSurge": 1}
    if not surge.get("maxSurge") and not surge.get("maxUnavailable"):
        refuse("gcp.surge")


def _managed(account: Account, pool: Made) -> None:
    management = pool.inputs.get("management") or {}
    repair = management.get("autoRepair", True) or at(pool.inputs, "nodeConfig.flexStart")
    if repair and management.get("autoUpgrade", True):
        return
    channels = [at(c.inputs, "releaseChannel.channel") for c in account.of(_CLUSTER)]
    if any(channel not in (None, "UNSPECIFIED") for channel in channels):
        refuse("gcp.channel-autoupgrade")


def _maintained(_: Account, cluster: Made) -> None:
    window = at(cluster.inputs, "maintenancePolicy.recurringWindow")
    if window and hours_in_32_days(window) < 48:
        refuse("gcp.maintenance")


def hours_in_32_days(window: Mapping[str, Any]) -> float:
    """Return the hours that a recurring window leaves in any 32 days; without end if unknown."""
    start, end = (datetime.fromisoformat(window[key]) for key in ("startTime", "endTime"))
    rule = dict(part.split("=") for part in str(window["recurrence"]).split(";"))
    days = len(rule["BYDAY"].split(",")) if "BYDAY" in rule else 1
    times = {"DAILY": 32, "WEEKLY": 32 // 7 * days}.get(rule["FREQ"], 32)
    return (end - start).total_seconds() / 3600 * times


def _dataplane(_: Account, cluster: Made) -> None:
    two = cluster.inputs.get("datapathProvider") == "ADVANCED_DATAPATH"
    if cluster.inputs.get("enableMultiNetworking") and not two:
        refuse("gcp.multinet-dataplane")


def _services(account: Account, cluster: Made) -> None:
    name = at(cluster.inputs, "ipAllocationPolicy.servicesSecondaryRangeName")
    subnet = account.find(str(cluster.inputs.get("subnetwork")))
    for row in (subnet.inputs.get("secondaryIpRanges") if subnet else None) or ():
        if row["rangeName"] == name and int(row["ipCidrRange"].partition("/")[2]) < 16:
            refuse("gcp.services-range")


def _identity(account: Account, member: Made) -> None:
    pools = [at(c.inputs, "workloadIdentityConfig.workloadPool") for c in account.of(_CLUSTER)]
    if ".svc.id.goog" in str(member.inputs.get("member")) and not any(pools):
        refuse("gcp.identity-pool")


def _connected(account: Account, instance: Made) -> None:
    network = instance.inputs.get("network")
    connected = any(c.inputs.get("network") == network for c in account.of(_CONNECTION))
    # In a network that was there before, the connection was too.
    if not connected and any(n.id == network for n in account.of(_NETWORK)):
        refuse("gcp.lustre-connection")


def _addressed(account: Account, instance: Made) -> None:
    network = instance.inputs.get("network")
    mine = [a for a in account.of(_ADDRESS) if a.inputs.get("network") == network]
    there = [i for i in account.of(_LUSTRE) if i.inputs.get("network") == network]
    # In a network that was there before, the addresses were too.
    if mine and sum(2 ** (32 - int(a.inputs["prefixLength"])) >> 9 for a in mine) <= len(there):
        refuse("gcp.lustre-addresses")


def _unprotected(_: Account, cluster: Made) -> None:
    if cluster.inputs.get("deletionProtection", True):
        refuse("gcp.deletion-protection")


def _let_go(account: Account, connection: Made) -> None:
    how = connection.inputs.get("deletionPolicy")
    if how in ("ABANDON", "REMOVE_PEERING"):
        return
    holders = [*account.of(_LUSTRE), *account.of(HELD)]
    if any(h.inputs.get("network") == connection.inputs.get("network") for h in holders):
        refuse("gcp.connection-held")


def _not_peered(account: Account, network: Made) -> None:
    left = [h for h in account.of(HELD) if h.inputs.get("abandoned")]
    if any(h.inputs.get("network") == network.id for h in left):
        refuse("gcp.network-peered")


def left_behind(made: Made) -> Made | None:
    """Return what of a resource stays in the account when it is gone; often nothing."""
    if made.type == _LUSTRE:
        inputs = {"network": made.inputs.get("network")}
    elif made.type == _CONNECTION and made.inputs.get("deletionPolicy") == "ABANDON":
        inputs = {"network": made.inputs.get("network"), "abandoned": True}
    else:
        return None
    return Made(id=f"{made.id}-held", type=HELD, name=made.name, inputs=inputs)


CREATE: Mapping[str, tuple[Callable[[Account, Made], None], ...]] = {
    _CLUSTER: (_maintained, _dataplane, _services),
    _POOL: (_flex, _reserved, _placed, _disk, _sizes, _managed),
    _LUSTRE: (_connected, _addressed),
    "gcp:storage/bucketIAMMember:BucketIAMMember": (_identity,),
    "gcp:projects/iAMMember:IAMMember": (_identity,),
    "gcp:serviceaccount/iAMMember:IAMMember": (_identity,),
}
UPDATE: Mapping[str, tuple[Callable[[Account, Made, Made], None], ...]] = {
    _CLUSTER: (lambda account, _, made: _maintained(account, made),),
    _POOL: (
        lambda account, _, made: _sizes(account, made),
        lambda account, _, made: _managed(account, made),
    ),
}
DELETE: Mapping[str, tuple[Callable[[Account, Made], None], ...]] = {
    _CLUSTER: (_unprotected,),
    _CONNECTION: (_let_go,),
    _NETWORK: (_not_peered,),
}
#: The rows that the checks above follow.
CHECKED: tuple[str, ...] = (
    "gcp.channel-autoupgrade",
    "gcp.connection-held",
    "gcp.deletion-protection",
    "gcp.disk-a3",
    "gcp.disk-hyperdisk",
    "gcp.flex-autorepair",
    "gcp.flex-reservation",
    "gcp.flex-static",
    "gcp.identity-pool",
    "gcp.lustre-addresses",
    "gcp.lustre-connection",
    "gcp.maintenance",
    "gcp.multinet-dataplane",
    "gcp.network-peered",
    "gcp.np-count-both",
    "gcp.placement-flex",
    "gcp.placement-queued",
    "gcp.placement-single-zone",
    "gcp.queued-min",
    "gcp.services-range",
    "gcp.spot-flex",
    "gcp.spot-reservation",
    "gcp.surge",
)
