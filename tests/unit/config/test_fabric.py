"""The fabric's section: wrong combinations, ranges and lists, named before anything is made."""

from __future__ import annotations

import copy
import ipaddress
from typing import Any

import pytest

from railhead.base.errors import InputError
from railhead.config import parse
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.fabric.railed import RailedFabric
from railhead.machines import MACHINES
from railhead.platform.registry import platforms_of
from railhead.resolve.wiring import wiring
from tests.components.fabrics import Case, cases, cluster

Raw = dict[str, Any]


def case(mode: str, platform: str = "existing", fabric: str | None = None) -> Raw:
    """Return a good stack of a mode, to be spoilt."""
    row = next(
        c
        for c in cases()
        if (c.mode, c.platform) == (mode, platform) and fabric in (None, c.fabric)
    )
    return cluster(row)


def mistakes(raw: Raw) -> str:
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    return caught.value.problem


@pytest.mark.parametrize("good", cases(), ids=lambda c: c.id)
def test_a_good_stack_is_taken(good: Case) -> None:
    fabric = parse(cluster(good), where="x").fabric
    assert (fabric.kind, fabric.mode) == (good.fabric, good.mode)


@pytest.mark.parametrize(
    ("mode", "platform"),
    [
        (m, p)
        for m in MODES
        for p in ("lab", "existing", "aws", "gcp")
        if p not in platforms_of(MODES[m])
    ],
)
def test_mode_the_platform_lacks_is_refused_with_its_modes(mode: str, platform: str) -> None:
    raw = case("none", platform)
    raw["fabric"] = {"kind": next(iter(MODES[mode].fabrics)), "mode": mode}
    lines = [line for line in mistakes(raw).splitlines() if "x: fabric.mode: " in line]
    (refusal,) = [line for line in lines if "cannot be on platform" in line]
    assert f"{mode!r} cannot be on platform {platform!r}" in refusal
    can = {name for name, row in MODES.items() if platform in platforms_of(row)}
    assert set(refusal.rpartition("these can: ")[2].split(", ")) == can


def test_resource_of_anothers_plugin_has_any_name() -> None:
    """RDMA shared device plugin v1.5.3 alone is narrower than Kubernetes, validResourceName."""
    raw = put(case("rdma-shared"), "fabric.resource", "rdma/shared-ib.0")
    assert "fabric.resource" in mistakes(raw)
    raw["fabric"]["network_operator"] = None
    parse(raw, where="x")


def test_rails_without_resources_need_no_names_of_theirs() -> None:
    raw = put(case("host-device"), "fabric.rails[1].resource", "rail_0")
    assert "fabric.rails[1].resource" in mistakes(raw)
    raw["fabric"]["resources"] = False
    assert "fabric.rails[1].resource" not in mistakes(put(raw, "pools", []))


def test_mode_the_machine_lacks_is_refused_with_its_modes() -> None:
    raw = case("sriov-roce")
    for pool in raw["pools"]:
        pool["instance_type"] = "p5.48xlarge"
    text = mistakes(raw)
    assert (
        "x: fabric.mode: 'sriov-roce' cannot be on 'p5.48xlarge' of pools[0] on platform "
        "'existing'; it can: efa, none" in text
    )


def test_mode_without_the_fabric_is_refused_with_those_with_it() -> None:
    raw = case("sriov-roce")
    raw["fabric"]["kind"] = "infiniband"
    do = sorted(
        name
        for name, row in MODES.items()
        if "infiniband" in row.fabrics and "existing" in platforms_of(row)
    )
    assert {"ipoib", "sriov-ib"} < set(do)
    assert (
        "x: fabric.mode: 'sriov-roce' does not bring fabric 'infiniband' into pods; these do: "
        f"{', '.join(do)}\n" in f"{mistakes(raw)}\n"
    )


def put(raw: Raw, path: str, value: Any) -> Raw:
    raw = copy.deepcopy(raw)
    holder: Any = raw
    *parents, last = path.replace("[", ".").replace("]", "").split(".")
    for key in parents:
        holder = holder[int(key) if key.isdigit() else key]
    if value is None:
        del holder[last]
    else:
        holder[int(last) if last.isdigit() else last] = value
    return raw


