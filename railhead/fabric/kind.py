"""The type of a training fabric's row, and of what its machines add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from railhead.catalog.parts import DeviceResource, Variable
from railhead.fabric.plugin import NodePlugin
from railhead.fabric.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Addition:
    """Variables that some instance types need in addition to their fabric's.

    A row may name machines that the catalogue does not have. ``topology`` is the machines', whose
    file every job finds at ``{topology}``; None if NCCL sees it by itself.
    """

    machines: tuple[str, ...]
    environment: tuple[Variable, ...]
    topology: Topology | None = None


@dataclass(frozen=True, kw_only=True)
class FabricKind:
    """A training fabric.

    Args:
        name: as in a stack's ``fabric.kind``.
        rdma: whether NCCL reaches GPU memory of another node without the kernel's TCP stack.
        counted: whether the kernel's interfaces count its traffic by design: headers go by TCP,
            although the payload goes to GPU memory.
        universal: whether every machine has it, as every machine has the pod network.
        devices: extended resources that a lab's stand-in plugin advertises for it; real nodes get
            theirs from the mode.
        environment: variables of each training pod.
        additions: further variables that some instance types need.
        userspace: what the image, or a mounted directory, must hold.
        proofs: regular expressions on NCCL's log; each of them must match on every rank of a job
            of several nodes, or the transport is not proven.
        gpudirect: the end of the log line of a channel that goes from GPU memory directly to the
            NIC, per rank and direction; None if NCCL's log does not show it.
        not_set: variables left alone on purpose, with the reason.
        qos: whether the node gate must find PFC, ECN and DSCP trust configured (lossless).
        link_layer: ``link_layer`` of its ports in sysfs; None if they have no such file.
        driver: the kernel driver of its RDMA devices, if other devices must not count.
        mtu: of the rails in bytes unless the stack says otherwise; None leaves interfaces alone.
        plugin: what the vendor puts on nodes for it; None if images bring everything.
        source: where the row as a whole was read.
    """

    name: str
    rdma: bool
    counted: bool = False
    universal: bool = False
    devices: tuple[DeviceResource, ...] = ()
    environment: tuple[Variable, ...]
    additions: tuple[Addition, ...] = ()
    userspace: tuple[str, ...] = ()
    proofs: tuple[str, ...]
    gpudirect: str | None = None
    not_set: Mapping[str, str]
    qos: bool = False
    link_layer: Literal["Ethernet", "InfiniBand"] | None = None
    driver: str | None = None
    mtu: int | None = None
    plugin: NodePlugin | None = None
    source: str

    def environment_on(self, machine: str) -> tuple[Variable, ...]:
        """Return the variables on an instance type, the machine's own last."""
        own = (v for row in self.additions if machine in row.machines for v in row.environment)
        return (*self.environment, *own)

    def topology_on(self, machine: str) -> Topology | None:
        """Return the topology of an instance type that hides its own."""
        rows = (row for row in self.additions if machine in row.machines)
        return next((row.topology for row in rows if row.topology is not None), None)
