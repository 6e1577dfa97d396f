"""The RDMA shared device plugin; on RoCE with a macvlan interface per rail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from railhead.fabric.mode import Mode
from railhead.fabric.railed import IPC_LOCK, OPERATOR, Rail, SharedDevices, shared_device
from railhead.fabric.site import Check, FabricSite, Problem


class RdmaSharedFabric(SharedDevices):
    """The RDMA shared device plugin; on RoCE with a macvlan interface per rail.

    ``resource`` is what the plugin advertises, ``shares`` how many pods of a node may hold one.
    ``hcas`` are the node's RDMA devices of this fabric, which pods see among all others; None
    takes the catalogue's. ``hcas_by_machine`` is instance type -> those of such nodes, where they
    differ from ``hcas``.
    """

    row: ClassVar[Mode] = Mode(
        name="rdma-shared",
        fabrics=frozenset({"roce", "infiniband"}),
        needs="multus",
        summary="every pod opens the node's HCAs through the RDMA shared device plugin; on RoCE a "
        "macvlan interface a rail gives it addresses, and so GIDs, of its own",
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

    def checks(self) -> tuple[Check, ...]:
        """Return the checks: RoCE needs rails, InfiniBand cannot have them."""
        return (self._wired, *super().checks())

    def _wired(self, _: FabricSite) -> Iterator[Problem]:
        if self.kind == "roce" and not self.rails:
            yield (
                "fabric.rails",
                "is empty; RoCE in mode 'rdma-shared' needs one for each NIC: without an interface "
                "of its own a pod has no address, and so no GID, on the fabric",
            )
        if self.kind == "infiniband" and self.rails:
            yield (
                "fabric.rails",
                "macvlan cannot be put on InfiniBand; leave rails out (verbs need no address), or "
                "use mode 'ipoib'",
            )


CONFIG = RdmaSharedFabric
