"""The proofs: what sysfs, /dev, /proc and the node's own status say against what is expected.

Nothing here changes the node, and nothing needs a privilege: the trees are mounted read-only, and a
test gives trees of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from railhead.gate.dcb import Dcb, DcbError
from railhead.gate.expectation import Expectation, Interface

Verdict = Literal["proven", "failed", "held"]

# DMA-BUF for RDMA came to the kernel with 5.12; NVIDIA exports its memory by it with the open
# kernel modules, from release 515 on.
_DMABUF_KERNEL = (5, 12)
_DMABUF_DRIVER = 515
_PEERMEM = ("nvidia_peermem", "nv_peer_mem", "efa_nv_peermem")
_NO_GUID = re.compile(r"^[0:]+$|^fe80:[0:]+$")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One proof.

    ``verdict``: ``held`` is neither: what would prove it is in use by a pod. ``remedy`` is empty
    where there is nothing to mend.
    """

    subject: str
    verdict: Verdict
    detail: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Node:
    """Where a node's own trees are, and what its status offers.

    Args:
        sys: the node's /sys.
        dev: the node's /dev.
        proc: a /proc; what is read there is the kernel's, not a process's.
        kernel: its release, such as ``6.8.0-45-generic``.
        allocatable: extended resources of the node's status.
        dcb: reads a port's lossless settings.
    """

    sys: Path
    dev: Path
    proc: Path
    kernel: str
    allocatable: Mapping[str, str]
    dcb: Callable[[str], Dcb]


def _read(path: Path) -> str:
    """A file's text; empty where it is not there or the driver refuses to say."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _names(directory: Path) -> list[str]:
    """What is in a directory, ``mlx5_2`` before ``mlx5_10``; nothing where it is not there."""
    try:
        found = [entry.name for entry in directory.iterdir()]
    except OSError:
        return []
    return sorted(found, key=lambda n: [part.zfill(9) for part in re.findall(r"\d+|\D+", n)])


def _number(text: str) -> float:
    """The number that a text begins with, such as ``400 Gb/sec (4X NDR)``; 0 without one."""
    found = re.match(r"\d+(?:\.\d+)?", text)
    return float(found[0]) if found else 0.0


def _link(path: Path) -> str:
    """The last element of a symbolic link; empty where it is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""


def evaluate(node: Node, expected: Expectation) -> tuple[Finding, ...]:
    """Every proof, in the order in which one would look for a fault."""
    found = [_interface(node, expected, one) for one in expected.interfaces]
    if expected.verbs:
        found += _devices(node, expected)
    if expected.gpudirect is not None:
        found.append(_gpudirect(node, expected.gpudirect))
    if expected.qos is not None:
        for one in expected.interfaces:
            found += _qos(node, expected, one.name)
    found += [_resource(node, name, count) for name, count in expected.resources.items()]
    return tuple(found)


def _absent(subject: str, expected: Expectation, detail: str, remedy: str) -> Finding:
    if expected.movable:
        return Finding(subject=subject, verdict="held", detail=f"{detail}: a pod may have it")
    return Finding(subject=subject, verdict="failed", detail=detail, remedy=remedy)


def _interface(node: Node, expected: Expectation, interface: Interface) -> Finding:
    subject = f"interface {interface.name}"
    directory = node.sys / "class" / "net" / interface.name
    if not directory.exists():
        return _absent(
            subject,
            expected,
            "the node has no such interface",
            "correct the rail's interface in the stack's file, or give the NIC its name back "
            "(udev, netplan); `ip link` on the node lists what there is",
        )
    if expected.movable and not _switched_on(directory):
        # The host-device CNI plugin gives an interface back switched off, and switches it on again
        # in the next pod: that says nothing of the link.
        return Finding(
            subject=subject,
            verdict="held",
            detail="it is switched off, as a pod gives it back",
            remedy=f"`ip link set {interface.name} up` on the node shows whether the link is there",
        )
    state, carrier = _read(directory / "operstate"), _read(directory / "carrier")
    # A device without a notion of link, such as some virtual ones, says unknown.
    if state not in ("up", "unknown") or carrier == "0":
        return Finding(
            subject=subject,
            verdict="failed",
            detail=f"the link is {state or 'unreadable'}",
            remedy=f"`ip link set {interface.name} up` on the node; if it stays down look at "
            "cable, transceiver and the switch's port",
        )
    mtu = int(_number(_read(directory / "mtu")))
    if mtu < interface.mtu:
        return Finding(
            subject=subject,
            verdict="failed",
            detail=f"its MTU is {mtu}, the rail needs {interface.mtu}",
            remedy=f"`ip link set {interface.name} mtu {interface.mtu}` on the node, and for good "
            "in its network configuration; or a smaller fabric.mtu in the stack's file",
        )
    return Finding(subject=subject, verdict="proven", detail=f"up, MTU {mtu}")


