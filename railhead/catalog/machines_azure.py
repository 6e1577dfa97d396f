"""Azure: ND A100 v4, ND H100 v5 and ND H200 v5, used through an existing cluster (AKS)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog.machine import GIB, SCHEDULABLE_ASSUMED, Machine, Measurement, Nic

_DOCS = "MicrosoftDocs/azure-compute-docs, articles/virtual-machines"
_RECIPES = "Azure/ai-infrastructure-on-azure of 2026-04-22"
_SCALE_SET = (
    "InfiniBand connects machines of one scale set; an AKS node pool is one, so a job stays in one "
    "node pool"
)


def _sources(page: str, **own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "gpus": page,
            "gpu_memory_gib": page,
            "vcpus": page,
            "memory_gib": page,
            "schedulable": SCHEDULABLE_ASSUMED,
            "nics": page,
            "host_nics": "accelerated networking stays out of the HCA list (mlx5_8 on AKS' nodes: "
            "Azure/aks-rdma-infiniband, tests/scenarios/k8s/files/scripts/rdma_test.sh)",
            "hcas": f"{_RECIPES}, infrastructure_validations/aks/NHC: mlx5_0 to mlx5_7 on AKS' "
            "nodes; mlx5_ib0 to mlx5_ib7 are the names of Azure's VM images, by a udev rule, and "
            "`fabric.hcas` overrides these where nodes have such an image",
            "nvlink_domain": "one NVSwitch domain a machine",
            "limits": page,
        }
        | own
    )


_NAMES = (
    "mlx5_0",
    "mlx5_1",
    "mlx5_2",
    "mlx5_3",
    "mlx5_4",
    "mlx5_5",
    "mlx5_6",
    "mlx5_7",
)


def _ib(rate_gbps: int, *, named: bool) -> tuple[Nic, ...]:
    return tuple(
        Nic(card=card, device=0, rate_gbps=rate_gbps, interface="hca", hca=name if named else None)
        for card, name in enumerate(_NAMES)
    )


_UNREAD = "not read for this generation; the stack lists them (`fabric.hcas`)"
_A100 = f"{_DOCS}/nda100-v4-series.md: 8 x 200 Gbit/s HDR"
_A100M = f"{_DOCS}/ndm-a100-v4-series.md: 8 x 200 Gbit/s HDR"
_H100 = f"{_DOCS}/sizes/gpu-accelerated/ndh100v5-series.md: 400 Gbit/s NDR a GPU"
_H200 = f"{_DOCS}/sizes/gpu-accelerated/nd-h200-v5-series: 400 Gbit/s NDR a GPU"
_BASELINE = f"{_RECIPES}, skills/slurm/sku_performance_baseline/SKILL.md"

MACHINES = (
    Machine(
        name="Standard_ND96asr_v4",
        platforms=frozenset({"existing"}),
        provider="azure",
        accelerator="a100-40gb",
        gpus=8,
        gpu_memory_gib=40,
        vcpus=96,
        memory_gib=900,
        schedulable_vcpus=92,
        schedulable_memory_gib=828,
        nics=_ib(200, named=False),
        fabrics=frozenset({"infiniband"}),
        nvlink_domain=8,
        limits=(_SCALE_SET,),
        sources=_sources(_A100, hcas=_UNREAD),
    ),
    Machine(
        name="Standard_ND96amsr_A100_v4",
        platforms=frozenset({"existing"}),
        provider="azure",
        accelerator="a100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=96,
        memory_gib=1900,
        schedulable_vcpus=92,
        schedulable_memory_gib=1748,
        nics=_ib(200, named=False),
        fabrics=frozenset({"infiniband"}),
        nvlink_domain=8,
        limits=(_SCALE_SET,),
        sources=_sources(_A100M, hcas=_UNREAD),
    ),
    Machine(
        name="Standard_ND96isr_H100_v5",
        platforms=frozenset({"existing"}),
        provider="azure",
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=96,
        memory_gib=1900,
        schedulable_vcpus=92,
        schedulable_memory_gib=1748,
        nics=_ib(400, named=True),
        fabrics=frozenset({"infiniband"}),
        nvlink_domain=8,
        limits=(_SCALE_SET,),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=8,
                size_bytes=16 * GIB,
                busbw=450.0,
                transport="network",
                sharp=True,
                source=f"{_BASELINE}: about 450 with SHARP and CollNet; eight nodes as in "
                "nccl_allreduce_test beside it",
            ),
        ),
        sources=_sources(_H100),
    ),
    Machine(
        name="Standard_ND96isr_H200_v5",
        platforms=frozenset({"existing"}),
        provider="azure",
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=96,
        memory_gib=1850,
        schedulable_vcpus=92,
        schedulable_memory_gib=1702,
        nics=_ib(400, named=True),
        fabrics=frozenset({"infiniband"}),
        nvlink_domain=8,
        limits=(_SCALE_SET,),
        sources=_sources(_H200),
    ),
)