ONE: list[tuple[str, str, Any, str, str]] = [
    # The traffic class is the gate's to say, so that what is sent is what is proven.
    (
        "sriov-roce",
        "fabric.environment",
        {"NCCL_IB_TC": "106"},
        "fabric.environment.NCCL_IB_TC",
        "gate.dscp says which",
    ),
    # SHARP.
    (
        "sriov-ib",
        "fabric.environment",
        {"NCCL_COLLNET_ENABLE": "1"},
        "fabric.environment.NCCL_COLLNET_ENABLE",
        "does nothing without fabric.nccl_net",
    ),
    ("efa", "fabric.nccl_net", "IBext_v10", "fabric.nccl_net", "has a network of its own"),
    ("sriov-ib", "fabric.nccl_net", "Socket", "fabric.nccl_net", "such as 'IBext_v10'"),
    # Names of resources.
    (
        "rdma-shared",
        "fabric.resource",
        "rdma/shared-ib",
        "fabric.resource",
        "letters, digits and underscores",
    ),
    ("sriov-ib", "fabric.rails[1].resource", "rail_0", "fabric.rails[1].resource", "of fabric.r"),
    # Ranges.
    (
        "sriov-roce",
        "fabric.rails[1].subnet",
        "192.168.8.0/24",
        "fabric.rails[1].subnet",
        "overlaps '192.168.0.0/20' of fabric.rails[0]",
    ),
    (
        "sriov-roce",
        "fabric.rails[3].subnet",
        "10.1.0.0/20",
        "fabric.rails[3].subnet",
        "overlaps '10.0.0.0/8' of fabric.cluster_ranges[0]",
    ),
    ("sriov-roce", "fabric.cluster_ranges", None, "fabric.cluster_ranges", "is missing"),
    (
        "sriov-roce",
        "fabric.rails[3].subnet",
        "fd00:3::/112",
        "fabric.rails[3].subnet",
        "'fd00:3::/112' is IPv6 and '192.168.0.0/20' is not",
    ),
    (
        "sriov-roce",
        "fabric.rails[0].subnet",
        "192.168.0.0/28",
        "fabric.rails[0].subnet",
        "14 addresses for pods on 2 nodes, which need 32: 16 a node",
    ),
    (
        "sriov-roce",
        "fabric.ipam",
        {"kind": "nv-ipam", "per_node": 3000},
        "fabric.rails[0].subnet",
        "4094 addresses for pods on 2 nodes, which need 6000",
    ),
    (
        "sriov-roce",
        "fabric.ipam",
        {"kind": "nv-ipam", "pool": "prefix", "per_node": 2046},
        "fabric.rails[0].subnet",
        "4096 addresses for pods on 2 nodes, which need 8192: 4096 a node",
    ),
    (
        "sriov-roce",
        "fabric.rails[0].range_start",
        "192.168.8.1",
        "fabric.rails[0].range_start",
        "cuts the nodes' blocks from the subnet's start",
    ),
    (
        "sriov-roce",
        "fabric.rails[0].range_end",
        "192.168.0.10",
        "fabric.rails[0].subnet",
        "10 addresses for pods on 2 nodes, which need 32",
    ),
    (
        "sriov-roce",
        "fabric.rails[0].gateway",
        "192.168.16.1",
        "fabric.rails[0].gateway",
        "is not in subnet '192.168.0.0/20'",
    ),
    ("sriov-roce", "fabric.ipam", None, "fabric.ipam", "is missing"),
    # Rails and NICs.
    ("sriov-roce", "fabric.rails[7].name", "rail-0", "fabric.rails[7].name", "is there twice"),
    (
        "sriov-roce",
        "fabric.rails[7].pf_names",
        ["ens0np0"],
        "fabric.rails[7].pf_names",
        "'ens0np0' is of fabric.rails[0] already",
    ),
    ("rdma-shared", "fabric.rails[7].master", "ens0np0", "fabric.rails[7].master", "twice"),
    ("rdma-shared", "fabric.rails[7].master", "ens8np0.100", "fabric.rails[7].master", "VLAN"),
    ("ipoib", "fabric.rails[7].master", "ib7.8001", "fabric.rails[7].master", "partition"),
    ("rdma-shared", "fabric.rails[7].master", "bond7", "fabric.rails[7].master", "or a bond"),
    ("rdma-shared", "fabric.rails", [], "fabric.rails", "is empty"),
    (
        "rdma-shared",
        "fabric.hcas",
        [f"mlx5_{i}" for i in range(7)],
        "fabric.hcas",
        "7 HCAs for the 8 NICs of 'hgx-h100' (pools[0])",
    ),
    (
        "rdma-shared",
        "fabric.hcas",
        ["mlx5_0", *(f"mlx5_{i}" for i in range(7))],
        "fabric.hcas[1]",
        "'mlx5_0' is there twice",
    ),
    ("rdma-shared", "fabric.hcas", None, "fabric.hcas", "list its 8"),
    (
        "rdma-shared",
        "fabric.hcas_by_machine",
        {"hgx-h100": ["mlx5_0"]},
        "fabric.hcas_by_machine.hgx-h100",
        "1 HCAs for the 8 NICs of 'hgx-h100' (pools[0])",
    ),
    (
        "rdma-shared",
        "fabric.hcas_by_machine",
        {"hgx-b200": ["mlx5_0"]},
        "fabric.hcas_by_machine.hgx-b200",
        "is no instance type of a pool; these are: hgx-h100",
    ),
    ("rdma-shared", "fabric.hcas", ["=mlx5_0"], "fabric.hcas[0]", "is not an RDMA device"),
    (
        "rdma-shared",
        "runtimes[0].image",
        "docker.io/pytorch/pytorch:2.6.0-cuda12.6-cudnn9-runtime",
        "runtimes[0].image",
        "has an NCCL older than 2.26",
    ),
    (
        "rdma-shared",
        "runtimes[0].image",
        "nvcr.io/nvidia/pytorch:25.02-py3",
        "runtimes[0].image",
        "has an NCCL older than 2.26",
    ),
    (
        "rdma-shared",
        "runtimes[0].image",
        "nvcr.io/nvidia/pytorch:25.03-py3",
        "runtimes[0].image",
        "has an NCCL older than 2.26",
    ),
    # What a mode cannot promise.
    ("sriov-roce", "fabric.sriov.vfs", 0, "fabric.sriov.vfs", "greater than or equal to 1"),
    ("sriov-roce", "fabric.pods_per_node", 9, "fabric.pods_per_node", "more than the 8 virtual"),
    (
        "host-device",
        "fabric.rails[3].pci_addresses",
        [],
        "fabric.rails[3].pci_addresses",
        "by its PCI address alone",
    ),
    (
        "host-device",
        "fabric.rails[3].pci_addresses",
        ["0000:0b:00.0"],
        "fabric.rails[3].pci_addresses",
        "is of fabric.rails[0] already",
    ),
    (
        "host-device",
        "fabric.rails[3].pci_addresses",
        ["1b:00.0"],
        "fabric.rails[3].pci_addresses[0]",
        "is not a PCI address as `lspci -D` prints it",
    ),
    ("host-device", "fabric.pods_per_node", 2, "fabric.pods_per_node", "in one pod at a time"),
    ("rdma-shared", "fabric.shares", 4, "fabric.pods_per_node", "more than the 4 of fabric.shares"),
    ("host-device", "runtimes[0].gpus_per_node", 4, "runtimes[0].gpus_per_node", "every NIC"),
    # What the fabric's own row says.
    (
        "rdma-shared",
        "fabric.environment",
        {"NCCL_NET": "Socket"},
        "fabric.environment.NCCL_NET",
        "is the catalogue's on fabric 'roce'",
    ),
    (
        "rdma-shared",
        "fabric.environment",
        {"NCCL_IB_GID_INDEX": "3"},
        "fabric.environment.NCCL_IB_GID_INDEX",
        "differs from pod to pod",
    ),
    (
        "sriov-roce",
        "fabric.environment",
        {"NCCL_IB_DISABLE": "1"},
        "fabric.environment.NCCL_IB_DISABLE",
        "must not be set",
    ),
    ("rdma-shared", "fabric.mode", "rdma", "fabric.mode", "'rdma' is not known"),
    ("efa", "fabric.rails", [], "fabric.rails", "is not a field"),
]


