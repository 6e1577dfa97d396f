"""Security groups: a rule is a resource of its own, so that one changes without the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2, vpc

from railhead.platform.aws import facts as catalogue


@dataclass(frozen=True, kw_only=True)
class EfaSecurityGroupArgs:
    """Arguments of :class:`EfaSecurityGroup`.

    Args:
        vpc_id: id of the VPC.
        cluster: the cluster's name, which the group's name begins with.
    """

    vpc_id: pulumi.Input[str]
    cluster: str


class EfaSecurityGroup(pulumi.ComponentResource):
    """The fabric's own group: all traffic from itself, and all traffic to itself.

    EFA traffic is let through by rules that name the group alone; a rule for addresses, such as
    the usual "out to anywhere", does not count, and without the second rule ranks time out.

    Attributes:
        group: the security group.
        ready: its rules, without which no packet passes.
    """

    group: ec2.SecurityGroup
    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: EfaSecurityGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:EfaSecurityGroup", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        self.group = ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=args.vpc_id,
            description="EFA: everything within the group, in and out",
            tags={"Name": f"{args.cluster}-efa"},
            opts=inside,
        )
        self.ready = [
            vpc.SecurityGroupIngressRule(
                f"{name}-in",
                security_group_id=self.group.id,
                referenced_security_group_id=self.group.id,
                ip_protocol="-1",
                description="EFA from the group",
                opts=inside,
            ),
            vpc.SecurityGroupEgressRule(
                f"{name}-out",
                security_group_id=self.group.id,
                referenced_security_group_id=self.group.id,
                ip_protocol="-1",
                description="EFA to the group",
                opts=inside,
            ),
        ]
        self.register_outputs({"group": self.group.id})


@dataclass(frozen=True, kw_only=True)
class StorageSecurityGroupArgs:
    """Arguments of :class:`StorageSecurityGroup`.

    Args:
        vpc_id: id of the VPC.
        cluster: the cluster's name, which the group's name begins with.
        what: the file system's kind, for names and descriptions: ``Lustre`` or ``NFS``.
        ports: ranges of TCP ports, each the first and the last.
        nodes: id of the security group that every node is in.
    """

    vpc_id: pulumi.Input[str]
    cluster: str
    what: str
    ports: tuple[tuple[int, int], ...]
    nodes: pulumi.Input[str]


class StorageSecurityGroup(pulumi.ComponentResource):
    """A file system's group: its ports, from the nodes and among its own servers.

    Attributes:
        group: the security group.
        ready: its rules. FSx looks at them when it makes a file system, and refuses without.
    """

    group: ec2.SecurityGroup
    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: StorageSecurityGroupArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:StorageSecurityGroup", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        self.group = ec2.SecurityGroup(
            f"{name}-group",
            vpc_id=args.vpc_id,
            description=f"{args.what}: its ports, from the nodes and among its servers",
            tags={"Name": f"{args.cluster}-{args.what.lower()}"},
            opts=inside,
        )
        peers = {"nodes": args.nodes, "servers": self.group.id}
        made: list[pulumi.Resource] = []
        for first, last in args.ports:
            for who, group in peers.items():
                made += [
                    vpc.SecurityGroupIngressRule(
                        f"{name}-in-{who}-{first}",
                        security_group_id=self.group.id,
                        referenced_security_group_id=group,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        description=f"{args.what} from the {who}",
                        opts=inside,
                    ),
                    vpc.SecurityGroupEgressRule(
                        f"{name}-out-{who}-{first}",
                        security_group_id=self.group.id,
                        referenced_security_group_id=group,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        description=f"{args.what} to the {who}",
                        opts=inside,
                    ),
                ]
        self.ready = made
        self.register_outputs({"group": self.group.id})


LUSTRE_PORTS = catalogue.LUSTRE_PORTS
NFS_PORTS = ((catalogue.NFS_PORT, catalogue.NFS_PORT),)
