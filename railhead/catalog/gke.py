"""GKE: what a node pool of each machine type needs beside the machine's own row, with sources.

A machine type that GKE has is one row here besides its row in :mod:`railhead.catalog.machines`,
which has its network interfaces; :func:`node_networks` names their networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from railhead.catalog.machine import Machine

_TOOLKIT = "GoogleCloudPlatform/cluster-toolkit"
_POOL = f"{_TOOLKIT}, modules/compute/gke-node-pool"


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


def node_networks(machine: Machine) -> tuple[NodeNetwork, ...]:
    """What a node has beside its primary interface, in the order of its NICs.

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


_SSDS = f"{_POOL}/disk_definitions.tf: local_ssd_count_ephemeral_storage"
_FLEX = f"{_POOL}/main.tf: compact placement with flex-start is only for A3 Ultra, A4 and H4D"
_COMPACT = "GKE documentation, Define compact placement for GKE nodes"
_DRANET = "GKE documentation, Allocate network resources by using GKE managed DRANET"

GKE_MACHINES: Mapping[str, GkeMachine] = MappingProxyType(
    {
        "a3-highgpu-8g": GkeMachine(
            accelerator="nvidia-h100-80gb",
            network_profile=None,
            mtu=8244,
            local_ssds=16,
            compact=True,
            least_max_distance=2,
            flex_start_compact=False,
            dranet=False,
            accelerator_topology=None,
            sources=MappingProxyType(
                {
                    "accelerator": f"{_TOOLKIT}, examples/gke-a3-highgpu",
                    "mtu": f"{_TOOLKIT}, examples/gke-a3-highgpu: multivpc",
                    "local_ssds": _SSDS,
                    "compact": _COMPACT,
                    "least_max_distance": "dstackai/dstack#2586: max_distance 1 fails on "
                    "a3-highgpu",
                    "flex_start_compact": _FLEX,
                    "dranet": _DRANET,
                }
            ),
        ),
        "a3-megagpu-8g": GkeMachine(
            accelerator="nvidia-h100-mega-80gb",
            network_profile=None,
            mtu=8244,
            local_ssds=16,
            compact=True,
            least_max_distance=1,
            flex_start_compact=False,
            dranet=False,
            accelerator_topology=None,
            sources=MappingProxyType(
                {
                    "accelerator": f"{_TOOLKIT}, examples/gke-a3-megagpu",
                    "mtu": f"{_TOOLKIT}, examples/gke-a3-megagpu: multivpc",
                    "local_ssds": _SSDS,
                    "compact": _COMPACT,
                    "least_max_distance": "no limit was found published",
                    "flex_start_compact": _FLEX,
                    "dranet": _DRANET,
                }
            ),
        ),
        "a3-ultragpu-8g": GkeMachine(
            accelerator="nvidia-h200-141gb",
            network_profile="vpc-roce",
            mtu=8896,
            local_ssds=32,
            compact=True,
            least_max_distance=1,
            flex_start_compact=True,
            dranet=True,
            accelerator_topology=None,
            sources=MappingProxyType(
                {
                    "accelerator": f"{_TOOLKIT}, examples/gke-a3-ultragpu",
                    "network_profile": "VPC documentation, RDMA network profiles",
                    "mtu": "VPC documentation, RDMA network profiles: 8896 is recommended",
                    "local_ssds": _SSDS,
                    "compact": _COMPACT,
                    "least_max_distance": "no limit was found published",
                    "flex_start_compact": _FLEX,
                    "dranet": _DRANET,
                }
            ),
        ),
        "a4-highgpu-8g": GkeMachine(
            accelerator="nvidia-b200",
            network_profile="vpc-roce",
            mtu=8896,
            local_ssds=32,
            compact=True,
            least_max_distance=1,
            flex_start_compact=True,
            dranet=True,
            accelerator_topology=None,
            sources=MappingProxyType(
                {
                    "accelerator": f"{_TOOLKIT}, examples/gke-a4",
                    "network_profile": "VPC documentation, RDMA network profiles",
                    "mtu": "VPC documentation, RDMA network profiles: 8896 is recommended",
                    "local_ssds": _SSDS,
                    "compact": _COMPACT,
                    "least_max_distance": "no limit was found published",
                    "flex_start_compact": _FLEX,
                    "dranet": _DRANET,
                }
            ),
        ),
        "a4x-highgpu-4g": GkeMachine(
            accelerator="nvidia-gb200",
            network_profile="vpc-roce",
            mtu=8896,
            local_ssds=0,
            compact=False,
            least_max_distance=1,
            flex_start_compact=False,
            dranet=True,
            accelerator_topology="1x72",
            sources=MappingProxyType(
                {
                    "accelerator": f"{_TOOLKIT}, examples/gke-a4x",
                    "network_profile": "VPC documentation, RDMA network profiles",
                    "mtu": "VPC documentation, RDMA network profiles: 8896 is recommended",
                    "local_ssds": "container.v1, EphemeralStorageLocalSsdConfig: 0 is the machine "
                    "type's own number where it dictates one",
                    "compact": f"{_TOOLKIT}, examples/gke-a4x: a workload policy instead",
                    "least_max_distance": "no limit was found published",
                    "flex_start_compact": _FLEX,
                    "dranet": _DRANET,
                    "accelerator_topology": f"{_TOOLKIT}, examples/gke-a4x: workload_policy",
                }
            ),
        ),
    }
)
