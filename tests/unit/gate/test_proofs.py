"""Verdicts of the gate on nodes that are as they should be, and on every way to be broken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.base.finding import Finding
from railhead.gate.dcb import Dcb
from railhead.gate.expectation import Expectation, Interface, Plugin, Qos
from railhead.gate.prove import evaluate
from tests.unit.gate import trees
from tests.unit.gate.trees import Tree, write

RAILS = tuple(Interface(name=f"rail{i}", mtu=9000) for i in range(8))
ROCE = Expectation(
    fabric="roce",
    nics=8,
    interfaces=RAILS,
    link_layer="Ethernet",
    rate_gbps=400,
    verbs=True,
    gpudirect="any",
    qos=Qos(priority=3, dscp=26),
    resources={"rdma/rdma_shared_device_a": 1},
    rdma_netns="shared",
    pcie=True,
    iommu=True,
    lasting_tokens=True,
)
IB = Expectation(
    fabric="infiniband",
    nics=8,
    devices=tuple(f"mlx5_{i}" for i in range(8)),
    link_layer="InfiniBand",
    rate_gbps=400,
    verbs=True,
    gpudirect="any",
    resources={"rdma/ib": 1},
)
EFA = Expectation(
    fabric="efa",
    nics=32,
    driver="efa",
    verbs=True,
    gpudirect="any",
    resources={"vpc.amazonaws.com/efa": 32},
)
LAB = Expectation(
    fabric="roce",
    interfaces=(Interface(name="rail0", mtu=1500),),
    resources={"rdma/rdma_shared_device_a": 1},
)
PLUGIN = Plugin(
    name="tcpxo",
    version="v1.0.16",
    libraries=("nvidia/lib64/libnccl-net.so", "nvidia/lib64/libnccl-tuner.so"),
    apertures=8,
    devices=("dmabuf_import_helper",),
    driver="580",
)
TCPXO = Expectation(fabric="tcpxo", plugin=PLUGIN, movable=True)
LUSTRE = replace(EFA, lustre_efa=8)
NODES: dict[str, tuple[Callable[[Path], Tree], Expectation]] = {
    "roce": (trees.roce, ROCE),
    "infiniband": (trees.infiniband, IB),
    "efa": (trees.efa, EFA),
    "lab": (trees.lab, LAB),
    "tcpxo": (trees.tcpxo, TCPXO),
    "lustre": (trees.lustre, LUSTRE),
}


def failed(tree: Tree, expected: Expectation) -> list[Finding]:
    return [f for f in evaluate(tree.node(), expected) if f.passed is False]


def test_a_rail_has_one_of_its_names_on_each_machine(tmp_path: Path) -> None:
    """Two generations of nodes in one stack: each has its own names of the eight NICs."""
    tree = trees.roce(tmp_path)
    both = tuple(
        Interface(name=f"ens{i}np0", mtu=9000, others=(rail.name,)) for i, rail in enumerate(RAILS)
    )
    expected = Expectation.from_json(replace(ROCE, interfaces=both).to_json())
    assert expected.interfaces == both
    assert failed(tree, expected) == []
    assert {f.name for f in evaluate(tree.node(), expected)} == {
        f.name for f in evaluate(tree.node(), ROCE)
    }
    neither = replace(ROCE, interfaces=(Interface(name="ens0np0", others=("ens9np0",)),))
    (finding,) = [f for f in failed(tree, neither) if f.name == "interface ens0np0"]
    assert finding.text == "the node has no such interface, nor ens9np0"


@pytest.mark.parametrize("name", NODES)
def test_a_node_as_it_should_be_is_proven(tmp_path: Path, name: str) -> None:
    make, expected = NODES[name]
    findings = evaluate(make(tmp_path).node(), expected)
    assert [f for f in findings if not f.passed] == []
    subjects = [f.name for f in findings]
    assert len(subjects) == len(set(subjects))
    if expected.verbs:
        assert sum(s.startswith("RDMA device ") for s in subjects) == expected.nics


def test_everything_that_is_expected_has_a_proof(tmp_path: Path) -> None:
    subjects = {f.name for f in evaluate(trees.roce(tmp_path).node(), ROCE)}
    for wanted in (
        "interface rail7",
        "RDMA device mlx5_7",
        "GPUDirect RDMA",
        "PFC of rail7",
        "DSCP trust of rail7",
        "ECN of rail7",
        "resource rdma/rdma_shared_device_a",
        "RDMA network namespaces",
        "PCIe of mlx5_7",
        "tokens of pods",
        "IOMMU",
        "symbol_error of mlx5_7",
        "carrier_down_count of rail7",
    ):
        assert wanted in subjects


def port(tree: Tree, device: str) -> Path:
    return tree.sys / "class" / "infiniband" / device / "ports" / "1"


def gids(tree: Tree, device: str, gid: str, kind: str) -> None:
    for index in range(8):
        write(port(tree, device) / "gids" / str(index), gid)
        write(port(tree, device) / "gid_attrs" / "types" / str(index), kind)


def unlink(tree: Tree, name: str) -> None:
    (tree.sys / "class" / "infiniband" / name).unlink()


# Each: the node, what breaks it, the one subject that fails, words of its detail and its remedy.
Broken = tuple[str, Callable[[Tree], object], str, str, str]
BROKEN: dict[str, Broken] = {
    "the plugin was never installed": (
        "tcpxo",
        lambda t: shutil.rmtree(t.root / "bin"),
        "plugin tcpxo",
        "nvidia/lib64/libnccl-net.so, nvidia/lib64/libnccl-tuner.so: not there",
        "delete the installer's pod",
    ),
    "a library of the plugin is gone": (
        "tcpxo",
        lambda t: (t.root / "bin/nvidia/lib64/libnccl-tuner.so").unlink(),
        "plugin tcpxo",
        "nvidia/lib64/libnccl-tuner.so: not there",
        "drain the node",
    ),
    "the plugin is an older one": (
        "tcpxo",
        lambda t: write(t.root / "bin/railhead/tcpxo", "v1.0.15"),
        "plugin tcpxo",
        "the node has v1.0.15, jobs v1.0.16",
        "drain the node",
    ),
    "the installer did not finish": (
        "tcpxo",
        lambda t: (t.root / "bin/railhead/tcpxo").unlink(),
        "plugin tcpxo",
        "none that the installer finished",
        "drain the node",
    ),
    "an aperture is not bound": (
        "tcpxo",
        lambda t: (t.root / "dev/aperture_devices/0000:06:00.0/resource0").unlink(),
        "apertures",
        "7 of 8 NICs'",
        "drain the node",
    ),
    "the import helper is not loaded": (
        "tcpxo",
        lambda t: (t.root / "dev/dmabuf_import_helper").unlink(),
        "/dev/dmabuf_import_helper",
        "cannot register memory",
        "modprobe import-helper",
    ),
    "the driver is of another branch": (
        "tcpxo",
        lambda t: write(t.sys / "module/nvidia/version", "595.71.05"),
        "NVIDIA driver",
        "plugin v1.0.16 was qualified with branch R580",
        "the plugin that",
    ),
    "a rail is down": (
        "roce",
        lambda t: write(t.sys / "class/net/rail2/operstate", "down"),
        "interface rail2",
        "the link is down",
        "ip link set rail2 up",
    ),
    "a rail has no carrier": (
        "roce",
        lambda t: write(t.sys / "class/net/rail2/carrier", 0),
        "interface rail2",
        "the link is up",
        "cable",
    ),
    "a rail's MTU is small": (
        "roce",
        lambda t: write(t.sys / "class/net/rail2/mtu", 1500),
        "interface rail2",
        "MTU is 1500, the rail needs 9000",
        "ip link set rail2 mtu 9000",
    ),
    "a rail's MTU cannot be read": (
        "roce",
        lambda t: (t.sys / "class/net/rail2/mtu").unlink(),
        "interface rail2",
        "MTU is 0",
        "ip link set rail2 mtu 9000",
    ),
    "a lab's rail is down": (
        "lab",
        lambda t: write(t.sys / "class/net/rail0/operstate", "down"),
        "interface rail0",
        "the link is down",
        "ip link set rail0 up",
    ),
    "a lab's rail is gone": (
        "lab",
        lambda t: (t.sys / "class/net/rail0").unlink(),
        "interface rail0",
        "no such interface",
        "correct the rail's interface",
    ),
    "no RDMA behind a rail": (
        "roce",
        lambda t: shutil.rmtree(t.sys / "class/net/rail5/device/infiniband"),
        "RDMA device of rail5",
        "no RDMA device behind rail5",
        "mlx5_ib",
    ),
    "a port is down": (
        "roce",
        lambda t: write(port(t, "mlx5_1") / "state", "1: DOWN"),
        "RDMA device mlx5_1",
        "its port is DOWN, physically LinkUp",
        "cable",
    ),
    "no subnet manager": (
        "infiniband",
        lambda t: write(port(t, "mlx5_1") / "state", "2: INIT"),
        "RDMA device mlx5_1",
        "no subnet manager",
        "sminfo",
    ),
    "no LID": (
        "infiniband",
        lambda t: write(port(t, "mlx5_1") / "lid", "0x0"),
        "RDMA device mlx5_1",
        "no LID",
        "sminfo",
    ),
    "the state cannot be read": (
        "infiniband",
        lambda t: (port(t, "mlx5_1") / "state").unlink(),
        "RDMA device mlx5_1",
        "its port is unreadable",
        "mlxlink",
    ),
    "half the rate": (
        "infiniband",
        lambda t: write(port(t, "mlx5_1") / "rate", "200 Gb/sec (2X NDR)"),
        "RDMA device mlx5_1",
        "runs at 200 Gb/sec (2X NDR), not at 400",
        "lanes",
    ),
    "an old rate": (
        "roce",
        lambda t: write(port(t, "mlx5_1") / "rate", "2.5 Gb/sec (1X SDR)"),
        "RDMA device mlx5_1",
        "runs at 2.5",
        "lanes",
    ),
    "a VPI card in the wrong mode": (
        "infiniband",
        lambda t: write(port(t, "mlx5_1") / "link_layer", "Ethernet"),
        "RDMA device mlx5_1",
        "its port is Ethernet, not InfiniBand",
        "LINK_TYPE_P1",
    ),
    "no device file": (
        "infiniband",
        lambda t: (t.root / "dev/infiniband/uverbs1").unlink(),
        "RDMA device mlx5_1",
        "/dev/infiniband/uverbs1 is missing",
        "udev",
    ),
    "no verbs": (
        "roce",
        lambda t: (t.sys / "class/infiniband_verbs/uverbs1").unlink(),
        "RDMA device mlx5_1",
        "no userspace verbs",
        "modprobe ib_uverbs",
    ),
    "a device is gone": (
        "infiniband",
        lambda t: unlink(t, "mlx5_6"),
        "RDMA device mlx5_6",
        "no such device; there are: mlx5_0",
        "lspci",
    ),
    "no GID": (
        "infiniband",
        lambda t: gids(t, "mlx5_1", trees.NO_GID, ""),
        "RDMA device mlx5_1",
        "no GID",
        "subnet manager",
    ),
    "a subnet prefix without a GUID": (
        "infiniband",
        lambda t: gids(t, "mlx5_1", "fe80:0000:0000:0000:0000:0000:0000:0000", ""),
        "RDMA device mlx5_1",
        "no GID",
        "subnet manager",
    ),
    "GIDs of RoCE v1 only": (
        "roce",
        lambda t: gids(t, "mlx5_1", trees.IPV4.format(1), "IB/RoCE v1"),
        "RDMA device mlx5_1",
        "no RoCE v2 GID",
        "bring its network interface up",
    ),
    "one EFA device of 32 is gone": (
        "efa",
        lambda t: unlink(t, "rdmap90s0"),
        "RDMA devices",
        "31 of 32 efa RDMA devices pass",
        "dmesg",
    ),
    "no EFA driver": (
        "efa",
        lambda t: shutil.rmtree(t.sys / "class" / "infiniband"),
        "RDMA devices",
        "0 of 32 efa RDMA devices pass, of none",
        "rdma link",
    ),
    "neither DMA-BUF nor peermem": (
        "roce",
        lambda t: t.gpu_driver(said=trees.CLOSED),
        "GPUDirect RDMA",
        "modules are not the open ones; nvidia-peermem: the module is not loaded",
        "modprobe nvidia-peermem",
    ),
    "an old kernel": (
        "roce",
        lambda t: setattr(t, "kernel", "5.4.0-1"),
        "GPUDirect RDMA",
        "kernel 5.4.0-1 is older than 5.12",
        "modprobe nvidia-peermem",
    ),
    "an old driver": (
        "roce",
        lambda t: t.gpu_driver("510.47.03"),
        "GPUDirect RDMA",
        "driver 510.47 is older than 515",
        "modprobe nvidia-peermem",
    ),
    "no GPU driver": (
        "efa",
        lambda t: shutil.rmtree(t.sys / "module" / "nvidia"),
        "GPUDirect RDMA",
        "the NVIDIA driver is not loaded",
        "modprobe",
    ),
    "no PFC": (
        "roce",
        lambda t: t.ports.update(rail1=Dcb(pfc=frozenset(), dscp={26: 3})),
        "PFC of rail1",
        "priority 3 drops instead of pausing; priorities with PFC: none",
        "mlnx_qos -i rail1 --pfc 0,0,0,1,0,0,0,0",
    ),
    "PFC on another priority": (
        "roce",
        lambda t: t.ports.update(rail1=Dcb(pfc=frozenset({4, 5}), dscp={26: 3})),
        "PFC of rail1",
        "priorities with PFC: 4, 5",
        "and the same on the switch",
    ),
    "trust is PCP": (
        "roce",
        lambda t: t.ports.update(rail1=Dcb(pfc=frozenset({3}), dscp={})),
        "DSCP trust of rail1",
        "the port trusts PCP",
        "mlnx_qos -i rail1 --trust dscp",
    ),
    "no DSCP goes there": (
        "roce",
        lambda t: t.ports.update(rail1=Dcb(pfc=frozenset({3}), dscp={46: 5})),
        "DSCP trust of rail1",
        "DSCP 26, which NCCL sends with, is sorted into no known priority",
        "--dscp2prio set,26,3",
    ),
    "no DCB": (
        "roce",
        lambda t: t.ports.pop("rail1"),
        "PFC and trust of rail1",
        "cannot be read: Operation not supported",
        "CONFIG_MLX5_CORE_EN_DCB",
    ),
    "no reaction to congestion": (
        "roce",
        lambda t: t.ecn("rail1", 3, rp=0),
        "ECN of rail1",
        "roce_rp of priority 3 is off",
        "echo 1 > /sys/class/net/rail1/ecn/roce_rp/enable/3",
    ),
    "ECN off altogether": (
        "roce",
        lambda t: t.ecn("rail1", 3, rp=0, np=0),
        "ECN of rail1",
        "roce_np and roce_rp of priority 3 is off",
        "ECN marking on the switch",
    ),
    "NCCL's packets in another priority": (
        "roce",
        lambda t: t.ports.update(rail4=Dcb(pfc=frozenset({3}), dscp={24: 3, 26: 0})),
        "DSCP trust of rail4",
        "priority 3: DSCP 26, which NCCL sends with, is sorted into priority 0",
        "--dscp2prio set,26,3",
    ),
    "devices of one network namespace": (
        "roce",
        lambda t: write(t.sys / "module/ib_core/parameters/netns_mode", "N"),
        "RDMA network namespaces",
        "devices are exclusive, not shared",
        "options ib_core netns_mode=1",
    ),
    "a kernel that does not say whose devices are": (
        "roce",
        lambda t: shutil.rmtree(t.sys / "module/ib_core"),
        "RDMA network namespaces",
        "cannot be read",
        "ib_core.conf",
    ),
    "the mode on the kernel's command line": (
        "roce",
        lambda t: write(t.root / "proc/cmdline", "quiet ib_core.netns_mode=1"),
        "RDMA network namespaces",
        "reboots the node",
        "in its place",
    ),
    "a NIC that sits loose": (
        "roce",
        lambda t: write(t.pci("0000:12:00.0") / "current_link_width", 8),
        "PCIe of mlx5_2",
        "the link is x8 at 32 GT/s, the NIC can x16 at 32 GT/s",
        "LnkSta",
    ),
    "a slow PCIe link": (
        "roce",
        lambda t: write(t.pci("0000:12:00.0") / "current_link_speed", "16.0 GT/s PCIe"),
        "PCIe of mlx5_2",
        "x16 at 16 GT/s",
        "reseat",
    ),
    "an IOMMU that translates": (
        "roce",
        lambda t: write(t.sys / "kernel/iommu_groups/5/type", "DMA-FQ"),
        "IOMMU",
        "translates the addresses of mlx5_5",
        "iommu=pt",
    ),
    "a driver without ECN settings": (
        "roce",
        lambda t: shutil.rmtree(t.sys / "class/net/rail1/ecn"),
        "ECN of rail1",
        "cannot be read",
        "gate.ecn",
    ),
    "no device plugin": (
        "roce",
        lambda t: t.allocatable.clear(),
        "resource rdma/rdma_shared_device_a",
        "the node offers none, 1 expected",
        "device plugin's pod",
    ),
    "tokens of an hour, which Multus keeps": (
        "roce",
        lambda t: t.own_token(3607),
        "tokens of pods",
        "valid for 60 minutes, and Multus never renews",
        "--service-account-extend-token-expiration=true",
    ),
    "tokens that no API server lets outlive a day": (
        "roce",
        lambda t: t.own_token(86_400),
        "tokens of pods",
        "valid for 1440 minutes",
        "kube-apiserver-arg",
    ),
    "a token that says no time": (
        "roce",
        lambda t: write(t.root / "token", "opaque"),
        "tokens of pods",
        "says of no time",
        "service account",
    ),
    "Lustre over TCP": (
        "lustre",
        lambda t: shutil.rmtree(t.root / "run"),
        "Lustre over EFA",
        "0 of 8 devices carry it: the node mounts over TCP",
        "journalctl -u railhead-lustre-efa",
    ),
    "Lustre on some of its devices": (
        "lustre",
        lambda t: write(t.root / "run" / "lustre-efa", 7),
        "Lustre over EFA",
        "7 of 8 devices carry it",
        "lnetctl net show --net efa",
    ),
    "Lustre without its driver": (
        "lustre",
        lambda t: shutil.rmtree(t.sys / "module" / "kefalnd"),
        "Lustre over EFA",
        "its driver kefalnd is not loaded",
        "lustre_efa_devices: 0",
    ),
    "a device plugin that lost some": (
        "efa",
        lambda t: t.allocatable.update({"vpc.amazonaws.com/efa": "31"}),
        "resource vpc.amazonaws.com/efa",
        "the node offers 31, 32 expected",
        "device plugin's pod",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_node_fails_for_that_reason_alone(tmp_path: Path, case: str) -> None:
    name, spoil, subject, detail, remedy = BROKEN[case]
    make, expected = NODES[name]
    tree = make(tmp_path)
    spoil(tree)
    (finding,) = failed(tree, expected)
    assert finding.name == subject
    assert detail in finding.text
    assert remedy in finding.remedy


def test_a_foreign_nic_decides_nothing(tmp_path: Path) -> None:
    # The storage NIC is down and slow, and the count is of those that pass.
    tree = trees.roce(tmp_path)
    by_count = replace(ROCE, interfaces=(), qos=None, devices=())
    assert failed(tree, by_count) == []
    # It does not stand in for one of the fabric's, either.
    write(port(tree, "mlx5_3") / "state", "1: DOWN")
    subjects = [f.name for f in failed(tree, by_count)]
    assert subjects == ["RDMA device mlx5_3", "RDMA device mlx5_storage", "RDMA devices"]


def test_a_device_without_a_rail_is_named(tmp_path: Path) -> None:
    """A site's list has another NIC than its rails, and no pod a GID on it."""
    tree = trees.roce(tmp_path)
    listed = replace(ROCE, devices=tuple(f"mlx5_{i}" for i in range(8)))
    assert failed(tree, listed) == []
    write(port(tree, "mlx5_storage") / "state", "4: ACTIVE")
    tree.interface("storage", "0000:38:00.0")
    other = replace(listed, devices=("mlx5_storage", *listed.devices[1:]), rate_gbps=100)
    (finding,) = (f for f in failed(tree, other) if f.name == "RDMA device mlx5_storage")
    assert "its interface is storage, which is no rail's" in finding.text
    # Below a bond or a VLAN it may be.
    for rail in other.interfaces:
        (tree.sys / "class" / "net" / rail.name / "device").unlink()
    assert not [f for f in failed(tree, other) if f.name == "RDMA device mlx5_storage"]


