"""One network a rail, as Multus attaches it, in one training namespace.

Where an operator makes the networks they are in a namespace of their own instead: see
:mod:`components.fabric.rails`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.fabric.objects import objects_of
from railhead.model.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class RailNetworksArgs:
    """Arguments of :class:`RailNetworks`; the NetworkAttachmentDefinition CRD must be there."""

    namespace: pulumi.Input[str]
    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


class RailNetworks(pulumi.ComponentResource):
    """The rails' NetworkAttachmentDefinitions in a namespace."""

    networks: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RailNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:RailNetworks", name, None, opts)
        found = objects_of(args.cluster.fabric).attachments(args.cluster)
        self.networks = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{rail}",
                api_version="k8s.cni.cncf.io/v1",
                kind="NetworkAttachmentDefinition",
                metadata={
                    "name": rail,
                    "namespace": args.namespace,
                    **({"annotations": one["annotations"]} if one["annotations"] else {}),
                },
                spec={"config": json.dumps(one["config"], sort_keys=True)},
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for rail, one in found.items()
        ]
        self.register_outputs({"networks": list(found)})
