"""The objects of operators for rails: address pools, and networks where an operator makes them.

Such networks are in a namespace of their own, since each object makes one network in one namespace;
pods of every training namespace name them with it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.controllers import charts
from railhead.fabric.mode import NETWORKS_NAMESPACE
from railhead.fabric.railed import Addresses, NvIpam, RailedFabric

IPAM_API_VERSION = "nv-ipam.nvidia.com/v1alpha1"


@dataclass(frozen=True, kw_only=True)
class RailsArgs:
    """Arguments of :class:`Rails`.

    Args:
        fabric: the fabric's section of a stack: its rails with their subnets, and its ipam.
        pods_per_node: how many training pods a node may run at once; each node's part of a rail's
            subnet has an address for each of them.
        nodes: NodeSelector of the nodes that get a part of each subnet, as Kubernetes has it.
        operator_namespace: the namespace in which nv-ipam looks for address pools.
        networks: rail -> the object that makes its network: ``apiVersion``, ``kind``, ``metadata``
            and ``spec``. Empty where the stack writes the networks itself.
        after: resources that must exist before the pools and the networks.
    """

    fabric: RailedFabric
    pods_per_node: int
    nodes: Mapping[str, Any]
    operator_namespace: str
    networks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


def address_pool(
    rail: Addresses, fabric: RailedFabric, pods: int, nodes: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return (kind, spec) of a rail's pool for nv-ipam; each node gets room for ``pods`` pods.

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
    """Return the end of the subnet, which is the nodes', as exclusions from the pods' blocks."""
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
        for rail in fabric.lanes:
            before: list[pulumi.Resource] = [*args.after, *namespaces]
            if rail.subnet is not None and isinstance(fabric.ipam, NvIpam):
                kind, spec = address_pool(rail, fabric, args.pods_per_node, args.nodes)
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
