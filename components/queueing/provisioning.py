"""Nodes that come when a gang waits for them: Kueue asks for all of them at once, or for none.

A queue whose pool is of this kind reserves quota first and asks then; the gang is admitted when its
nodes are there. Without the question nobody would ever make a node: Kueue places gangs on nodes
that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import KUEUE_API
from railhead.resolve.queues import Provisioning as Resolved

CONTROLLER = "kueue.x-k8s.io/provisioning-request"


@dataclass(frozen=True, kw_only=True)
class ProvisioningArgs:
    """Arguments of :class:`Provisioning`.

    Args:
        provisioning: name and spec of the ProvisioningRequestConfig, and the pools that it is for
            (:mod:`railhead.resolve.queues`).
        after: resources that must exist before it; Kueue must be there.
    """

    provisioning: Resolved
    after: Sequence[pulumi.Resource] = ()


class Provisioning(pulumi.ComponentResource):
    """Kueue's AdmissionCheck and ProvisioningRequestConfig, by which it asks for a gang's nodes.

    Attributes:
        ready: what cluster queues wait for.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: ProvisioningArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Provisioning", name, None, opts)
        config = kubernetes.apiextensions.CustomResource(
            f"{name}-config",
            api_version=KUEUE_API,
            kind="ProvisioningRequestConfig",
            metadata={"name": args.provisioning.name},
            spec=args.provisioning.spec,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        check = kubernetes.apiextensions.CustomResource(
            f"{name}-check",
            api_version=KUEUE_API,
            kind="AdmissionCheck",
            metadata={"name": args.provisioning.name},
            spec={
                "controllerName": CONTROLLER,
                "parameters": {
                    "apiGroup": "kueue.x-k8s.io",
                    "kind": "ProvisioningRequestConfig",
                    "name": args.provisioning.name,
                },
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[config]),
        )
        self.ready = [check]
        self.register_outputs({"pools": list(args.provisioning.pools)})
