"""EKS add-ons: those that nodes need first, and those that need nodes first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import eks

from components.aws.identity import PodRole, PodRoleArgs
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import AwsPlatform

_ASK = "default"
# Where the GPU pools' taints would keep an agent off the very nodes that it is for: the agent's own
# list says so at v1.6.4, that of its DCGM server is empty (charts/eks-node-monitoring-agent).
_EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An add-on, with the rights of its service account and its own configuration."""

    addon: catalogue.Addon
    managed: Sequence[str] = ()
    statements: pulumi.Input[str] | None = None
    configuration: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """Arguments of :class:`Addons`; ``after`` is what must exist before any of them is made."""

    cluster: str
    cluster_name: pulumi.Input[str]
    platform: AwsPlatform
    wanted: Sequence[Wanted]
    after: Sequence[pulumi.Resource] = ()


def before_nodes() -> list[Wanted]:
    """What a node needs to become ready: addresses for pods, services, rights for agents."""
    return [
        Wanted(addon=catalogue.POD_IDENTITY_AGENT),
        Wanted(addon=catalogue.KUBE_PROXY),
        Wanted(
            addon=catalogue.VPC_CNI,
            managed=["AmazonEKS_CNI_Policy"],
            configuration={
                # Off by default, and NetworkPolicies are then taken and never enforced (EKS user
                # guide, cni-network-policy-configure).
                "enableNetworkPolicy": "true",
                "env": {
                    # Sixteen addresses at a time: a node full of pods asks EC2 far less often.
                    "ENABLE_PREFIX_DELEGATION": "true",
                    "WARM_PREFIX_TARGET": "1",
                },
            },
        ),
    ]


def with_nodes() -> list[Wanted]:
    """What runs on nodes: names, and the agent that node repair listens to.

    Without its DCGM server the agent sees no XID, and reports each GPU node as broken: `DCGMError`
    is fatal, and node repair replaces the node (containers-roadmap, issues 2555 and 2567).
    """
    return [
        Wanted(addon=catalogue.COREDNS),
        Wanted(
            addon=catalogue.NODE_MONITORING_AGENT,
            configuration={"nodeAgent": _EVERYWHERE, "dcgmAgent": _EVERYWHERE},
        ),
    ]


def addon_version(
    addon: catalogue.Addon, platform: AwsPlatform, opts: pulumi.InvokeOptions
) -> pulumi.Input[str]:
    """The stack's version, else the catalogue's, else what EKS gives by default when it is asked.

    Known at plan time unless EKS is asked; then it needs credentials.
    """
    chosen = platform.addon_versions.get(addon.name) or addon.versions.get(platform.kubernetes)
    if chosen is not None and chosen != _ASK:
        return chosen
    return eks.get_addon_version_output(
        addon_name=addon.name, kubernetes_version=platform.kubernetes, opts=opts
    ).version


class Addons(pulumi.ComponentResource):
    """Some add-ons, each with a role of its own where its service account needs rights."""

    addons: Mapping[str, eks.Addon]

    def __init__(
        self, name: str, args: AddonsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:aws:Addons", name, None, opts)
        self.addons = {w.addon.name: self._addon(name, args, w) for w in args.wanted}
        self.register_outputs({"addons": list(self.addons)})

    def _addon(self, name: str, args: AddonsArgs, wanted: Wanted) -> eks.Addon:
        addon = wanted.addon
        associations: list[eks.AddonPodIdentityAssociationArgsDict] = []
        attached: Sequence[pulumi.Resource] = ()
        if addon.service_account is not None:
            role = PodRole(
                f"{name}-{addon.name}-role",
                PodRoleArgs(
                    cluster=args.cluster,
                    service_account=addon.service_account,
                    region=args.platform.region,
                    managed=wanted.managed,
                    statements=wanted.statements,
                    description=f"{addon.name} of the EKS cluster {args.cluster}",
                ),
                opts=pulumi.ResourceOptions(parent=self),
            )
            attached = role.attached
            associations = [{"role_arn": role.role.arn, "service_account": addon.service_account}]
        configuration = wanted.configuration
        return eks.Addon(
            f"{name}-{addon.name}",
            addon_name=addon.name,
            addon_version=addon_version(addon, args.platform, pulumi.InvokeOptions(parent=self)),
            cluster_name=args.cluster_name,
            configuration_values=None
            if configuration is None
            else json.dumps(configuration, sort_keys=True),
            pod_identity_associations=associations or None,
            # Nothing of it was there before, and later the stack's word holds.
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *attached]),
        )
