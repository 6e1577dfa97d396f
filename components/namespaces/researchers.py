"""People's rights beside their namespaces: runtimes, queues, priorities and nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.namespaces.roles import rules, subjects
from railhead.resolve.access import Access


@dataclass(frozen=True, kw_only=True)
class ResearchersArgs:
    """Arguments of :class:`Researchers`.

    Args:
        access: a role for each persona: its rules, and the groups that have it.
        after: resources that must exist before the roles.
    """

    access: Sequence[Access]
    after: Sequence[pulumi.Resource] = ()


class Researchers(pulumi.ComponentResource):
    """A read-only ClusterRole over what jobs refer to for each persona, bound to its groups."""

    def __init__(
        self, name: str, args: ResearchersArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Researchers", name, None, opts)
        for access in args.access:
            # Researchers were there first, and their names stay what they were.
            prefix = name if access.persona == "researchers" else f"{name}-{access.persona}"
            role_name = f"railhead-{access.persona}"
            role = kubernetes.rbac.v1.ClusterRole(
                f"{prefix}-role",
                metadata={"name": role_name},
                rules=rules(access),
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            kubernetes.rbac.v1.ClusterRoleBinding(
                f"{prefix}-binding",
                metadata={"name": role_name},
                role_ref={
                    "api_group": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role_name,
                },
                subjects=subjects(access),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
            )
        self.register_outputs({"groups": {a.persona: list(a.groups) for a in args.access}})