def test_virtual_functions_are_not_the_nodes(tmp_path: Path) -> None:
    tree = trees.roce(tmp_path, nics=7)
    tree.virtual_function("mlx5_20", 20, of=0)
    by_count = replace(ROCE, interfaces=(), qos=None, nics=7)
    assert failed(tree, by_count) == []
    assert failed(tree, replace(by_count, nics=8))


def test_names_are_in_their_own_order(tmp_path: Path) -> None:
    tree = trees.infiniband(tmp_path, nics=12)
    by_count = replace(IB, devices=(), nics=12)
    names = [f.name.split()[-1] for f in evaluate(tree.node(), by_count)][:12]
    assert names == [f"mlx5_{i}" for i in range(12)]


class TestMovable:
    """Modes in which the NIC itself moves into the pod."""

    def test_devices_that_a_pod_may_have_are_held(self, tmp_path: Path) -> None:
        tree = trees.lab(tmp_path)
        (tree.sys / "class" / "net" / "rail0").unlink()
        (finding, resource) = evaluate(tree.node(), replace(LAB, movable=True))
        assert finding.passed is None
        assert "a pod may have it" in finding.text
        assert resource.passed

    def test_present_devices_are_still_judged(self, tmp_path: Path) -> None:
        tree = trees.lab(tmp_path)
        write(tree.sys / "class/net/rail0/operstate", "down")
        assert failed(tree, replace(LAB, movable=True))

    def test_returned_devices_are_held(self, tmp_path: Path) -> None:
        tree = trees.lab(tmp_path)
        write(tree.sys / "class/net/rail0/operstate", "down")
        write(tree.sys / "class/net/rail0/flags", "0x1002")
        assert evaluate(tree.node(), replace(LAB, movable=True))[0].passed is None
        assert failed(tree, LAB)
        # Switched on and still without a link, it is broken.
        write(tree.sys / "class/net/rail0/flags", "0x1003")
        assert failed(tree, replace(LAB, movable=True))

    def test_devices_by_count_too(self, tmp_path: Path) -> None:
        tree = trees.infiniband(tmp_path, nics=5)
        findings = evaluate(tree.node(), replace(IB, devices=(), movable=True))
        assert {f.passed for f in findings} == {True, None}


