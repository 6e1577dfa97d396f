"""Virtual functions of InfiniBand HCAs, and the stack's own network a rail.

`ib-sriov` moves the RDMA device itself, by ``rdmaIsolation``, and must then not be followed by the
`rdma` plugin (its README); rdma-cni dropped it (rdma-cni #21). The operator's SriovIBNetwork has no
such field, so the stack writes the attachment.
"""

from __future__ import annotations

from typing import Any

from railhead.components.fabric import cni
from railhead.components.fabric.sriov import SriovObjects
from railhead.fabric.modes.sriov_ib import SriovIbFabric
from railhead.fabric.railed import DEVICE_PREFIX, NicRail


class SriovIbObjects(SriovObjects):
    """Functions with a GUID of their own."""

    def plugin(self, rail: NicRail, fabric: SriovIbFabric) -> dict[str, Any]:  # noqa: ARG002
        """Multus passes the function that the pod was given."""
        isolated = fabric.sriov.rdma_mode == "exclusive"
        return {"type": "ib-sriov", "link_state": "enable"} | (
            {"rdmaIsolation": True} if isolated else {}
        )

    def chained(
        self,
        rail: NicRail,
        fabric: SriovIbFabric,  # noqa: ARG002 - nothing of it
        *,
        shared_wire: bool,  # noqa: ARG002 - no ARP on InfiniBand
    ) -> list[dict[str, Any]]:
        """Source routing alone."""
        return cni.source_routing(rail)

    def annotations(self, rail: NicRail, fabric: SriovIbFabric) -> dict[str, str]:  # noqa: ARG002
        """Return the annotation that ties a pod's device to the network."""
        return {cni.RESOURCE_ANNOTATION: f"{DEVICE_PREFIX}/{rail.short_resource}"}


OBJECTS = SriovIbObjects()
