"""Nodes that come when a gang waits for them: Kueue asks for all of them at once, or for none.

A queue whose pool is of this kind reserves quota first and asks then; the gang is admitted when its
nodes are there. Without the question nobody would ever make a node: Kueue places gangs on nodes
that there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.catalog.machines import MACHINES
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of

API_VERSION = "kueue.x-k8s.io/v1beta2"
CONTROLLER = "kueue.x-k8s.io/provisioning-request"
NAME = "railhead-queued-provisioning"


@dataclass(frozen=True, kw_only=True)
class ProvisioningArgs:
    """Arguments of :class:`Provisioning`; Kueue must be there."""

    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def queued_pools(cluster: Cluster) -> tuple[str, ...]:
    """Names of the pools whose nodes come only when Kueue asks for them."""
    return platform_of(cluster).queued_pools(cluster)


def checks_spec(
    cluster: Cluster, pools: Sequence[str], flavors: Mapping[str, str]
) -> dict[str, Any]:
    """What a ClusterQueue over ``pools`` says of the question; nothing where it asks none."""
    asking = [flavors[name] for name in pools if name in queued_pools(cluster)]
    if not asking:
        return {}
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": NAME, "onFlavors": asking}]}}


class Provisioning(pulumi.ComponentResource):
    """The question, and how it is put; nothing where no pool needs it.

    ``ready``: what cluster queues wait for.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: ProvisioningArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Provisioning", name, None, opts)
        pools = queued_pools(args.cluster)
        gpus = sorted(
            {MACHINES[p.instance_type].gpu_resource for p in args.cluster.pools if p.name in pools}
        )
        config = kubernetes.apiextensions.CustomResource(
            f"{name}-config",
            api_version=API_VERSION,
            kind="ProvisioningRequestConfig",
            metadata={"name": NAME},
            spec={
                "provisioningClassName": platform_of(args.cluster).provisioning_class,
                "managedResources": gpus,
                # Nodes of the kind may be hours away: asked for again, and not given up.
                "retryStrategy": {
                    "backoffBaseSeconds": 60,
                    "backoffLimitCount": 100,
                    "backoffMaxSeconds": 1800,
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        check = kubernetes.apiextensions.CustomResource(
            f"{name}-check",
            api_version=API_VERSION,
            kind="AdmissionCheck",
            metadata={"name": NAME},
            spec={
                "controllerName": CONTROLLER,
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io",
                    "kind": "ProvisioningRequestConfig",
                    "name": NAME,
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[config]),
        )
        self.ready = [check]
        self.register_outputs({"pools": list(pools)})