@pytest.mark.parametrize(
    ("wanted", "said", "peermem", "proof"),
    [
        ("dmabuf", trees.OPEN, False, "DMA-BUF"),
        ("peermem", trees.OPEN, True, "nvidia_peermem"),
        ("any", trees.CLOSED, True, "nvidia_peermem"),
        ("any", trees.OPEN, True, "DMA-BUF"),
        ("dmabuf", trees.CLOSED, True, None),
        ("peermem", trees.OPEN, False, None),
    ],
)
def test_gpudirect_by_either_way_or_by_the_one_that_is_wanted(
    tmp_path: Path, wanted: str, said: str, peermem: bool, proof: str | None
) -> None:
    tree = Tree(tmp_path)
    tree.gpu_driver(said=said)
    if peermem:
        (tree.sys / "module" / "nvidia_peermem").mkdir()
    (finding,) = evaluate(tree.node(), Expectation(fabric="roce", gpudirect=wanted))
    assert finding.passed is (proof is not None)
    assert proof in (None, finding.text)


def test_an_expectation_survives_its_json() -> None:
    for _, expected in NODES.values():
        assert Expectation.from_json(expected.to_json()) == expected
    for text in ("{}", '{"fabric": "x", "more": 1}', "[]"):
        with pytest.raises(ValueError, match="not a gate's expectation"):
            Expectation.from_json(text)


