"""People's rights in one training namespace: a role for each persona, bound to its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.resolve.access import Access


def subjects(access: Access) -> list[Any]:
    """Return the groups of a persona as subjects of a binding."""
    return [
        {"api_group": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        for group in access.groups
    ]


def rules(access: Access) -> list[Any]:
    """Return the rights of a persona as rules of a role."""
    return [dict(rule) for rule in access.rules]


def roles(
    name: str, namespace: str, access: Sequence[Access], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Make the roles and their bindings, with ``opts`` for all of them, and return them."""
    made: list[pulumi.Resource] = []
    for item in access:
        metadata: Any = {"name": f"railhead-{item.persona}", "namespace": namespace}
        role = kubernetes.rbac.v1.Role(
            f"{name}-{item.persona}",
            metadata=metadata,
            rules=rules(item),
            opts=opts,
        )
        bound = kubernetes.rbac.v1.RoleBinding(
            f"{name}-{item.persona}-binding",
            metadata=metadata,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": f"railhead-{item.persona}",
            },
            subjects=subjects(item),
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[role])),
        )
        made += [role, bound]
    return made
