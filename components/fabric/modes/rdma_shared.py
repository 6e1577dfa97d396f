"""The RDMA shared device plugin, and a macvlan network a rail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.catalog.versions import Controller
from railhead.components.fabric.railed import RailedObjects
from railhead.components.fabric.shared_devices import plugin_policy
from railhead.fabric.modes.rdma_shared import RdmaSharedFabric
from railhead.fabric.railed import Rail


class RdmaSharedObjects(RailedObjects):
    """Shares of the node's HCAs, and macvlan interfaces."""

    def policy(self, fabric: RdmaSharedFabric, operator: Controller) -> Mapping[str, Any]:
        """Return the plugin that hands shares out."""
        return plugin_policy(fabric, operator)

    def plugin(self, rail: Rail, fabric: RdmaSharedFabric) -> dict[str, Any]:
        """Macvlan in bridge mode: pods of one node must reach each other on the rail as well."""
        mtu = {"mtu": fabric.node_mtu} if fabric.node_mtu else {}
        return {"type": "macvlan", "master": rail.master, "mode": "bridge", **mtu}


OBJECTS = RdmaSharedObjects()
