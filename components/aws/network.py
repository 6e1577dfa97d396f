"""The network: a VPC of the stack's own with a way in and out, or one that is there already."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, ec2transitgateway

from railhead.components.mismatch import MismatchError
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import ExistingNetwork, NewNetwork

_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """Arguments of :class:`Network`.

    Args:
        network: the VPC's CIDR block, its zones, NAT (``per-zone`` or ``single``), interface
            endpoints,
            and a transit gateway.
        region: the region, such as ``us-east-2``.
        cluster: the cluster's name, which the names of what is made begin with.
    """

    network: NewNetwork
    region: str
    cluster: str


@dataclass(frozen=True, kw_only=True)
class Nets:
    """A network as the rest of the cluster takes it, made by the stack or found.

    Args:
        vpc_id: id of the VPC.
        private: zone -> id of its private subnet.
        ready: what nodes need to reach out, such as routes.
    """

    vpc_id: pulumi.Input[str]
    private: Mapping[str, pulumi.Input[str]]
    ready: Sequence[pulumi.Resource] = ()

    @property
    def regional(self) -> dict[str, pulumi.Input[str]]:
        """Zones that are not Local Zones: of the control plane, its controllers and EFS."""
        return {z: s for z, s in self.private.items() if not catalogue.is_local_zone(z)}


def subnet_blocks(cidr: str, zones: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Zone -> its private and its public block; a zone's do not move when another is appended.

    An eighth of the network is each zone's private block, as every pod has an address of it; the
    public ones, with no more than a NAT gateway in each, share the last eighth.

    >>> subnet_blocks("10.20.0.0/16", ["us-east-2a", "us-east-2b"])["us-east-2b"]
    ('10.20.32.0/19', '10.20.228.0/22')
    """
    parts = list(ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=3))
    public = list(parts[_PARTS - 1].subnets(prefixlen_diff=3))
    return {zone: (str(parts[i]), str(public[i])) for i, zone in enumerate(zones)}


def existing(network: ExistingNetwork, opts: pulumi.InvokeOutputOptions) -> Nets:
    """Return a network that is there already, its subnets compared with what the stack says.

    Raises:
        MismatchError: (when read) a subnet is in another zone or VPC.
    """
    return Nets(
        vpc_id=network.vpc_id,
        private={
            zone: _checked_subnet(network.vpc_id, zone, subnet, opts)
            for zone, subnet in network.private_subnets.items()
        },
    )


def _checked_subnet(
    vpc_id: str, zone: str, subnet: str, opts: pulumi.InvokeOutputOptions
) -> pulumi.Output[str]:
    read = ec2.get_subnet_output(id=subnet, opts=opts)

    def judge(found: Mapping[str, str]) -> str:
        for what, want in {"vpc_id": vpc_id, "availability_zone": zone}.items():
            if found[what] != want:
                raise MismatchError(
                    f"platform.network.private_subnets.{zone}: {subnet} has {what} "
                    f"{found[what]!r}, not {want!r}",
                    remedy="correct the network in the stack's file; nothing was changed",
                )
        return subnet

    return pulumi.Output.all(vpc_id=read.vpc_id, availability_zone=read.availability_zone).apply(
        judge
    )


