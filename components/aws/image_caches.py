"""Registries whose images ECR keeps in the account, by pull-through rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import ecr, iam

from railhead.components.aws.identity import policy
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import ImageCache


@dataclass(frozen=True, kw_only=True)
class ImageCachesArgs:
    """Arguments of :class:`ImageCaches`.

    Args:
        region: the region of the account's ECR registry.
        account: id of the AWS account, 12 digits.
        caches: the registries, the prefix that each has in ECR, and the secret with its login.
        role: name of the nodes' IAM role.
    """

    region: str
    account: str
    caches: Sequence[ImageCache]
    role: pulumi.Input[str]


class ImageCaches(pulumi.ComponentResource):
    """A rule a registry, and the nodes' right to be the first that pulls an image.

    A first pull makes the image's repository and brings the image into it, with the puller's rights
    (ECR user guide, pull-through-cache-iam).

    Attributes:
        ready: what must exist before any node does.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: ImageCachesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:ImageCaches", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        rules = [
            ecr.PullThroughCacheRule(
                f"{name}-{cache.prefix.replace('/', '-')}",
                ecr_repository_prefix=cache.prefix,
                upstream_registry_url=catalogue.UPSTREAMS[cache.registry][0],
                credential_arn=cache.secret_arn,
                opts=below,
            )
            for cache in args.caches
        ]
        where = f"{catalogue.partition(args.region)}:ecr:{args.region}:{args.account}"
        right = iam.RolePolicy(
            f"{name}-policy",
            name="first-pulls",
            role=args.role,
            policy=policy(
                {
                    "Effect": "Allow",
                    "Action": ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"],
                    "Resource": [
                        f"arn:{where}:repository/{cache.prefix}/*" for cache in args.caches
                    ],
                }
            ),
            opts=below,
        )
        self.ready = [*rules, right]
        self.register_outputs({"prefixes": [cache.prefix for cache in args.caches]})
