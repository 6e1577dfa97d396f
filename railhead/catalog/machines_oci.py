"""OCI: bare-metal GPU shapes, used through an existing cluster (OKE)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog.machine import GIB, SCHEDULABLE_ASSUMED, Machine, Measurement, Nic

_SHAPES = "skypilot-org/skypilot-catalog v8/oci/vms.csv, from the ListShapes API; vCPUs are threads"
_OKE = "oracle-quickstart/oci-hpc-oke of 2026-08-20"
_PARAMETERS = f"{_OKE}, docs/recommended-nccl-rccl-parameters-by-shape.md"
# terraform/files/nvidia-network-operator: of every virtual function and of the attachment.
_MTU = 4220
_CLUSTER = "a cluster network or compute cluster; nodes of a job must be in one"


def _sources(rate: str, **own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "gpus": _SHAPES,
            "gpu_memory_gib": _SHAPES,
            "vcpus": _SHAPES,
            "memory_gib": _SHAPES,
            "schedulable": SCHEDULABLE_ASSUMED,
            "nics": f"{_PARAMETERS}: its HCA list; {rate}",
            "host_nics": "the VCN interface (eth0) is not the fabric's",
            "hcas": _PARAMETERS,
            "nvlink_domain": "one NVSwitch domain a machine",
            "limits": _OKE,
        }
        | own
    )


def _hcas(names: tuple[str, ...], rate_gbps: int) -> tuple[Nic, ...]:
    return tuple(
        Nic(card=card, device=0, rate_gbps=rate_gbps, interface="hca", hca=name)
        for card, name in enumerate(names)
    )


_GPU4 = (
    *("mlx5_0", "mlx5_2", "mlx5_6", "mlx5_8", "mlx5_10", "mlx5_12", "mlx5_14", "mlx5_16"),
    *("mlx5_1", "mlx5_3", "mlx5_7", "mlx5_9", "mlx5_11", "mlx5_13", "mlx5_15", "mlx5_17"),
)
_A100_V2 = (
    *("mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8"),
    *("mlx5_14", "mlx5_15", "mlx5_16", "mlx5_17", "mlx5_9", "mlx5_10", "mlx5_11", "mlx5_12"),
)
_H100 = (
    *("mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8"),
    *("mlx5_9", "mlx5_10", "mlx5_12", "mlx5_13", "mlx5_14", "mlx5_15", "mlx5_16", "mlx5_17"),
)
_EIGHT = (
    *("mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"),
    *("mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"),
)
_UNVERIFIED_100 = "100 Gbit/s a port is the common reading of 1600 a machine, not verified"
_UNVERIFIED_200 = "200 Gbit/s a port is the common reading of 3200 a machine, not verified"
_UNVERIFIED_400 = "400 Gbit/s a port is the common reading of 3200 a machine, not verified"

MACHINES = (
    Machine(
        name="BM.GPU4.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="a100-40gb",
        gpus=8,
        gpu_memory_gib=40,
        vcpus=128,
        memory_gib=2048,
        schedulable_vcpus=124,
        schedulable_memory_gib=1884,
        nics=_hcas(_GPU4, 100),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        sources=_sources(_UNVERIFIED_100),
    ),
    Machine(
        name="BM.GPU.B4.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="a100-40gb",
        gpus=8,
        gpu_memory_gib=40,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=124,
        schedulable_memory_gib=1884,
        nics=_hcas(_A100_V2, 100),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        published=(
            Measurement(
                collective="all_reduce",
                nodes=2,
                size_bytes=8 * GIB,
                busbw=189.6,
                transport="network",
                source=f"{_OKE}, docs/running-nccl-rccl-tests-from-slurm-operator.md",
            ),
        ),
        sources=_sources(
            _UNVERIFIED_100,
            gpus=f"{_OKE}: two nodes are 16 ranks",
            gpu_memory_gib="OCI Data Science documentation, GPU shapes: 320 GB for eight A100",
            vcpus="not in the shape list that was read",
            memory_gib="not in the shape list that was read",
            schedulable="taken from BM.GPU4.8, the other shape of this GPU; `schedulable` of the "
            "stack's pool says what its nodes really have",
        ),
    ),
    Machine(
        name="BM.GPU.A100-v2.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="a100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=256,
        memory_gib=2048,
        schedulable_vcpus=252,
        schedulable_memory_gib=1884,
        nics=_hcas(_A100_V2, 100),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        sources=_sources(_UNVERIFIED_100),
    ),
    Machine(
        name="BM.GPU.H100.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=224,
        memory_gib=2048,
        schedulable_vcpus=220,
        schedulable_memory_gib=1884,
        nics=_hcas(_H100, 200),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        sources=_sources(_UNVERIFIED_200),
    ),
    Machine(
        name="BM.GPU.H200.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=224,
        memory_gib=3072,
        schedulable_vcpus=220,
        schedulable_memory_gib=2826,
        nics=_hcas(_EIGHT, 400),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        sources=_sources(_UNVERIFIED_400),
    ),
    Machine(
        name="BM.GPU.B200.8",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="b200",
        gpus=8,
        gpu_memory_gib=180,
        vcpus=256,
        memory_gib=4096,
        schedulable_vcpus=252,
        schedulable_memory_gib=3768,
        nics=_hcas(_EIGHT, 400),
        fabrics=frozenset({"roce"}),
        nvlink_domain=8,
        limits=(_CLUSTER,),
        rail_mtu=_MTU,
        sources=_sources(_UNVERIFIED_400),
    ),
    Machine(
        name="BM.GPU.GB200.4",
        platforms=frozenset({"existing"}),
        provider="oci",
        accelerator="gb200",
        architecture="arm64",
        gpus=4,
        gpu_memory_gib=186,
        vcpus=144,
        memory_gib=960,
        schedulable_vcpus=140,
        schedulable_memory_gib=883,
        nics=_hcas(("mlx5_0", "mlx5_1", "mlx5_3", "mlx5_4"), 400),
        fabrics=frozenset({"roce"}),
        nvlink_domain=72,
        rail_mtu=_MTU,
        limits=(_CLUSTER, "a GPU memory cluster of up to 18 machines is one NVLink domain"),
        sources=_sources(
            "400 Gbit/s a port is the tray's ConnectX-7 as NVIDIA builds it, not OCI's own word",
            gpu_memory_gib="MLPerf system descriptions: GB200-186GB; the shape list says 192",
            nvlink_domain="OCI documentation, GPU memory clusters: up to 18 hosts",
            limits="OCI documentation, GPU memory clusters",
        ),
    ),
)
