"""GPUDirect-TCPXO of A3 Mega."""

from __future__ import annotations

from typing import ClassVar, Literal

from railhead.catalog.parts import HostPath
from railhead.fabric.gke import NO_VERBS, GkeFabric, GkeRail, daemon_paths, nvidia_libraries
from railhead.fabric.mode import Mode

_TEST = "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml"


class TcpxoFabric(GkeFabric):
    """GPUDirect-TCPXO of A3 Mega."""

    row: ClassVar[Mode] = Mode(
        name="tcpxo",
        fabrics=frozenset({"tcpxo"}),
        needs="gke",
        summary="a daemon beside the trainer receives into GPU memory over eight gVNIC networks",
        attachment="gke",
        bootstrap="pod",
        unprivileged=NO_VERBS,
        operators=("gke",),
        moves=True,
        whole_nodes=True,
        host_paths=(
            nvidia_libraries("trainer", _TEST),
            HostPath(
                name="aperture-devices",
                host="/dev/aperture_devices",
                mount="/dev/aperture_devices",
                container="trainer",
                read_only=False,
                reason="the plugin writes to the NICs' apertures directly",
                source=_TEST,
            ),
            *daemon_paths("tcpxo-daemon", _TEST),
        ),
        source=_TEST,
    )

    mode: Literal["tcpxo"]
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"vpc{i}", interface=f"eth{i}") for i in range(1, 9)
    )


CONFIG = TcpxoFabric
