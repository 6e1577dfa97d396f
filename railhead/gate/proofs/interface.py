"""The interfaces of rails: present, up, and with the right MTU."""

from __future__ import annotations

from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation, Interface
from railhead.gate.node import Node, absent, number, text_of

ORDER = 10


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Return one finding per interface."""
    return [_interface(node, expected, interface) for interface in expected.interfaces]


def _interface(node: Node, expected: Expectation, interface: Interface) -> Finding:
    subject = f"interface {interface.name}"
    directory = node.sys / "class" / "net" / interface.name
    if not directory.exists():
        return absent(
            subject,
            expected,
            f"the node has no such interface{_nor(interface)}",
            "correct the rail's interface in the stack's file, or give the NIC its name back "
            "(udev, netplan); `ip link` on the node lists what there is",
        )
    if expected.movable and not _switched_on(directory):
        # The host-device CNI plugin gives an interface back switched off, and switches it on again
        # in the next pod: that says nothing of the link.
        return Finding(
            name=subject,
            passed=None,
            text="it is switched off, as a pod gives it back",
            remedy=f"`ip link set {interface.name} up` on the node shows whether the link is there",
        )
    state, carrier = text_of(directory / "operstate"), text_of(directory / "carrier")
    # A device without a notion of link, such as some virtual ones, says unknown.
    if state not in ("up", "unknown") or carrier == "0":
        return Finding(
            name=subject,
            passed=False,
            text=f"the link is {state or 'unreadable'}",
            remedy=f"`ip link set {interface.name} up` on the node; if it stays down look at "
            "cable, transceiver and the switch's port",
        )
    mtu = int(number(text_of(directory / "mtu")))
    if mtu < interface.mtu:
        return Finding(
            name=subject,
            passed=False,
            text=f"its MTU is {mtu}, the rail needs {interface.mtu}",
            remedy=f"`ip link set {interface.name} mtu {interface.mtu}` on the node, and for good "
            "in its network configuration; or a smaller fabric.mtu in the stack's file",
        )
    return Finding(name=subject, passed=True, text=f"up, MTU {mtu}")


def _nor(interface: Interface) -> str:
    return f", nor {', '.join(interface.others)}" if interface.others else ""


def _switched_on(directory: Path) -> bool:
    flags = text_of(directory / "flags")
    return not flags or bool(int(flags, 16) & 1)
