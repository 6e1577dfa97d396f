"""The Kubernetes cluster: API server, its log, the key of its secrets, and who may enter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pulumi
from pulumi_aws import cloudwatch, eks, kms, vpc

from components.aws.identity import ServiceRole, ServiceRoleArgs
from components.aws.network import Nets
from components.cluster_access import exec_kubeconfig
from railhead.base.names import physical_name
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import AwsCluster, OidcProvider, PublicEndpoint

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


@dataclass(frozen=True, kw_only=True)
class EksClusterArgs:
    """Arguments of :class:`EksCluster`."""

    cluster: AwsCluster
    nets: Nets


def kubeconfig(
    *, name: str, region: str, endpoint: str, certificate_authority: str
) -> dict[str, Any]:
    """A kubeconfig in which the AWS CLI gets a token for whoever holds it: no credential is in it.

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


class EksCluster(pulumi.ComponentResource):
    """An EKS cluster with access entries as the only way in, and none for whoever made it.

    ``security_group``: the one that EKS makes and puts on the API server and every node.
    ``access``: what must exist before anybody enters, and stay while anybody is inside: the way
    to the API server as well as the right to use it. ``kubeconfig`` is a secret.
    """

    cluster: eks.Cluster
    security_group: pulumi.Output[str]
    access: Sequence[pulumi.Resource]
    kubeconfig: pulumi.Output[str]

    def __init__(
        self, name: str, args: EksClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:EksCluster", name, None, opts)
        cluster, platform = args.cluster, args.cluster.platform
        protect = platform.deletion_protection
        inside = pulumi.ResourceOptions(parent=self)
        role = ServiceRole(
            f"{name}-role",
            ServiceRoleArgs(
                cluster=cluster.name,
                what="eks",
                service="eks.amazonaws.com",
                region=platform.region,
                managed=["AmazonEKSClusterPolicy"],
            ),
            opts=inside,
        )
        # Without the key nobody reads the cluster's secrets again, so it outlives a slip.
        key = kms.Key(
            f"{name}-secrets",
            description=f"Secrets of the EKS cluster {cluster.name}",
            enable_key_rotation=True,
            deletion_window_in_days=30,
            opts=pulumi.ResourceOptions(parent=self, protect=protect),
        )
        kms.Alias(
            f"{name}-secrets-alias",
            name=f"alias/{physical_name(cluster.name, 'eks-secrets', limit=catalogue.KEY_ALIAS)}",
            target_key_id=key.key_id,
            opts=inside,
        )
        # Made first: EKS would make it itself, and keep what is in it for ever.
        log = cloudwatch.LogGroup(
            f"{name}-log",
            name=f"/aws/eks/{cluster.name}/cluster",
            retention_in_days=platform.log_retention_days,
            opts=inside,
        )
        public = isinstance(platform.endpoint, PublicEndpoint)
        vpc_config: eks.ClusterVpcConfigArgsDict = {
            "subnet_ids": list(args.nets.regional.values()),
            "endpoint_private_access": True,
            "endpoint_public_access": public,
        }
        if public:
            vpc_config["public_access_cidrs"] = list(platform.endpoint.from_cidrs)
        self.cluster = eks.Cluster(
            f"{name}-cluster",
            name=cluster.name,
            version=platform.kubernetes,
            role_arn=role.role.arn,
            vpc_config=vpc_config,
            access_config={
                "authentication_mode": "API",
                # It can only be said at creation, and whoever made the cluster leaves one day.
                "bootstrap_cluster_creator_admin_permissions": False,
            },
            encryption_config={"provider": {"key_arn": key.arn}, "resources": ["secrets"]},
            enabled_cluster_log_types=list(LOG_TYPES),
            upgrade_policy={"support_type": "STANDARD"},
            # Every one is an add-on of ours, with a version that the stack knows.
            bootstrap_self_managed_addons=False,
            deletion_protection=protect,
            opts=pulumi.ResourceOptions(
                parent=self, protect=protect, depends_on=[*role.attached, log]
            ),
        )
        # Optional in the SDK alone: EKS gives every cluster one.
        self.security_group = cast(
            "pulumi.Output[str]", self.cluster.vpc_config.cluster_security_group_id
        )
        reach = [] if public else self._reach(name, platform.endpoint.from_cidrs)
        self.access = [*reach, *self._entries(name, cluster)]
        if platform.oidc is not None:
            self._people(name, platform.oidc)
        self.kubeconfig = pulumi.Output.secret(
            pulumi.Output.json_dumps(
                pulumi.Output.all(
                    endpoint=self.cluster.endpoint, authority=self.cluster.certificate_authority
                ).apply(
                    lambda known: kubeconfig(
                        name=cluster.name,
                        region=platform.region,
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
                f"{name}-reach-{index}",
                security_group_id=self.security_group,
                cidr_ipv4=block,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                description="The API server, from beside the VPC",
                opts=pulumi.ResourceOptions(parent=self),
            )
            for index, block in enumerate(blocks)
        ]

    def _entries(self, name: str, cluster: AwsCluster) -> list[pulumi.Resource]:
        platform = cluster.platform
        partition = catalogue.partition(platform.region)
        made: list[pulumi.Resource] = []
        for index, principal in enumerate(platform.administrators):
            entry = eks.AccessEntry(
                f"{name}-administrator-{index}",
                cluster_name=self.cluster.name,
                principal_arn=principal,
                type="STANDARD",
                opts=pulumi.ResourceOptions(parent=self),
            )
            made.append(
                eks.AccessPolicyAssociation(
                    f"{name}-administrator-{index}-policy",
                    cluster_name=self.cluster.name,
                    principal_arn=principal,
                    policy_arn=f"arn:{partition}:eks::aws:cluster-access-policy/"
                    f"{catalogue.ADMIN_POLICY}",
                    access_scope={"type": "cluster"},
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[entry]),
                )
            )
        groups: dict[str, set[str]] = {
            principal: {cluster.researchers} for principal in platform.researchers
        }
        for group, principals in platform.members.items():
            for principal in principals:
                groups.setdefault(principal, set()).add(group)
        for index, (principal, several) in enumerate(groups.items()):
            # Account, kind and name, which do not move when another comes or goes.
            who = principal.rpartition("::")[2].replace(":", "-")
            of = f"researcher-{index}" if index < len(platform.researchers) else f"member-{who}"
            eks.AccessEntry(
                f"{name}-{of}",
                cluster_name=self.cluster.name,
                principal_arn=principal,
                type="STANDARD",
                kubernetes_groups=sorted(several),
                opts=pulumi.ResourceOptions(parent=self),
            )
        return made

    def _people(self, name: str, oidc: OidcProvider) -> None:
        """Whoever logs in there is let in with the groups that the token says, and no others."""
        eks.IdentityProviderConfig(
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
