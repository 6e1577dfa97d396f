"""GKE: what a node pool of a machine type needs, and the networks of its nodes' interfaces.

The rows are with the machines', in :mod:`railhead.machines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from railhead.machines.machine import Machine


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
