"""What the catalogue says of an instance type; the rows are in ``machines_<provider>.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: What a network interface is to whoever attaches it: an EC2 `InterfaceType`, a Compute Engine
#: `nicType`, a host channel adapter of a metal machine or of one passed through, a lab's veth.
Interface = Literal["interface", "efa", "efa-only", "gvnic", "mrdma", "hca", "veth"]


@dataclass(frozen=True, kw_only=True)
class Nic:
    """One network interface of a machine.

    Args:
        card: network card, as the machine's own layout counts it (data, never a formula).
        device: place on that card.
        rate_gbps: nominal line rate in Gbit/s; 0 where there is none (a bridge of a lab).
        interface: what it is attached as.
        hca: name of its RDMA device on the node; None where the maker's naming is not known or
            nothing may pin it.
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
        busbw: bus bandwidth in GB/s (10^9 bytes), out of place where both were published.
        transport: what carried it between machines: ``network``, or ``nvlink`` where an NVLink
            domain spans machines, which says nothing of the NICs.
        sharp: whether switches did a part of the sums, which a cluster without SHARP cannot reach.
        source: where it was published.
    """

    collective: str
    nodes: int
    size_bytes: int
    busbw: float
    transport: Literal["network", "nvlink"]
    sharp: bool = False
    source: str


@dataclass(frozen=True, kw_only=True)
class GkeMachine:
    """How GKE runs a machine type.

    Args:
        accelerator: ``acceleratorType`` of its GPUs.
        network_profile: ends the name of the zone's profile that the RDMA VPC needs; None without.
        mtu: what Google's own blueprint gives the GPU networks, in bytes.
        local_ssds: NVMe disks that back ephemeral storage; 0 is the machine type's own number.
        compact: whether a compact placement policy may hold its nodes.
        least_max_distance: the narrowest ``maxDistance`` that a compact policy may ask for.
        flex_start_compact: whether flex-start may go with compact placement.
        dranet: whether the accelerator network profile ``auto`` knows it.
        accelerator_topology: what a workload policy must say for it; None where it need not.
        sources: field name -> where it was read.
    """

    accelerator: str
    network_profile: Literal["vpc-roce"] | None
    mtu: int
    local_ssds: int
    compact: bool
    least_max_distance: Literal[1, 2]
    flex_start_compact: bool
    dranet: bool
    accelerator_topology: str | None
    sources: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An instance type, or one model of a metal machine.

    A field that nobody publishes is None, and ``sources`` says so.

    Args:
        name: what a stack's ``instance_type`` says; a cloud's own name where there is a cloud.
        platforms: the stack platforms that may use it; clouds without a platform of their own are
            ``existing``.
        provider: whose it is.
        accelerator: its row of :mod:`railhead.catalog.accelerators`; None for a stand-in.
        architecture: of the CPU, as ``kubernetes.io/arch`` says it.
        gpu_resource: the extended resource its device plugin advertises for one GPU.
        gpus: GPUs a node.
        gpu_memory_gib: memory of one GPU in GiB, rounded down; 0 for a stand-in.
        vcpus: of the whole machine; None where it is the buyer's choice.
        memory_gib: of the whole machine in GiB; None where it is the buyer's choice.
        schedulable_vcpus: what pods can request on a node; quotas count on it.
        schedulable_memory_gib: the same for memory, in GiB.
        nics: interfaces of the training fabric.
        host_nics: all others that the machine's layout names, the primary one first.
        fabrics: names of rows of :mod:`railhead.fabric.kinds` that it can be wired to, besides
            plain ethernet.
        nvlink_domain: how many GPUs one NVLink domain has; more than ``gpus`` spans machines.
        limits: what matters for where and how it can be had, one sentence each.
        rail_mtu: of the provider's own fabric interfaces in bytes; None where the site sets it.
        published: results of nccl-tests that others measured on it.
        gke: what a node pool of GKE needs for it; None where GKE has it not.
        sources: field name -> where its figure was read, or why there is none.
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

    @property
    def stand_in(self) -> bool:
        """Whether its GPUs are made up, as a lab's are."""
        return self.gpu_memory_gib == 0

    @property
    def line_rate_gbps(self) -> int:
        """All NICs of the training fabric together, in Gbit/s; 0 where none has a rate."""
        return sum(nic.rate_gbps for nic in self.nics)

    @property
    def hcas(self) -> tuple[str, ...]:
        """RDMA devices of the training fabric; empty where not every one is known."""
        names = tuple(nic.hca for nic in self.nics if nic.hca is not None)
        return names if len(names) == len(self.nics) else ()


#: Fields that hold a figure; each must have a source in every row, whatever its value.
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

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

#: For machines whose nodes nobody published.
SCHEDULABLE_ASSUMED = (
    "assumed, as no publisher gives it: four CPUs and 8 % of the memory less than the machine has, "
    "about what the AWS nodes leave that are published; `schedulable` of a stack's pool says what "
    "its nodes really have, and `railhead config verify` compares"
)
