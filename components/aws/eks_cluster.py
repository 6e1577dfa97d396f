"""The Kubernetes cluster: API server, its log, the key of its secrets, and access to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pulumi
from pulumi_aws import cloudwatch, eks, kms, vpc

from railhead.base.names import physical_name
from railhead.components.aws.identity import ServiceRole, ServiceRoleArgs
from railhead.components.aws.network import Nets
from railhead.components.cluster_access import exec_kubeconfig
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import OidcProvider, PrivateEndpoint, PublicEndpoint

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


@dataclass(frozen=True, kw_only=True)
class EksClusterArgs:
    """Arguments of :class:`EksCluster`.

    Args:
        name: the cluster's name, which the names of its role, key and log begin with.
        region: the region, such as ``us-east-2``.
        kubernetes: minor version of the control plane, such as ``1.35``.
        nets: the network's subnets.
        endpoint: whether the API server is reached from the VPC alone or from the internet too,
            and from which CIDR blocks.
        administrators: ARNs of the IAM principals that administer the cluster. The one that runs
            `pulumi up` must be among them.
        researchers: ARNs of the IAM principals in ``researchers_group``.
        researchers_group: Kubernetes' name of the researchers' group.
        members: Kubernetes group -> ARNs of the IAM principals in it.
        oidc: an OIDC provider whose tokens say people's groups; None for none.
        log_retention_days: how many days the control plane's log is kept.
        support: ``standard`` or ``extended``: what EKS does when the minor's standard support ends.
        deletion_protection: whether AWS and Pulumi refuse to delete the cluster and its key.
    """

    name: str
    region: str
    kubernetes: str
    nets: Nets
    endpoint: PrivateEndpoint | PublicEndpoint
    administrators: Sequence[str]
    researchers: Sequence[str] = ()
    researchers_group: str
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    oidc: OidcProvider | None = None
    log_retention_days: int = 90
    support: Literal["standard", "extended"] = "standard"
    deletion_protection: bool = True


def kubeconfig(
    *, name: str, region: str, endpoint: str, certificate_authority: str
) -> dict[str, Any]:
    """Return a kubeconfig in which the AWS CLI gets a token for its user: it has no credential.

    ``certificate_authority`` is base64, as EKS gives it.
    """
    return exec_kubeconfig(
        name,
        {"server": endpoint, "certificate-authority-data": certificate_authority},
        {
            "command": "aws",
            "args": [
                "--region",
                region,
                "eks",
                "get-token",
                "--cluster-name",
                name,
                "--output",
                "json",
            ],
            "interactiveMode": "Never",
            "provideClusterInfo": False,
        },
    )


def _who(principal: str) -> str:
    """Return a principal's account, kind and name, as a part of a resource's name."""
    return principal.rpartition("::")[2].replace(":", "-")


class EksCluster(pulumi.ComponentResource):
    """An EKS cluster with access entries as the only way in, and none for its creator.

    Attributes:
        cluster: the cluster.
        security_group: id of the group that EKS makes and puts on the API server and every node.
        access: what must exist before anybody enters, and stay while anybody is inside: the way to
            the API server, and the right to use it.
        kubeconfig: a kubeconfig in which the AWS CLI gets the token; a secret.
    """

    cluster: eks.Cluster
    security_group: pulumi.Output[str]
    access: Sequence[pulumi.Resource]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:EksCluster", name, None, opts)
        protect = args.deletion_protection
        inside = pulumi.ResourceOptions(parent=self)
        role = ServiceRole(
            f"{name}-role",
            ServiceRoleArgs(
                cluster=args.name,
                what="eks",
                service="eks.amazonaws.com",
                region=args.region,
                managed=["AmazonEKSClusterPolicy"],
            ),
            opts=inside,
        )
        # Without the key nobody reads the cluster's secrets again, so it outlives a slip.
        key = kms.Key(
            f"{name}-secrets",
            description=f"Secrets of the EKS cluster {args.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=pulumi.ResourceOptions(parent=self, protect=protect),
        )
        kms.Alias(
            f"{name}-secrets-alias",
            name=f"alias/{physical_name(args.name, 'eks-secrets', limit=catalogue.KEY_ALIAS)}",
            target_key_id=key.key_id,
            opts=inside,
        )
        # Made first: EKS would make it itself, and keep what is in it for ever.
        log = cloudwatch.LogGroup(
            f"{name}-log",
            name=f"/aws/eks/{args.name}/cluster",
            retention_in_days=args.log_retention_days,
            opts=inside,
        )
        public = isinstance(args.endpoint, PublicEndpoint)
        vpc_config: eks.ClusterVpcConfigArgsDict = {
            "subnet_ids": list(args.nets.regional.values()),
            "endpoint_private_access": True,
            "endpoint_public_access": public,
        }
        if public:
            vpc_config["public_access_cidrs"] = list(args.endpoint.from_cidrs)
        self.cluster = eks.Cluster(
            f"{name}-cluster",
            name=args.name,
            version=args.kubernetes,
            role_arn=role.role.arn,
            vpc_config=vpc_config,
            access_config={
                "authentication_mode": "API",
                # It can only be said at creation, and its creator leaves one day.
                "bootstrap_cluster_creator_admin_permissions": False,
            },
            encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=list(LOG_TYPES),
            upgrade_policy={"support_type": args.support.upper()},
            # Every one is an add-on of ours, with a version that the stack knows.
            bootstrap_self_managed_addons=False,
            deletion_protection=protect,
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=protect,
                depends_on=[*role.attached, log],
                # It keeps the zones that it was made in: EKS takes no others (EKS user guide,
                # network-reqs), and what a zone that is appended has needs none of its own.
                ignore_changes=["vpcConfig.subnetIds"],
                custom_timeouts=pulumi.CustomTimeouts(create="1h", update="2h", delete="1h"),
            ),
        )
        # Optional in the SDK alone: EKS gives every cluster one.
        self.security_group = cast(
            "pulumi.Output[str]", self.cluster.vpc_config.cluster_security_group_id
        )
        reach = [] if public else self._reach(name, args.endpoint.from_cidrs)
        people = [] if args.oidc is None else [self._people(name, args.oidc)]
        self.access = [*reach, *self._entries(name, args), *people]
        self.kubeconfig = pulumi.Output.secret(
            pulumi.Output.json_dumps(
                pulumi.Output.all(
                    endpoint=self.cluster.endpoint, authority=self.cluster.certificate_authority
                ).apply(
                    lambda known: kubeconfig(
                        name=args.name,
                        region=args.region,
                        endpoint=known["endpoint"],
                        certificate_authority=known["authority"]["data"],
                    )
                ),
                sort_keys=True,
            )
        )
        self.register_outputs({"cluster": self.cluster.arn})

    def _reach(self, name: str, blocks: Sequence[str]) -> list[pulumi.Resource]:
        return [
            vpc.SecurityGroupIngressRule(
                f"{name}-reach-{block.replace('/', '-')}",
                security_group_id=self.security_group,
                cidr_ipv4=block,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                description="The API server, from beside the VPC",
                opts=self._once(f"{name}-reach-{index}"),
            )
            for index, block in enumerate(blocks)
        ]

    def _once(self, name: str, **more: Any) -> pulumi.ResourceOptions:
        """Return the options of a resource that an earlier version called ``name``."""
        return pulumi.ResourceOptions(parent=self, aliases=[pulumi.Alias(name=name)], **more)

    def _entries(self, name: str, args: EksClusterArgs) -> list[pulumi.Resource]:
        """Return what lets people in, and administrators' rights.

        EKS takes each principal once (terraform-aws-eks, issue 3293), so an entry is named by its
        principal alone: one who comes, goes or gets other groups moves nobody else's.
        """
        partition = catalogue.partition(args.region)
        made: list[pulumi.Resource] = []
        for index, principal in enumerate(args.administrators):
            who, once = _who(principal), f"{name}-administrator-{index}"
            entry = eks.AccessEntry(
                f"{name}-entry-{who}",
                cluster_name=self.cluster.name,
                principal_arn=principal,
                type="STANDARD",
                opts=self._once(once),
            )
            made.append(
                eks.AccessPolicyAssociation(
                    f"{name}-entry-{who}-policy",
                    cluster_name=self.cluster.name,
                    principal_arn=principal,
                    policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/"
                    f"{catalogue.ADMIN_POLICY}",
                    access_scope={"type": "cluster"},
                    opts=self._once(f"{once}-policy", depends_on=[entry]),
                )
            )
        groups: dict[str, set[str]] = {
            principal: {args.researchers_group} for principal in args.researchers
        }
        for group, principals in args.members.items():
            for principal in principals:
                groups.setdefault(principal, set()).add(group)
        for index, (principal, several) in enumerate(groups.items()):
            who = _who(principal)
            once = f"researcher-{index}" if index < len(args.researchers) else f"member-{who}"
            made.append(
                eks.AccessEntry(
                    f"{name}-entry-{who}",
                    cluster_name=self.cluster.name,
                    principal_arn=principal,
                    type="STANDARD",
                    kubernetes_groups=sorted(several),
                    opts=self._once(f"{name}-{once}"),
                )
            )
        return made

    def _people(self, name: str, oidc: OidcProvider) -> pulumi.Resource:
        """Let in the provider's people, with the groups that their tokens say and no others."""
        return eks.IdentityProviderConfig(
            f"{name}-people",
            cluster_name=self.cluster.name,
            oidc={
                "identity_provider_config_name": "people",
                "issuer_url": oidc.issuer,
                "client_id": oidc.client_id,
                "groups_claim": oidc.groups_claim,
                "groups_prefix": oidc.groups_prefix,
                "username_claim": oidc.username_claim,
                "username_prefix": oidc.username_prefix,
                "required_claims": dict(oidc.required_claims) or None,
            },
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )
