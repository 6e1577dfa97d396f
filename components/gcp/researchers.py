"""The way in for researchers, where the control plane's door is IAM's."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_gcp import projects

# The least of the predefined roles with container.clusters.connect, which the DNS endpoint asks for
# before the API server asks RBAC (GKE documentation, Access the control plane by DNS; IAM's list
# of predefined roles, 2026-08: connect, get and list of clusters, nothing inside them).
ROLE = "roles/container.clusterViewer"


@dataclass(frozen=True, kw_only=True)
class ResearcherAccessArgs:
    """Arguments of :class:`ResearcherAccess`.

    Args:
        project: id of the GCP project.
        researchers: address of a Google Group.
    """

    project: str
    researchers: str


class ResearcherAccess(pulumi.ComponentResource):
    """Researchers may connect to the project's control planes; what they may do there, RBAC says.

    A control plane that is reached by addresses asks for no role of IAM.

    Attributes:
        grant: the right to connect.
    """

    grant: projects.IAMMember

    def __init__(
        self, name: str, args: ResearcherAccessArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:ResearcherAccess", name, None, opts)
        self.grant = projects.IAMMember(
            f"{name}-connect",
            project=args.project,
            role=ROLE,
            member=f"group:{args.researchers}",
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"member": self.grant.member})
