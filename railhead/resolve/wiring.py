"""What a training pod needs on the configured fabric, as every runtime and launcher gets it.

:func:`wiring` is the only place that turns a stack's fabric into what a pod requests, joins, mounts
and sets. It is pure data: no Pulumi in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from railhead.catalog.machines import MACHINES, Machine
from railhead.catalog.parts import DeviceResource, HostPath
from railhead.fabric.config import (
    AnyFabric,
    AnyRail,
    DranetFabric,
    EfaFabric,
    GcpRdmaFabric,
    HostDeviceFabric,
    IpoibFabric,
    RailedFabric,
    RdmaSharedFabric,
    SriovIbFabric,
    SriovRoceFabric,
    TcpxFabric,
    TcpxoFabric,
    rails_of,
)
from railhead.fabric.rows import (
    FABRICS,
    MODES,
    Mode,
    ModeName,
    environment_of,
)
from railhead.model.cluster import Cluster, Pool

NETWORKS_ANNOTATION = "k8s.v1.cni.cncf.io/networks"
GKE_INTERFACES = "networking.gke.io/interfaces"
GKE_DEFAULT_INTERFACE = "networking.gke.io/default-interface"
# The network that every GKE pod has anyway; the annotation must list it with the others.
GKE_POD_NETWORK = "default"
# Where an operator's networks live: each of its objects makes one network, in one namespace.
NETWORKS_NAMESPACE = "railhead-fabric"
# What the SR-IOV device plugin puts before the resources that policies name.
DEVICE_PREFIX = "nvidia.com"
HUGEPAGES = "hugepages-2Mi"
# A claim of the pod, by which its container asks for the NICs.
CLAIM = "rdma"


@dataclass(frozen=True, kw_only=True)
class RailInterface:
    """One rail in a pod: its network's name, its index, and the interface it becomes.

    ``namespace`` is the network's, None where it is each training namespace's own.
    """

    network: str
    rail: int
    interface: str
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The fabric as a pod meets it.

    Args:
        mode: how the fabric enters the pod.
        gpus: GPUs of the pod.
        devices: count of each extended resource that a pod requests.
        environment: the trainer container's variables.
        capabilities: what that container needs to lock memory.
        rails: interfaces beside the pod network's.
        annotations: of the pod; they bring the interfaces.
        claim: name of the ResourceClaimTemplate of the pod's NICs, or None.
        host_paths: what of the node's file system the pod mounts, per container.
        hugepages_mib: 2 MiB huge pages that the pod requests, in MiB.
        host_network: whether the pod must be in the node's network namespace.
        line_rate_gbps: a NIC's nominal rate in Gbit/s, 0 for none.
        nics_per_node: NICs of the training fabric of one node.
    """

    mode: ModeName
    gpus: int
    devices: Mapping[str, int]
    environment: Mapping[str, str]
    capabilities: tuple[str, ...]
    rails: tuple[RailInterface, ...]
    annotations: Mapping[str, str]
    claim: str | None
    host_paths: tuple[HostPath, ...]
    hugepages_mib: int
    host_network: bool
    line_rate_gbps: int
    nics_per_node: int

    def networks_annotation(self) -> str:
        """What :data:`NETWORKS_ANNOTATION` says of the pod; an empty list without rails."""
        return self.annotations.get(NETWORKS_ANNOTATION, "[]")

    def requests(self) -> dict[str, str]:
        """The extended resources and huge pages of one pod, as Kubernetes quantities."""
        counted = {name: str(count) for name, count in self.devices.items()}
        return counted | ({HUGEPAGES: f"{self.hugepages_mib}Mi"} if self.hugepages_mib else {})


