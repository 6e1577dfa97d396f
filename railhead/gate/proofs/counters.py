"""Links that go down and come back between two checks, or that carry damaged packets.

The counters only grow, so what counts is their growth since the watch began, which restarts every
quarter of an hour.
"""

from __future__ import annotations

from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, named_devices, text_of

ORDER = 27
_WATCH_SECONDS = 900.0
# InfiniBand's bit error rate of 1e-12 is 120 symbol errors an hour.
_DAMAGED = 30
# A link that someone takes down for work goes down once; one that goes down again soon flaps.
_FALLS = 1
_MAY_GROW = {
    "link_downed": _FALLS,
    "symbol_error": _DAMAGED,
    "port_rcv_errors": _DAMAGED,
    "rx_crc_errors": _DAMAGED,
    "carrier_down_count": _FALLS,
}


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check RDMA ports, and interfaces that stay on the node."""
    findings = []
    for name in named_devices(node, expected) if expected.verbs else ():
        findings += _watched(
            node,
            name,
            node.sys / "class" / "infiniband" / name / "ports" / "1" / "counters",
            ("link_downed", "symbol_error", "port_rcv_errors"),
        )
    # An interface that a pod gives back is switched off: that is not a fault of the link.
    for interface in () if expected.movable else expected.interfaces:
        base = node.sys / "class" / "net" / interface.name
        findings += _watched(node, interface.name, base / "statistics", ("rx_crc_errors",))
        findings += _watched(node, interface.name, base, ("carrier_down_count",))
    return findings


def _watched(node: Node, name: str, directory: Path, counters: tuple[str, ...]) -> list[Finding]:
    findings = []
    for counter in counters:
        text = text_of(directory / counter)
        if not text.isdigit():
            continue
        subject, most = f"{counter} of {name}", _MAY_GROW[counter]
        if _grown(node, f"{name} {counter}", int(text)) <= most:
            findings.append(Finding(name=subject, passed=True, text=f"grew by {most} at most"))
            continue
        # Without the number, which would publish the finding again at each change.
        findings.append(
            Finding(
                name=subject,
                passed=False,
                text=f"it grew by more than {most} within a quarter of an hour",
                remedy="look at cable, transceiver and the switch's port (`mlxlink -d DEVICE`, "
                "`ethtool -S`); the watch restarts every quarter of an hour",
            )
        )
    return findings


def _grown(node: Node, key: str, value: int) -> int:
    """Return how much a counter grew since its watch began."""
    since, first = node.counted.get(key, (node.now, value))
    # Below its first value it was reset, with the driver or by hand.
    if value < first or node.now - since >= _WATCH_SECONDS:
        since, first = node.now, value
    node.counted[key] = (since, first)
    return value - first
