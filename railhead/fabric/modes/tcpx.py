"""GPUDirect-TCPX of A3 High."""

from __future__ import annotations

from typing import ClassVar, Literal

from railhead.catalog.parts import Capability
from railhead.fabric.gke import GkeFabric, GkeRail, daemon_paths, nvidia_libraries
from railhead.fabric.mode import Mode

_TEST = (
    "container-engine-accelerators, gpudirect-tcpx/nccl-test-unprivileged-without-hostnetwork.yaml"
)


class TcpxFabric(GkeFabric):
    """GPUDirect-TCPX of A3 High."""

    row: ClassVar[Mode] = Mode(
        name="tcpx",
        fabrics=frozenset({"tcpx"}),
        needs="gke",
        summary="a daemon beside the trainer receives into GPU memory over four gVNIC networks",
        attachment="gke",
        bootstrap="pod",
        capabilities=(
            Capability(
                name="IPC_LOCK",
                reason="the plugin pins the buffers that it shares with the daemon",
                source=_TEST,
            ),
        ),
        operators=("gke",),
        moves=True,
        whole_nodes=True,
        host_paths=(nvidia_libraries("trainer", _TEST), *daemon_paths("tcpx-daemon", _TEST)),
        source=_TEST,
    )

    mode: Literal["tcpx"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"vpc{i}", interface=f"eth{i}") for i in range(1, 5)
    )


CONFIG = TcpxFabric
