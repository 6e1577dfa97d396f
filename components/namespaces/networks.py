"""One network a rail, as Multus attaches it, in one training namespace.

Where an operator makes the networks they are in a namespace of their own instead: see
:mod:`components.fabric.rails`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.fabric import cni
from railhead.fabric.config import RailedFabric
from railhead.model.cluster import Cluster
from railhead.resolve.wiring import qualified


@dataclass(frozen=True, kw_only=True)
class RailNetworksArgs:
    """Arguments of :class:`RailNetworks`; the NetworkAttachmentDefinition CRD must be there."""

    namespace: pulumi.Input[str]
    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def configurations(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Rail -> its network's CNI configuration, for networks that the stack writes itself."""
    fabric = cluster.fabric
    if not isinstance(fabric, RailedFabric) or qualified(fabric):
        return {}
    # The lab's rails are bridges of their own, and a sandbox's sysctls are often read-only.
    shared_wire = len(fabric.rails) > 1 and cluster.platform.kind != "lab"
    return {
        rail.name: cni.configuration(rail, fabric, shared_wire=shared_wire) for rail in fabric.rails
    }


class RailNetworks(pulumi.ComponentResource):
    """The rails' NetworkAttachmentDefinitions in a namespace."""

    networks: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RailNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:RailNetworks", name, None, opts)
        found = configurations(args.cluster)
        annotated = cni.resource_annotations(args.cluster.fabric)
        self.networks = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{rail}",
                api_version="k8s.cni.cncf.io/v1",
                kind="NetworkAttachmentDefinition",
                metadata={
                    "name": rail,
                    "namespace": args.namespace,
                    **({"annotations": annotated[rail]} if rail in annotated else {}),
                },
                spec={"config": json.dumps(configuration, sort_keys=True)},
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for rail, configuration in found.items()
        ]
        self.register_outputs({"networks": list(found)})
