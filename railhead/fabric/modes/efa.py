"""AWS' Elastic Fabric Adapter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

from railhead.catalog.parts import DeviceResource
from railhead.catalog.versions import ADDONS
from railhead.fabric.mode import BaseFabric, Mode, NicClaim
from railhead.fabric.site import Check, FabricSite, Problem

# The DeviceClass of AWS' DRA chart, for claims.
DEVICE_CLASS = "efa.networking.k8s.aws"


class EfaFabric(BaseFabric):
    """AWS' Elastic Fabric Adapter.

    ``allocation``: ``device-plugin``, which works with every kind of node, or ``dra``, AWS' DRA
    driver, which AWS recommends for managed node groups from Kubernetes 1.34 on. Never both.

    ``install`` is whether the stack brings the device plugin.
    """

    row: ClassVar[Mode] = Mode(
        name="efa",
        fabrics=frozenset({"efa"}),
        needs="efa",
        summary="the EFA device plugin, or AWS' DRA driver, gives the pod its share of the "
        "instance's EFA devices; they need no address",
        attachment="none",
        bootstrap="pod",
        devices=(
            DeviceResource(
                name="vpc.amazonaws.com/efa",
                scope="nic",
                per_pod=1,
                per_node=0,
                source="aws-efa-k8s-device-plugin: one for each EFA device of the instance",
            ),
        ),
        unprivileged="the published EFA manifests add no capability, and the stack's nodes let "
        "containers lock their memory, which EKS's AL2023 images do not say (nodeadm's "
        "base-runtime-spec.json); nodes that are there already need `RLIMIT_MEMLOCK` in "
        "NodeConfig's `containerd.baseRuntimeSpec`",
        operators=("efa",),
        # libfabric's EFA provider takes 2 MiB pages for the bounce buffers of each device.
        hugepages_mib=160,
        source="Amazon EKS user guide, machine learning training with EFA: hugepages-2Mi 5120Mi "
        "beside the 32 devices of a p5.48xlarge, which is 160 MiB a device",
    )

    mode: Literal["efa"]
    allocation: Literal["device-plugin", "dra"] = "device-plugin"
    install: bool = True

    @property
    def addon(self) -> str:
        """The name of the chart for the allocation."""
        return "aws-dranet" if self.allocation == "dra" else "aws-efa-k8s-device-plugin"

    def device_names(self, device: DeviceResource) -> tuple[str, ...]:
        """Return the plugin's resource; nothing if a claim replaces it."""
        return () if self.allocation == "dra" else super().device_names(device)

    def nic_claim(self) -> NicClaim | None:
        """Return a claim for AWS' DRA driver, if the stack uses it."""
        return NicClaim(device_class=DEVICE_CLASS) if self.allocation == "dra" else None

    def addons(self) -> tuple[str, ...]:
        """Return the device plugin or the DRA driver."""
        return (self.addon,) if self.install else ()

    def checks(self) -> tuple[Check, ...]:
        """Return the checks, one of which is that the DRA driver serves this Kubernetes."""
        return (self._served,)

    def _served(self, site: FabricSite) -> Iterator[Problem]:
        served, version = ADDONS["aws-dranet"].kubernetes, site.kubernetes
        if self.allocation != "dra" or served is None or version is None:
            return
        if re.fullmatch(r"\d+\.\d+", version) and not served.holds(version):
            yield (
                "fabric.allocation",
                f"'dra' needs Kubernetes {served.oldest} or newer, and platform.kubernetes is "
                f"{version!r}; use 'device-plugin'",
            )


CONFIG = EfaFabric
