"""The whole NIC of each rail in the one pod of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from railhead.base.fields import matching
from railhead.base.sections import each, known
from railhead.catalog.parts import DeviceResource
from railhead.fabric.mode import Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, NicRail, RailDevices, one_a_rail
from railhead.fabric.site import Check, FabricSite, Problem

PciAddress = Annotated[
    str,
    matching(
        r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$",
        "a PCI address as `lspci -D` prints it, such as '0000:1b:00.0'",
    ),
]


class WholeNicRail(NicRail):
    """One rail on the whole NIC of the nodes' interfaces ``pf_names``.

    ``pci_addresses`` are the NIC's, by which the device plugin finds it: its ``pfNames`` and
    ``rootDevices`` match virtual functions alone (sriov-network-device-plugin v3.6.2 to v3.9.0,
    pkg/utils/utils.go, GetPfName). Several where machines differ.
    """

    pci_addresses: tuple[PciAddress, ...] = ()


class HostDeviceFabric(RailDevices):
    """The whole NIC of each rail in the one pod of a node.

    ``resources``: whether a device plugin, which the network operator configures, hands the NICs
    out. False takes the interface by its name, for clusters without one, such as the lab.
    """

    row: ClassVar[Mode] = Mode(
        name="host-device",
        fabrics=frozenset({"roce", "infiniband"}),
        needs="multus",
        summary="the whole NIC of each rail moves into the pod: one pod a node, nothing in between",
        attachment="multus",
        bootstrap="pod",
        devices=(
            one_a_rail(
                f"{OPERATOR}HostDeviceNetwork: the SR-IOV device plugin advertises "
                "nvidia.com/<resourceName>, one for each device that its selector matches"
            ),
        ),
        capabilities=(IPC_LOCK,),
        operators=("network",),
        moves=True,
        whole_nodes=True,
        source=f"{OPERATOR}HostDevice network",
    )

    mode: Literal["host-device"]
    rails: tuple[WholeNicRail, ...] = Field(min_length=1)
    resources: bool = True

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:
        """Return one resource per rail, if a device plugin hands NICs out."""
        return super().device_names(device) if self.resources else ()

    @property
    def rdma_netns(self) -> str | None:
        """``shared``: the CNI plugin moves the interface alone, and the RDMA device must be seen.

        Only the `rdma` plugin moves one (rdma-cni v1.6.0), which no `host-device` network has
        (network-operator v26.4.1, manifests/state-hostdevice-network).
        """
        return "shared"

    def pods_at_once(self, most: int) -> int:  # noqa: ARG002 - whatever the GPUs would let
        """Return 1 unless the stack says more: a whole NIC is in one pod at a time."""
        return self.pods_per_node or 1

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: one pod per node, and a plugin that hands the NICs out."""
        return (*super().checks(), self._one_pod, self._handed_out)

    def _apart(self, site: FabricSite) -> Iterator[Problem]:
        if self.resources:
            yield from super()._apart(site)

    def _one_pod(self, _: FabricSite) -> Iterator[Problem]:
        if (self.pods_per_node or 1) > 1:
            yield (
                "fabric.pods_per_node",
                f"{self.pods_per_node}: a whole NIC is in one pod at a time",
            )

    def _handed_out(self, site: FabricSite) -> Iterator[Problem]:
        if self.resources and "operator" not in site.offers and site.platform is not None:
            yield (
                "fabric.resources",
                f"must be false in the {site.platform}: it has no device plugin for NICs",
            )
        taken: dict[str, str] = {}
        for path, rail in each(self.rails if self.resources else (), "fabric.rails"):
            addresses = known(getattr, rail, "pci_addresses", None)
            if addresses == ():
                yield (
                    f"{path}.pci_addresses",
                    "is missing: the device plugin finds a whole NIC by its PCI address alone; "
                    "`ethtool -i` prints it on a node (bus-info)",
                )
            for address in addresses or ():
                if taken.setdefault(address, path) != path:
                    yield f"{path}.pci_addresses", f"{address!r} is of {taken[address]} already"


CONFIG = HostDeviceFabric