def wiring(cluster: Cluster, pool: Pool | None = None, gpus: int | None = None) -> Wiring:
    """The wiring of a pod with ``gpus`` GPUs of a node of ``pool``.

    None for ``pool`` is the cluster's first, None for ``gpus`` all of a node's.
    """
    fabric = cluster.fabric
    mode = MODES[fabric.mode]
    pool = pool or cluster.pools[0]
    machine = MACHINES[pool.instance_type]
    nics = _share(machine, gpus)
    rails = rail_interfaces(fabric)
    machines = [MACHINES[p.instance_type] for p in cluster.pools]
    return Wiring(
        mode=mode.name,
        gpus=machine.gpus if gpus is None else gpus,
        devices=MappingProxyType(_pod_devices(fabric, nics)),
        environment=MappingProxyType(_environment(fabric, mode, machine, rails)),
        capabilities=tuple(c.name for c in mode.capabilities_on(fabric.kind))
        if fabric.lock_memory
        else (),
        rails=rails,
        annotations=MappingProxyType(_annotations(mode, rails)),
        claim=claim_of(cluster, nics),
        host_paths=mode.host_paths_on(fabric.kind),
        hugepages_mib=mode.hugepages_mib * nics,
        host_network=mode.host_network is not None,
        # The slowest NIC of a collective sets its pace.
        line_rate_gbps=min((nic.rate_gbps for m in machines for nic in m.nics), default=0),
        nics_per_node=min(len(machine.nics) for machine in machines),
    )


