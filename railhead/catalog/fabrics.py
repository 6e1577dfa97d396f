"""Fabrics: what a pod must request and set to use one, with a reason for each variable.

A new fabric is one row here and, where it needs objects of its own, one file in `components/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One environment variable of every training pod on the fabric.

    ``value`` may hold ``{interfaces}``: the pod's rail interfaces, comma separated.
    """

    name: str
    value: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class DeviceResource:
    """An extended resource that a pod must request, or it gets no device.

    Args:
        name: the resource.
        per_pod: how many one training pod requests.
        per_node: how many one node advertises; quotas are derived from it.
        source: where the name and the counts were read.
    """

    name: str
    per_pod: int
    per_node: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A Linux capability that the fabric's userspace needs in the training container."""

    name: str
    reason: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """A training fabric.

    Args:
        name: what a stack's ``fabric.kind`` says.
        modes: ways to bring it into pods that this release has.
        devices: extended resources of each training pod.
        environment: variables of each training pod.
        capabilities: what memory registration needs where the runtime's memlock limit is finite.
        not_set: variables left alone on purpose, with the reason.
    """

    name: str
    modes: frozenset[str]
    devices: tuple[DeviceResource, ...]
    environment: tuple[Variable, ...]
    capabilities: tuple[Capability, ...]
    not_set: Mapping[str, str]


ROCE = Fabric(
    name="roce",
    modes=frozenset({"rdma-shared"}),
    devices=(
        DeviceResource(
            name="rdma/rdma_shared_device_a",
            per_pod=1,
            per_node=63,
            source="RDMA shared device plugin: name and rdmaHcaMax 63 of NVIDIA network operator's "
            "sample NicClusterPolicy; one share opens every HCA behind it",
        ),
    ),
    environment=(
        Variable(
            name="NCCL_SOCKET_IFNAME",
            value="={interfaces}",
            reason="NCCL's bootstrap must take the rail, not the pod network; `=` makes the list "
            "exact, without it net1 would also match net10",
            source="NCCL user guide, env.rst: a list of prefixes unless it starts with `=`",
        ),
        Variable(
            name="GLOO_SOCKET_IFNAME",
            value="{interfaces}",
            reason="gloo, PyTorch's CPU collectives, takes the interface of the host's name unless "
            "it is named, which is the pod network",
            source="PyTorch distributed documentation, common environment variables",
        ),
        Variable(
            name="NCCL_NET",
            value="IB",
            reason="a named network removes the fallback: without RDMA the job errors at once "
            "instead of crawling over TCP",
            source="NCCL source, src/plugin/net.cc: only the named network is tried",
        ),
    ),
    capabilities=(
        Capability(
            name="IPC_LOCK",
            reason="registering memory with the HCA pins it, and a pod cannot raise its memlock "
            "limit; not needed where the container runtime's limit is infinite",
            source="what published RoCE and InfiniBand manifests add, such as Azure's MPIJob chart",
        ),
    ),
    not_set=MappingProxyType(
        {
            "NCCL_IB_GID_INDEX": "NCCL >= 2.21 finds the RoCE v2 IPv4 GID itself, and under "
            "macvlan the index differs from pod to pod (nccl #1573)",
        }
    ),
)

FABRICS: Mapping[str, Fabric] = MappingProxyType({f.name: f for f in (ROCE,)})
