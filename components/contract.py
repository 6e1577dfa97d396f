"""The contract with the cluster's users (:mod:`railhead.resolve.contract`), in the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead import contract


@dataclass(frozen=True, kw_only=True)
class ContractArgs:
    """Arguments of :class:`PublishedContract`.

    Args:
        contract: what the cluster tells its users.
        after: resources that must exist first: those that can read the contract can launch.
    """

    contract: contract.ClusterContract
    after: Sequence[pulumi.Resource] = ()


class PublishedContract(pulumi.ComponentResource):
    """The contract's ConfigMap, which every authenticated user may read, in a namespace of its own.

    Attributes:
        written: the ConfigMap's id, known once all that the contract tells of is there.
    """

    written: pulumi.Output[str]

    def __init__(
        self, name: str, args: ContractArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Contract", name, None, opts)
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": contract.NAMESPACE, "labels": {"railhead.dev/managed": "true"}},
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace], deleted_with=namespace)
        config_map = kubernetes.core.v1.ConfigMap(
            f"{name}-config-map",
            metadata={"name": contract.CONFIG_MAP, "namespace": contract.NAMESPACE},
            data={contract.KEY: args.contract.to_json()},
            opts=inside,
        )
        reader: kubernetes.meta.v1.ObjectMetaArgsDict = {
            "name": "railhead-contract-reader",
            "namespace": contract.NAMESPACE,
        }
        self.written = config_map.id
        role = kubernetes.rbac.v1.Role(
            f"{name}-reader",
            metadata=reader,
            rules=[
                {
                    "api_groups": [""],
                    "resources": ["configmaps"],
                    "resource_names": [contract.CONFIG_MAP],
                    "verbs": ["get"],
                }
            ],
            opts=inside,
        )
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-reader-binding",
            metadata=reader,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "railhead-contract-reader",
            },
            subjects=[
                {
                    "api_group": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:authenticated",
                }
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role], deleted_with=namespace),
        )
        self.register_outputs({"config_map": f"{contract.NAMESPACE}/{contract.CONFIG_MAP}"})
