"""GKE: what a node pool of a machine type needs, and the networks of its nodes' interfaces.

The rows are with the machines', in :mod:`railhead.machines`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Literal

from railhead.machines.machine import Machine

#: GKE documentation, GKE release schedule: the day on which a minor's standard support ends, as
#: endoflife-date/endoflife.date has it (products/google-kubernetes-engine.md, 2026-08-22).
STANDARD_SUPPORT_ENDS: Mapping[str, date] = MappingProxyType(
    {
        "1.33": date(2026, 8, 3),
        "1.34": date(2026, 10, 1),
        "1.35": date(2027, 4, 11),
        "1.36": date(2027, 8, 9),
    }
)


@dataclass(frozen=True, kw_only=True)
class NodeNetwork:
    """One network interface of a node beside the primary one, in the order GKE attaches them.

    Args:
        name: of the GKE ``Network`` object that pods name, and the end of the VPC's or subnet's.
        device: ``NetDevice`` is a gVNIC in a VPC of its own; ``RDMA`` is a NIC on one subnet of the
            VPC that all RDMA NICs share.
    """

    name: str
    device: Literal["NetDevice", "RDMA"]


def node_networks(machine: Machine) -> tuple[NodeNetwork, ...]:
    """Return a node's networks beside its primary interface, in the order of its NICs.

    The names are those of Google's own blueprints: ``vpc1`` and up for GPU NICs that are gVNICs;
    ``gvnic-1`` for the host's second one and ``rdma-0`` and up for GPU NICs with RDMA.
    """
    host = [
        NodeNetwork(name=f"gvnic-{index}", device="NetDevice")
        for index, _ in enumerate(machine.host_nics[1:], start=1)
    ]
    fabric = [
        NodeNetwork(name=f"rdma-{index}", device="RDMA")
        if nic.interface == "mrdma"
        else NodeNetwork(name=f"vpc{index + 1}", device="NetDevice")
        for index, nic in enumerate(machine.nics)
    ]
    return (*host, *fabric)
