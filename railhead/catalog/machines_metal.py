"""Metal: NVIDIA's own machines, and the boards that other makers build around."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.catalog.machine import GIB, SCHEDULABLE_ASSUMED, Machine, Measurement, Nic

_IB_OR_ROCE = frozenset({"infiniband", "roce"})
_MAKER = "the maker's and the buyer's choice"
_NO_HCA = (
    "another maker's slots give other names; the stack lists them (`fabric.hcas`), as "
    "`ibdev2netdev` on a node prints them"
)
_CHOICE = (
    "the pool's `schedulable` says what its nodes really have; without it quotas count on what "
    "every such machine that is published has"
)


def _hcas(names: tuple[str, ...], rate_gbps: int) -> tuple[Nic, ...]:
    return tuple(
        Nic(card=card, device=0, rate_gbps=rate_gbps, interface="hca", hca=name)
        for card, name in enumerate(names)
    )


def _nameless(count: int, rate_gbps: int) -> tuple[Nic, ...]:
    return tuple(
        Nic(card=card, device=0, rate_gbps=rate_gbps, interface="hca") for card in range(count)
    )


def _sources(guide: str, **own: str) -> Mapping[str, str]:
    return MappingProxyType(
        {
            "gpus": guide,
            "gpu_memory_gib": guide,
            "vcpus": f"{guide}: both threads of each core",
            "memory_gib": guide,
            "schedulable": SCHEDULABLE_ASSUMED,
            "nics": guide,
            "host_nics": "storage and management ports are not the catalogue's concern",
            "hcas": guide,
            "nvlink_domain": f"{guide}: one NVSwitch domain a machine",
            "limits": "none: it is where it stands",
        }
        | own
    )


def _board(board: str, **own: str) -> Mapping[str, str]:
    return _sources(
        board,
        **(
            {
                "vcpus": _MAKER,
                "memory_gib": _MAKER,
                "schedulable": _CHOICE,
                "hcas": _NO_HCA,
            }
            | own
        ),
    )


# The same eight places in DGX H100 and H200; mlx5_1, 2, 7 and 8 are storage and management.
_DGX_HOPPER = (
    "mlx5_0",
    "mlx5_3",
    "mlx5_4",
    "mlx5_5",
    "mlx5_6",
    "mlx5_9",
    "mlx5_10",
    "mlx5_11",
)
_DGX_A100 = (
    "mlx5_0",
    "mlx5_1",
    "mlx5_2",
    "mlx5_3",
    "mlx5_6",
    "mlx5_7",
    "mlx5_8",
    "mlx5_9",
)
_GUIDE_A100 = "NVIDIA DGX A100 user guide"
_GUIDE_H100 = "NVIDIA DGX H100/H200 user guide"
_GUIDE_B200 = "NVIDIA DGX B200 user guide"
_GUIDE_GB200 = "NVIDIA DGX GB200 user guide"
_NETWORK_MODULES = f"{_GUIDE_H100}, table of the network modules"
_COREWEAVE = "coreweave/nccl-tests README.md of 2026-05-27"

MACHINES = (
    Machine(
        name="dgx-a100",
        platforms=frozenset({"existing"}),
        accelerator="a100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=256,
        memory_gib=2048,
        schedulable_vcpus=252,
        schedulable_memory_gib=1884,
        nics=_hcas(_DGX_A100, 200),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_sources(
            _GUIDE_A100,
            nics=f"{_GUIDE_A100}: eight single-port ConnectX-6 of 200 Gbit/s for the cluster; "
            "the 80 GB model",
            hcas="public job scripts for such machines agree on these eight; the guide's table "
            "was not read. `fabric.hcas` of a stack overrides them",
        ),
    ),
    Machine(
        name="dgx-h100",
        platforms=frozenset({"existing"}),
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=224,
        memory_gib=2048,
        schedulable_vcpus=220,
        schedulable_memory_gib=1884,
        nics=_hcas(_DGX_HOPPER, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_sources(
            _GUIDE_H100,
            nics=f"{_NETWORK_MODULES}: eight ConnectX-7 of 400 Gbit/s behind four OSFP ports",
            hcas=f"{_NETWORK_MODULES}: RDMA names of the eight OSFP ports",
        ),
    ),
    Machine(
        name="dgx-h200",
        platforms=frozenset({"existing"}),
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=224,
        memory_gib=2048,
        schedulable_vcpus=220,
        schedulable_memory_gib=1884,
        nics=_hcas(_DGX_HOPPER, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_sources(
            _GUIDE_H100,
            nics=f"{_NETWORK_MODULES}: eight ConnectX-7 of 400 Gbit/s behind four OSFP ports",
            hcas=f"{_NETWORK_MODULES}: RDMA names of the eight OSFP ports",
        ),
    ),
    Machine(
        name="dgx-b200",
        platforms=frozenset({"existing"}),
        accelerator="b200",
        gpus=8,
        gpu_memory_gib=180,
        vcpus=224,
        memory_gib=2048,
        schedulable_vcpus=220,
        schedulable_memory_gib=1884,
        nics=_nameless(8, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_sources(
            _GUIDE_B200,
            gpu_memory_gib=f"{_GUIDE_B200}: 1440 GB for eight",
            nics=f"{_GUIDE_B200}: four OSFP ports for eight ConnectX-7 of 400 Gbit/s",
            hcas=f"the table of the {_GUIDE_B200} was not read; the stack lists them "
            "(`fabric.hcas`)",
        ),
    ),
    Machine(
        name="dgx-gb200",
        platforms=frozenset({"existing"}),
        accelerator="gb200",
        architecture="arm64",
        gpus=4,
        gpu_memory_gib=186,
        vcpus=144,
        memory_gib=960,
        schedulable_vcpus=140,
        schedulable_memory_gib=883,
        nics=_hcas(("mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5"), 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=72,
        limits=("a compute tray of an NVL72 rack: 18 trays are one NVLink domain",),
        published=(
            Measurement(
                collective="all_reduce",
                nodes=18,
                size_bytes=8 * GIB,
                busbw=834.6,
                transport="nvlink",
                source=f"{_COREWEAVE}: one rack",
            ),
            Measurement(
                collective="all_reduce",
                nodes=36,
                size_bytes=16 * GIB,
                busbw=810.4,
                transport="nvlink",
                source=f"{_COREWEAVE}: two racks",
            ),
            Measurement(
                collective="all_reduce",
                nodes=360,
                size_bytes=16 * GIB,
                busbw=405.7,
                transport="network",
                source=f"{_COREWEAVE}: 20 racks",
            ),
        ),
        sources=_sources(
            _GUIDE_GB200,
            vcpus="MLPerf system descriptions of GB200 NVL72: 144 Grace cores a tray",
            memory_gib="shapes and instances of the same tray (BM.GPU.GB200.4, p6e-gb200.36xlarge)",
            gpu_memory_gib="MLPerf system descriptions: GB200-186GB",
            nics="NVIDIA Mission Control, GB200 compute tray network ports: four OSFP ports of "
            "ConnectX-7",
            hcas="NVIDIA Mission Control, GB200 compute tray network ports: the OSFP ports",
            nvlink_domain=f"{_GUIDE_GB200}: 72 GPUs a rack act as one",
            limits=_GUIDE_GB200,
        ),
    ),
    Machine(
        name="hgx-a100",
        platforms=frozenset({"existing"}),
        accelerator="a100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=92,
        schedulable_memory_gib=828,
        nics=_nameless(8, 200),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_board(
            "NVIDIA HGX A100 with the reference eight ConnectX-6 of 200 Gbit/s",
            schedulable="92 CPUs and 828 GiB: what Azure's ND A100 v4, the smallest published "
            f"machine of this board, would leave. {_CHOICE}",
        ),
    ),
    Machine(
        name="hgx-h100",
        platforms=frozenset({"existing"}),
        accelerator="h100-80gb",
        gpus=8,
        gpu_memory_gib=80,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=92,
        schedulable_memory_gib=1748,
        nics=_nameless(8, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        published=(
            Measurement(
                collective="all_reduce",
                nodes=8,
                size_bytes=8 * GIB,
                busbw=386.6,
                transport="network",
                sharp=True,
                source=f"{_COREWEAVE}: 64 H100 over InfiniBand with SHARP",
            ),
        ),
        sources=_board(
            "NVIDIA HGX H100 with the reference eight ConnectX-7 of 400 Gbit/s",
            schedulable="92 CPUs and 1748 GiB: what Azure's ND H100 v5, the smallest published "
            f"machine of this board, would leave. {_CHOICE}",
        ),
    ),
    Machine(
        name="hgx-h200",
        platforms=frozenset({"existing"}),
        accelerator="h200-141gb",
        gpus=8,
        gpu_memory_gib=141,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=92,
        schedulable_memory_gib=1702,
        nics=_nameless(8, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_board(
            "NVIDIA HGX H200 with the reference eight ConnectX-7 of 400 Gbit/s",
            schedulable="92 CPUs and 1702 GiB: what Azure's ND H200 v5, the smallest published "
            f"machine of this board, would leave. {_CHOICE}",
        ),
    ),
    Machine(
        name="hgx-b200",
        platforms=frozenset({"existing"}),
        accelerator="b200",
        gpus=8,
        gpu_memory_gib=179,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=191,
        schedulable_memory_gib=1884,
        nics=_nameless(8, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=8,
        sources=_board(
            "NVIDIA HGX B200 with the reference eight ConnectX-7 of 400 Gbit/s",
            gpu_memory_gib="Vultr HGX B200 hardware overview: 179 GB as nvidia-smi reports it",
            schedulable="191 CPUs and 1884 GiB: what p6-b200.48xlarge and DGX B200, the smallest "
            f"published machines of this board, would leave. {_CHOICE}",
        ),
    ),
    Machine(
        name="hgx-gb200",
        platforms=frozenset({"existing"}),
        accelerator="gb200",
        architecture="arm64",
        gpus=4,
        gpu_memory_gib=186,
        vcpus=None,
        memory_gib=None,
        schedulable_vcpus=136,
        schedulable_memory_gib=813,
        nics=_nameless(4, 400),
        fabrics=_IB_OR_ROCE,
        nvlink_domain=72,
        limits=("a compute tray of an NVL72 rack: 18 trays are one NVLink domain",),
        sources=_board(
            "NVIDIA GB200 NVL72 compute tray of another maker, with four ConnectX-7 of 400 Gbit/s",
            gpu_memory_gib="MLPerf system descriptions: GB200-186GB",
            schedulable="136 CPUs and 813 GiB: what a4x-highgpu-4g, the smallest published tray, "
            f"would leave. {_CHOICE}",
            nvlink_domain="GB200 NVL72: 18 trays of 4",
            limits="GB200 NVL72",
        ),
    ),
)
