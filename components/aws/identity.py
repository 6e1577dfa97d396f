"""IAM roles: one for the nodes with as little as they need, one for each add-on that has rights."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import iam

from railhead.base.names import physical_name
from railhead.platform.aws import facts as catalogue


def policy(*statements: Mapping[str, Any]) -> str:
    """Return a policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, sort_keys=True)


def trust(service: str, *actions: str, condition: Mapping[str, Any] | None = None) -> str:
    """Return a trust policy for one service."""
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": list(actions),
    }
    if condition is not None:
        statement["Condition"] = condition
    return policy(statement)


def role_name(cluster: str, region: str, *what: str) -> str:
    """Return a role's name: IAM has one set of them for all regions of an account."""
    return physical_name(cluster, region, *what, limit=catalogue.ROLE_NAME)


def managed_policy(region: str, name: str) -> str:
    """Return the ARN of one of AWS's own policies."""
    return f"arn:{catalogue.partition(region)}:iam::aws:policy/{name}"


@dataclass(frozen=True, kw_only=True)
class ServiceRoleArgs:
    """Arguments of :class:`ServiceRole`.

    Args:
        cluster: the cluster's name, which the role's name begins with.
        region: the region; it is in the role's name, as IAM has one set of names for all regions.
        what: the end of the role's name, such as ``nodes``.
        service: the service that assumes the role, such as ``ec2.amazonaws.com``.
        managed: names of AWS's own policies that the role has.
    """

    cluster: str
    region: str
    what: str
    service: str
    managed: Sequence[str]


class ServiceRole(pulumi.ComponentResource):
    """A role that a service of AWS assumes: EKS itself, or EC2 for the nodes.

    Attributes:
        role: the role.
        attached: its policies, which must stay until nothing uses the role any more.
    """

    role: iam.Role
    attached: Sequence[iam.RolePolicyAttachment]

    def __init__(
        self, name: str, args: ServiceRoleArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:ServiceRole", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        self.role = iam.Role(
            f"{name}-role",
            name=role_name(args.cluster, args.region, args.what),
            assume_role_policy=trust(args.service, "sts:AssumeRole"),
            opts=_role(self),
        )
        self.attached = [
            iam.RolePolicyAttachment(
                f"{name}-{managed}",
                role=self.role.name,
                policy_arn=managed_policy(args.region, managed),
                opts=inside,
            )
            for managed in args.managed
        ]
        self.register_outputs({"role": self.role.arn})


@dataclass(frozen=True, kw_only=True)
class PodRoleArgs:
    """Arguments of :class:`PodRole`.

    Args:
        cluster: name of the one cluster whose pods get the role.
        region: the region; it is in the role's name, as IAM has one set of names for all regions.
        service_account: the service account that gets the role.
        namespace: the service account's namespace.
        managed: names of AWS's own policies that the role has.
        statements: a policy document of the role's own; None for none.
        description: the role's description.
    """

    cluster: str
    region: str
    service_account: str
    namespace: str = "kube-system"
    managed: Sequence[str] = ()
    statements: pulumi.Input[str] | None = None
    description: str = ""


class PodRole(pulumi.ComponentResource):
    """The IAM role of one service account of one cluster, given by EKS pod identity.

    The trust policy names cluster, namespace and service account: another association cannot take
    the role, nor can a node.

    Attributes:
        role: the role.
        attached: its policies, which must stay until nothing uses the role any more.
    """

    role: iam.Role
    attached: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: PodRoleArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:PodRole", name, None, opts)
        inside = pulumi.ResourceOptions(parent=self)
        self.role = iam.Role(
            f"{name}-role",
            name=role_name(args.cluster, args.region, *_account(args)),
            description=args.description,
            assume_role_policy=trust(
                "pods.eks.amazonaws.com",
                "sts:AssumeRole",
                "sts:TagSession",
                condition={
                    "StringEquals": {
                        "aws:RequestTag/eks-cluster-name": args.cluster,
                        "aws:RequestTag/kubernetes-namespace": args.namespace,
                        "aws:RequestTag/kubernetes-service-account": args.service_account,
                    }
                },
            ),
            opts=_role(self),
        )
        attached: list[pulumi.Resource] = [
            iam.RolePolicyAttachment(
                f"{name}-{managed.rpartition('/')[2]}",
                role=self.role.name,
                policy_arn=managed_policy(args.region, managed),
                opts=inside,
            )
            for managed in args.managed
        ]
        if args.statements is not None:
            attached.append(
                iam.RolePolicy(
                    f"{name}-policy",
                    name=args.service_account,
                    role=self.role.name,
                    policy=args.statements,
                    opts=inside,
                )
            )
        self.attached = attached
        self.register_outputs({"role": self.role.arn})


def _role(parent: pulumi.Resource) -> pulumi.ResourceOptions:
    # A role from before its name told the region keeps the old one: a new name would replace the
    # role, and with it the cluster and its nodes.
    return pulumi.ResourceOptions(parent=parent, ignore_changes=["name"])


def _account(args: PodRoleArgs) -> tuple[str, ...]:
    # An add-on's account is the only one of its name.
    if args.namespace == "kube-system":
        return (args.service_account,)
    return (args.namespace, args.service_account)
