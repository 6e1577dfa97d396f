"""Private services access: how Google's managed file systems come into the cluster's VPC."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute, servicenetworking

from railhead.base.names import physical_name
from railhead.components.gcp.primary_network import NetworkRefs

# Managed Lustre's own port, and the one that instances with GKE support of the old kind listen on.
PORTS = ("988", "6988")


@dataclass(frozen=True, kw_only=True)
class ServiceAccessArgs:
    """Arguments of :class:`ServiceAccess`.

    Args:
        cluster: the cluster's name, which the names of what is made begin with.
        network: the cluster's network.
        addresses: the CIDR block that Google may use: known beforehand, so that a reviewer of the
            plan
            sees who is let in.
    """

    cluster: str
    network: NetworkRefs
    addresses: str


class ServiceAccess(pulumi.ComponentResource):
    """A range of addresses for Google's services, the peering, and Lustre's way back in.

    A VPC has one connection to them: in a VPC that was there before it must be there too.

    Attributes:
        ready: the connection and the firewall rule, which a Lustre instance needs.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: ServiceAccessArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:ServiceAccess", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        given = ipaddress.ip_network(args.addresses)
        addresses = compute.GlobalAddress(
            f"{name}-range",
            name=physical_name(args.cluster, "services"),
            purpose="VPC_PEERING",
            address_type="INTERNAL",
            address=str(given.network_address),
            prefix_length=given.prefixlen,
            network=args.network.network,
            opts=below,
        )
        connection = servicenetworking.Connection(
            f"{name}-connection",
            network=args.network.network,
            service="servicenetworking.googleapis.com",
            reserved_peering_ranges=[addresses.name],
            # Producers hold a connection for days after what they made is gone, and refuse to let
            # it be deleted (terraform-provider-google issues 18834, 19908). This takes the VPC's
            # side of the peering away, by the Compute API.
            deletion_policy="REMOVE_PEERING",
            opts=below,
        )
        firewall = compute.Firewall(
            f"{name}-lustre",
            name=physical_name(args.cluster, "lustre"),
            network=args.network.network,
            direction="INGRESS",
            allows=[{"protocol": "tcp", "ports": list(PORTS)}],
            source_ranges=[args.addresses],
            opts=below,
        )
        self.ready = [connection, firewall]
        self.register_outputs({"connection": connection.id})
