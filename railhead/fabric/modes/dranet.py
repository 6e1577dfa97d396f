"""NICs by ResourceClaim: GKE's managed DRANET, or the dranet driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from railhead.fabric.gke import gib, nvidia_libraries
from railhead.fabric.mode import BaseFabric, Mode, NicClaim
from railhead.fabric.railed import IPC_LOCK
from railhead.fabric.site import Check, FabricSite, Problem

_TEST = "container-engine-accelerators, gpudirect-rdma/nccl-test-managed-rdma.yaml"
_GKE = frozenset({"gcp-rdma"})
# Fabrics of a site's own, whose nodes also have other RDMA NICs.
_SITES = frozenset({"roce", "infiniband"})
_ATTRIBUTES = 'device.attributes["dra.net"]'
_INTERFACE = f"{_ATTRIBUTES}.ifName"
# CEL's spellings of it: dranet's own pages have two (v1.4.0, site/content/docs/user).
_ANY = r"""device\.attributes\[["']dra\.net["']\]"""
_READ = re.compile(rf"""{_ANY}(?:\.|\[["'])(\w+)""")
_ASKED = re.compile(rf"""has\({_ANY}\.(\w+)\)|["'](\w+)["'] in {_ANY}""")
# GKE's managed DRANET brings this class for the RDMA NICs of A3 Ultra and newer.
MANAGED_CLASS = "mrdma.google.com"
OWN_CLASS = "railhead-rdma"


class DranetFabric(BaseFabric):
    """NICs by ResourceClaim.

    ``driver``: ``managed`` is GKE's own DRANET; ``install`` brings the dranet driver; ``existing``
    uses a driver that the cluster has. ``selector`` is a CEL expression that picks the NICs among
    the driver's devices; None takes every RDMA device, which only GKE's own class limits to the
    fabric's. ``install``: whether the stack installs Google's plugin on the nodes, if the fabric
    needs it.
    """

    row: ClassVar[Mode] = Mode(
        name="dranet",
        fabrics=frozenset({"gcp-rdma", "roce", "infiniband"}),
        needs="nic-claims",
        summary="a ResourceClaim moves the NICs into the pod: GKE's managed DRANET, or the dranet "
        "driver on any other cluster",
        attachment="claim",
        bootstrap="pod",
        # GKE's runtime sets no memlock limit; other clusters' may.
        capabilities=(replace(IPC_LOCK, fabrics=frozenset({"roce", "infiniband"})),),
        operators=("dranet",),
        moves=True,
        host_paths=(
            replace(nvidia_libraries("trainer", _TEST), fabrics=_GKE),
            replace(gib(_TEST), fabrics=_GKE),
        ),
        source="container-engine-accelerators, gpudirect-rdma/nccl-test-managed-rdma.yaml; dranet "
        "1.4, the driver's own documentation",
    )

    mode: Literal["dranet"]
    driver: Literal["managed", "install", "existing"]
    install: bool = True
    selector: str | None = Field(default=None, min_length=1)

    @property
    def device_class(self) -> str:
        """The name of GKE's class, or of the stack's own."""
        return MANAGED_CLASS if self.driver == "managed" else OWN_CLASS

    def nic_claim(self) -> NicClaim | None:
        """Return a claim for the class and the selector's picks."""
        return NicClaim(device_class=self.device_class, selector=self.selector)

    def checks(self) -> tuple[Check, ...]:
        """Return the checks, one of which demands a selector for the fabric's NICs."""
        return (*super().checks(), self._picked)

    def _picked(self, _: FabricSite) -> Iterator[Problem]:
        """Yield a problem without a selector: dranet publishes almost every RDMA NIC of a node.

        An expression that reads an attribute which a device has not ends the claim's allocation.
        dranet v1.4.0 says ``rdmaDevice`` only of NICs without a network interface, such as those
        to a B200's NVSwitches, and ``ifName`` of the others (pkg/inventory/db.go,
        addRDMAAttributes and addLinkAttributes).
        """
        if self.driver == "managed" or self.kind not in _SITES:
            return
        example = f'has({_INTERFACE}) && {_INTERFACE} in ["ens1f0np0", "ens2f0np0"]'
        if self.selector is None:
            yield (
                "fabric.selector",
                "is missing: a pod would get whichever RDMA NICs are free, and take storage's or "
                "management's from the node; list the interfaces of the training fabric, such as "
                f"{example}",
            )
            return
        asked = {name for names in _ASKED.findall(self.selector) for name in names}
        unasked = set(_READ.findall(self.selector)) - asked
        for name, which, way in (
            (
                "rdmaDevice",
                "dranet says only of NICs without a network interface: at any other",
                f"list interfaces, such as {example}",
            ),
            (
                "ifName",
                "RDMA devices without a network interface have not: at one of them",
                f"ask first whether it is there, as in {example}",
            ),
        ):
            if name in unasked:
                yield (
                    "fabric.selector",
                    f"reads {_ATTRIBUTES}.{name}, which {which} the scheduler ends the allocation "
                    f"with an error, and no pod starts; {way}",
                )
                return

    def addons(self) -> tuple[str, ...]:
        """Return the driver, if the stack installs it."""
        return ("dranet",) if self.driver == "install" else ()


CONFIG = DranetFabric