@pytest.mark.parametrize(("mode", "path", "value", "where", "words"), ONE)
def test_a_mistake_is_named(mode: str, path: str, value: Any, where: str, words: str) -> None:
    raw = case(mode, fabric="roce" if "roce" in MODES[mode].fabrics else None)
    if words.startswith("more than the 4 of"):
        raw["fabric"]["pods_per_node"] = 8
    if words == "'rdma' is not known":
        raw["fabric"]["pods_per_node"] = 8
    text = mistakes(put(raw, path, value)).splitlines()
    assert any(line.startswith(f"x: {where}: ") and words in line for line in text), text


def test_rails_do_not_overlap_what_the_lab_is_made_of() -> None:
    raw = put(case("rdma-shared", "lab"), "fabric.rails[0].subnet", "10.244.0.0/20")
    assert "overlaps '10.244.0.0/16' of the lab's pods" in mistakes(raw)


@pytest.mark.parametrize("mode", ["rdma-shared", "sriov-roce"])
def test_nccl_looks_for_gids_of_the_rails_family(mode: str) -> None:
    """NCCL's default is IPv4 (src/transport/net_ib/connect.cc: envIbAddrFamily)."""
    raw = case(mode, fabric="roce")
    assert "NCCL_IB_ADDR_FAMILY" not in wiring(parse(raw, where="x")).environment
    for index, rail in enumerate(raw["fabric"]["rails"]):
        rail |= {"subnet": f"fd00:{index:x}::/112"}
        rail.pop("range_end", None)
    assert wiring(parse(raw, where="x")).environment["NCCL_IB_ADDR_FAMILY"] == "AF_INET6"
    raw["fabric"]["environment"] = {"NCCL_IB_ADDR_FAMILY": "AF_INET"}
    assert "is the catalogue's on fabric 'roce'" in mistakes(raw)


