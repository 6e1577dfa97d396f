"""What a vendor's NCCL plugin needs on nodes and beside a trainer: the types of such rows."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.catalog.versions import Image


@dataclass(frozen=True, kw_only=True)
class Qualified:
    """What a vendor publishes together: no part of it goes with a part of another.

    Args:
        plugin: the installer's tag.
        daemon: the daemon's tag; None where there is none.
        driver: the branch of NVIDIA's driver it was qualified with, such as ``580``; None where
            the vendor names none.
        cuda: the major whose runtime library the plugin takes from the trainer's image; None where
            it takes none.
        nccl: what it was qualified with.
        source: where the vendor says so.
    """

    plugin: str
    daemon: str | None
    driver: str | None
    cuda: int | None
    nccl: str
    source: str


@dataclass(frozen=True, kw_only=True)
class PluginDaemon:
    """A sidecar: its command, the capabilities it needs, and devices beside the GPUs' own.

    ``shared`` are directories that it shares with the trainer: (volume, path in both).
    ``environment`` is the daemon's own; ``started`` a file that is there once it serves.
    """

    name: str
    image: Image
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    devices: tuple[str, ...]
    shared: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    started: str | None = None
    source: str


@dataclass(frozen=True, kw_only=True)
class NodePlugin:
    """A plugin as an installer puts it on nodes.

    Args:
        name: of the fabric, in the names of what is made for it.
        installer: the image that carries it.
        accelerators: ``cloud.google.com/gke-accelerator`` of the nodes that get it.
        qualified: what belongs to it; the images' tags are its.
        script: what the installer's container runs, a text of our own with nothing spliced in.
        prepare: what runs in the node's own namespaces before, or empty.
        mounts: (path on the node, path in the installer).
        daemon: what runs beside each trainer; None where nothing does.
        injector: whether nodes need GKE's device injector for the sidecar.
        libraries: files below /home/kubernetes/bin of a node that has it.
        apertures: how many NICs' apertures a node that has it binds below /dev/aperture_devices.
        source: where it was read.
    """

    name: str
    installer: Image
    accelerators: tuple[str, ...]
    qualified: Qualified
    script: str
    prepare: str
    mounts: tuple[tuple[str, str], ...]
    daemon: PluginDaemon | None
    injector: bool
    libraries: tuple[str, ...]
    apertures: int = 0
    source: str

    def __post_init__(self) -> None:
        daemon = self.daemon.image.tag if self.daemon else None
        if (self.installer.tag, daemon) != (self.qualified.plugin, self.qualified.daemon):
            raise ValueError(
                f"{self.name}: plugin {self.installer.tag} and daemon {daemon} are not the "
                f"published pair {self.qualified.plugin} and {self.qualified.daemon}"
            )
