"""Google Cloud's side of the twin: nodes, refusals, networks, requests for nodes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from railhead.twin import gke, machines, provisioning
from railhead.twin.account import Account, Made, RefusalError
from railhead.twin.refusals import on_create, on_delete
from railhead.twin.refusals.gcp import hours_in_32_days, left_behind
from railhead.twin.truth import Node, Taint
from tests.unit.twin.test_players import Recorded, look

POOL = "gcp:container/nodePool:NodePool"
CLUSTER = "gcp:container/cluster:Cluster"
NETWORK = "gcp:compute/network:Network"
SUBNET = "gcp:compute/subnetwork:Subnetwork"
CONNECTION = "gcp:servicenetworking/connection:Connection"
LUSTRE = "gcp:lustre/instance:Instance"
ADDRESS = "gcp:compute/globalAddress:GlobalAddress"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
LAYER = "cloud.google.com/gce-topology-"
NO_RESERVATION = {"consumeReservationType": "NO_RESERVATION"}
FLEX = {"flexStart": True, "reservationAffinity": NO_RESERVATION, "machineType": "a3-megagpu-8g"}
QUEUED = {"enabled": True}
GROWS = {"totalMinNodeCount": 0, "totalMaxNodeCount": 4}
KEPT = {"autoRepair": True, "autoUpgrade": True}
REPAIRED_BY_NOBODY = {"autoRepair": False, "autoUpgrade": True}


def made(kind: str, name: str = "x", /, **inputs: Any) -> Made:
    return Made(id=f"{name}-id", type=kind, name=name, inputs=inputs)


def account(*resources: Made) -> Account:
    return Account({resource.id: resource for resource in resources})


def refused(row: str) -> Any:
    return pytest.raises(RefusalError, match=rf"\[gcp\.{row}\]")


def node(
    machine: str = "a3-megagpu-8g",
    capacity: str = "standard",
    *placed: str,
    driver: str = "latest",
) -> Node:
    return machines.on_gcp(
        cluster="c",
        group="gpu",
        machine=machine,
        zone="us-central1-c",
        number=0,
        labels={"railhead.dev/pool": "gpu"},
        taints=[Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")],
        capacity=capacity,
        driver=driver,
        placed=placed,
        nics=[("vpc1", "subnet1")],
    )


def test_gke_brings_a_driver_unless_it_is_told_not_to() -> None:
    assert "gpu-driver" in node(driver="default").host
    assert "gpu-driver" not in node(driver="installation_disabled").host


@pytest.mark.parametrize(
    ("machine", "capacity", "placed", "labelled"),
    [
        ("a3-megagpu-8g", "standard", ("reservation",), False),
        ("a3-megagpu-8g", "standard", ("compact", "reservation"), True),
        ("a3-ultragpu-8g", "standard", ("reservation",), True),
        ("a3-ultragpu-8g", "spot", (), False),
        ("a3-megagpu-8g", "queued", (), False),
        ("a3-megagpu-8g", "queued", ("any",), True),
    ],
)
def test_placement_gives_nodes_their_topology_labels(
    machine: str, capacity: str, placed: tuple[str, ...], labelled: bool
) -> None:
    labels = node(machine, capacity, *placed).labels
    assert any(key.startswith(LAYER) for key in labels) is labelled


def test_queued_nodes_have_a_taint_that_others_lack() -> None:
    assert [t.key for t in node().taints] == ["nvidia.com/gpu"]
    assert "cloud.google.com/gke-queued" in [t.key for t in node(capacity="queued").taints]
    system = node("e2-standard-16")
    assert "cloud.google.com/gke-accelerator" not in system.labels
    assert not system.gpus


def pool(node_config: dict[str, Any] | None = None, **more: Any) -> Made:
    inputs: dict[str, Any] = {"name": "p", "cluster": "c", "nodeConfig": node_config or {}}
    return made(POOL, "p", **(inputs | {"management": KEPT, "nodeLocations": ["a"]} | more))


def flex(node_config: dict[str, Any] | None = None, **more: Any) -> Made:
    given = {"management": REPAIRED_BY_NOBODY, "autoscaling": GROWS} | more
    return pool(FLEX | (node_config or {}), **given)


@pytest.mark.parametrize(
    ("row", "refuse"),
    [
        ("spot-flex", flex({"spot": True})),
        ("flex-autorepair", flex(management=KEPT)),
        ("flex-reservation", flex({"reservationAffinity": None})),
        ("flex-static", flex(autoscaling=None, nodeCount=2)),
        ("queued-min", flex(queuedProvisioning=QUEUED, autoscaling={"totalMinNodeCount": 1})),
        ("placement-queued", flex(queuedProvisioning=QUEUED, placementPolicy={"type": "COMPACT"})),
        ("placement-flex", flex(placementPolicy={"type": "COMPACT"})),
        (
            "placement-single-zone",
            pool(placementPolicy={"type": "COMPACT"}, nodeLocations=["a", "b"]),
        ),
        (
            "spot-reservation",
            pool({"spot": True, "reservationAffinity": {"consumeReservationType": "ANY"}}),
        ),
        ("disk-hyperdisk", pool({"machineType": "a3-ultragpu-8g", "diskType": "pd-ssd"})),
        ("disk-a3", pool({"machineType": "a3-megagpu-8g", "diskType": "pd-standard"})),
        ("surge", pool(upgradeSettings={"maxSurge": 0, "maxUnavailable": 0})),
        ("np-count-both", pool(nodeCount=1, initialNodeCount=1)),
        ("channel-autoupgrade", pool(management=REPAIRED_BY_NOBODY)),
        ("identity-pool", made(MEMBER, member="principalSet://x/p.svc.id.goog/namespace/n")),
        ("multinet-dataplane", made(CLUSTER, enableMultiNetworking=True)),
        (
            "maintenance",
            made(
                CLUSTER,
                maintenancePolicy={
                    "recurringWindow": {
                        "startTime": "2026-11-28T06:00:00Z",
                        "endTime": "2026-11-28T14:00:00Z",
                        "recurrence": "FREQ=WEEKLY;BYDAY=SA",
                    }
                },
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_gke_refuses(row: str, refuse: Made) -> None:
    channel = made(CLUSTER, "c", releaseChannel={"channel": "REGULAR"})
    with refused(row):
        on_create(account(channel), refuse)


def test_what_ships_is_not_refused() -> None:
    channel = made(CLUSTER, "c", releaseChannel={"channel": "REGULAR"})
    for fine in (pool(), flex(), flex(queuedProvisioning=QUEUED)):
        on_create(account(channel), fine)
    identities = made(CLUSTER, "c", workloadIdentityConfig={"workloadPool": "p.svc.id.goog"})
    on_create(account(identities), made(MEMBER, member="principalSet://x/p.svc.id.goog/n"))


def test_a_name_is_taken_until_it_is_gone() -> None:
    with refused("np-exists"):
        on_create(account(pool()), pool())
    with refused("name-taken"):
        on_create(account(made(NETWORK, name="n")), made(NETWORK, name="n"))


def test_a_window_of_two_days_a_week_is_long_enough() -> None:
    window = {"startTime": "2026-11-28T06:00:00Z", "endTime": "2026-11-28T14:00:00Z"}
    assert hours_in_32_days(window | {"recurrence": "FREQ=WEEKLY;BYDAY=SA,SU"}) == 64
    assert hours_in_32_days(window | {"recurrence": "FREQ=DAILY"}) == 256


def test_lustre_needs_its_networks_connection() -> None:
    network = made(NETWORK, "n")
    lustre = made(LUSTRE, network="n-id")
    with refused("lustre-connection"):
        on_create(account(network), lustre)
    on_create(account(network, made(CONNECTION, network="n-id")), lustre)
    on_create(account(), lustre)


def test_lustre_takes_a_block_of_its_own() -> None:
    """Managed Lustre documentation: a /23 for each; cluster-toolkit #5306: a /24 is too little."""
    way = made(CONNECTION, network="n-id")
    lustre = made(LUSTRE, "l", network="n-id")
    small, room = (made(ADDRESS, network="n-id", prefixLength=size) for size in (24, 23))
    with refused("lustre-addresses"):
        on_create(account(way, small), lustre)
    on_create(account(way, room), lustre)
    with refused("lustre-addresses"):
        on_create(account(way, room, lustre), made(LUSTRE, "m", network="n-id"))