def _switched_on(directory: Path) -> bool:
    flags = _read(directory / "flags")
    return not flags or bool(int(flags, 16) & 1)


# -- RDMA devices ------------------------------------------------------------------------------


def _devices(node: Node, expected: Expectation) -> list[Finding]:
    if expected.devices:
        return [_device(node, expected, name) for name in expected.devices]
    if expected.interfaces:
        return [f for one in expected.interfaces for f in _behind(node, expected, one.name)]
    return _enough(node, expected)


def _behind(node: Node, expected: Expectation, interface: str) -> list[Finding]:
    names = _names(node.sys / "class" / "net" / interface / "device" / "infiniband")
    if names:
        return [_device(node, expected, name) for name in names]
    subject = f"RDMA device of {interface}"
    if not (node.sys / "class" / "net" / interface).exists():
        return []  # said of the interface already
    return [
        _absent(
            subject,
            expected,
            f"there is no RDMA device behind {interface}",
            "load the NIC's RDMA driver (mlx5_ib) on the node; with a driver in a container, look "
            "at its pod; `rdma link` on the node lists what there is",
        )
    ]


def _enough(node: Node, expected: Expectation) -> list[Finding]:
    """Without names: so many devices of the kind must pass; others are none of the fabric's."""
    base = node.sys / "class" / "infiniband"
    candidates = [
        name
        for name in _names(base)
        # A virtual function is a pod's, not the node's.
        if not (base / name / "device" / "physfn").exists()
        and expected.driver in (None, _link(base / name / "device" / "driver"))
        and any(
            expected.link_layer in (None, _read(port / "link_layer"))
            for port in _ports(base / name)
        )
    ]
    findings = [_device(node, expected, name) for name in candidates]
    proven = [f for f in findings if f.verdict == "proven"]
    if len(proven) >= expected.nics:
        return proven
    kind = " ".join(filter(None, (expected.driver, expected.link_layer, "RDMA devices")))
    short = _absent(
        "RDMA devices",
        expected,
        f"{len(proven)} of {expected.nics} {kind} pass, of {', '.join(candidates) or 'none'}",
        "look at the driver of the missing ones (`rdma link`, `dmesg`), then at the machine",
    )
    return [f for f in findings if f.verdict != "proven"] + [short]


def _ports(device: Path) -> list[Path]:
    return [device / "ports" / port for port in _names(device / "ports")]


def _device(node: Node, expected: Expectation, name: str) -> Finding:
    subject = f"RDMA device {name}"
    device = node.sys / "class" / "infiniband" / name
    if not device.exists():
        known = ", ".join(_names(device.parent)) or "none"
        return _absent(
            subject,
            expected,
            f"the node has no such device; there are: {known}",
            "look at its driver and at the machine (`lspci`, `dmesg`), or correct the list of HCAs "
            "in the stack's file",
        )
    ports = _ports(device)
    for check in (_verbs, _link_layer, _state, _rate, _gid):
        if problem := check(node, expected, name, ports):
            detail, remedy = problem
            return Finding(subject=subject, verdict="failed", detail=detail, remedy=remedy)
    rate = _read(ports[0] / "rate") if ports else ""
    layer = _read(ports[0] / "link_layer") if ports else ""
    told = ", ".join(filter(None, ("active", layer, rate if expected.rate_gbps else "")))
    return Finding(subject=subject, verdict="proven", detail=told)


_Problem = tuple[str, str] | None


