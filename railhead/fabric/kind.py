"""What a training fabric is: the type of its row, and what its machines add."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from railhead.catalog.parts import DeviceResource, Variable
from railhead.fabric.plugin import NodePlugin


@dataclass(frozen=True, kw_only=True)
class Addition:
    """What some instance types need beside their fabric's environment.

    A machine that the catalogue does not have is not harmed by a row.
    """

    machines: tuple[str, ...]
    environment: tuple[Variable, ...]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A training fabric.

    Args:
        name: what a stack's ``fabric.kind`` says.
        rdma: whether NCCL reaches GPU memory of another node without the kernel's TCP stack.
        counted: whether the kernel's interfaces count its traffic by design: headers go by TCP, the
            payload to GPU memory all the same.
        universal: whether every machine has it, as all have the pod network.
        devices: extended resources a lab's stand-in plugin advertises for it; real nodes get
            theirs from the mode.
        environment: variables of each training pod.
        additions: what single instance types need besides.
        userspace: what the image, or a mounted directory, must hold.
        proofs: regular expressions on NCCL's log; each of them must match on every rank of a job
            of several nodes, or the transport is not proven.
        gpudirect: what ends the line of a channel that goes from GPU memory to the NIC directly,
            per rank and direction; None where NCCL's log does not say it.
        not_set: variables left alone on purpose, with the reason.
        qos: whether the node gate must find PFC, ECN and DSCP trust configured (lossless).
        link_layer: ``link_layer`` of its ports in sysfs; None where it has none.
        driver: the kernel driver of its RDMA devices, where no other device of a node may count.
        mtu: of the rails in bytes unless the stack says otherwise; None leaves interfaces alone.
        plugin: what the vendor puts on nodes for it; None where images bring it all.
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
        """The variables on an instance type, the machine's own last."""
        own = (v for row in self.additions if machine in row.machines for v in row.environment)
        return (*self.environment, *own)
