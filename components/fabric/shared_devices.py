"""The RDMA shared device plugin: one resource over every rail's HCA."""

from __future__ import annotations

import json
from typing import Any

from components.fabric.network_operator import image
from railhead.catalog.versions import Controller
from railhead.fabric.railed import SharedDevices

MELLANOX = "15b3"


def plugin_policy(fabric: SharedDevices, operator: Controller) -> dict[str, Any]:
    """The NicClusterPolicy's section of the plugin."""
    return {
        "rdmaSharedDevicePlugin": image(operator, "k8s-rdma-shared-dev-plugin")
        | {"config": json.dumps(shared_devices(fabric), sort_keys=True)}
    }


def shared_devices(fabric: SharedDevices) -> dict[str, Any]:
    """The plugin's own configuration."""
    prefix, _, name = fabric.resource.partition("/")
    selectors: dict[str, Any] = (
        {"ifNames": list(fabric.node_interfaces())}
        if fabric.rails
        else {"vendors": [MELLANOX], "linkTypes": ["infiniband"]}
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
