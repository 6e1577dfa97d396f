"""AWS: P4, P5 and P6 instance types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog.machine import GIB, Machine, Measurement, Nic

_KARPENTER = (
    "aws/karpenter-provider-aws of 2026-08-21, website/content/en/docs/reference/instance-types.md "
    "(generated from DescribeInstanceTypes)"
)
_CARDS = (
    "aws/amazon-vpc-cni-k8s of 2026-08-20, pkg/vpc/vpc_ip_resource_limit.go (cards, generated from "
    "DescribeInstanceTypes); EC2 user guide, efa-acc-inst-types: ENA on card 0 device 0, EFA-only "
    "on card 0 device 1 and on device 0 of every other card"
)
_LAYOUT = "EC2 user guide, efa-acc-inst-types"
_DOMAIN = "EC2 accelerated instances: one NVSwitch domain a machine"
_PLACEMENT = "EC2 user guide, placement groups and Capacity Blocks for ML"
_NO_HCA = "EFA devices are named rdmap<bus>s<slot>; the plugin finds them and nothing may pin them"

_ONE_ZONE = "EFA traffic does not leave an Availability Zone: all nodes of a job in one subnet"
_BLOCKS = "on-demand, reservation, or capacity block; the block's zone is where its nodes must be"
_NO_FORCED_GROUP = (
    "a cluster placement group that is forced onto a reservation or block can fail with "
    "InsufficientInstanceCapacity (terraform-aws-eks#3730)"
)


def _sources(**own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "gpus": _KARPENTER,
            "gpu_memory_gib": _KARPENTER,
            "vcpus": _KARPENTER,
            "memory_gib": _KARPENTER,
            "schedulable": f"{_KARPENTER}: its allocatable resources, rounded down",
            "nics": _CARDS,
            "host_nics": _CARDS,
            "hcas": _NO_HCA,
            "nvlink_domain": _DOMAIN,
            "limits": _PLACEMENT,
        }
        | own
    )


def _efa(places: tuple[tuple[int, int], ...], rate_gbps: int) -> tuple[Nic, ...]:
    return tuple(
        Nic(card=card, device=device, rate_gbps=rate_gbps, interface="efa-only")
        for card, device in places
    )


def _primary(rate_gbps: int) -> tuple[Nic, ...]:
    return (Nic(card=0, device=0, rate_gbps=rate_gbps, interface="interface"),)


_FOUR = ((0, 1), (1, 0), (2, 0), (3, 0))
_EIGHT = (*_FOUR, (4, 0), (5, 0), (6, 0), (7, 0))
_SIXTEEN = (*_EIGHT, (8, 0), (9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0))
_THIRTY_TWO = (
    *_SIXTEEN,
    *((16, 0), (17, 0), (18, 0), (19, 0), (20, 0), (21, 0), (22, 0), (23, 0)),
    *((24, 0), (25, 0), (26, 0), (27, 0), (28, 0), (29, 0), (30, 0), (31, 0)),
)
# Card 0 carries ENA alone; cards 1 to 16 EFA.
_B300 = (
    *((1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0)),
    *((9, 0), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0), (16, 0)),
)
# One EFA card of the two that each GPU has: AWS's own example.
_GB200 = ((1, 0), (5, 0), (9, 0), (13, 0))

_RATE_100 = "EC2 user guide, EFA: 100 Gbit/s a card"
_AWSOME = "awslabs/awsome-distributed-training micro-benchmarks/nccl-tests"

MACHINES = (
    Machine(
        name="p4d.24xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="a100-40gb",
        gpus=8,
        gpu_memory_gib=40,
        vcpus=96,
        memory_gib=1152,
        schedulable_vcpus=95,
        schedulable_memory_gib=1057,
        nics=_efa(_FOUR, 100),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(_ONE_ZONE, _BLOCKS, _NO_FORCED_GROUP),
        sources=_sources(nics=f"{_CARDS}; {_RATE_100}, 4 cards"),
    ),
    Machine(
        name="p4de.24xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="a100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=96,
        memory_gib=1152,
        schedulable_vcpus=95,
        schedulable_memory_gib=1057,
        nics=_efa(_FOUR, 100),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(_ONE_ZONE, _BLOCKS, _NO_FORCED_GROUP),
        sources=_sources(nics=f"{_CARDS}; {_RATE_100}, 4 cards"),
    ),
    Machine(
        name="p5.4xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="h100-80gb",
        gpus=1,
        gpu_memory_gib=80,
        vcpus=16,
        memory_gib=256,
        schedulable_vcpus=15,
        schedulable_memory_gib=235,
        nics=_efa(((0, 1),), 100),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=1,
        limits=(
            _ONE_ZONE,
            _BLOCKS,
            "the EFA plugin does not require GPUDirect RDMA on it and uses SENDRECV "
            "(aws-ofi-nccl, src/platform-aws.cpp)",
        ),
        sources=_sources(
            nics=f"{_CARDS}; one card, 100 Gbit/s in all ({_KARPENTER})",
            nvlink_domain="one GPU a machine",
        ),
    ),
    Machine(
        name="p5.48xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=192,
        memory_gib=2048,
        schedulable_vcpus=191,
        schedulable_memory_gib=1892,
        nics=_efa(_THIRTY_TWO, 100),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(
            _ONE_ZONE,
            _BLOCKS,
            _NO_FORCED_GROUP,
            "two devices a card at most, and every card needs its EFA device for full bandwidth",
        ),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=2 * GIB,
                busbw=437.8,
                transport="network",
                source=f"{_AWSOME}/README.md",
            ),
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=2 * GIB,
                busbw=438.9,
                transport="network",
                source="aws-samples/aws-do-eks Container-Root/eks/deployment/nccl-test/README.md",
            ),
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=479.3,
                transport="network",
                source=f"{_AWSOME}/README.md, Slurm section, 2x p5.48xlarge",
            ),
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=16 * GIB,
                busbw=487.1,
                transport="network",
                source=f"{_AWSOME}/README.md, Slurm section, 2x p5.48xlarge",
            ),
        ),
        sources=_sources(nics=f"{_CARDS}; {_RATE_100}, 32 cards, 3200 Gbit/s"),
    ),
    Machine(
        name="p5e.48xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=192,
        memory_gib=2048,
        schedulable_vcpus=191,
        schedulable_memory_gib=1892,
        nics=_efa(_THIRTY_TWO, 100),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(
            _ONE_ZONE,
            _BLOCKS,
            _NO_FORCED_GROUP,
            "two devices a card at most, and every card needs its EFA device for full bandwidth",
        ),
        sources=_sources(nics=f"{_CARDS}; {_RATE_100}, 32 cards, 3200 Gbit/s"),
    ),
    Machine(
        name="p5en.48xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=192,
        memory_gib=2048,
        schedulable_vcpus=191,
        schedulable_memory_gib=1891,
        nics=_efa(_SIXTEEN, 200),
        host_nics=_primary(200),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(_ONE_ZONE, _BLOCKS, _NO_FORCED_GROUP),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=16,
                size_bytes=16 * GIB,
                busbw=369.9,
                transport="network",
                source=f"{_AWSOME}/slurm/topology-aware-nccl-tests/README.md",
            ),
        ),
        sources=_sources(nics=f"{_CARDS}; 16 cards that share 3200 Gbit/s ({_KARPENTER})"),
    ),
    Machine(
        name="p6-b200.48xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="b200",
        gpus=8,
        gpu_memory_gib=179,
        vcpus=192,
        memory_gib=2048,
        schedulable_vcpus=191,
        schedulable_memory_gib=1891,
        nics=_efa(_EIGHT, 400),
        host_nics=_primary(200),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(
            _ONE_ZONE,
            _BLOCKS,
            _NO_FORCED_GROUP,
            "a hostPath of /dev/infiniband breaks EFA on it (aws-do-eks#63)",
        ),
        sources=_sources(
            nics=f"{_CARDS}; 8 cards that share 3200 Gbit/s ({_KARPENTER}). The AWS PCS templates "
            "of awsome-distributed-training attach type `efa` instead of `efa-only`",
            host_nics=f"{_LAYOUT}#efa-for-p6-b200: 200 Gbit/s of ENA a card, taken from its EFA",
        ),
    ),
    Machine(
        name="p6-b300.48xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="b300",
        gpus=8,
        gpu_memory_gib=268,
        vcpus=192,
        memory_gib=4096,
        schedulable_vcpus=191,
        schedulable_memory_gib=3786,
        nics=_efa(_B300, 400),
        host_nics=_primary(350),
        fabrics=frozenset({"efa"}),
        nvlink_domain=8,
        limits=(_ONE_ZONE, _BLOCKS, _NO_FORCED_GROUP),
        sources=_sources(
            nics="aws/amazon-vpc-cni-k8s: 17 cards; EC2 user guide: 16 EFA-only cards of 400 "
            f"Gbit/s, card 0 has no EFA; 16 EFA devices and 6400 Gbit/s in {_KARPENTER}",
            host_nics=f"{_LAYOUT}#efa-for-p6-b300: card 0 is ENA alone, 350 Gbit/s",
        ),
    ),
    Machine(
        name="p6e-gb200.36xlarge",
        platforms=frozenset({"aws", "existing"}),
        provider="aws",
        accelerator="gb200",
        architecture="arm64",
        gpus=4,
        gpu_memory_gib=185,
        vcpus=144,
        memory_gib=960,
        schedulable_vcpus=140,
        schedulable_memory_gib=883,
        nics=_efa(_GB200, 400),
        host_nics=_primary(100),
        fabrics=frozenset({"efa"}),
        nvlink_domain=72,
        limits=(
            _ONE_ZONE,
            "capacity blocks only, as an UltraServer: u-p6e-gb200x36 is 9 machines, u-p6e-gb200x72 "
            "is 18, one NVLink domain each",
            "Kubernetes 1.33 or newer, DRA for its ComputeDomain, AL2023 ARM NVIDIA image; scale "
            "the node group to 0 before an upgrade",
            "EKS' node monitoring agent does not watch its GPUs: it has no DCGM for arm64 (v1.6.4)",
        ),
        sources=_sources(
            gpus="EKS user guide, ml-eks-nvidia-ultraserver",
            gpu_memory_gib="EC2 P6 product page: 740 GB for 4 GPUs",
            vcpus="EC2 P6 product page: 144",
            memory_gib="EC2 P6 product page: 960 GiB",
            schedulable="assumed as for machines that nobody published: four CPUs and 8 % of the "
            "memory less",
            nics=f"{_LAYOUT}#efa-for-p6e: each GPU reaches 400 Gbit/s through a pair of cards (1 "
            "and 3, 5 and 7, 9 and 11, 13 and 15), so 1600 Gbit/s a machine; its example, as here, "
            "is one card of each pair at 400; all eight at 200 is the other way. "
            "awslabs/awsome-distributed-ai#886 requests four. Karpenter's 3200 Gbit/s adds cards "
            "that share a NIC or a GPU",
            host_nics=f"{_LAYOUT}#efa-for-p6e: card 0 is ENA of 100 Gbit/s; even cards from 2 may "
            "carry more ENA at the cost of EFA",
            nvlink_domain="EKS user guide, ml-eks-nvidia-ultraserver: up to 72 GPUs",
            limits="EKS user guide, ml-eks-nvidia-ultraserver; eks-node-monitoring-agent v1.6.4, "
            "monitors/nvidia/monitor.go",
        ),
    ),
)
