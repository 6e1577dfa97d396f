"""Modes whose rails are GKE's own networks, and what Google's plugins put into pods."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from railhead.base.fields import Interface, Model, Name
from railhead.catalog.parts import HostPath
from railhead.fabric.mode import BaseFabric, RailInterface
from railhead.fabric.railed import one_rail_a_nic
from railhead.fabric.site import Check, FabricSite, Problem

NO_VERBS = "the plugin registers no memory through verbs: nothing in the pod is locked"


class GkeRail(Model):
    """One of GKE's networks: the name of its Network object, and its interface in the pod."""

    network: Name
    interface: Interface


class GkeFabric(BaseFabric):
    """The base of GKE's multi-networking modes.

    ``rails`` are the Network objects, in the order of the NICs; the platform makes them, or they
    exist already. ``install``: whether the stack installs Google's plugin on the nodes.
    """

    rails: tuple[GkeRail, ...] = Field(min_length=1)
    install: bool = True

    def pod_rails(self) -> tuple[RailInterface, ...]:
        """Return the interfaces as the stack, or Google's blueprints, name them."""
        return tuple(
            RailInterface(network=rail.network, rail=index, interface=rail.interface)
            for index, rail in enumerate(self.rails)
        )

    def checks(self) -> tuple[Check, ...]:
        """Return the check that each NIC has one rail, with its own network and interface."""
        return (self._rails,)

    def _rails(self, site: FabricSite) -> Iterator[Problem]:
        for field in ("network", "interface"):
            seen: dict[str, int] = {}
            for index, rail in enumerate(self.rails):
                value = getattr(rail, field)
                if seen.setdefault(value, index) != index:
                    yield f"fabric.rails[{index}].{field}", f"{value!r} is there twice"
        yield from one_rail_a_nic(len(self.rails), site)


def nvidia_libraries(container: str, source: str) -> HostPath:
    """Return the node's driver libraries, with the NCCL plugin among them."""
    return HostPath(
        name="nvidia",
        host="/home/kubernetes/bin/nvidia/lib64",
        mount="/usr/local/nvidia/lib64",
        container=container,
        read_only=True,
        reason="GKE keeps the driver's libraries and the NCCL plugin on the node",
        source=source,
    )


def gib(source: str) -> HostPath:
    """Return the node's directory of gIB, Google's NCCL plugin for RDMA."""
    return HostPath(
        name="gib",
        host="/home/kubernetes/bin/gib",
        mount="/usr/local/gib",
        container="trainer",
        read_only=True,
        reason="the plugin is installed on the node and belongs to its driver",
        source=source,
    )


def daemon_paths(daemon: str, source: str) -> tuple[HostPath, ...]:
    """Return the node's directories that the receive daemons of GPUDirect over TCP read."""
    return (
        nvidia_libraries(daemon, source),
        *(
            HostPath(
                name=name,
                host=host,
                mount=mount,
                container=daemon,
                read_only=False,
                reason="the daemon reads the NICs' queues and settings of the node",
                source=source,
            )
            for name, host, mount in (
                ("sys", "/sys", "/hostsysfs"),
                ("proc-sys", "/proc/sys", "/hostprocsysfs"),
            )
        ),
    )