class Network(pulumi.ComponentResource):
    """VPC, subnets in each zone, NAT, endpoints, and where asked a way to a transit gateway.

    Attributes:
        nets: the VPC and its private subnets.
    """

    nets: Nets

    def __init__(
        self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:Network", name, None, opts)
        self._name, self._args = name, args
        self._inside = pulumi.ResourceOptions(parent=self)
        network = args.network
        self._vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=network.cidr,
            # Interface endpoints and the private API server answer by private names.
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags={"Name": args.cluster},
            opts=self._inside,
        )
        # What comes into the VPC without a group of its own gets this; nothing passes it.
        ec2.DefaultSecurityGroup(
            f"{name}-default-group",
            vpc_id=self._vpc.id,
            ingress=[],
            egress=[],
            tags={"Name": f"{args.cluster}-unused"},
            opts=self._inside,
        )
        gateway = ec2.InternetGateway(
            f"{name}-internet",
            vpc_id=self._vpc.id,
            tags={"Name": args.cluster},
            opts=self._inside,
        )
        blocks = subnet_blocks(network.cidr, network.availability_zones)
        private = {z: self._subnet(z, blocks[z][0], public=False) for z in blocks}
        public = {z: self._subnet(z, blocks[z][1], public=True) for z in blocks}
        nats = self._nat(gateway, public, self._public_routes(gateway, public))
        tables, routes = self._private_routes(private, nats)
        endpoints = self._endpoints(private, tables)
        if network.transit_gateway is not None:
            routes += self._transit(private, tables)
        self.nets = Nets(
            vpc_id=self._vpc.id,
            private={zone: subnet.id for zone, subnet in private.items()},
            ready=[*routes, *endpoints],
        )
        self.register_outputs({"vpc_id": self._vpc.id})

    def _subnet(self, zone: str, block: str, *, public: bool) -> ec2.Subnet:
        kind = "public" if public else "private"
        role = "elb" if public else "internal-elb"
        return ec2.Subnet(
            f"{self._name}-{kind}-{zone}",
            vpc_id=self._vpc.id,
            availability_zone=zone,
            cidr_block=block,
            map_public_ip_on_launch=False,
            tags={
                "Name": f"{self._args.cluster}-{kind}-{zone}",
                # Load balancers find their subnets by it.
                f"kubernetes.io/role/{role}": "1",
            },
            opts=self._inside,
        )

    def _public_routes(
        self, gateway: ec2.InternetGateway, public: Mapping[str, ec2.Subnet]
    ) -> list[pulumi.Resource]:
        table = ec2.RouteTable(
            f"{self._name}-public",
            vpc_id=self._vpc.id,
            tags={"Name": f"{self._args.cluster}-public"},
            opts=self._inside,
        )
        route = ec2.Route(
            f"{self._name}-public-out",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=self._inside,
        )
        associations = [
            ec2.RouteTableAssociation(
                f"{self._name}-public-{zone}-routes",
                route_table_id=table.id,
                subnet_id=subnet.id,
                opts=self._inside,
            )
            for zone, subnet in public.items()
        ]
        return [route, *associations]

    def _nat(
        self,
        gateway: ec2.InternetGateway,
        public: Mapping[str, ec2.Subnet],
        routes: Sequence[pulumi.Resource],
    ) -> dict[str, ec2.NatGateway]:
        """Zone -> its NAT gateway, which may be another zone's."""
        zones = list(public)
        having = zones if self._args.network.nat == "per-zone" else zones[:1]
        made = {}
        for zone in having:
            address = ec2.Eip(
                f"{self._name}-nat-{zone}-address",
                domain="vpc",
                tags={"Name": f"{self._args.cluster}-nat-{zone}"},
                opts=self._inside,
            )
            made[zone] = ec2.NatGateway(
                f"{self._name}-nat-{zone}",
                allocation_id=address.id,
                subnet_id=public[zone].id,
                tags={"Name": f"{self._args.cluster}-{zone}"},
                # Its way out is there before it, and stays while nodes use it.
                opts=pulumi.ResourceOptions(parent=self, depends_on=[gateway, *routes]),
            )
        return {zone: made.get(zone, made[having[0]]) for zone in zones}

    def _private_routes(
        self, private: Mapping[str, ec2.Subnet], nats: Mapping[str, ec2.NatGateway]
    ) -> tuple[dict[str, ec2.RouteTable], list[pulumi.Resource]]:
        tables: dict[str, ec2.RouteTable] = {}
        made: list[pulumi.Resource] = []
        for zone, subnet in private.items():
            tables[zone] = ec2.RouteTable(
                f"{self._name}-private-{zone}-table",
                vpc_id=self._vpc.id,
                tags={"Name": f"{self._args.cluster}-private-{zone}"},
                opts=self._inside,
            )
            made.append(
                ec2.Route(
                    f"{self._name}-private-{zone}-out",
                    route_table_id=tables[zone].id,
                    destination_cidr_block="0.0.0.0/0",
                    nat_gateway_id=nats[zone].id,
                    opts=self._inside,
                )
            )
            made.append(
                ec2.RouteTableAssociation(
                    f"{self._name}-private-{zone}-routes",
                    route_table_id=tables[zone].id,
                    subnet_id=subnet.id,
                    opts=self._inside,
                )
            )
        return tables, made

    def _endpoints(
        self, private: Mapping[str, ec2.Subnet], tables: Mapping[str, ec2.RouteTable]
    ) -> list[pulumi.Resource]:
        made: list[pulumi.Resource] = [
            ec2.VpcEndpoint(
                f"{self._name}-{service}",
                vpc_id=self._vpc.id,
                # S3's name has no "cn." in front, in any region.
                service_name=f"com.amazonaws.{self._args.region}.{service}",
                vpc_endpoint_type="Gateway",
                route_table_ids=[table.id for table in tables.values()],
                tags={"Name": f"{self._args.cluster}-{service}"},
                opts=self._inside,
            )
            for service in catalogue.GATEWAY_ENDPOINTS
        ]
        if not self._args.network.interface_endpoints:
            return made
        group = ec2.SecurityGroup(
            f"{self._name}-endpoints",
            vpc_id=self._vpc.id,
            description="HTTPS from the VPC to AWS services",
            ingress=[
                {
                    "protocol": "tcp",
                    "from_port": 443,
                    "to_port": 443,
                    "cidr_blocks": [self._args.network.cidr],
                }
            ],
            tags={"Name": f"{self._args.cluster}-endpoints"},
            opts=self._inside,
        )
        made += [
            ec2.VpcEndpoint(
                f"{self._name}-{service.replace('.', '-')}",
                vpc_id=self._vpc.id,
                service_name=name,
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                security_group_ids=[group.id],
                subnet_ids=[subnet.id for subnet in private.values()],
                tags={"Name": f"{self._args.cluster}-{service}"},
                opts=self._inside,
            )
            for service, name in zip(
                catalogue.INTERFACE_ENDPOINTS,
                catalogue.endpoint_services(self._args.region),
                strict=True,
            )
        ]
        return made

    def _transit(
        self, private: Mapping[str, ec2.Subnet], tables: Mapping[str, ec2.RouteTable]
    ) -> list[pulumi.Resource]:
        gateway = self._args.network.transit_gateway
        assert gateway is not None  # noqa: S101 - the caller looked
        attached = ec2transitgateway.VpcAttachment(
            f"{self._name}-transit",
            transit_gateway_id=gateway.id,
            vpc_id=self._vpc.id,
            subnet_ids=[subnet.id for subnet in private.values()],
            tags={"Name": self._args.cluster},
            opts=self._inside,
        )
        return [
            ec2.Route(
                f"{self._name}-transit-{zone}-{block.replace('/', '-')}",
                route_table_id=table.id,
                destination_cidr_block=block,
                transit_gateway_id=gateway.id,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[attached],
                    # What it was called while routes were counted.
                    aliases=[pulumi.Alias(name=f"{self._name}-transit-{zone}-{index}")],
                ),
            )
            for zone, table in tables.items()
            for index, block in enumerate(gateway.cidrs)
        ]
