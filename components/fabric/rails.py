"""What operators make of rails: address pools, and one network object a rail where one makes them.

Such networks are in a namespace of their own, since each object makes one network in one namespace;
pods of every training namespace name them with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.controllers import charts
from components.fabric.fleet import node_selector
from railhead.catalog.machines import MACHINES
from railhead.fabric.mode import NETWORKS_NAMESPACE
from railhead.fabric.railed import Addresses, NvIpam, RailedFabric
from railhead.model.cluster import Cluster

IPAM_API_VERSION = "nv-ipam.nvidia.com/v1alpha1"


@dataclass(frozen=True, kw_only=True)
class RailsArgs:
    """Arguments of :class:`Rails`.

    ``operator_namespace`` is where nv-ipam looks for pools, ``networks`` rail -> the object that
    makes its network, API version, kind, metadata and spec; none where the stack writes them.
    """

    cluster: Cluster
    fabric: RailedFabric
    operator_namespace: str
    networks: Mapping[str, Mapping[str, Any]]
    after: Sequence[pulumi.Resource] = ()


def pods_per_node(cluster: Cluster) -> int:
    """Training pods that a node may run at once, the largest of the pools."""
    most = max(MACHINES[pool.instance_type].gpus for pool in cluster.pools)
    return cluster.fabric.pods_at_once(most)


def address_pool(
    rail: Addresses, fabric: RailedFabric, pods: int, nodes: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """(kind, spec) of a rail's pool for nv-ipam; each of ``nodes`` gets room for ``pods`` pods.

    Without a selector every node of the cluster gets a block, by sorted name, and GPU nodes may
    find none left (nvidia-k8s-ipam v0.4.0, pkg/ipam-controller/controllers/ippool).

    Raises:
        ValueError: the rail has no subnet, or another ipam hands its addresses out.
    """
    if rail.subnet is None or not isinstance(fabric.ipam, NvIpam):
        raise ValueError(f"rail {rail.name!r} takes no address of nv-ipam")
    spec: dict[str, Any] = {"nodeSelector": dict(nodes)}
    if fabric.ipam.pool == "prefix":
        network = ipaddress.ip_network(rail.subnet)
        fixed = [
            {"nodeName": node, "prefix": prefix, "gateway": str(ipaddress.ip_network(prefix)[1])}
            for node, prefix in rail.node_prefixes.items()
        ]
        return "CIDRPool", spec | {
            "cidr": rail.subnet,
            "perNodeNetworkPrefix": fabric.ipam.prefix_length(network, pods),
            "gatewayIndex": 1,
            # All of the rail's other nodes are behind the node's own gateway on it.
            "routes": [{"dst": rail.subnet}],
            **({"staticAllocations": fixed} if fixed else {}),
        }
    each = fabric.ipam.addresses(pods)
    if exclusions := _outside(rail):
        spec["exclusions"] = exclusions
    if rail.gateway is not None:
        # No route: the pool's own subnet is on the wire, and by the gateway every packet of the
        # rail would go to the router and back (netlink prepends it to the connected route). What
        # leaves the subnet finds the gateway in the table that `sbr` makes. It lies in one of the
        # blocks, whose node must have room all the same.
        spec["gateway"] = rail.gateway
        each += 1
    return "IPPool", spec | {"subnet": rail.subnet, "perNodeBlockSize": each}


def _outside(rail: Addresses) -> list[dict[str, str]]:
    """The end of the subnet that is the nodes', as exclusions; blocks are cut from its start."""
    if rail.range_end is None:
        return []
    after = ipaddress.ip_address(rail.range_end) + 1
    last = ipaddress.ip_network(str(rail.subnet)).broadcast_address - 1
    return [{"startIP": str(after), "endIP": str(last)}] if int(after) <= int(last) else []


class Rails(pulumi.ComponentResource):
    """The networks' namespace, the address pools, then one network a rail."""

    def __init__(
        self, name: str, args: RailsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Rails", name, None, opts)
        fabric = args.fabric
        namespaces = [
            charts.namespace(
                f"{name}-namespace",
                NETWORKS_NAMESPACE,
                pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for _ in range(1 if args.networks else 0)
        ]
        pods = pods_per_node(args.cluster)
        nodes = node_selector(args.cluster)
        for rail in fabric.lanes:
            before: list[pulumi.Resource] = [*args.after, *namespaces]
            if rail.subnet is not None and isinstance(fabric.ipam, NvIpam):
                kind, spec = address_pool(rail, fabric, pods, nodes)
                before.append(
                    kubernetes.apiextensions.CustomResource(
                        f"{name}-pool-{rail.name}",
                        api_version=IPAM_API_VERSION,
                        kind=kind,
                        metadata={"name": rail.name, "namespace": args.operator_namespace},
                        spec=spec,
                        opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
                    )
                )
            if rail.name not in args.networks:
                continue
            made = args.networks[rail.name]
            kubernetes.apiextensions.CustomResource(
                f"{name}-{rail.name}",
                api_version=made["apiVersion"],
                kind=made["kind"],
                metadata=made["metadata"],
                spec=made["spec"],
                opts=pulumi.ResourceOptions(parent=self, depends_on=before),
            )
        self.register_outputs(
            {"networks": [rail.name for rail in fabric.lanes], "mode": fabric.mode}
        )
