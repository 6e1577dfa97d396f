"""The cluster's own VPC: a subnet for nodes, pods and services, and a way out for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute

from railhead.base.names import physical_name
from railhead.platform.gcp.model import GcpExistingNetwork, GcpNewNetwork

PODS = "pods"
SERVICES = "services"


@dataclass(frozen=True, kw_only=True)
class NetworkRefs:
    """A cluster's network, made by the stack or found.

    Args:
        network: the VPC as ``projects/<project>/global/networks/<name>``.
        network_name: the VPC's name.
        subnetwork: the subnet as ``projects/<project>/regions/<region>/subnetworks/<name>``.
        pods_range: name of the subnet's secondary range for pods.
        services_range: the same for services.
        after: resources that must exist before any node does, and before Google chooses addresses
            that the network has free.
    """

    network: pulumi.Input[str]
    network_name: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    pods_range: pulumi.Input[str]
    services_range: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


def existing(project: str, region: str, network: GcpExistingNetwork) -> NetworkRefs:
    """Return a network that is there, as the stack describes it; nothing is looked up."""
    project = network.project or project
    return NetworkRefs(
        network=f"projects/{project}/global/networks/{network.network}",
        network_name=network.network,
        subnetwork=f"projects/{project}/regions/{region}/subnetworks/{network.subnetwork}",
        pods_range=network.pods_range,
        services_range=network.services_range,
    )


@dataclass(frozen=True, kw_only=True)
class PrimaryNetworkArgs:
    """Arguments of :class:`PrimaryNetwork`.

    Args:
        cluster: the cluster's name, which the names of what is made begin with.
        region: the region of the subnet.
        network: CIDR blocks of nodes, pods and services, and the MTU.
    """

    cluster: str
    region: str
    network: GcpNewNetwork


class PrimaryNetwork(pulumi.ComponentResource):
    """A VPC, its subnet, Cloud NAT, and a rule that lets the cluster's own traffic through.

    Nodes have no addresses of the internet: images and packages come through NAT, Google's own
    services through Private Google Access.

    Attributes:
        refs: the network, as a cluster takes it.
    """

    refs: NetworkRefs

    def __init__(
        self, name: str, args: PrimaryNetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:PrimaryNetwork", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        network = compute.Network(
            f"{name}-vpc",
            name=physical_name(args.cluster, "net"),
            auto_create_subnetworks=False,
            routing_mode="REGIONAL",
            mtu=args.network.mtu,
            opts=below,
        )
        subnetwork = compute.Subnetwork(
            f"{name}-subnet",
            name=physical_name(args.cluster, "nodes"),
            region=args.region,
            network=network.id,
            ip_cidr_range=args.network.nodes,
            secondary_ip_ranges=[
                {"range_name": PODS, "ip_cidr_range": args.network.pods},
                {"range_name": SERVICES, "ip_cidr_range": args.network.services},
            ],
            private_ip_google_access=True,
            stack_type="IPV4_ONLY",
            opts=below,
        )
        router = compute.Router(
            f"{name}-router",
            name=physical_name(args.cluster, "router"),
            region=args.region,
            network=network.id,
            opts=below,
        )
        nat = compute.RouterNat(
            f"{name}-nat",
            name=physical_name(args.cluster, "nat"),
            region=args.region,
            router=router.name,
            nat_ip_allocate_option="AUTO_ONLY",
            source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
            # A GPU node pulls many layers at once; the default of 64 ports a VM stalls it.
            enable_dynamic_port_allocation=True,
            enable_endpoint_independent_mapping=False,
            min_ports_per_vm=1024,
            max_ports_per_vm=32768,
            log_config={"enable": True, "filter": "ERRORS_ONLY"},
            opts=below,
        )
        internal = compute.Firewall(
            f"{name}-internal",
            name=physical_name(args.cluster, "internal"),
            network=network.id,
            direction="INGRESS",
            # NCCL's bootstrap and rendezvous take any port.
            allows=[{"protocol": protocol} for protocol in ("tcp", "udp", "icmp")],
            source_ranges=[args.network.nodes, args.network.pods],
            opts=below,
        )
        self.refs = NetworkRefs(
            network=network.id,
            network_name=network.name,
            subnetwork=subnetwork.id,
            pods_range=PODS,
            services_range=SERVICES,
            after=[subnetwork, nat, internal],
        )
        self.register_outputs({"network": network.id, "subnetwork": subnetwork.id})