def test_services_are_at_most_of_a_size() -> None:
    """rancher/rancher #32207: Services CIDR range is smaller than minimum (14 < 16)."""
    names = {"servicesSecondaryRangeName": "services"}
    cluster = made(CLUSTER, subnetwork="s-id", ipAllocationPolicy=names)
    for block, fine in (("10.0.0.0/15", False), ("10.0.0.0/16", True)):
        ranges = [{"rangeName": "services", "ipCidrRange": block}]
        there = account(made(SUBNET, "s", secondaryIpRanges=ranges))
        with contextlib.nullcontext() if fine else refused("services-range"):
            on_create(there, cluster)


def test_producers_hold_a_connection_when_their_instance_is_gone() -> None:
    held = left_behind(made(LUSTRE, network="n-id"))
    assert held is not None
    with refused("connection-held"):
        on_delete(account(held), made(CONNECTION, network="n-id"))
    on_delete(account(held), made(CONNECTION, network="n-id", deletionPolicy="REMOVE_PEERING"))
    abandoned = left_behind(made(CONNECTION, network="n-id", deletionPolicy="ABANDON"))
    assert abandoned is not None
    with refused("network-peered"):
        on_delete(account(abandoned), made(NETWORK, "n"))
    on_delete(account(held), made(NETWORK, "n"))


