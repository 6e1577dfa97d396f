"""The rights of training pods in S3: a role for each namespace, by EKS pod identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import eks

from railhead.components.aws.identity import PodRole, PodRoleArgs, policy
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import S3Access
from railhead.platform.aws.rights import statements

# What pods run as that say nothing of it, as those of the published runtimes do.
SERVICE_ACCOUNT = "default"


@dataclass(frozen=True, kw_only=True)
class JobAccessArgs:
    """Arguments of :class:`JobAccess`.

    Args:
        cluster: the cluster's name, which the role's name begins with.
        cluster_name: the cluster's name as its own output.
        region: the region, such as ``us-east-2``.
        access: a training namespace, and the buckets and prefixes that its pods may read or write.
        after: resources that must exist first: the add-on that hands out the credentials.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    region: str
    access: S3Access
    after: Sequence[pulumi.Resource] = ()


class JobAccess(pulumi.ComponentResource):
    """One namespace's role, and the association that gives it to the pods of the namespace.

    Pods that are there already get nothing: it exists before the namespace does.

    Attributes:
        association: gives the role to the namespace's default service account.
    """

    association: eks.PodIdentityAssociation

    def __init__(
        self, name: str, args: JobAccessArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:JobAccess", name, None, opts)
        access, region = args.access, args.region
        role = PodRole(
            f"{name}-role",
            PodRoleArgs(
                cluster=args.cluster,
                region=region,
                namespace=access.namespace,
                service_account=SERVICE_ACCOUNT,
                statements=policy(*statements(access, catalogue.partition(region))),
                description=f"Jobs of namespace {access.namespace} of {args.cluster}",
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.association = eks.PodIdentityAssociation(
            f"{name}-association",
            cluster_name=args.cluster_name,
            namespace=access.namespace,
            service_account=SERVICE_ACCOUNT,
            role_arn=role.role.arn,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*role.attached, *args.after]),
        )
        self.register_outputs({"role": role.role.arn})
