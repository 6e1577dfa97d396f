"""CNI configurations of rails: the plugin, its addresses, and what keeps traffic on its rail."""

from __future__ import annotations

import json
from typing import Any

from railhead.fabric.config import (
    AnyFabric,
    AnyRail,
    DeviceRail,
    HostDeviceFabric,
    HostLocalIpam,
    IpoibFabric,
    NvIpam,
    Rail,
    RailedFabric,
    SriovIbFabric,
    SriovRoceFabric,
)
from railhead.fabric.rows import FABRICS
from railhead.resolve.wiring import DEVICE_PREFIX, resource_of

RESOURCE_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName"


def ipam(rail: AnyRail, fabric: RailedFabric) -> dict[str, Any]:
    """Who hands out the rail's addresses; empty where it has none."""
    if rail.subnet is None or fabric.ipam is None:
        return {}
    if isinstance(fabric.ipam, NvIpam):
        return {
            "type": "nv-ipam",
            "poolName": rail.name,
            "poolType": "cidrpool" if fabric.ipam.pool == "prefix" else "ippool",
        }
    return _host_local(rail, fabric.ipam)


def _host_local(rail: AnyRail, ipam: HostLocalIpam) -> dict[str, Any]:
    given = {
        "subnet": rail.subnet,
        "rangeStart": rail.range_start,
        "rangeEnd": rail.range_end,
        "gateway": rail.gateway,
    }
    return {
        "type": ipam.kind,
        "dataDir": ipam.data_dir,
        "ranges": [[{key: value for key, value in given.items() if value is not None}]],
    }


def chained(rail: AnyRail, fabric: RailedFabric, *, shared_wire: bool) -> list[dict[str, Any]]:
    """Plugins after the one that makes the interface.

    ``shared_wire``: whether rails may be one broadcast domain, where Linux would answer for any
    address of a pod on any of its interfaces.
    """
    plugins: list[dict[str, Any]] = []
    if rail.gateway is not None:
        # Routes of the rail are looked up by its own address: what comes from it leaves by it.
        plugins.append({"type": "sbr"})
    if shared_wire and rail.subnet is not None and not isinstance(fabric, IpoibFabric):
        plugins.append(
            {
                "type": "tuning",
                "sysctl": {
                    "net.ipv4.conf.IFNAME.arp_announce": "2",
                    "net.ipv4.conf.IFNAME.arp_ignore": "1",
                },
            }
        )
    if isinstance(fabric, (SriovRoceFabric, SriovIbFabric)) and (
        fabric.sriov.rdma_mode == "exclusive"
    ):
        # The RDMA device follows its interface into the pod, and leaves the node's sight.
        plugins.append({"type": "rdma"})
    return plugins


def meta_plugins(rail: AnyRail, fabric: RailedFabric) -> str | None:
    """``metaPlugins`` of an operator's network: the chained plugins, comma separated."""
    plugins = chained(rail, fabric, shared_wire=len(fabric.rails) > 1)
    return ",".join(json.dumps(plugin, sort_keys=True) for plugin in plugins) or None


def configuration(rail: AnyRail, fabric: RailedFabric, *, shared_wire: bool) -> dict[str, Any]:
    """The CNI configuration of a rail whose network the stack writes itself."""
    # host-local keeps its leases by this name, so it is the rail's in every namespace.
    head = {"cniVersion": "1.0.0", "name": rail.name}
    plugin = _plugin(rail, fabric)
    if addresses := ipam(rail, fabric):
        plugin["ipam"] = addresses
    if after := chained(rail, fabric, shared_wire=shared_wire):
        return head | {"plugins": [plugin, *after]}
    return head | plugin


def _plugin(rail: AnyRail, fabric: RailedFabric) -> dict[str, Any]:
    if isinstance(rail, Rail) and isinstance(fabric, IpoibFabric):
        return {"type": "ipoib", "master": rail.master}
    if isinstance(rail, Rail):
        # Pods of one node must reach each other on the rail as well.
        plugin = {"type": "macvlan", "master": rail.master, "mode": "bridge"}
        return plugin | ({"mtu": mtu} if (mtu := mtu_of(fabric)) else {})
    if isinstance(fabric, HostDeviceFabric) and isinstance(rail, DeviceRail):
        # Where a device plugin hands NICs out, Multus passes the one that the pod was given.
        return {"type": "host-device"} | ({} if fabric.resources else {"device": rail.pf_names[0]})
    raise TypeError(f"networks of mode {fabric.mode!r} are the SR-IOV operator's")


def mtu_of(fabric: RailedFabric) -> int | None:
    """The rails' MTU in bytes: the stack's, or what the fabric's row says; None leaves it alone."""
    return fabric.mtu or FABRICS[fabric.kind].mtu


def resource_annotations(fabric: AnyFabric) -> dict[str, dict[str, str]]:
    """Rail -> what tells Multus which device of a pod belongs to its network."""
    if not isinstance(fabric, HostDeviceFabric) or not fabric.resources:
        return {}
    return {
        rail.name: {RESOURCE_ANNOTATION: f"{DEVICE_PREFIX}/{resource_of(rail)}"}
        for rail in fabric.rails
    }
