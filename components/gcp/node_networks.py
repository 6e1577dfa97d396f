"""The networks of GPU nodes' further interfaces: a VPC a gVNIC, one VPC for all RDMA NICs."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from railhead.base.names import physical_name
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.platform.gcp.facts import NodeNetwork, node_networks
from railhead.platform.gcp.model import ExistingGpuNetworks, NewGpuNetworks


@dataclass(frozen=True, kw_only=True)
class AttachedNetwork:
    """One further interface of a node, and its network.

    Args:
        node: the interface's name and kind.
        network: name of the VPC.
        subnetwork: name of the subnet.
        after: resources that must exist before a node with the interface does.
    """

    node: NodeNetwork
    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


def existing(instance_type: str, networks: ExistingGpuNetworks) -> Sequence[AttachedNetwork]:
    """Networks that are there already, in the order of the machine's interfaces."""
    nodes = node_networks(MACHINES[instance_type])
    return [
        AttachedNetwork(node=node, network=ref.network, subnetwork=ref.subnetwork)
        for node, ref in zip(nodes, networks.networks, strict=True)
    ]


def subnets(cidr: str, count: int) -> Sequence[str]:
    """``cidr`` cut into the largest equal networks of which it has ``count``; the first ``count``.

    >>> subnets("192.168.0.0/16", 3)
    ['192.168.0.0/18', '192.168.64.0/18', '192.168.128.0/18']
    """
    whole = ipaddress.ip_network(cidr)
    parts = whole.subnets(prefixlen_diff=(count - 1).bit_length())
    return [str(part) for part, _ in zip(parts, range(count), strict=False)]


@dataclass(frozen=True, kw_only=True)
class NodeNetworksArgs:
    """Arguments of :class:`NodeNetworks`.

    Args:
        cluster: the cluster's name, which the names of what is made begin with.
        project: id of the GCP project.
        region: the region of the subnets.
        zone: the zone of the nodes, whose RoCE profile the RDMA VPC has.
        instance_type: machine type of the nodes; it says which interfaces they have.
        networks: the CIDR block that the subnets are cut from, and the MTU.
    """

    cluster: str
    project: str
    region: str
    zone: str
    instance_type: str
    networks: NewGpuNetworks


class NodeNetworks(pulumi.ComponentResource):
    """One subnet an interface, in the order in which nodes have them.

    gVNICs each need a VPC of their own. RDMA NICs share a VPC with the zone's RoCE profile, one
    subnet a rail; it takes no firewall rules (all is let in) and its zone is for good.

    Attributes:
        attached: the interfaces with their networks, in the order in which nodes have them.
    """

    attached: Sequence[AttachedNetwork]

    def __init__(
        self, name: str, args: NodeNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:NodeNetworks", name, None, opts)
        nodes = node_networks(MACHINES[args.instance_type])
        ranges = subnets(args.networks.cidr, len(nodes))
        rdma: compute.Network | None = None
        if any(node.device == "RDMA" for node in nodes):
            rdma = self._rdma(f"{name}-rdma", args)
        attached = []
        for node, cidr in zip(nodes, ranges, strict=True):
            rules: Sequence[pulumi.Resource] = ()
            if node.device == "RDMA" and rdma is not None:
                network = rdma
            else:
                network, rules = self._gvnic(f"{name}-{node.name}", args, node)
            subnetwork = compute.Subnetwork(
                f"{name}-{node.name}-subnet",
                name=physical_name(args.cluster, node.name),
                region=args.region,
                network=network.id,
                ip_cidr_range=cidr,
                stack_type="IPV4_ONLY",
                opts=pulumi.ResourceOptions(parent=self),
            )
            attached.append(
                AttachedNetwork(
                    node=node, network=network.name, subnetwork=subnetwork.name, after=rules
                )
            )
        self.attached = attached
        self.register_outputs({"networks": [node.name for node in nodes]})

    def _rdma(self, name: str, args: NodeNetworksArgs) -> compute.Network:
        return compute.Network(
            f"{name}-vpc",
            name=physical_name(args.cluster, "rdma"),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            mtu=args.networks.mtu or GKE_MACHINES[args.instance_type].mtu,
            network_profile=f"projects/{args.project}/global/networkProfiles/"
            f"{args.zone}-{GKE_MACHINES[args.instance_type].network_profile}",
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _gvnic(
        self, name: str, args: NodeNetworksArgs, node: NodeNetwork
    ) -> tuple[compute.Network, Sequence[pulumi.Resource]]:
        network = compute.Network(
            f"{name}-vpc",
            name=physical_name(args.cluster, node.name),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            mtu=args.networks.mtu or GKE_MACHINES[args.instance_type].mtu,
            opts=pulumi.ResourceOptions(parent=self),
        )
        rule = compute.Firewall(
            f"{name}-internal",
            name=physical_name(args.cluster, node.name, "internal"),
            network=network.id,
            direction="INGRESS",
            allows=[{"protocol": protocol} for protocol in ("tcp", "udp", "icmp")],
            source_ranges=[args.networks.cidr],
            opts=pulumi.ResourceOptions(parent=self),
        )
        return network, [rule]
