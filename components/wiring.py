"""What a training pod needs on the configured fabric: devices, networks, environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.catalog.fabrics import FABRICS
from railhead.catalog.machines import MACHINES, Machine
from railhead.config.model import Cluster, Pool


@dataclass(frozen=True, kw_only=True)
class RailInterface:
    """One rail in a pod: its network's name, its index, and the interface it becomes."""

    network: str
    rail: int
    interface: str


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The fabric as a pod meets it.

    ``devices`` is the count of each extended resource a pod requests; ``capabilities`` what a
    container needs to lock memory; ``line_rate_gbps`` a NIC's nominal rate in Gbit/s, 0 for none.
    """

    devices: Mapping[str, int]
    environment: Mapping[str, str]
    capabilities: tuple[str, ...]
    rails: tuple[RailInterface, ...]
    line_rate_gbps: int
    nics_per_node: int

    def networks_annotation(self) -> str:
        """Multus' annotation. No namespace in it: each training namespace has the networks."""
        return json.dumps(
            [{"name": rail.network, "interface": rail.interface} for rail in self.rails],
            separators=(",", ":"),
        )


def wiring(cluster: Cluster) -> Wiring:
    """Derive the wiring from the catalogue's row and the stack's rails."""
    fabric = FABRICS[cluster.fabric.kind]
    rails = tuple(
        RailInterface(network=rail.name, rail=index, interface=f"net{index + 1}")
        for index, rail in enumerate(cluster.fabric.rails)
    )
    interfaces = ",".join(rail.interface for rail in rails)
    machines = [MACHINES[pool.instance_type] for pool in cluster.pools]
    return Wiring(
        devices=MappingProxyType({device.name: device.per_pod for device in fabric.devices}),
        environment=MappingProxyType(
            {v.name: v.value.format(interfaces=interfaces) for v in fabric.environment}
        ),
        capabilities=tuple(c.name for c in fabric.capabilities)
        if cluster.fabric.lock_memory
        else (),
        rails=rails,
        # The slowest NIC of a collective sets its pace.
        line_rate_gbps=min((nic.rate_gbps for m in machines for nic in m.nics), default=0),
        nics_per_node=min(len(machine.nics) for machine in machines),
    )


def capacity(cluster: Cluster, machine: Machine) -> dict[str, int]:
    """What one node has, by resource; memory in GiB, the rest as counts."""
    devices = {d.name: d.per_node for d in FABRICS[cluster.fabric.kind].devices}
    gpus = {machine.gpu_resource: machine.gpus}
    return {"cpu": machine.vcpus, "memory": machine.memory_gib} | gpus | devices


def quantities(cluster: Cluster, pool: Pool, nodes: int = 1) -> dict[str, str]:
    """What ``nodes`` nodes of a pool have, as Kubernetes quantities in their canonical form."""
    per_node = capacity(cluster, MACHINES[pool.instance_type])
    return {
        name: f"{count * nodes}Gi" if name == "memory" else str(count * nodes)
        for name, count in per_node.items()
    }
