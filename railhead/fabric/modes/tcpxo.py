"""GPUDirect-TCPXO of A3 Mega."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from railhead.base.fields import catalogue
from railhead.catalog.parts import HostPath
from railhead.fabric.gke import NO_VERBS, GkeFabric, GkeRail, daemon_paths, nvidia_libraries
from railhead.fabric.kinds.tcpxo import PLUGIN, QUALIFIED, qualified
from railhead.fabric.mode import Mode
from railhead.fabric.plugin import NodePlugin

_TEST = "container-engine-accelerators, gpudirect-tcpxo/nccl-test-latest.yaml"


class TcpxoFabric(GkeFabric):
    """GPUDirect-TCPXO of A3 Mega.

    ``plugin`` is the version of Google's plugin, which goes with one branch of the driver: v1.0.16
    with R580, v1.0.17 with R595.
    """

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
    plugin: Annotated[str, catalogue(QUALIFIED, " of TCPXO's plugins")] = PLUGIN.qualified.plugin
    rails: tuple[GkeRail, ...] = tuple(
        GkeRail(network=f"vpc{i}", interface=f"eth{i}") for i in range(1, 9)
    )

    @property
    def node_plugin(self) -> NodePlugin:
        """The plugin of the version that the stack chose."""
        return qualified(self.plugin)


CONFIG = TcpxoFabric
