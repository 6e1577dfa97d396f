"""Topologies that a hypervisor hides: which NIC is near which GPU, as NCCL reads it from a file."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree

# Classes of PCI devices.
_BRIDGE, _GPU, _NIC = "0x060400", "0x030200", "0x020700"


@dataclass(frozen=True, kw_only=True)
class NumaNode:
    """A NUMA node of a virtual machine.

    Args:
        affinity: the mask of its CPUs, as Linux writes it.
        switches: PCI addresses of the GPUs and of the NICs behind each switch, the GPUs first.
    """

    affinity: str
    switches: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A machine's topology.

    Args:
        file: the name of its file.
        cpu: vendor, family and model of its CPUs, as NCCL names them.
        link_speed: of every PCI link; each is 16 lanes wide.
        nodes: its NUMA nodes.
        source: where it was read.
    """

    file: str
    cpu: tuple[str, int, int]
    link_speed: str
    nodes: tuple[NumaNode, ...]
    source: str

    def text(self) -> str:
        """Return the file's text, which NCCL_TOPO_FILE names (NCCL, src/graph/xml.cc)."""
        system = ElementTree.Element("system", version="1")
        vendor, family, model = self.cpu
        number = 0
        for numa, node in enumerate(self.nodes):
            cpu = ElementTree.SubElement(
                system,
                "cpu",
                numaid=str(numa),
                affinity=node.affinity,
                arch="x86_64",
                vendor=vendor,
                familyid=str(family),
                modelid=str(model),
            )
            for gpus, nics in node.switches:
                number += 1
                switch = self._device(cpu, f"ffff:ff:{number:02x}.0", _BRIDGE)
                for address in gpus:
                    self._device(switch, address, _GPU)
                for address in nics:
                    self._device(switch, address, _NIC)
        ElementTree.indent(system)
        return ElementTree.tostring(system, encoding="unicode") + "\n"

    def _device(
        self, parent: ElementTree.Element, address: str, device_class: str
    ) -> ElementTree.Element:
        return ElementTree.SubElement(
            parent,
            "pci",
            {"busid": address, "class": device_class}
            | {"link_speed": self.link_speed, "link_width": "16"},
        )
