"""The IOMMU, which must not translate NICs' traffic: it would go through the root complex.

ACS of the switches in between is in the extended configuration space, which only root can read;
the gate is not root and cannot check it.
"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, named_devices, text_of

ORDER = 26


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Return one finding for all NICs, if they must reach GPU memory."""
    if not expected.iommu or expected.gpudirect is None:
        return []
    devices = named_devices(node, expected)
    translated = [name for name in devices if _type(node, name).startswith("DMA")]
    if not devices:
        return []
    if not translated:
        return [Finding(name="IOMMU", passed=True, text="off, or passes the NICs through")]
    return [
        Finding(
            name="IOMMU",
            passed=False,
            text=f"it translates the addresses of {', '.join(translated)}: what they send to a GPU "
            "goes by the root complex",
            remedy="`iommu=pt` on the kernel's command line, or the IOMMU off in the firmware; and "
            "ACS off on the switches between GPU and NIC, which only root can see (`lspci -vv`)",
        )
    ]


def _type(node: Node, name: str) -> str:
    """Return the type of the device's IOMMU group, ``DMA`` or ``identity``; empty without one."""
    return text_of(node.sys / "class" / "infiniband" / name / "device" / "iommu_group" / "type")
