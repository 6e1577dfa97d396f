"""Rails that an operator makes: address pools, and one network object a rail.

The networks are in a namespace of their own, since each object makes one network in one namespace;
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
from railhead.catalog.machines import MACHINES
from railhead.fabric.mode import NETWORKS_NAMESPACE
from railhead.fabric.railed import Addresses, NvIpam, RailedFabric
from railhead.model.cluster import Cluster

IPAM_API_VERSION = "nv-ipam.nvidia.com/v1alpha1"


@dataclass(frozen=True, kw_only=True)
class RailsArgs:
    """Arguments of :class:`Rails`.

    ``operator_namespace`` is where nv-ipam looks for pools, ``networks`` the object that makes each
    rail's network: API version, kind, metadata and spec.
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


def address_pool(rail: Addresses, fabric: RailedFabric, pods: int) -> tuple[str, dict[str, Any]]:
    """(kind, spec) of a rail's pool for nv-ipam; each node gets room for ``pods`` pods.

    Raises:
        ValueError: the rail has no subnet, or another ipam hands its addresses out.
    """
    if rail.subnet is None or not isinstance(fabric.ipam, NvIpam):
        raise ValueError(f"rail {rail.name!r} takes no address of nv-ipam")
    each = fabric.ipam.per_node or pods
    if fabric.ipam.pool == "prefix":
        bits = ipaddress.ip_network(rail.subnet).max_prefixlen
        return "CIDRPool", {
            "cidr": rail.subnet,
            # The part's own network address, its gateway and its broadcast address are no pod's.
            "perNodeNetworkPrefix": bits - (each + 2).bit_length(),
            "gatewayIndex": 1,
            # All of the rail's other nodes are behind the node's own gateway on it.
            "routes": [{"dst": rail.subnet}],
        }
    exclusions = _outside(rail)
    spec: dict[str, Any] = {"exclusions": exclusions} if exclusions else {}
    if rail.gateway is not None:
        # The gateway lies in one of the blocks, whose node must have room all the same.
        spec |= {"gateway": rail.gateway, "routes": [{"dst": rail.subnet}]}
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
        namespace = charts.namespace(
            f"{name}-namespace",
            NETWORKS_NAMESPACE,
            pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        pods = pods_per_node(args.cluster)
        for rail in fabric.lanes:
            before: list[pulumi.Resource] = [*args.after, namespace]
            if rail.subnet is not None and isinstance(fabric.ipam, NvIpam):
                kind, spec = address_pool(rail, fabric, pods)
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