def test_nothing_goes_before_what_needs_it() -> None:
    subnet = made(SUBNET, "s", name="s", network="n-id")
    with refused("network-in-use"):
        on_delete(account(subnet), made(NETWORK, "n"))
    nics = {"additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}]}
    with refused("subnet-in-use"):
        on_delete(account(pool(networkConfig=nics)), subnet)
    with refused("deletion-protection"):
        on_delete(account(), made(CLUSTER, deletionProtection=True))


def parameters(name: str, subnet: str, since: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": since},
        "spec": {"vpc": "vpc1", "vpcSubnet": subnet, "deviceMode": "NetDevice"},
    }


def network(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"type": "Device", "parametersRef": {"name": name}},
    }


def test_a_node_offers_the_networks_that_its_nics_are_in() -> None:
    world = Recorded(
        node(),
        GKENetworkParamSet=[
            parameters("one", "subnet1", "1"),
            parameters("two", "subnet1", "2"),
            parameters("far", "subnet2", "1"),
        ],
        Network=[network("one"), network("two"), network("far")],
    )
    gke.networks(world, look())
    resources = [
        resource
        for name, change in world.patched
        if name == "n"
        for resource in change["status"]["allocatable"]
    ]
    assert resources == [
        "networking.gke.io.networks/one",
        "networking.gke.io.networks/one.IP",
    ]
    states = {n: c["status"]["conditions"][0]["reason"] for n, c in world.patched if n != "n"}
    assert states["two"] == "DeviceModeSubnetAlreadyInUse"
    assert states["far"] == "GNPReady"


def spec(*keys: str, **asked: str) -> dict[str, Any]:
    return {
        "nodeSelector": {"railhead.dev/pool": "gpu"},
        "tolerations": [{"key": key, "operator": "Exists"} for key in keys],
        "containers": [
            {"resources": {"requests": {k.replace("__", "/"): v for k, v in asked.items()}}}
        ],
    }


def near(operator: str, key: str, *values: str) -> dict[str, Any]:
    """Return a pod's demand of its node's label."""
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


TOLERATED = ("nvidia.com/gpu", "cloud.google.com/gke-queued")


@pytest.mark.parametrize(
    ("pod", "pods"),
    [
        (spec(*TOLERATED, nvidia__com="8"), 0),
        (spec(*TOLERATED, **{"nvidia.com__gpu": "8"}), 1),
        (spec(*TOLERATED, **{"nvidia.com__gpu": "4"}), 2),
        (spec("nvidia.com/gpu", **{"nvidia.com__gpu": "8"}), 0),
        (
            spec(*TOLERATED, **{"nvidia.com__gpu": "8"}) | {"nodeSelector": {f"{LAYER}block": "b"}},
            0,
        ),
        (spec(*TOLERATED) | near("In", "railhead.dev/pool", "gpu"), 1),
        (spec(*TOLERATED) | near("In", "railhead.dev/pool", "other"), 0),
        (spec(*TOLERATED) | near("NotIn", "kubernetes.io/hostname", "gone"), 1),
        (spec(*TOLERATED) | near("Exists", f"{LAYER}block"), 0),
    ],
)
def test_a_request_is_for_nodes_that_its_pods_can_be_on(pod: dict[str, Any], pods: int) -> None:
    queued = node("a3-megagpu-8g", "queued")
    offers = provisioning.offered(queued, {("vpc1", "subnet1"): "one"})
    assert offers["networking.gke.io.networks/one.IP"] == "1"
    assert provisioning.held(pod, queued, offers) == pods
