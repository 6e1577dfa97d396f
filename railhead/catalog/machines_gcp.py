"""GCP: A3, A4 and A4X machine types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog.machine import GIB, SCHEDULABLE_ASSUMED, GkeMachine, Machine, Measurement, Nic

_FAMILY = (
    "Compute Engine documentation, accelerator-optimized machine family; vCPUs and memory as in "
    "skypilot-org/skypilot-catalog v8, from the SKU list"
)
_NICS = "Compute Engine documentation, networking and GPU machines"
_PLACEMENT = "GKE documentation, compact placement; `gke` has it as fields"
# Its runs are of a script of its own on PyTorch, with nccl-tests' arithmetic.
_LAB = "elideng-sg/hypercomputer-internode-deepdive, a measured lab"
_TCPX_RUN = (
    "GPUDirect-TCPX v3.1.12, daemon v2.0.15, driver 580.159.04, NCCL_ALGO=Ring, both bindings set, "
    "ranks not pinned to NUMA nodes"
)
_TCPXO_RUN = (
    "GPUDirect-TCPXO v1.0.17 beside daemon v1.0.22 and driver 580.159.04, a mixture that rows here "
    "refuse; the vendor's profile"
)
_TOOLKIT = "GoogleCloudPlatform/cluster-toolkit"
_POOL = f"{_TOOLKIT}, modules/compute/gke-node-pool"
_SSDS = f"{_POOL}/disk_definitions.tf: local_ssd_count_ephemeral_storage"
_FLEX = f"{_POOL}/main.tf: compact placement with flex-start is only for A3 Ultra, A4 and H4D"
_COMPACT = "GKE documentation, Define compact placement for GKE nodes"
_DRANET = "GKE documentation, Allocate network resources by using GKE managed DRANET"


def _sources(**own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "gpus": _FAMILY,
            "gpu_memory_gib": _FAMILY,
            "vcpus": _FAMILY,
            "memory_gib": _FAMILY,
            "schedulable": SCHEDULABLE_ASSUMED,
            "nics": _NICS,
            "host_nics": _NICS,
            "hcas": "gVNIC has no RDMA device",
            "nvlink_domain": "one NVSwitch domain a machine",
            "limits": _PLACEMENT,
        }
        | own
    )


# The index of a NIC is its place; Compute Engine has one device a NIC.
_GVNIC_FOUR = tuple(
    Nic(card=card, device=0, rate_gbps=200, interface="gvnic") for card in (1, 2, 3, 4)
)
_GVNIC_EIGHT = tuple(
    Nic(card=card, device=0, rate_gbps=200, interface="gvnic") for card in (1, 2, 3, 4, 5, 6, 7, 8)
)
_RDMA_EIGHT = tuple(
    Nic(card=card, device=0, rate_gbps=400, interface="mrdma") for card in (2, 3, 4, 5, 6, 7, 8, 9)
)
_RDMA_FOUR = tuple(
    Nic(card=card, device=0, rate_gbps=400, interface="mrdma") for card in (2, 3, 4, 5)
)
_ONE_HOST = (Nic(card=0, device=0, rate_gbps=200, interface="gvnic"),)
_TWO_HOST = tuple(Nic(card=card, device=0, rate_gbps=200, interface="gvnic") for card in (0, 1))

_GIB_PLUGIN = (
    "the gIB plugin's own script sets NCCL_IB_HCA and its checker ends a job that sets another"
)
_ONE_ZONE = "one zone; GPU networks are VPCs of their own, one a NIC"
_ROCE_ZONE = (
    "one zone: the RDMA VPC's network profile, <zone>-vpc-roce, exists only where the type does"
)

MACHINES = (
    Machine(
        name="a3-highgpu-8g",
        platforms=frozenset({"gcp", "existing"}),
        provider="gcp",
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=208,
        memory_gib=1872,
        schedulable_vcpus=204,
        schedulable_memory_gib=1722,
        nics=_GVNIC_FOUR,
        host_nics=_ONE_HOST,
        fabrics=frozenset({"tcpx"}),
        nvlink_domain=8,
        limits=(
            _ONE_ZONE,
            "a compact placement policy with maxDistance 1 fails on it (dstack#2586)",
        ),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=1 * GIB,
                busbw=76.0,
                transport="network",
                source=f"{_LAB}, lab-18 ({_TCPX_RUN}); plain TCP on such nodes 28.6 (lab-06)",
            ),
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=2 * GIB,
                busbw=83.3,
                transport="network",
                source=f"{_LAB}, lab-18 ({_TCPX_RUN})",
            ),
            Measurement(
                collective="all_gather",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=50.2,
                transport="network",
                source="dstackai/dstack, examples/clusters/gcp/README.md, A3 High: algbw 53.52",
            ),
        ),
        gke=GkeMachine(
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
        sources=_sources(nics=f"{_NICS}: 1000 Gbit/s, four GPU NICs of 200 and one of the host"),
    ),
    Machine(
        name="a3-megagpu-8g",
        platforms=frozenset({"gcp", "existing"}),
        provider="gcp",
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=208,
        memory_gib=1872,
        schedulable_vcpus=204,
        schedulable_memory_gib=1722,
        nics=_GVNIC_EIGHT,
        host_nics=_ONE_HOST,
        fabrics=frozenset({"tcpxo"}),
        nvlink_domain=8,
        limits=(_ONE_ZONE,),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=2 * GIB,
                busbw=317.8,
                transport="network",
                source=f"{_LAB}, lab-22 ({_TCPXO_RUN}); 316.9 when lab-23 ran it again",
            ),
            Measurement(
                collective="all_reduce",
                nodes=3,
                size_bytes=1 * GIB,
                busbw=184.0,
                transport="network",
                source=f"{_LAB}, lab-23 ({_TCPXO_RUN})",
            ),
            Measurement(
                collective="all_gather",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=188.5,
                transport="network",
                source="dstackai/dstack, examples/clusters/gcp/README.md, A3 Mega: algbw 201.11",
            ),
        ),
        gke=GkeMachine(
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
        sources=_sources(nics=f"{_NICS}: 1800 Gbit/s, eight GPU NICs of 200 and one of the host"),
    ),
    Machine(
        name="a3-ultragpu-8g",
        platforms=frozenset({"gcp", "existing"}),
        provider="gcp",
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=224,
        memory_gib=2952,
        schedulable_vcpus=220,
        schedulable_memory_gib=2715,
        nics=_RDMA_EIGHT,
        host_nics=_TWO_HOST,
        fabrics=frozenset({"gcp-rdma"}),
        nvlink_domain=8,
        limits=(_ROCE_ZONE,),
        gke=GkeMachine(
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
        sources=_sources(
            nics=f"{_NICS}: 3600 Gbit/s, eight ConnectX-7 of 400 for GPUs and 400 of the host",
            hcas=_GIB_PLUGIN,
        ),
    ),
    Machine(
        name="a4-highgpu-8g",
        platforms=frozenset({"gcp", "existing"}),
        provider="gcp",
        accelerator="b200",
        gpus=8,
        gpu_memory_gib=180,
        vcpus=224,
        memory_gib=3968,
        schedulable_vcpus=220,
        schedulable_memory_gib=3650,
        nics=_RDMA_EIGHT,
        host_nics=_TWO_HOST,
        fabrics=frozenset({"gcp-rdma"}),
        nvlink_domain=8,
        limits=(_ROCE_ZONE,),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=683.5,
                transport="network",
                source="dstackai/dstack, examples/clusters/gcp/README.md, A4: algbw 364.55",
            ),
            Measurement(
                collective="all_gather",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=328.9,
                transport="network",
                source=f"{_TOOLKIT}, examples/gke-a4-highgpu/README.md of 94636317 (gIB): "
                "algbw 350.77",
            ),
        ),
        gke=GkeMachine(
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
        sources=_sources(
            nics=f"{_NICS}: 3600 Gbit/s, eight ConnectX-7 of 400 for GPUs and 400 of the host",
            hcas=_GIB_PLUGIN,
        ),
    ),
    Machine(
        name="a4x-highgpu-4g",
        platforms=frozenset({"gcp", "existing"}),
        provider="gcp",
        accelerator="gb200",
        architecture="arm64",
        gpus=4,
        gpu_memory_gib=186,
        vcpus=140,
        memory_gib=884,
        schedulable_vcpus=136,
        schedulable_memory_gib=813,
        nics=_RDMA_FOUR,
        host_nics=_TWO_HOST,
        fabrics=frozenset({"gcp-rdma"}),
        nvlink_domain=72,
        limits=(
            _ROCE_ZONE,
            "sold in blocks of 18 machines, one NVLink domain: a workload policy with "
            "acceleratorTopology 1x72",
            "no service level agreement of Compute Engine",
        ),
        gke=GkeMachine(
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
        sources=_sources(
            gpu_memory_gib="Compute Engine documentation, Arm VMs: 186 GB a GPU",
            vcpus="Compute Engine documentation, Arm VMs: up to 140",
            memory_gib="Compute Engine documentation, Arm VMs: 884 GB",
            nics=f"{_NICS}: 2000 Gbit/s, four ConnectX-7 that carry 1600",
            hcas=_GIB_PLUGIN,
            nvlink_domain="GB200 NVL72: 18 machines of 4",
            limits="Compute Engine documentation, Arm VMs; cluster-toolkit examples/gke-a4x",
        ),
    ),
)
