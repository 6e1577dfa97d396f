"""GPUDirect RDMA of A3 Ultra and A4, with gIB."""

from __future__ import annotations

from typing import ClassVar, Literal

from railhead.fabric.gke import GkeFabric, GkeRail, gib, nvidia_libraries
from railhead.fabric.mode import Mode

_TEST = "container-engine-accelerators, gpudirect-rdma/nccl-test.yaml"


class GcpRdmaFabric(GkeFabric):
    """GPUDirect RDMA of A3 Ultra and A4, with gIB."""

    row: ClassVar[Mode] = Mode(
        name="gcp-rdma",
        fabrics=frozenset({"gcp-rdma"}),
        needs="gke",
        summary="GKE's multi-networking moves the node's RDMA interfaces into the pod, one a rail",
        attachment="gke",
        bootstrap="pod",
        unprivileged="the pod has the devices to itself and GKE's runtime sets no memlock limit; "
        "the published A4 test manifest dropped the capability (container-engine-accelerators "
        "#467)",
        operators=("gke",),
        moves=True,
        whole_nodes=True,
        host_paths=(nvidia_libraries("trainer", _TEST), gib(_TEST)),
        source=_TEST,
    )

    mode: Literal["gcp-rdma"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"rdma-{i}", interface=f"eth{i + 2}") for i in range(8)
    )


CONFIG = GcpRdmaFabric
