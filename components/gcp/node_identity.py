"""The nodes' identity: a service account of their own, with the rights a node needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects, serviceaccount

from railhead.base.names import physical_name

# What GKE asks of a node's account, and images from the project's own registries.
ROLES = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")


@dataclass(frozen=True, kw_only=True)
class NodeIdentityArgs:
    """Arguments of :class:`NodeIdentity`.

    Args:
        cluster: the cluster's name, which the account's name begins with.
        project: id of the GCP project.
    """

    cluster: str
    project: str


class NodeIdentity(pulumi.ComponentResource):
    """A service account for nodes. Pods do not get it: they have workload identity.

    Attributes:
        email: the account's address.
        grants: the account's rights in the project, without which a node never registers.
    """

    email: pulumi.Output[str]
    grants: Sequence[projects.IAMMember]

    def __init__(
        self, name: str, args: NodeIdentityArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:NodeIdentity", name, None, opts)
        account = serviceaccount.Account(
            f"{name}-account",
            account_id=physical_name(args.cluster, "nodes", limit=30),
            display_name=f"Nodes of the GKE cluster {args.cluster}",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.email = account.email
        self.grants = [
            projects.IAMMember(
                f"{name}-{role.rpartition('.')[2].lower()}",
                project=args.project,
                role=role,
                member=account.email.apply(lambda email: f"serviceAccount:{email}"),
                opts=pulumi.ResourceOptions(parent=self),
            )
            for role in ROLES
        ]
        self.register_outputs({"email": account.email})
