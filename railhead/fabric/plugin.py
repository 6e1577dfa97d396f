"""Types of rows of a vendor's NCCL plugin: its parts on nodes and beside a trainer."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.catalog.versions import Image


@dataclass(frozen=True, kw_only=True)
class Qualified:
    """Versions that a vendor publishes together and that must not be mixed with others.

    Args:
        plugin: the installer's tag.
        daemon: the daemon's tag; None without a daemon.
        driver: the branch of NVIDIA's driver it was qualified with, such as ``580``; None if the
            vendor names no branch.
        cuda: the major version of the CUDA runtime that the plugin takes from the trainer's
            image; None if it takes no runtime.
        nccl: the NCCL that it was qualified with.
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
    """A sidecar: its command, the capabilities and the devices, beyond the GPUs', that it needs.

    ``shared`` are directories that it shares with the trainer: (volume, path in both).
    ``environment`` is the daemon's own; ``started`` is a command that succeeds once it serves.
    """

    name: str
    image: Image
    command: tuple[str, ...]
    capabilities: tuple[str, ...]
    devices: tuple[str, ...]
    shared: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    started: tuple[str, ...]
    source: str


@dataclass(frozen=True, kw_only=True)
class NodePlugin:
    """A plugin that an installer puts on nodes.

    Args:
        name: of the fabric, in the names of the objects made for it.
        installer: the image that carries it.
        accelerators: ``cloud.google.com/gke-accelerator`` of the nodes that get it.
        qualified: the versions that belong to it, with the images' tags.
        script: the script of the installer's container, fixed text without substitutions.
        prepare: a script that runs before in the node's own namespaces, or empty.
        mounts: (path on the node, path in the installer).
        daemon: the sidecar of each trainer; None without one.
        injector: whether nodes need GKE's device injector for the sidecar.
        libraries: files below /home/kubernetes/bin of a node that has it.
        apertures: how many NICs' apertures a node that has it binds below /dev/aperture_devices.
        revision: of ``script`` and ``prepare``; raised when they leave other files than before.
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
    revision: int = 1
    source: str

    def __post_init__(self) -> None:
        daemon = self.daemon.image.tag if self.daemon else None
        if (self.installer.tag, daemon) != (self.qualified.plugin, self.qualified.daemon):
            raise ValueError(
                f"{self.name}: plugin {self.installer.tag} and daemon {daemon} are not the "
                f"published pair {self.qualified.plugin} and {self.qualified.daemon}"
            )

    @property
    def release(self) -> str:
        """Version and scripts, as nodes that have the plugin keep them: ``v1.0.16``, ``v1.0.16-2``.

        Nodes that another revision prepared have other libraries of the same version, and ranks of
        a gang on both would not meet. The first is the version alone, which nodes have from before
        there were revisions: they need no second installation.
        """
        later = f"-{self.revision}" if self.revision > 1 else ""
        return f"{self.qualified.plugin}{later}"