def _share(machine: Machine, gpus: int | None) -> int:
    """NICs that go with ``gpus`` of a machine's GPUs; at least one."""
    if gpus is None or gpus >= machine.gpus:
        return len(machine.nics)
    return max(1, len(machine.nics) * gpus // machine.gpus)


def resource_of(rail: AnyRail) -> str:
    """The short name that the SR-IOV device plugin advertises a rail's devices by."""
    return getattr(rail, "resource", None) or rail.name.replace("-", "_")


def _resources(fabric: AnyFabric, device: DeviceResource) -> tuple[str, ...]:
    """The resources that a row of the catalogue stands for in this stack."""
    if isinstance(fabric, (RdmaSharedFabric, IpoibFabric)):
        return (fabric.resource,)
    if isinstance(fabric, HostDeviceFabric) and not fabric.resources:
        return ()
    if isinstance(fabric, (SriovRoceFabric, SriovIbFabric, HostDeviceFabric)):
        return tuple(f"{DEVICE_PREFIX}/{resource_of(rail)}" for rail in fabric.rails)
    if isinstance(fabric, EfaFabric) and fabric.allocation == "dra":
        return ()
    return (device.name,)


def _pod_devices(fabric: AnyFabric, nics: int) -> dict[str, int]:
    return {
        name: device.per_pod * (nics if device.scope == "nic" else 1)
        for device in MODES[fabric.mode].devices
        for name in _resources(fabric, device)
    }


def _node_devices(fabric: AnyFabric, machine: Machine) -> dict[str, int]:
    return {
        name: _per_node(fabric, device, machine)
        for device in MODES[fabric.mode].devices
        for name in _resources(fabric, device)
    }


def _per_node(fabric: AnyFabric, device: DeviceResource, machine: Machine) -> int:
    if device.scope == "nic":
        return len(machine.nics)
    if isinstance(fabric, (SriovRoceFabric, SriovIbFabric)):
        return fabric.sriov.vfs
    if isinstance(fabric, (RdmaSharedFabric, IpoibFabric)):
        return fabric.shares
    return device.per_node or 1


def qualified(fabric: AnyFabric) -> bool:
    """Whether an operator makes the networks, in a namespace of their own."""
    if isinstance(fabric, (SriovRoceFabric, SriovIbFabric)):
        return True
    return isinstance(fabric, RailedFabric) and fabric.network_operator is not None


def rail_interfaces(fabric: AnyFabric) -> tuple[RailInterface, ...]:
    """The interfaces that a pod gets beside its pod network's, in the rails' order."""
    if isinstance(fabric, (GcpRdmaFabric, TcpxoFabric, TcpxFabric)):
        return tuple(
            RailInterface(network=rail.network, rail=index, interface=rail.interface)
            for index, rail in enumerate(fabric.rails)
        )
    namespace = NETWORKS_NAMESPACE if qualified(fabric) else None
    return tuple(
        RailInterface(
            network=rail.name, rail=index, interface=f"net{index + 1}", namespace=namespace
        )
        for index, rail in enumerate(rails_of(fabric))
    )


def bootstrap_interfaces(fabric: AnyFabric) -> tuple[str, ...]:
    """Where NCCL's bootstrap and gloo are pinned: the rails, or the pod network's interface.

    Sockets that are not bound find no way over a routed rail (its routes are looked up by source
    address), nor over one without addresses.
    """
    rails = rails_of(fabric)
    flat = bool(rails) and all(rail.subnet and not rail.gateway for rail in rails)
    wanted = getattr(fabric, "bootstrap", None) or MODES[fabric.mode].bootstrap
    if wanted == "rails" and flat:
        return tuple(rail.interface for rail in rail_interfaces(fabric))
    return (fabric.pod_interface,)


def _environment(
    fabric: AnyFabric, mode: Mode, machine: Machine, rails: tuple[RailInterface, ...]
) -> dict[str, str]:
    hcas = getattr(fabric, "hcas", None) or machine.hcas
    placeholders = {
        "bootstrap": ",".join(bootstrap_interfaces(fabric)),
        "rails": ",".join(rail.interface for rail in rails),
        "hcas": ",".join(hcas) if mode.hcas else "",
    }
    found: dict[str, str] = {}
    for variable in environment_of(fabric.kind, machine.name):
        empty = [key for key, value in placeholders.items() if not value]
        if not any(f"{{{key}}}" in variable.value for key in empty):
            found[variable.name] = variable.value.format(**placeholders)
    if fabric.topology_file is not None:
        found["NCCL_TOPO_FILE"] = fabric.topology_file
    return found | dict(fabric.environment)


def _annotations(mode: Mode, rails: tuple[RailInterface, ...]) -> dict[str, str]:
    if mode.attachment == "gke":
        listed = [{"interfaceName": "eth0", "network": GKE_POD_NETWORK}]
        listed += [{"interfaceName": r.interface, "network": r.network} for r in rails]
        return {
            GKE_DEFAULT_INTERFACE: "eth0",
            GKE_INTERFACES: json.dumps(listed, separators=(",", ":")),
        }
    if mode.attachment != "multus" or not rails:
        return {}
    networks = [
        {"name": rail.network}
        | ({"namespace": rail.namespace} if rail.namespace else {})
        | {"interface": rail.interface}
        for rail in rails
    ]
    return {NETWORKS_ANNOTATION: json.dumps(networks, separators=(",", ":"))}


def claim_of(cluster: Cluster, nics: int) -> str | None:
    """The ResourceClaimTemplate of ``nics`` NICs, which each training namespace has; or None."""
    fabric = cluster.fabric
    by_claim = isinstance(fabric, DranetFabric) or (
        isinstance(fabric, EfaFabric) and fabric.allocation == "dra"
    )
    return f"railhead-nics-{nics}" if by_claim else None


def capacity(cluster: Cluster, machine: Machine) -> dict[str, int]:
    """What one node has, by resource; memory in GiB, huge pages in MiB, the rest as counts."""
    mode = MODES[cluster.fabric.mode]
    gpus = {machine.gpu_resource: machine.gpus}
    pages = {HUGEPAGES: mode.hugepages_mib * len(machine.nics)} if mode.hugepages_mib else {}
    devices = _node_devices(cluster.fabric, machine)
    return (
        {"cpu": machine.schedulable_vcpus, "memory": machine.schedulable_memory_gib}
        | gpus
        | devices
        | pages
    )


_UNITS = {"memory": "Gi", HUGEPAGES: "Mi"}


def quantities(cluster: Cluster, pool: Pool, nodes: int = 1) -> dict[str, str]:
    """What ``nodes`` nodes of a pool have, as Kubernetes quantities in their canonical form."""
    cpu, memory = pool.schedulable_resources
    per_node = capacity(cluster, MACHINES[pool.instance_type]) | {"cpu": cpu, "memory": memory}
    return {name: f"{count * nodes}{_UNITS.get(name, '')}" for name, count in per_node.items()}


def shared_memory_gib(machine: Machine, gpus: int) -> int:
    """``/dev/shm`` of a pod in GiB: half of the memory that goes with its GPUs, as on Linux itself.

    It is a limit, not a reservation: what is not used is not taken.
    """
    return max(1, machine.schedulable_memory_gib * min(gpus, machine.gpus) // machine.gpus // 2)


def proofs(cluster: Cluster) -> tuple[str, ...]:
    """What NCCL's log must show for the fabric to be proven."""
    return FABRICS[cluster.fabric.kind].proofs
