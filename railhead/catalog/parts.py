"""Types of rows for what a pod carries because of its fabric or its image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One environment variable of every training pod on the fabric.

    ``value`` may hold ``{bootstrap}`` (the interfaces that bootstrap is pinned to), ``{gloo}``
    (the first of them), ``{rails}`` (the pod's rail interfaces), ``{hcas}`` (the node's RDMA
    devices), each comma separated, ``{traffic_class}``, ``{gid_family}`` and ``{cross_nic}``. A
    variable whose placeholder is empty is not set.
    """

    name: str
    value: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class DeviceResource:
    """An extended resource that a pod must request to get a device.

    Args:
        name: the resource; ``{resource}`` is the resource of one rail, as the stack names it.
        scope: what it counts. ``share``: ``per_pod`` of ``per_node`` shares, each of which opens
            every NIC. ``nic``: one for each NIC of the machine, in the proportion of the GPUs that
            a pod takes. ``rail``: ``per_pod`` on each rail; a node has one for each virtual
            function, or the NIC itself.
        per_pod: how many one training pod requests; with scope ``nic``, for each NIC.
        per_node: how many one node advertises; 0 if machine or stack say how many.
        source: where the name and the counts were read.
    """

    name: str
    scope: Literal["share", "nic", "rail"] = "share"
    per_pod: int
    per_node: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A Linux capability that the fabric's userspace needs in the training container.

    ``fabrics`` are those of its mode that need it; empty for all of them.
    """

    name: str
    reason: str
    source: str
    fabrics: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class HostPath:
    """A directory of the node that a training container must mount; it mounts no other.

    ``container`` is ``trainer``, or the name of the fabric's own sidecar. ``fabrics`` are those of
    its mode that need it; empty for all of them.
    """

    name: str
    host: str
    mount: str
    container: str
    read_only: bool
    reason: str
    source: str
    fabrics: frozenset[str] = frozenset()
