"""What researchers may read beside their namespaces: runtimes, queues and their topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class ResearchersArgs:
    """Arguments of :class:`Researchers`; ``group`` is their Kubernetes group."""

    group: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = ()


class Researchers(pulumi.ComponentResource):
    """A read-only ClusterRole over what jobs refer to, bound to the group."""

    def __init__(
        self, name: str, args: ResearchersArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Researchers", name, None, opts)
        role = kubernetes.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata={"name": "railhead-researchers"},
            rules=[
                {
                    "api_groups": ["trainer.kubeflow.org"],
                    "resources": ["clustertrainingruntimes"],
                    "verbs": ["get", "list", "watch"],
                },
                {
                    "api_groups": ["kueue.x-k8s.io"],
                    "resources": ["clusterqueues", "resourceflavors", "topologies"],
                    "verbs": ["get", "list", "watch"],
                },
                # Launching looks whether enough nodes are what the contract promises.
                {"api_groups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata={"name": "railhead-researchers"},
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "railhead-researchers",
            },
            subjects=[
                {
                    "api_group": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": args.group,
                }
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role]),
        )
        self.register_outputs({"group": args.group})
