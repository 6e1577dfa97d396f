"""CNI configurations of rails: the addresses, and what keeps traffic on its rail."""

from __future__ import annotations

import json
from typing import Any

from railhead.fabric.railed import Addresses, HostLocalIpam, NvIpam, RailedFabric

RESOURCE_ANNOTATION = "k8s.v1.cni.cncf.io/resourceName"


def ipam(rail: Addresses, fabric: RailedFabric) -> dict[str, Any]:
    """Return the CNI section that hands out the rail's addresses; empty where it has none."""
    if rail.subnet is None or fabric.ipam is None:
        return {}
    if isinstance(fabric.ipam, NvIpam):
        return {
            "type": "nv-ipam",
            "poolName": rail.name,
            "poolType": "cidrpool" if fabric.ipam.pool == "prefix" else "ippool",
        }
    return _host_local(rail, fabric.ipam)


def _host_local(rail: Addresses, ipam: HostLocalIpam) -> dict[str, Any]:
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


def source_routing(rail: Addresses) -> list[dict[str, Any]]:
    """Return the plugin that looks up a routed rail's routes by the rail's own address."""
    return [{"type": "sbr"}] if rail.gateway is not None else []


def own_address_only(rail: Addresses, *, shared_wire: bool) -> list[dict[str, Any]]:
    """Return the plugin that makes an interface answer for its own address alone.

    ``shared_wire``: whether rails may be one broadcast domain, where Linux would answer for any
    address of a pod on any of its interfaces.
    """
    if not shared_wire or rail.subnet is None:
        return []
    return [
        {
            "type": "tuning",
            "sysctl": {
                "net.ipv4.conf.IFNAME.arp_announce": "2",
                "net.ipv4.conf.IFNAME.arp_ignore": "1",
            },
        }
    ]


def meta_plugins(plugins: list[dict[str, Any]]) -> dict[str, str]:
    """Return ``metaPlugins`` of an operator's network, comma separated; nothing without plugins."""
    text = ",".join(json.dumps(plugin, sort_keys=True) for plugin in plugins)
    return {"metaPlugins": text} if text else {}


def configuration(
    rail: Addresses, fabric: RailedFabric, plugin: dict[str, Any], chained: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the CNI configuration of a rail whose network the stack writes itself."""
    # host-local keeps its leases by this name, so it is the rail's in every namespace.
    head = {"cniVersion": "1.0.0", "name": rail.name}
    if addresses := ipam(rail, fabric):
        plugin = plugin | {"ipam": addresses}
    if chained:
        return head | {"plugins": [plugin, *chained]}
    return head | plugin
