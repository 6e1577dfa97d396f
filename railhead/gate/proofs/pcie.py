"""The PCIe link of each NIC: as wide and as fast as the NIC can."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, named_devices, number, text_of

ORDER = 25
# What PCIe has; a hypervisor or a virtual function says 0 or 255.
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check the fabric's devices, on machines that show their own links."""
    if not expected.pcie:
        return []
    findings = [_link(node, name) for name in named_devices(node, expected)]
    return [finding for finding in findings if finding is not None]


def _link(node: Node, name: str) -> Finding | None:
    device = node.sys / "class" / "infiniband" / name / "device"
    width, most = (
        int(number(text_of(device / f"{which}_link_width"))) for which in ("current", "max")
    )
    speed, fastest = (
        number(text_of(device / f"{which}_link_speed")) for which in ("current", "max")
    )
    if width not in _WIDTHS or most not in _WIDTHS:
        return None
    subject = f"PCIe of {name}"
    now = f"x{width} at {speed:g} GT/s"
    if width >= most and speed >= fastest:
        return Finding(name=subject, passed=True, text=now)
    return Finding(
        name=subject,
        passed=False,
        text=f"the link is {now}, the NIC can x{most} at {fastest:g} GT/s",
        remedy="reseat the NIC or its riser, look at the slot and at the firmware's bifurcation "
        "(`lspci -vv`, LnkSta); gate.pcie: false where the slot is narrower by design",
    )
