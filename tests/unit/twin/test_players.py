"""Players: each does on a node what its pod there would do, and nothing without the pod."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from railhead.twin import players
from railhead.twin.truth import Node
from railhead.twin.world import PLAYER, Body, Look, World

GPU = Node(
    name="n",
    labels={},
    allocatable={},
    gpus=8,
    efa=32,
    interfaces=("ib0", "ib1"),
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

    def apply(self, body: Body) -> None:
        self.applied.append(body)

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


def test_stock_discovery_names_no_nic() -> None:
    seen = look(pod("nfd-stock"))
    players.nfd(Recorded(), seen)
    assert set(seen.nodes["n"]["metadata"]["labels"]) == {f"{players.NFD}/pci-0302_10de.present"}


def test_the_network_operators_discovery_needs_its_rule() -> None:
    nic = f"{players.NFD}/pci-15b3.present"
    seen = look(pod("nfd-network-operator"))
    players.nfd(Recorded(), seen)
    assert nic not in seen.nodes["n"]["metadata"]["labels"]
    players.nfd(Recorded(NodeFeatureRule=[{"metadata": {"name": "nvidia-nics-rules"}}]), seen)
    assert seen.nodes["n"]["metadata"]["labels"][nic] == "true"


@pytest.mark.parametrize(
    ("selectors", "matches"),
    [
        ({"ifNames": ["ib1"]}, ["ib1"]),
        ({"ifNames": ["eth9"]}, []),
        ({"vendors": ["15b3"]}, ["ib0", "ib1"]),
        ({"vendors": ["8086"]}, []),
        ({}, ["ib0", "ib1"]),
    ],
)
def test_selectors_of_shared_devices(selectors: Mapping[str, Any], matches: list[str]) -> None:
    assert players.matching(selectors, GPU.interfaces) == matches


def sriov_objects(selector: Mapping[str, str]) -> dict[str, list[Body]]:
    policy = {
        "nodeSelector": {"pool": "a"},
        "nicSelector": {"pfNames": ["ib0"]},
        "numVfs": 1,
        "resourceName": "rail_0",
    }
    config = {"metadata": {"name": "default"}, "spec": {"configDaemonNodeSelector": selector}}
    return {
        "SriovOperatorConfig": [config],
        "SriovNetworkNodePolicy": [{"metadata": {"name": "p"}, "spec": policy}],
    }


SRIOV_PODS = (
    pod("sriov-operator", prefix="nvidia.com"),
    pod("sriov-daemon"),
    pod("sriov-plugin"),
)


def test_an_empty_selector_of_the_daemon_is_the_worker_role() -> None:
    world = Recorded(**sriov_objects({}))
    players.sriov(world, look(*SRIOV_PODS, pool="a"))
    daemons = world.applied[0]["spec"]["template"]["spec"]["nodeSelector"]
    assert daemons == {"kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": ""}


def test_functions_are_offered_on_listed_nodes_alone() -> None:
    world = Recorded(**sriov_objects({"wait": "false"}))
    listed = look(*SRIOV_PODS, pool="a", wait="false")
    players.sriov(world, listed)
    assert offered(listed) == {"nvidia.com/rail_0": "1"}
    other = look(*SRIOV_PODS, pool="a")
    players.sriov(Recorded(**sriov_objects({"wait": "false"})), other)
    assert not int(offered(other).get("nvidia.com/rail_0", "0"))


def test_the_sriov_operator_alone_lets_its_configuration_go() -> None:
    objects = sriov_objects({})
    world = Recorded(**objects)
    players.sriov(world, look(*SRIOV_PODS))
    assert ("default", {"metadata": {"finalizers": [players._CONFIG_FINALIZER]}}) in world.patched
    metadata = objects["SriovOperatorConfig"][0]["metadata"]
    metadata |= {"deletionTimestamp": "now", "finalizers": [players._CONFIG_FINALIZER]}
    going = Recorded(**objects)
    players.sriov(going, look(*SRIOV_PODS))
    assert going.patched == [("default", {"metadata": {"finalizers": []}})]
    # Without its operator nobody lets go.
    alone = Recorded(**objects)
    players.sriov(alone, look())
    assert alone.patched == []


def test_blocks_are_cut_in_the_order_of_names() -> None:
    blocks = players.cut("192.168.0.0/24", 25, ["a", "b"], {})
    assert blocks == {
        "a": ("192.168.0.1", "192.168.0.25"),
        "b": ("192.168.0.26", "192.168.0.50"),
    }


def test_ten_blocks_of_25_are_in_a_24() -> None:
    names = [f"n{number:02d}" for number in range(12)]
    assert len(players.cut("192.168.0.0/24", 25, names, {})) == 10


def test_a_freed_block_goes_to_the_next_node() -> None:
    before = players.cut("192.168.0.0/24", 25, ["a", "b"], {})
    after = players.cut("192.168.0.0/24", 25, ["b", "c"], {"b": before["b"]})
    assert after == {"b": before["b"], "c": before["a"]}


def test_another_size_cuts_every_block_again() -> None:
    before = players.cut("192.168.0.0/24", 25, ["a", "b"], {})
    after = players.cut("192.168.0.0/24", 50, ["a", "b"], before)
    assert after["b"] != before["b"]


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


def test_the_shared_plugin_waits_for_the_driver() -> None:
    parts = players._operator_parts({"rdmaSharedDevicePlugin": {}, "ofedDriver": {}})
    assert parts["rdma-shared-dp-ds"][1][players.WAIT] == "false"
    assert players.WAIT not in parts["mofed-ds"][1]
