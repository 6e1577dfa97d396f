"""The RDMA devices: verbs, link layer, state, rate and GID of each."""

from __future__ import annotations

import re
from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, absent, entries, link_of, number, text_of

ORDER = 20
_NO_GUID = re.compile(r"^[0:]+$|^fe80:[0:]+$")


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check devices by name, behind interfaces, or a number of any that fit."""
    if not expected.verbs:
        return []
    if expected.devices:
        return [_device(node, expected, name) for name in expected.devices]
    if expected.interfaces:
        return [
            f for interface in expected.interfaces for f in _behind(node, expected, interface.name)
        ]
    return _enough(node, expected)


def _behind(node: Node, expected: Expectation, interface: str) -> list[Finding]:
    names = entries(node.sys / "class" / "net" / interface / "device" / "infiniband")
    if names:
        return [_device(node, expected, name) for name in names]
    subject = f"RDMA device of {interface}"
    if not (node.sys / "class" / "net" / interface).exists():
        return []  # the interface's own finding says so
    return [
        absent(
            subject,
            expected,
            f"there is no RDMA device behind {interface}",
            "load the NIC's RDMA driver (mlx5_ib) on the node; with a driver in a container, look "
            "at its pod; `rdma link` on the node lists what there is",
        )
    ]


def _enough(node: Node, expected: Expectation) -> list[Finding]:
    """Check that enough devices of the kind pass; others do not belong to the fabric."""
    base = node.sys / "class" / "infiniband"
    candidates = [
        name
        for name in entries(base)
        # A virtual function is a pod's, not the node's.
        if not (base / name / "device" / "physfn").exists()
        and expected.driver in (None, link_of(base / name / "device" / "driver"))
        and any(
            expected.link_layer in (None, text_of(port / "link_layer"))
            for port in _ports(base / name)
        )
    ]
    findings = [_device(node, expected, name) for name in candidates]
    proven = [f for f in findings if f.passed]
    if len(proven) >= expected.nics:
        return proven
    kind = " ".join(filter(None, (expected.driver, expected.link_layer, "RDMA devices")))
    short = absent(
        "RDMA devices",
        expected,
        f"{len(proven)} of {expected.nics} {kind} pass, of {', '.join(candidates) or 'none'}",
        "look at the driver of the missing ones (`rdma link`, `dmesg`), then at the machine",
    )
    return [f for f in findings if not f.passed] + [short]


def _ports(device: Path) -> list[Path]:
    return [device / "ports" / port for port in entries(device / "ports")]


def _device(node: Node, expected: Expectation, name: str) -> Finding:
    subject = f"RDMA device {name}"
    device = node.sys / "class" / "infiniband" / name
    if not device.exists():
        known = ", ".join(entries(device.parent)) or "none"
        return absent(
            subject,
            expected,
            f"the node has no such device; there are: {known}",
            "look at its driver and at the machine (`lspci`, `dmesg`), or correct the list of HCAs "
            "in the stack's file",
        )
    ports = _ports(device)
    for check in (_verbs, _link_layer, _state, _rate, _gid, _rail):
        if problem := check(node, expected, name, ports):
            detail, remedy = problem
            return Finding(name=subject, passed=False, text=detail, remedy=remedy)
    rate = text_of(ports[0] / "rate") if ports else ""
    layer = text_of(ports[0] / "link_layer") if ports else ""
    text = ", ".join(filter(None, ("active", layer, rate if expected.rate_gbps else "")))
    return Finding(name=subject, passed=True, text=text)


_Problem = tuple[str, str] | None


def _verbs(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del expected, ports
    verbs = node.sys / "class" / "infiniband_verbs"
    files = [n for n in entries(verbs) if text_of(verbs / n / "ibdev") == name]
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
    layer = text_of(ports[0] / "link_layer")
    if expected.link_layer not in (None, layer):
        return (
            f"its port is {layer or 'unreadable'}, not {expected.link_layer}",
            f"set the port's type by the firmware (mlxconfig LINK_TYPE_P1) and reboot, or leave "
            f"{name} out of the fabric's HCAs",
        )
    return None


def _state(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    del node, name
    state = text_of(ports[0] / "state")
    if state.endswith("ACTIVE"):
        lid = text_of(ports[0] / "lid")
        if expected.link_layer == "InfiniBand" and lid and int(lid, 16) == 0:
            return "its port has no LID", "look at the fabric's subnet manager (`sminfo`)"
        return None
    physical = text_of(ports[0] / "phys_state").partition(": ")[2] or "unknown"
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
    rate = text_of(ports[0] / "rate")
    if expected.rate_gbps and number(rate) < expected.rate_gbps:
        return (
            f"its port runs at {rate or 'no readable rate'}, not at {expected.rate_gbps} Gb/sec",
            "the link came up slower than the NIC: look at cable, lanes and the switch's port "
            "(`mlxlink -d DEVICE`)",
        )
    return None


def _gid(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    """Check for a GID that peers can reach; on RoCE one of version 2, which can be routed."""
    del node, name
    port = ports[0]
    gids = [i for i in entries(port / "gids") if not _NO_GUID.match(text_of(port / "gids" / i))]
    if expected.link_layer == "Ethernet":
        gids = [i for i in gids if text_of(port / "gid_attrs" / "types" / i) == "RoCE v2"]
        if not gids:
            return (
                "its port has no RoCE v2 GID",
                "bring its network interface up: GIDs are made of its addresses; "
                "`rdma link` and `show_gids` on the node",
            )
    elif not gids:
        return "its port has no GID", "look at the driver and at the subnet manager"
    return None


def _rail(node: Node, expected: Expectation, name: str, ports: list[Path]) -> _Problem:
    """Check that a rail is on it: on another a pod has no interface, and so no GID (nccl #1573).

    Rails on a bond or a VLAN are not looked at, which have no device of their own.
    """
    del ports
    base, rails = node.sys / "class", {interface.name for interface in expected.interfaces}
    own = entries(base / "infiniband" / name / "device" / "net")
    known = all((base / "net" / rail / "device").exists() for rail in rails)
    if not rails or not own or not known or rails & set(own):
        return None
    return (
        f"its interface is {', '.join(own)}, which is no rail's: pods would have no GID on it",
        "correct fabric.hcas or the rails in the stack's file; `rdma link` on the node lists "
        "devices with their interfaces",
    )
