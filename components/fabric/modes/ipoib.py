"""The RDMA shared device plugin, and an IPoIB network a rail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.catalog.versions import Controller
from railhead.components.fabric import cni
from railhead.components.fabric.network_operator import image
from railhead.components.fabric.railed import RailedObjects
from railhead.components.fabric.shared_devices import plugin_policy
from railhead.fabric.modes.ipoib import IpoibFabric
from railhead.fabric.railed import Rail


class IpoibObjects(RailedObjects):
    """Shares of the node's HCAs, and IPoIB interfaces."""

    def policy(self, fabric: IpoibFabric, operator: Controller) -> Mapping[str, Any]:
        """Return the plugin that hands shares out, and the CNI plugin for IPoIB."""
        networks = {"secondaryNetwork": {"ipoib": image(operator.operands, "ipoib-cni")}}
        return networks | plugin_policy(fabric, operator)

    def plugin(self, rail: Rail, fabric: IpoibFabric) -> dict[str, Any]:  # noqa: ARG002
        """Return a child of the nodes' IPoIB interface."""
        return {"type": "ipoib", "master": rail.master}

    def chained(
        self,
        rail: Rail,
        fabric: IpoibFabric,  # noqa: ARG002 - nothing of it
        *,
        shared_wire: bool,  # noqa: ARG002 - no ARP on InfiniBand
    ) -> list[dict[str, Any]]:
        """Source routing alone."""
        return cni.source_routing(rail)


OBJECTS = IpoibObjects()
