"""The whole NIC of each rail: the device plugin that hands it out, and its network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from railhead.catalog.versions import Controller
from railhead.components.fabric import cni
from railhead.components.fabric.network_operator import image
from railhead.components.fabric.railed import RailedObjects
from railhead.fabric.modes.host_device import HostDeviceFabric, WholeNicRail
from railhead.fabric.railed import DEVICE_PREFIX


def host_devices(fabric: HostDeviceFabric) -> dict[str, Any]:
    """Return the SR-IOV device plugin's own configuration: one resource a rail, the NIC itself."""
    return {
        "resourceList": [
            {
                "resourcePrefix": DEVICE_PREFIX,
                "resourceName": rail.short_resource,
                # As components.fabric.sriov says of functions.
                "excludeTopology": True,
                "selectors": {"pciAddresses": list(rail.pci_addresses), "isRdma": True},
            }
            for rail in fabric.rails
        ]
    }


class HostDeviceObjects(RailedObjects):
    """NICs that move into pods."""

    def policy(self, fabric: HostDeviceFabric, operator: Controller) -> Mapping[str, Any]:
        """Return the device plugin, where one hands NICs out."""
        if not fabric.resources:
            return {}
        plugin = image(operator.operands, "sriov-network-device-plugin")
        config = {"config": json.dumps(host_devices(fabric), sort_keys=True)}
        return {"sriovDevicePlugin": plugin | config}

    def plugin(self, rail: WholeNicRail, fabric: HostDeviceFabric) -> dict[str, Any]:
        """Multus passes the NIC that the pod was given, where a device plugin gives it."""
        return {"type": "host-device"} | ({} if fabric.resources else {"device": rail.pf_names[0]})

    def annotations(self, rail: WholeNicRail, fabric: HostDeviceFabric) -> dict[str, str]:
        """Return the annotation that ties a pod's device to the network."""
        if not fabric.resources:
            return {}
        return {cni.RESOURCE_ANNOTATION: f"{DEVICE_PREFIX}/{rail.short_resource}"}


OBJECTS = HostDeviceObjects()
