"""The RDMA shared device plugin: one resource over every rail's HCA."""

from __future__ import annotations

import json
from typing import Any

from railhead.catalog.versions import Controller
from railhead.components.fabric.network_operator import image
from railhead.fabric.railed import SharedDevices

MELLANOX = "15b3"


def plugin_policy(fabric: SharedDevices, operator: Controller) -> dict[str, Any]:
    """Return the NicClusterPolicy's section of the plugin."""
    return {
        "rdmaSharedDevicePlugin": image(operator.operands, "k8s-rdma-shared-dev-plugin")
        | {"config": json.dumps(shared_devices(fabric), sort_keys=True)}
    }


def shared_devices(fabric: SharedDevices) -> dict[str, Any]:
    """Return the plugin's own configuration."""
    prefix, _, name = fabric.resource.partition("/")
    # Without rails every NIC of the fabric's kind; NCCL_IB_HCA says which of them NCCL uses.
    link = "infiniband" if fabric.kind == "infiniband" else "ether"
    selectors: dict[str, Any] = (
        {"ifNames": list(fabric.node_interfaces())}
        if fabric.rails
        else {"vendors": [MELLANOX], "linkTypes": [link]}
    )
    return {
        "configList": [
            {
                "resourcePrefix": prefix,
                "resourceName": name,
                "rdmaHcaMax": fabric.shares,
                "selectors": selectors,
            }
        ]
    }
