"""Players: each does on a node what its pod there would do, and nothing without the pod."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from railhead.twin import addresses, players
from railhead.twin.truth import Node
from railhead.twin.world import PLAYER, SRIOV_DAEMON, SRIOV_PLUGIN, Body, Look, World

GPU = Node(
    name="n",
    labels={},
    allocatable={},
    gpus=8,
    efa=32,
    interfaces=("ib0", "ib1"),
    link="infiniband",
    host=frozenset({"gpu-driver", "container-toolkit"}),
)


class Recorded(World):
    """A world of one node, without an API server."""

    def __init__(self, machine: Node = GPU, /, **objects: list[Body]) -> None:
        super().__init__(client=None)  # type: ignore[arg-type]
        self.hardware = {"n": machine}
        self.objects = objects
        self.applied: list[Body] = []
        self.patched: list[tuple[str, Body]] = []

    def list(self, api_version: str, kind: str) -> list[Body]:
        return copy.deepcopy(self.objects.get(kind, []))

    def apply(self, body: Body, *, again: bool = False) -> None:
        self.applied.append(body)

    def read(self, api_version: str, kind: str, namespace: str, name: str) -> Body | None:
        return next((o for o in self.objects.get(kind, []) if o["metadata"]["name"] == name), None)

    def patch(self, body: Mapping[str, Any], change: Body, *, status: bool = False) -> None:
        self.patched.append((body["metadata"]["name"], change))


def pod(role: str, *, ready: bool = True, **annotations: str) -> Body:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    metadata = {
        "name": role,
        "namespace": "ns",
        "labels": {PLAYER: role},
        "annotations": {f"twin.railhead.dev/{k}": v for k, v in annotations.items()},
    }
    return {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status}


def look(*pods: Body, **labels: str) -> Look:
    keys = {key.replace("__", "/"): value for key, value in labels.items()}
    node = {"metadata": {"name": "n", "labels": keys}, "status": {"allocatable": {}}}
    return Look(nodes={"n": node}, pods=pods)


def offered(seen: Look) -> Any:
    return seen.nodes["n"]["status"]["allocatable"]


def test_gpus_are_offered_where_the_plugin_runs() -> None:
    seen = look(pod("gpu-device-plugin"))
    players.gpus(Recorded(), seen)
    assert offered(seen) == {"nvidia.com/gpu": "8"}


@pytest.mark.parametrize(
    ("pods", "host"),
    [
        ([], {"gpu-driver", "container-toolkit"}),
        ([pod("gpu-device-plugin", ready=False)], {"gpu-driver", "container-toolkit"}),
        ([pod("gpu-device-plugin")], {"container-toolkit"}),
        ([pod("gpu-device-plugin")], {"gpu-driver"}),
    ],
    ids=["no plugin", "plugin not ready", "no driver", "no toolkit"],
)
def test_no_gpu_is_offered_without_all_three(pods: list[Body], host: set[str]) -> None:
    machine = Node(name="n", labels={}, allocatable={}, gpus=8, host=frozenset(host))
    seen = look(*pods)
    players.gpus(Recorded(machine), seen)
    assert not int(offered(seen).get("nvidia.com/gpu", "0"))


def test_a_loaded_driver_is_as_good_as_the_hosts() -> None:
    machine = Node(name="n", labels={}, allocatable={}, gpus=8)
    seen = look(*(pod(f"gpu-{part}") for part in ("device-plugin", "driver", "container-toolkit")))
    players.gpus(Recorded(machine), seen)
    assert offered(seen) == {"nvidia.com/gpu": "8"}


def test_efa_is_offered_where_its_plugin_runs() -> None:
    seen = look(pod("efa-plugin"))
    players.efa(Recorded(), seen)
    assert offered(seen) == {"vpc.amazonaws.com/efa": "32"}
    without = look()
    players.efa(Recorded(), without)
    assert not int(offered(without).get("vpc.amazonaws.com/efa", "0"))


def found(pci: Mapping[str, Any], machine: Node = GPU) -> Body:
    """Return the spec of the NodeFeature of a worker with these settings."""
    text = yaml.safe_dump({"sources": {"pci": pci}} if pci else None)
    config = {"metadata": {"name": "conf"}, "data": {"nfd-worker.conf": text}}
    world = Recorded(machine, ConfigMap=[config])
    worker = pod("nfd-worker")
    worker["metadata"] |= {"uid": "u", "ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}
    worker["spec"]["volumes"] = [{"name": "nfd-worker-conf", "configMap": {"name": "conf"}}]
    players.nfd(world, look(worker))
    (feature,) = world.applied
    assert feature["metadata"]["labels"] == {"nfd.node.kubernetes.io/node-name": "n"}
    assert [o["kind"] for o in feature["metadata"]["ownerReferences"]] == ["DaemonSet", "Pod"]
    return dict(feature["spec"])


@pytest.mark.parametrize(
    ("pci", "labels"),
    [
        ({}, {"pci-0302_10de.present"}),
        (
            {"deviceClassWhitelist": ["02", "0302"], "deviceLabelFields": ["vendor"]},
            {"pci-10de.present", "pci-15b3.present", "pci-15b3.sriov.capable"},
        ),
        (
            {"deviceClassWhitelist": ["0300", "0302"], "deviceLabelFields": ["vendor"]},
            {"pci-10de.present"},
        ),
    ],
    ids=["stock", "gpu operator", "network operator"],
)
def test_a_worker_labels_what_its_settings_name(pci: Mapping[str, Any], labels: set[str]) -> None:
    assert set(found(pci)["labels"]) == {f"{players.NFD}/{label}" for label in labels}


def test_a_worker_reports_every_device() -> None:
    devices = found({})["features"]["instances"]["pci.device"]["elements"]
    assert len(devices) == GPU.gpus + len(GPU.interfaces)
    assert {"class": "0207", "vendor": "15b3", "sriov_totalvfs": "16"} in [
        device["attributes"] for device in devices
    ]


@pytest.mark.parametrize(
    ("selectors", "matches"),
    [
        ({"ifNames": ["ib1"]}, ["ib1"]),
        ({"ifNames": ["eth9"]}, []),
        ({"vendors": ["15b3"]}, ["ib0", "ib1"]),
        ({"vendors": ["8086"]}, []),
        ({"linkTypes": ["infiniband"]}, ["ib0", "ib1"]),
        ({"vendors": ["15b3"], "linkTypes": ["ether"]}, []),
        ({"ifNames": ["ib0"], "drivers": ["vfio-pci"]}, []),
        ({}, ["ib0", "ib1"]),
    ],
)
def test_selectors_of_shared_devices(selectors: Mapping[str, Any], matches: list[str]) -> None:
    assert players.matching(selectors, GPU) == matches


SHARED = {"resourceName": "a", "rdmaHcaMax": 63, "selectors": {"ifNames": ["ib0"]}}


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([SHARED], "63"),
        ([SHARED, SHARED | {"resourceName": "b"}], "63"),
        ([SHARED, SHARED], None),
        ([SHARED, SHARED | {"resourceName": "b-c"}], None),
        ([SHARED | {"devices": ["ib0"]}], None),
        ([SHARED | {"selectors": {}}], None),
        ([SHARED | {"selectors": {}, "devices": ["ib1"]}], "63"),
    ],
)
def test_shares_need_a_valid_configuration(entries: list[Body], count: str | None) -> None:
    spec = {"rdmaSharedDevicePlugin": {"config": json.dumps({"configList": entries})}}
    seen = look(pod("rdma-plugin"))
    players.rdma_shared(Recorded(NicClusterPolicy=[{"spec": spec}]), seen)
    assert offered(seen).get("rdma/a") == count


def test_whole_nics_are_offered_by_their_plugin() -> None:
    rails: list[Body] = [
        {
            "resourcePrefix": "nvidia.com",
            "resourceName": "rail_0",
            "selectors": {"pciAddresses": ["0000:1a:00.0", "0000:1b:00.0"]},
        },
        {"resourceName": "any", "selectors": {"vendors": ["15b3"]}},
    ]
    spec = {"sriovDevicePlugin": {"config": json.dumps({"resourceList": rails})}}
    both = {"nvidia.com/rail_0": "1", "intel.com/any": "2"}
    for roles, counts in (((), {}), (("host-devices",), both)):
        seen = look(*(pod(role) for role in roles))
        players.host_devices(Recorded(NicClusterPolicy=[{"spec": spec}]), seen)
        assert offered(seen) == counts


@pytest.mark.parametrize(("link", "number"), [("infiniband", "0207"), ("ether", "0200")])
def test_a_nic_has_the_class_of_its_link(link: str, number: str) -> None:
    machine = dataclasses.replace(GPU, link=link)
    devices = found({}, machine)["features"]["instances"]["pci.device"]["elements"]
    classes = {d["attributes"]["class"] for d in devices if d["attributes"]["vendor"] == "15b3"}
    assert classes == {number}


def sriov_world(selectors: Mapping[str, Any], asked: int = 1, **status: Any) -> Recorded:
    """Return a world in which the operator asks for functions of ib0 and configures the plugin."""
    entry = {"resourceName": "rail_0", "selectors": selectors}
    config = {"n": json.dumps({"resourceList": [entry]})}
    spec = {"interfaces": [{"name": "ib0", "numVfs": asked}]} if asked else {}
    return Recorded(
        SriovNetworkNodeState=[{"metadata": {"name": "n"}, "spec": spec, "status": status}],
        ConfigMap=[{"metadata": {"name": "device-plugin-config"}, "data": config}],
    )


def plugin() -> Body:
    made = pod(SRIOV_PLUGIN)
    made["spec"]["containers"] = [{"args": ["--resource-prefix=nvidia.com"]}]
    return made


def test_the_daemon_reports_nics_before_functions_are_asked_for() -> None:
    world = sriov_world({}, 0)
    players.sriov(world, look(pod(SRIOV_DAEMON)))
    (_, state), (_, node) = world.patched
    assert [i["name"] for i in state["status"]["interfaces"]] == ["ib0", "ib1"]
    assert {i["numVfs"] for i in state["status"]["interfaces"]} == {0}
    # Without a change of labels the operator would not look for minutes.
    assert node["metadata"]["labels"]


def test_the_daemon_makes_what_its_state_asks_for_once() -> None:
    world = sriov_world({}, 2)
    players.sriov(world, look(pod(SRIOV_DAEMON)))
    status = world.patched[0][1]["status"]
    assert [i["numVfs"] for i in status["interfaces"]] == [2, 0]
    again = sriov_world({}, 2, **status)
    players.sriov(again, look(pod(SRIOV_DAEMON)))
    assert not any("status" in change for _, change in again.patched)


@pytest.mark.parametrize(
    ("selectors", "count"),
    [
        ({"pfNames": ["ib0#0-0"]}, "2"),
        ({"pfNames": ["ib1"]}, None),
        ({"pfNames": ["ib0"], "vendors": ["8086"]}, None),
        ({"pfNames": ["ib0"], "linkTypes": ["infiniband"]}, "2"),
        ({"pfNames": ["ib0"], "linkTypes": ["ether"]}, None),
        ({}, "2"),
    ],
)
def test_the_plugin_offers_functions_it_selects(
    selectors: Mapping[str, Any], count: str | None
) -> None:
    seen = look(pod(SRIOV_DAEMON), plugin())
    players.sriov(sriov_world(selectors, 2), seen)
    assert offered(seen).get("nvidia.com/rail_0") == count


@pytest.mark.parametrize("lost", ["the entry", "the plugin"])
def test_functions_that_are_lost_are_not_offered(lost: str) -> None:
    world = sriov_world({}, 2)
    seen = look(pod(SRIOV_DAEMON), plugin())
    players.sriov(world, seen)
    assert offered(seen)["nvidia.com/rail_0"] == "2"
    if lost == "the entry":
        world.objects["ConfigMap"][0]["data"] = {"n": json.dumps({"resourceList": []})}
    players.sriov(world, Look(nodes=seen.nodes, pods=seen.pods[: 1 if lost == "the plugin" else 2]))
    assert offered(seen)["nvidia.com/rail_0"] == "0"
    assert "0" in [
        change["status"]["allocatable"].get("nvidia.com/rail_0")
        for _, change in world.patched
        if "allocatable" in change.get("status", ())
    ]


def test_no_function_is_offered_without_its_daemon() -> None:
    seen = look(plugin())
    players.sriov(sriov_world({}, 2), seen)
    assert "nvidia.com/rail_0" not in offered(seen)


def pool(subnet: str, size: int, **more: Any) -> Body:
    return {"subnet": subnet, "perNodeBlockSize": size, **more}


def test_blocks_are_cut_in_the_order_of_names() -> None:
    blocks = addresses.cut(pool("192.168.0.0/24", 25), ["a", "b"], {})
    assert blocks == {
        "a": ("192.168.0.1", "192.168.0.25"),
        "b": ("192.168.0.26", "192.168.0.50"),
    }


def test_ten_blocks_of_25_are_in_a_24() -> None:
    names = [f"n{number:02d}" for number in range(12)]
    assert len(addresses.cut(pool("192.168.0.0/24", 25), names, {})) == 10


def test_a_freed_block_goes_to_the_next_node() -> None:
    before = addresses.cut(pool("192.168.0.0/24", 25), ["a", "b"], {})
    after = addresses.cut(pool("192.168.0.0/24", 25), ["b", "c"], {"b": before["b"]})
    assert after == {"b": before["b"], "c": before["a"]}


def test_another_size_cuts_every_block_again() -> None:
    before = addresses.cut(pool("192.168.0.0/24", 25), ["a", "b"], {})
    after = addresses.cut(pool("192.168.0.0/24", 50), ["a", "b"], before)
    assert after["b"] != before["b"]


def test_blocks_that_are_excluded_are_nobodys() -> None:
    excluded = [{"startIP": "10.0.0.1", "endIP": "10.0.0.9"}]
    blocks = addresses.cut(pool("10.0.0.0/24", 8, exclusions=excluded), ["a"], {})
    assert blocks == {"a": ("10.0.0.9", "10.0.0.16")}
    spec = pool("10.0.0.0/24", 8, exclusions=excluded, gateway="10.0.0.10")
    assert addresses.room(spec, "10.0.0.9", "10.0.0.16") == 6


def test_the_gateway_is_nobodys_where_blocks_are_single() -> None:
    blocks = addresses.cut(pool("10.0.0.0/24", 1, gateway="10.0.0.1"), ["a"], {})
    assert blocks == {"a": ("10.0.0.2", "10.0.0.2")}


RIGHT = {"gateway": "10.0.0.1", "routes": [{"dst": "10.0.0.0/8"}]}


@pytest.mark.parametrize(
    ("spec", "namespace", "taken"),
    [
        (pool("10.0.0.0/24", 16, **RIGHT), addresses.OPERATOR_SPACE, True),
        (pool("10.0.0.0/24", 16), "training", False),
        (pool("10.0.0.0/24", 255), addresses.OPERATOR_SPACE, False),
        (pool("10.0.0.0/24", 0), addresses.OPERATOR_SPACE, False),
        (pool("10.0.0.0/24", 16, gateway="10.0.1.1"), addresses.OPERATOR_SPACE, False),
        (pool("10.0.0.0/24", 16, routes=RIGHT["routes"]), addresses.OPERATOR_SPACE, False),
        (
            pool("10.0.0.0/24", 16, exclusions=[{"startIP": "10.0.1.1", "endIP": "10.0.1.9"}]),
            addresses.OPERATOR_SPACE,
            False,
        ),
        (
            pool("10.0.0.0/24", 16, nodeSelector={"nodeSelectorTerms": [{}]}),
            addresses.OPERATOR_SPACE,
            False,
        ),
    ],
)
def test_pools_that_nv_ipam_takes(spec: Body, namespace: str, taken: bool) -> None:
    world = Recorded(IPPool=[{"metadata": {"name": "p", "namespace": namespace}, "spec": spec}])
    addresses.nv_ipam(world, look(pod("nv-ipam")))
    assert bool(world.patched) == taken


def test_a_pool_that_is_no_longer_valid_loses_its_blocks() -> None:
    had = {"allocations": [{"nodeName": "n", "startIP": "10.0.0.1", "endIP": "10.0.0.16"}]}
    spec = pool("10.0.0.0/24", 16, gateway="10.0.1.1")
    metadata = {"name": "p", "namespace": addresses.OPERATOR_SPACE}
    world = Recorded(IPPool=[{"metadata": metadata, "spec": spec, "status": had}])
    addresses.nv_ipam(world, look(pod("nv-ipam")))
    assert world.patched == [("p", {"status": {"allocations": []}})]


NFS = {"server": "nas", "share": "/x", "subDir": "a/${pvc.metadata.name}", "onDelete": "retain"}


@pytest.mark.parametrize(
    ("parameters", "bound"),
    [
        (NFS | {"mountPermissions": "0777"}, True),
        (NFS | {"mountPerms": "0777"}, False),
        (NFS | {"mountPermissions": "rwx"}, False),
        (NFS | {"onDelete": "keep"}, False),
        (NFS | {"subDir": "../a"}, False),
        ({"share": "/x"}, False),
    ],
)
def test_nfs_refuses_parameters_it_does_not_know(
    parameters: Mapping[str, str], bound: bool
) -> None:
    metadata = {"name": "c", "namespace": "ns", "uid": "u"}
    spec = {
        "storageClassName": "nfs",
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Ti"}},
    }
    world = Recorded(
        StorageClass=[
            {
                "metadata": {"name": "nfs"},
                "provisioner": "nfs.csi.k8s.io",
                "parameters": dict(parameters),
            }
        ],
        PersistentVolumeClaim=[{"metadata": metadata, "spec": spec}],
    )
    players.provisioners(world, look(pod("provisioner", driver="nfs.csi.k8s.io")))
    assert bool(world.applied) == bound


CIDR = {"cidr": "10.0.0.0/24", "perNodeNetworkPrefix": 28, "gatewayIndex": 1}


def test_prefixes_are_handed_out_in_the_order_of_names() -> None:
    fixed = {"nodeName": "b", "prefix": "10.0.0.0/28"}
    had = [
        {"nodeName": "c", "prefix": "10.0.0.16/28", "gateway": "10.0.0.17"},
        {"nodeName": "d", "prefix": "10.0.0.32/27"},
    ]
    rows = list(
        addresses.prefixes(CIDR | {"staticAllocations": [fixed]}, ["a", "b", "c", "d"], had)
    )
    assert rows == [
        {"nodeName": "a", "prefix": "10.0.0.32/28", "gateway": "10.0.0.33"},
        fixed | {"gateway": "10.0.0.1"},
        had[0],
        {"nodeName": "d", "prefix": "10.0.0.48/28", "gateway": "10.0.0.49"},
    ]
    assert len(list(addresses.prefixes(CIDR, map(str, range(20)), []))) == 16


def test_a_prefix_has_room_beside_its_gateway() -> None:
    assert addresses.part_room(CIDR, "10.0.0.0/28", "10.0.0.1") == 13
    assert addresses.part_room({}, "10.0.0.0/31", "") == 2


@pytest.mark.parametrize(
    ("change", "taken"),
    [
        ({}, True),
        ({"cidr": "10.0.0.1/24"}, False),
        ({"perNodeNetworkPrefix": 20}, False),
        ({"gatewayIndex": 0}, False),
        ({"gatewayIndex": 15}, False),
        ({"perNodeNetworkPrefix": 31, "gatewayIndex": 0}, True),
        ({"gatewayIndex": None, "routes": [{"dst": "10.0.0.0/24"}]}, False),
    ],
)
def test_pools_of_prefixes_that_nv_ipam_takes(change: Body, taken: bool) -> None:
    metadata = {"name": "p", "namespace": addresses.OPERATOR_SPACE}
    world = Recorded(CIDRPool=[{"metadata": metadata, "spec": CIDR | change}])
    addresses.nv_ipam(world, look(pod("nv-ipam")))
    assert bool(world.patched) == taken


def test_only_one_policy_is_served() -> None:
    policy = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "NicClusterPolicy",
        "metadata": {"name": "another"},
        "spec": {},
    }
    world = Recorded(NicClusterPolicy=[policy])
    players.network_operator(world, look(pod("network-operator")))
    assert world.patched == [("another", {"status": {"state": "ignore"}})]


@pytest.mark.parametrize(
    ("wanted", "available", "updated", "ready"),
    [(2, 2, 2, True), (2, 1, 2, False), (2, 2, 1, False), (0, 0, 0, False)],
)
def test_a_policy_is_ready_once_all_pods_are_new(
    wanted: int, available: int, updated: int, ready: bool
) -> None:
    status = {
        "desiredNumberScheduled": wanted,
        "numberAvailable": available,
        "updatedNumberScheduled": updated,
    }
    policy = {"metadata": {"name": "nic-cluster-policy", "uid": "u"}, "spec": {"nvIpam": {}}}
    daemons = {"metadata": {"name": "nv-ipam-node"}, "status": status}
    world = Recorded(NicClusterPolicy=[policy], DaemonSet=[daemons])
    players.network_operator(world, look(pod("network-operator")))
    (state,) = [c["status"]["state"] for n, c in world.patched if n == "nic-cluster-policy"]
    assert (state == "ready") == ready


def test_the_shared_plugin_waits_for_the_driver() -> None:
    parts = players._operator_parts({"rdmaSharedDevicePlugin": {}, "ofedDriver": {}})
    assert parts["rdma-shared-dp-ds"][1][players.WAIT] == "false"
    assert players.WAIT not in parts["mofed-ds"][1]
