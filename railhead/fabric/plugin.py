"""What a vendor's NCCL plugin needs on nodes and beside a trainer: the types of such rows."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.catalog.versions import Image


@dataclass(frozen=True, kw_only=True)
class PluginDaemon:
    """A sidecar: its command, the capabilities it needs, and devices beside the GPUs' own.

    ``shared`` are directories that it shares with the trainer: (volume, path in both).
    """

    name: str
    image: Image
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    devices: tuple[str, ...]
    shared: tuple[tuple[str, str], ...] = ()
    source: str


@dataclass(frozen=True, kw_only=True)
class NodePlugin:
    """A plugin as an installer puts it on nodes.

    Args:
        name: of the fabric, in the names of what is made for it.
        installer: the image that carries it.
        accelerators: ``cloud.google.com/gke-accelerator`` of the nodes that get it.
        script: what the installer's container runs, a text of our own with nothing spliced in.
        prepare: what runs in the node's own namespaces before, or empty.
        mounts: (path on the node, path in the installer).
        daemon: what runs beside each trainer; None where nothing does.
        injector: whether nodes need GKE's device injector for the sidecar.
        source: where it was read.
    """

    name: str
    installer: Image
    accelerators: tuple[str, ...]
    script: str
    prepare: str
    mounts: tuple[tuple[str, str], ...]
    daemon: PluginDaemon | None
    injector: bool
    source: str