@pytest.mark.parametrize("mode", ["provider-native", "sriov-roce"])
def test_a_site_may_say_the_family_of_its_addresses(mode: str) -> None:
    """A provider's NICs may have IPv6; the stack sees none of their addresses."""
    raw, given = case(mode, fabric="roce"), {"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
    for section in (raw["fabric"], raw["runtimes"][0]):
        section["environment"] = section.get("environment", {}) | given
    assert wiring(parse(raw, where="x")).environment.items() >= given.items()
    raw["fabric"]["environment"] = {"NCCL_IB_ADDR_FAMILY": "ipv6"}
    assert "fabric.environment.NCCL_IB_ADDR_FAMILY" in mistakes(raw)


@pytest.mark.parametrize("mode", ["rdma-shared", "sriov-roce"])
def test_nccl_stays_on_a_rail_unless_a_router_connects_them(mode: str) -> None:
    """A maintainer of NCCL's: it relies on the variable to know (NVIDIA/nccl #1933, #2013)."""
    raw = case(mode, fabric="roce")
    assert wiring(parse(raw, where="x")).environment["NCCL_CROSS_NIC"] == "0"
    raw["fabric"]["environment"] = {"NCCL_CROSS_NIC": "1"}
    assert wiring(parse(raw, where="x")).environment["NCCL_CROSS_NIC"] == "1"
    raw["fabric"]["environment"] = {"NCCL_CROSS_NIC": "yes"}
    assert "fabric.environment.NCCL_CROSS_NIC" in mistakes(raw)
    del raw["fabric"]["environment"]
    for rail in raw["fabric"]["rails"]:
        network = ipaddress.ip_network(rail["subnet"])
        rail["gateway"] = str(network[1])
    assert "NCCL_CROSS_NIC" not in wiring(parse(raw, where="x")).environment


@pytest.mark.parametrize("mode", ["ipoib", "sriov-ib", "host-device"])
def test_rails_of_infiniband_are_not_apart(mode: str) -> None:
    """Ports reach each other by LID: their addresses need no router, and nothing is doubted."""
    fabric = parse(case(mode, fabric="infiniband"), where="x").fabric
    assert isinstance(fabric, RailedFabric)
    assert any(rail.subnet for rail in fabric.lanes)
    assert fabric.cross_nic == ""


def test_routed_rails_do_not_carry_the_bootstrap() -> None:
    raw = case("sriov-roce")
    raw["fabric"]["bootstrap"] = "rails"
    for index, rail in enumerate(raw["fabric"]["rails"]):
        rail["gateway"] = f"192.168.{16 * index}.1"
    assert "NCCL's sockets are not bound" in mistakes(raw)
    del raw["fabric"]["bootstrap"]
    assert parse(raw, where="x").fabric.mode == "sriov-roce"


def test_macvlan_is_not_put_on_infiniband() -> None:
    raw = case("rdma-shared", fabric="infiniband")
    raw["fabric"]["rails"] = [{"name": "a", "master": "ib0", "subnet": "192.168.0.0/20"}]
    assert "macvlan cannot be put on InfiniBand" in mistakes(raw)


def test_dra_for_efa_needs_its_kubernetes() -> None:
    raw = case("efa", "aws")
    raw["fabric"]["allocation"] = "dra"
    raw["platform"]["kubernetes"] = "1.34"
    assert "'dra' needs Kubernetes 1.35 or newer" in mistakes(raw)


def test_the_catalogues_hcas_are_as_many_as_its_nics() -> None:
    listed = [machine for machine in MACHINES.values() if machine.hcas]
    assert listed
    assert all(len(set(m.hcas)) == len(m.nics) for m in listed)


def test_no_setting_is_both_set_and_left_alone() -> None:
    for fabric in FABRICS.values():
        assert not {v.name for v in fabric.environment} & set(fabric.not_set)


def test_frames_fit_the_providers_interfaces() -> None:
    raw = case("rdma-shared", fabric="roce")
    raw["pools"][0]["instance_type"] = "BM.GPU.H200.8"
    assert "x: fabric.mtu: 9000 is more than the 4220" in mistakes(raw)
    raw["fabric"]["mtu"] = 4220
    assert parse(raw, where="x").fabric.node_mtu == 4220


def test_sharp_has_the_plugin_that_has_it() -> None:
    raw = case("rdma-shared", fabric="infiniband")
    raw["fabric"] |= {"nccl_net": "IBext_v10", "environment": {"NCCL_COLLNET_ENABLE": "1"}}
    environment = wiring(parse(raw, where="x")).environment
    assert (environment["NCCL_NET"], environment["NCCL_COLLNET_ENABLE"]) == ("IBext_v10", "1")


def test_a_claim_says_which_nics_are_the_fabrics() -> None:
    """dranet publishes storage's and management's as well."""
    raw = case("dranet", fabric="roce")
    raw["pools"][0]["instance_type"] = "dgx-h100"
    del raw["fabric"]["selector"]
    text = mistakes(raw)
    assert "x: fabric.selector: is missing" in text
    assert 'ifName in ["ens1f0np0"' in text
    device = 'device.attributes["dra.net"].rdmaDevice'
    raw["fabric"]["selector"] = f'{device} in ["mlx5_0"]'
    assert f"x: fabric.selector: reads {device}, which dranet says only of NICs" in mistakes(raw)
    raw["fabric"]["selector"] = f'has({device}) && {device} in ["mlx5_0"]'
    parse(raw, where="x")
    name = 'device.attributes["dra.net"].ifName'
    raw["fabric"]["selector"] = f'{name}.startsWith("ens")'
    assert f"x: fabric.selector: reads {name}, which RDMA devices without" in mistakes(raw)
    raw["fabric"]["selector"] = f'has({name}) && {name}.startsWith("ens")'
    parse(raw, where="x")
    ports = 'device.attributes["dra.net"]["ifName"] in ["ens1f0np0"]'
    raw["fabric"]["selector"] = ports
    assert f"x: fabric.selector: reads {name}, which RDMA devices without" in mistakes(raw)
    raw["fabric"]["selector"] = f"'ifName' in device.attributes['dra.net'] && {ports}"
    parse(raw, where="x")


def test_a_proxy_spares_the_api_server() -> None:
    """The init container of the NICs' driver has its variables, and asks the API server first."""
    raw = case("sriov-roce")
    proxied = {"HTTPS_PROXY": "http://proxy.example.com:3128"}
    for spared, refused in (
        (None, True),
        (".svc,localhost", True),
        ("localhost,127.0.0.1,.svc,.cluster.local", True),
        ("localhost, 10.96.0.0/12", False),
        ("10.96.0.1", False),
        ("10.96.0.1:443", False),
        ("*", False),
    ):
        environment = proxied if spared is None else proxied | {"NO_PROXY": spared}
        raw["fabric"]["network_operator"] = {"ofed": {"environment": environment}}
        if refused:
            assert "would ask the API server" in mistakes(raw), spared
        else:
            parse(raw, where="x")
    raw["fabric"]["network_operator"] = {"ofed": {"environment": {"http_proxy": "http://proxy"}}}
    parse(raw, where="x")
