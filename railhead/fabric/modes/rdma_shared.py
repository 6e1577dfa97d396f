"""The RDMA shared device plugin; on RoCE with a macvlan interface per rail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from railhead.catalog.images import before_nccl_2_26
from railhead.fabric.mode import Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, Rail, SharedDevices, shared_device
from railhead.fabric.site import Check, FabricSite, Problem


class RdmaSharedFabric(SharedDevices):
    """The RDMA shared device plugin; on RoCE with a macvlan interface per rail.

    ``resource`` is what the plugin advertises, ``shares`` how many pods of a node may hold one.
    ``hcas`` are the node's RDMA devices of this fabric, which pods see among all others; None
    takes the catalogue's. ``hcas_by_machine`` is instance type -> those of such nodes, where they
    differ from ``hcas``. ``host_network`` puts pods into the node's network namespace in place of
    rails, if NICs have addresses only there (OKE without virtual functions): ``pod_interface`` is
    then the node's, and network policies do not apply to pods.
    """

    row: ClassVar[Mode] = Mode(
        name="rdma-shared",
        fabrics=frozenset({"roce", "infiniband"}),
        needs="multus",
        summary="every pod opens the node's HCAs through the RDMA shared device plugin; on RoCE a "
        "macvlan interface a rail gives it addresses, and so GIDs, of its own, or it has the "
        "node's",
        attachment="multus",
        bootstrap="rails",
        devices=(shared_device(),),
        capabilities=(IPC_LOCK,),
        operators=("network",),
        hcas=True,
        # Under macvlan its right value differs from pod to pod.
        never=("NCCL_IB_GID_INDEX",),
        source=f"{OPERATOR}RDMA shared device plugin with macvlan",
    )

    mode: Literal["rdma-shared"]
    rails: tuple[Rail, ...] = ()
    host_network: bool = False

    @property
    def node_network(self) -> str | None:
        """The reason that pods use the node's network namespace, if they do."""
        return "the fabric's NICs have addresses on the node alone" if self.host_network else None

    @property
    def whole_nodes(self) -> bool:
        """True in the node's network namespace, where two pods would take each other's ports."""
        return self.host_network

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: RoCE needs rails, and an NCCL that reads their GIDs."""
        return (self._wired, self._gids, *super().checks())

    def _gids(self, site: FabricSite) -> Iterator[Problem]:
        """Yield images whose NCCL ends at the GIDs of the node's interfaces.

        A pod sees their entries and may not read the types (nccl #1573); v2.26.2 passes over them.
        """
        if self.kind != "roce" or not self.rails:
            return
        for runtime in site.runtimes:
            if before_nccl_2_26(runtime.image):
                yield (
                    f"runtimes[{runtime.index}].image",
                    f"{runtime.image!r} has an NCCL older than 2.26, which cannot find a pod's GID "
                    "among the node's under macvlan (nccl #1573): every job would end in "
                    "ncclIbRoceGetVersionNum; name an image with 2.26 or newer (PyTorch 2.7)",
                )

    def _wired(self, _: FabricSite) -> Iterator[Problem]:
        if self.host_network and self.rails:
            yield (
                "fabric.rails",
                "cannot be with host_network: Multus leaves such pods alone; leave one of them out",
            )
        elif self.kind == "roce" and not self.rails and not self.host_network:
            yield (
                "fabric.rails",
                "is empty; RoCE in mode 'rdma-shared' needs one for each NIC: without an interface "
                "of its own a pod has no address, and so no GID, on the fabric; or host_network: "
                "true",
            )
        if self.kind == "infiniband" and self.rails:
            yield (
                "fabric.rails",
                "macvlan cannot be put on InfiniBand; leave rails out (verbs need no address), or "
                "use mode 'ipoib'",
            )


CONFIG = RdmaSharedFabric
