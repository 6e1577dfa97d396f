"""EKS add-ons: those that nodes need first, and those that need nodes first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi_aws import eks

from railhead.components.aws.identity import PodRole, PodRoleArgs
from railhead.platform.aws import facts as catalogue

_ASK = "default"
# Where the GPU pools' taints would keep an agent off the very nodes that it is for: the agent's own
# list says so at v1.6.7, that of its DCGM server is empty (charts/eks-node-monitoring-agent).
_EVERYWHERE = {"tolerations": [{"operator": "Exists"}]}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """An add-on.

    Args:
        addon: its name, its service account and the versions that are known.
        managed: names of AWS's own policies that its service account has.
        statements: a policy document of its service account's own; None for none.
        configuration: its configuration, as its schema has it; None leaves the defaults.
    """

    addon: catalogue.Addon
    managed: Sequence[str] = ()
    statements: pulumi.Input[str] | None = None
    configuration: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class AddonsArgs:
    """Arguments of :class:`Addons`.

    Args:
        cluster: the cluster's name, which the names of the roles begin with.
        cluster_name: the cluster's name as its own output, so that no add-on is made before it.
        region: the region, such as ``us-east-2``.
        kubernetes: minor version of the control plane, which add-ons' versions depend on.
        wanted: the add-ons.
        nodes: the most nodes that there may be: an update of a driver restarts it on one after the
            other.
        versions: add-on -> its version, instead of the catalogue's; ``default`` asks EKS.
        after: resources that must exist before any of the add-ons.
    """

    cluster: str
    cluster_name: pulumi.Input[str]
    region: str
    kubernetes: str
    wanted: Sequence[Wanted]
    nodes: int
    versions: Mapping[str, str] = field(default_factory=dict)
    after: Sequence[pulumi.Resource] = ()


def before_nodes() -> list[Wanted]:
    """Return the add-ons that nodes need to become ready: addresses, services, agents' rights."""
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


def with_nodes(machines: Iterable[str]) -> list[Wanted]:
    """Return the add-ons that run on nodes: names, and the agent that node repair listens to.

    Without its DCGM server the agent sees no XID, and reports each GPU node as broken: `DCGMError`
    is fatal, and node repair replaces the node (containers-roadmap, issues 2555 and 2567). Among
    ``machines`` with InfiniBand that is idle (`IDLE_INFINIBAND`) it does not look at
    networks: it would report each of those.
    """
    node_agent: dict[str, Any] = {**_EVERYWHERE}
    if not catalogue.IDLE_INFINIBAND.isdisjoint(machines):
        node_agent["monitors"] = {"networking": {"enabled": False}}
    return [
        Wanted(addon=catalogue.COREDNS),
        Wanted(
            addon=catalogue.NODE_MONITORING_AGENT,
            configuration={"nodeAgent": node_agent, "dcgmAgent": _EVERYWHERE},
        ),
    ]


def addon_version(
    addon: catalogue.Addon,
    kubernetes: str,
    versions: Mapping[str, str],
    opts: pulumi.InvokeOptions,
) -> pulumi.Input[str]:
    """Return the version in ``versions``, else the catalogue's, else EKS' default.

    Known at plan time unless EKS is asked; then it needs credentials.
    """
    chosen = versions.get(addon.name) or addon.versions.get(kubernetes)
    if chosen is not None and chosen != _ASK:
        return chosen
    return eks.get_addon_version_output(
        addon_name=addon.name, kubernetes_version=kubernetes, opts=opts
    ).version


class Addons(pulumi.ComponentResource):
    """EKS add-ons, each with a role of its own where its service account needs rights.

    Attributes:
        addons: name -> the add-on.
    """

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
                    region=args.region,
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
            addon_version=addon_version(
                addon, args.kubernetes, args.versions, pulumi.InvokeOptions(parent=self)
            ),
            cluster_name=args.cluster_name,
            configuration_values=None
            if configuration is None
            else json.dumps(configuration, sort_keys=True),
            pod_identity_associations=associations or None,
            # Nothing of it was there before, and later the stack decides.
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*args.after, *attached],
                # Not the provider's 20 minutes (terraform-provider-aws, addon.go): of the drivers
                # of FSx and EFS one node's pod is replaced after the other, which took more than 40
                # minutes on 100 nodes (containers-roadmap, issue 2650).
                custom_timeouts=pulumi.CustomTimeouts(update=f"{20 + args.nodes}m"),
            ),
        )
