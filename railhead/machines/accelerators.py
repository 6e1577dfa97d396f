"""Accelerators: the figures of one GPU, each with its source.

Memory of a GPU in an instance type is what that type's provider reports (``gpu_memory_gib`` of
:class:`railhead.machines.machine.Machine`); here is NVIDIA's own figure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, kw_only=True)
class Accelerator:
    """A GPU model.

    Args:
        name: the name that rows of machines refer to.
        product: NVIDIA's name; node labels carry it in ``nvidia.com/gpu.product``.
        generation: architecture.
        memory_gb: memory in GB (10^9 bytes) as sold.
        nvlink_generation: of its NVLink.
        nvlink_links: links per GPU.
        nvlink_gbps: GB/s per GPU over all links, both directions together, as NVIDIA counts it.
        sources: field name -> where its figure was read.
    """

    name: str
    product: str
    generation: str
    memory_gb: int
    nvlink_generation: int
    nvlink_links: int
    nvlink_gbps: int
    sources: Mapping[str, str]


#: Fields that hold a figure; each must have a source in every row.
FIGURES = ("memory_gb", "nvlink_generation", "nvlink_links", "nvlink_gbps")

_LINKS = "awslabs/awsome-distributed-training, 1.architectures/efa-cheatsheet.md, table of NVLinks"


def _sources(datasheet: str, **own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "memory_gb": datasheet,
            "nvlink_generation": _LINKS,
            "nvlink_links": _LINKS,
            "nvlink_gbps": datasheet,
        }
        | own
    )


_A100 = "NVIDIA A100 data sheet: 600 GB/s NVLink"
_H100 = "NVIDIA H100 data sheet: 900 GB/s NVLink"
_H200 = "NVIDIA H200 data sheet: 900 GB/s NVLink"
_B200 = "NVIDIA DGX B200 user guide: 1440 GB and 14.4 TB/s for eight"
_GB200 = "NVIDIA DGX GB200 user guide: 1.8 TB/s a GPU"

ACCELERATORS: Mapping[str, Accelerator] = MappingProxyType(
    {
        accelerator.name: accelerator
        for accelerator in (
            Accelerator(
                name="a100-40gb",
                product="NVIDIA A100-SXM4-40GB",
                generation="Ampere",
                memory_gb=40,
                nvlink_generation=3,
                nvlink_links=12,
                nvlink_gbps=600,
                sources=_sources(_A100),
            ),
            Accelerator(
                name="a100-80gb",
                product="NVIDIA A100-SXM4-80GB",
                generation="Ampere",
                memory_gb=80,
                nvlink_generation=3,
                nvlink_links=12,
                nvlink_gbps=600,
                sources=_sources(_A100),
            ),
            Accelerator(
                name="h100-80gb",
                product="NVIDIA H100 80GB HBM3",
                generation="Hopper",
                memory_gb=80,
                nvlink_generation=4,
                nvlink_links=18,
                nvlink_gbps=900,
                sources=_sources(_H100),
            ),
            Accelerator(
                name="h200-141gb",
                product="NVIDIA H200",
                generation="Hopper",
                memory_gb=141,
                nvlink_generation=4,
                nvlink_links=18,
                nvlink_gbps=900,
                sources=_sources(_H200),
            ),
            Accelerator(
                name="b200",
                product="NVIDIA B200",
                generation="Blackwell",
                memory_gb=180,
                nvlink_generation=5,
                nvlink_links=18,
                nvlink_gbps=1800,
                sources=_sources(_B200),
            ),
            Accelerator(
                name="b300",
                product="NVIDIA B300",
                generation="Blackwell Ultra",
                memory_gb=288,
                nvlink_generation=5,
                nvlink_links=18,
                nvlink_gbps=1800,
                sources=_sources(
                    "NVIDIA Blackwell Ultra data sheet: 288 GB as built; AWS reports 275040 "
                    "MiB; 1.8 TB/s NVLink",
                    nvlink_generation="NVIDIA Blackwell Ultra data sheet",
                    nvlink_links="NVIDIA Blackwell Ultra data sheet: 1.8 TB/s at 100 GB/s a link",
                ),
            ),
            Accelerator(
                name="gb300",
                product="NVIDIA GB300",
                generation="Grace Blackwell Ultra",
                memory_gb=288,
                nvlink_generation=5,
                nvlink_links=18,
                nvlink_gbps=1800,
                sources=_sources(
                    "NVIDIA Blackwell Ultra data sheet: 288 GB as built; 1.8 TB/s NVLink",
                    nvlink_generation="NVIDIA Blackwell Ultra data sheet",
                    nvlink_links="NVIDIA Blackwell Ultra data sheet: 1.8 TB/s at 100 GB/s a link",
                ),
            ),
            Accelerator(
                name="gb200",
                product="NVIDIA GB200",
                generation="Grace Blackwell",
                memory_gb=186,
                nvlink_generation=5,
                nvlink_links=18,
                nvlink_gbps=1800,
                sources=_sources(
                    _GB200,
                    memory_gb="Compute Engine documentation, Arm VMs, and MLPerf system "
                    "descriptions: 186 GB; AWS counts 185, OCI's shape list 192",
                ),
            ),
        )
    }
)