def test_a_node_of_which_nothing_is_expected_has_proven_nothing(tmp_path: Path) -> None:
    (finding,) = evaluate(trees.roce(tmp_path).node(), Expectation(fabric="roce in mode none"))
    assert finding.passed is False
    assert "nothing is expected" in finding.text


class TestCounters:
    """A second look, with what the first one counted."""

    def looks(self, tree: Tree, path: str, values: list[tuple[float, int]]) -> list[list[str]]:
        counted: dict[str, tuple[float, int]] = {}
        failed = []
        for now, value in values:
            write(tree.sys / path, value)
            node = replace(tree.node(), now=now, counted=counted)
            failed.append([f.name for f in evaluate(node, ROCE) if not f.passed])
        return failed

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            (
                "class/infiniband/mlx5_3/ports/1/counters/link_downed",
                "link_downed of mlx5_3",
            ),
            ("class/net/rail3/carrier_down_count", "carrier_down_count of rail3"),
        ],
    )
    def test_a_link_that_falls_again_flaps(self, tmp_path: Path, path: str, name: str) -> None:
        """A link that falls once is being worked on."""
        values = [(0, 7), (30, 8), (60, 9), (90, 9), (900, 9)]
        failed = self.looks(trees.roce(tmp_path), path, [(float(t), v) for t, v in values])
        assert failed == [[], [], [name], [name], []]

    def test_damage_is_a_matter_of_how_much(self, tmp_path: Path) -> None:
        path = "class/net/rail3/statistics/rx_crc_errors"
        failed = self.looks(trees.roce(tmp_path), path, [(0, 7), (30, 37), (60, 38), (90, 2)])
        assert failed == [[], [], ["rx_crc_errors of rail3"], []]

    def test_nics_that_a_pod_switched_off_are_not_faults(self, tmp_path: Path) -> None:
        tree, counted = trees.roce(tmp_path), dict[str, tuple[float, int]]()
        moving = replace(ROCE, movable=True)
        for value in (7, 9):
            write(tree.sys / "class/net/rail3/carrier_down_count", value)
            findings = evaluate(replace(tree.node(), counted=counted), moving)
            assert [f for f in findings if not f.passed] == []


def test_a_guest_of_a_hypervisor_shows_no_links(tmp_path: Path) -> None:
    tree = trees.roce(tmp_path)
    write(tree.pci("0000:12:00.0") / "max_link_width", 255)
    subjects = {f.name for f in evaluate(tree.node(), ROCE)}
    assert "PCIe of mlx5_2" not in subjects
    assert "PCIe of mlx5_3" in subjects
