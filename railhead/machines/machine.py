"""The type of an instance type's row; the rows are in ``rows/<provider>.yaml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

#: The kind under which a network interface is attached: an EC2 `InterfaceType`, a Compute Engine
#: `nicType`, a host channel adapter of a metal machine or of one passed through, a lab's veth.
Interface = Literal["interface", "efa", "efa-only", "gvnic", "mrdma", "hca", "veth"]


@dataclass(frozen=True, kw_only=True)
class Nic:
    """One network interface of a machine.

    Args:
        card: network card, as the machine's own layout counts it (data, never a formula).
        device: place on that card.
        rate_gbps: nominal line rate in Gbit/s; 0 without one (a bridge of a lab).
        interface: the kind under which it is attached.
        hca: name of its RDMA device on the node; None if the maker's naming is not known or must
            not be pinned.
    """

    card: int
    device: int
    rate_gbps: int
    interface: Interface = "veth"
    hca: str | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One published result of nccl-tests.

    Args:
        collective: such as ``all_reduce``.
        nodes: machines that took part.
        size_bytes: the message's size.
        busbw: bus bandwidth in GB/s (10^9 bytes), out of place if both were published.
        transport: what carried it between machines: ``network``, or ``nvlink`` if an NVLink
            domain spans machines, which says nothing about the NICs.
        sharp: whether switches did part of the sums; a cluster without SHARP cannot reach it.
        source: where it was published.
        reading: name of the reading that confirmed it last.
    """

    collective: str
    nodes: int
    size_bytes: int
    busbw: float
    transport: Literal["network", "nvlink"]
    sharp: bool = False
    source: str
    reading: str = ""


@dataclass(frozen=True, kw_only=True)
class GkeMachine:
    """GKE's settings for a machine type.

    Args:
        accelerator: ``acceleratorType`` of its GPUs.
        network_profile: the end of the name of the zone's profile for the RDMA VPC, or None.
        mtu: of the GPU networks in Google's own blueprint, in bytes.
        local_ssds: NVMe disks that back ephemeral storage; 0 is the machine type's own number.
        compact: whether a compact placement policy may hold its nodes.
        compact_nodes: the most nodes of a pool with compact placement; 0 without it.
        least_max_distance: the narrowest ``maxDistance`` that a compact policy may ask for.
        labelled: whether nodes have ``gce-topology-*`` labels without a placement policy.
        boot_disks: the types of disk that a node may boot from.
        flex_start_compact: whether flex-start may go with compact placement.
        dranet: whether the accelerator network profile ``auto`` knows it.
        accelerator_topology: the value that a workload policy needs for it, or None.
        sources: field name -> where it was read.
    """

    accelerator: str
    network_profile: Literal["vpc-roce"] | None
    mtu: int
    local_ssds: int
    compact: bool
    compact_nodes: int
    least_max_distance: Literal[1, 2]
    labelled: bool
    boot_disks: tuple[str, ...]
    flex_start_compact: bool
    dranet: bool
    accelerator_topology: str | None
    sources: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An instance type, or one model of a metal machine.

    A field that nobody publishes is None, and ``sources`` says so.

    Args:
        name: as in a stack's ``instance_type``; a cloud's own name for its machines.
        platforms: the stack platforms that may use it; clouds without a platform of their own are
            ``existing``.
        provider: the owner of the machine type.
        accelerator: its row of :mod:`railhead.machines.accelerators`; None for a stand-in.
        architecture: of the CPU, as in ``kubernetes.io/arch``.
        gpu_resource: the extended resource its device plugin advertises for one GPU.
        gpus: GPUs per node.
        gpu_memory_gib: memory of one GPU in GiB, rounded down; 0 for a stand-in.
        vcpus: of the whole machine; None if it is the buyer's choice.
        memory_gib: of the whole machine in GiB; None if it is the buyer's choice.
        schedulable_vcpus: what pods can request on a node; quotas are computed from it.
        schedulable_memory_gib: the same for memory, in GiB.
        nics: interfaces of the training fabric.
        host_nics: all others that the machine's layout names, the primary one first.
        fabrics: names of rows of :mod:`railhead.fabric.kinds` that it can be wired to, without
            plain ethernet.
        nvlink_domain: how many GPUs one NVLink domain has; more than ``gpus`` spans machines.
        limits: limits on where and how it can be obtained, one sentence each.
        rail_mtu: of the provider's own fabric interfaces in bytes; None if the site sets it.
        published: results of nccl-tests that others measured on it.
        gke: settings of a GKE node pool for it; None if GKE does not have it.
        sources: field name -> where its figure was read, or why it has no source.
        readings: figure -> name of the reading in ``readings.yaml`` that confirmed it last, or that
            says why it could not be read again; a team's own rows need none.
    """

    name: str
    platforms: frozenset[str]
    provider: str = "metal"
    accelerator: str | None
    architecture: Literal["amd64", "arm64"] = "amd64"
    gpu_resource: str = "nvidia.com/gpu"
    gpus: int
    gpu_memory_gib: int
    vcpus: int | None
    memory_gib: int | None
    schedulable_vcpus: int
    schedulable_memory_gib: int
    nics: tuple[Nic, ...]
    host_nics: tuple[Nic, ...] = ()
    fabrics: frozenset[str]
    nvlink_domain: int
    limits: tuple[str, ...] = ()
    rail_mtu: int | None = None
    published: tuple[Measurement, ...] = ()
    gke: GkeMachine | None = None
    sources: Mapping[str, str]
    readings: Mapping[str, str] = field(default_factory=dict)

    @property
    def stand_in(self) -> bool:
        """True if its GPUs are only advertised, as in a lab."""
        return self.gpu_memory_gib == 0

    @property
    def line_rate_gbps(self) -> int:
        """The rate of all NICs of the training fabric together, in Gbit/s; 0 without a rate."""
        return sum(nic.rate_gbps for nic in self.nics)

    @property
    def spans_nodes(self) -> bool:
        """True if its NVLink domain has GPUs of other machines too."""
        return self.nvlink_domain > self.gpus

    @property
    def switches_behind_infiniband(self) -> bool:
        """True if its NVSwitches are reached through the InfiniBand modules of its own NICs.

        Those of an NVL72 are in trays of their own (fabric manager guide; gpu-operator #2781).
        """
        return self.accelerator in ("b200", "b300")

    @property
    def hcas(self) -> tuple[str, ...]:
        """The RDMA devices of the training fabric; empty unless all are known."""
        names = tuple(nic.hca for nic in self.nics if nic.hca is not None)
        return names if len(names) == len(self.nics) else ()


#: Fields that hold a figure; each must have a source in every row, even if it is None.
FIGURES = (
    "gpus",
    "gpu_memory_gib",
    "vcpus",
    "memory_gib",
    "schedulable",
    "nics",
    "host_nics",
    "hcas",
    "nvlink_domain",
    "limits",
)