def _verbs(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del expected, ports
    verbs = node.sys / "class" / "infiniband_verbs"
    files = [n for n in _names(verbs) if _read(verbs / n / "ibdev") == name]
    if not files:
        return "it has no userspace verbs", "load ib_uverbs on the node (`modprobe ib_uverbs`)"
    if not (node.dev / "infiniband" / files[0]).exists():
        return (
            f"/dev/infiniband/{files[0]} is missing",
            "look at udev (rdma-core's rules) on the node: the device plugin gives pods this file",
        )
    return None


def _link_layer(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del node
    if not ports:
        return "it has no port", "look at the driver's messages (`dmesg | grep mlx5`)"
    layer = _read(ports[0] / "link_layer")
    if expected.link_layer not in (None, layer):
        return (
            f"its port is {layer or 'unreadable'}, not {expected.link_layer}",
            f"set the port's type by the firmware (mlxconfig LINK_TYPE_P1) and reboot, or leave "
            f"{name} out of the fabric's HCAs",
        )
    return None


def _state(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del node, name
    state = _read(ports[0] / "state")
    if state.endswith("ACTIVE"):
        lid = _read(ports[0] / "lid")
        if expected.link_layer == "InfiniBand" and lid and int(lid, 16) == 0:
            return "its port has no LID", "look at the fabric's subnet manager (`sminfo`)"
        return None
    physical = _read(ports[0] / "phys_state").partition(": ")[2] or "unknown"
    if state.endswith("INIT"):
        return (
            "its port is INIT: the link is there and no subnet manager has brought it up",
            "look at the subnet manager (`sminfo`, opensm or the switch's own)",
        )
    return (
        f"its port is {state.partition(': ')[2] or state or 'unreadable'}, physically {physical}",
        "look at cable, transceiver and the switch's port (`mlxlink -d DEVICE`)",
    )


def _rate(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del node, name
    rate = _read(ports[0] / "rate")
    if expected.rate_gbps and _number(rate) < expected.rate_gbps:
        return (
            f"its port runs at {rate or 'no readable rate'}, not at {expected.rate_gbps} Gb/sec",
            "the link came up slower than the NIC: look at cable, lanes and the switch's port "
            "(`mlxlink -d DEVICE`)",
        )
    return None


def _gid(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    """A GID that peers can reach; on RoCE one of version 2, which is the one that is routed."""
    del node, name
    port = ports[0]
    gids = [i for i in _names(port / "gids") if not _NO_GUID.match(_read(port / "gids" / i))]
    if expected.link_layer == "Ethernet":
        gids = [i for i in gids if _read(port / "gid_attrs" / "types" / i) == "RoCE v2"]
        if not gids:
            return (
                "its port has no RoCE v2 GID",
                "bring its network interface up: GIDs are made of its addresses; "
                "`rdma link` and `show_gids` on the node",
            )
    elif not gids:
        return "its port has no GID", "look at the driver and at the subnet manager"
    return None


# -- GPUDirect, lossless Ethernet, resources ---------------------------------------------------


def _gpudirect(node: Node, wanted: str) -> Finding:
    subject = "GPUDirect RDMA"
    problems = []
    if wanted in ("any", "dmabuf"):
        problem = _dmabuf(node)
        if not problem:
            return Finding(subject=subject, verdict="proven", detail="DMA-BUF")
        problems.append(f"DMA-BUF: {problem}")
    if wanted in ("any", "peermem"):
        loaded = [m for m in _PEERMEM if (node.sys / "module" / m).is_dir()]
        if loaded:
            return Finding(subject=subject, verdict="proven", detail=loaded[0])
        problems.append("nvidia-peermem: the module is not loaded")
    return Finding(
        subject=subject,
        verdict="failed",
        detail="NICs do not reach GPU memory: " + "; ".join(problems),
        remedy="use NVIDIA's open kernel modules (the GPU operator's driver.kernelModuleType: "
        "open), or `modprobe nvidia-peermem` (its driver.rdma.enabled)",
    )


def _dmabuf(node: Node) -> str:
    """Why DMA-BUF cannot work; empty where it can."""
    version = tuple(int(n) for n in re.findall(r"\d+", node.kernel)[:2])
    if version < _DMABUF_KERNEL:
        return f"kernel {node.kernel} is older than {'.'.join(map(str, _DMABUF_KERNEL))}"
    if not (node.sys / "module" / "nvidia").is_dir():
        return "the NVIDIA driver is not loaded"
    said = _read(node.proc / "driver" / "nvidia" / "version")
    if "Open Kernel Module" not in said:
        return "the driver's kernel modules are not the open ones"
    release = _number(_read(node.sys / "module" / "nvidia" / "version"))
    if release < _DMABUF_DRIVER:
        return f"driver {release:g} is older than {_DMABUF_DRIVER}"
    return ""


def _qos(node: Node, expected: Expectation, interface: str) -> list[Finding]:
    qos = expected.qos
    if qos is None or not (node.sys / "class" / "net" / interface).exists():
        return []
    found = []
    try:
        dcb = node.dcb(interface)
    except DcbError as error:
        found.append(
            Finding(
                subject=f"PFC and trust of {interface}",
                verdict="failed",
                detail=f"cannot be read: {error}",
                remedy="the interface's driver must offer DCB (CONFIG_MLX5_CORE_EN_DCB)",
            )
        )
    else:
        found.append(_pfc(dcb, qos.priority, interface))
        if qos.trust_dscp:
            found.append(_trust(dcb, qos.priority, interface))
    if qos.ecn:
        found.append(_ecn(node, qos.priority, interface))
    return found


def _pfc(dcb: Dcb, priority: int, interface: str) -> Finding:
    subject = f"PFC of {interface}"
    if priority in dcb.pfc:
        return Finding(subject=subject, verdict="proven", detail=f"on priority {priority}")
    now = ", ".join(map(str, sorted(dcb.pfc))) or "none"
    bits = ",".join("1" if p == priority else "0" for p in range(8))
    return Finding(
        subject=subject,
        verdict="failed",
        detail=f"priority {priority} drops instead of pausing; priorities with PFC: {now}",
        remedy=f"`mlnx_qos -i {interface} --pfc {bits}` on the node, and the same on the switch",
    )


def _trust(dcb: Dcb, priority: int, interface: str) -> Finding:
    subject = f"DSCP trust of {interface}"
    if any(p == priority for p in dcb.dscp.values()):
        return Finding(subject=subject, verdict="proven", detail=f"sorts into priority {priority}")
    detail = "no DSCP is sorted into it" if dcb.dscp else "the port trusts PCP, not DSCP"
    return Finding(
        subject=subject,
        verdict="failed",
        detail=f"priority {priority}: {detail}",
        remedy=f"`mlnx_qos -i {interface} --trust dscp` on the node; "
        f"`mlnx_qos -i {interface} --dscp2prio set,DSCP,{priority}` for a DSCP of your own",
    )


def _ecn(node: Node, priority: int, interface: str) -> Finding:
    """Both ends of DCQCN: the notification point answers marks, the reaction point slows down."""
    subject = f"ECN of {interface}"
    base = node.sys / "class" / "net" / interface / "ecn"
    off = []
    for end in ("roce_np", "roce_rp"):
        now = _read(base / end / "enable" / str(priority))
        if not now:
            return Finding(
                subject=subject,
                verdict="failed",
                detail=f"{end} of priority {priority} cannot be read: not DOCA-OFED's driver",
                remedy="install DOCA-OFED (network_operator.ofed), or set gate.ecn to false where "
                "the kernel's own driver is used and the NIC's firmware defaults are trusted",
            )
        if now != "1":
            off.append(end)
    if off:
        return Finding(
            subject=subject,
            verdict="failed",
            detail=f"{' and '.join(off)} of priority {priority} is off",
            remedy=f"`echo 1 > /sys/class/net/{interface}/ecn/{off[0]}/enable/{priority}` on the "
            "node, and ECN marking on the switch",
        )
    return Finding(subject=subject, verdict="proven", detail=f"on priority {priority}")


def _resource(node: Node, name: str, count: int) -> Finding:
    subject = f"resource {name}"
    offered = node.allocatable.get(name, "")
    if int(_number(offered)) >= count:
        return Finding(subject=subject, verdict="proven", detail=f"{offered} offered")
    return Finding(
        subject=subject,
        verdict="failed",
        detail=f"the node offers {offered or 'none'}, {count} expected",
        remedy="look at the device plugin's pod on this node, and at the driver below it",
    )
