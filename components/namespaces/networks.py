"""One network a rail, as Multus attaches it, in one training namespace.

Where an operator makes the networks they are in a namespace of their own instead: see
:mod:`railhead.components.fabric.rails`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes


@dataclass(frozen=True, kw_only=True)
class RailNetworksArgs:
    """Arguments of :class:`RailNetworks`.

    Args:
        namespace: the training namespace.
        networks: network -> its CNI configuration as ``config``, and ``annotations`` such as the
            device plugin's resource; :func:`railhead.components.fabric.objects.objects_of` has
            those of a fabric's mode.
        after: resources that must exist before the networks; the NetworkAttachmentDefinition CRD
            must be there.
    """

    namespace: pulumi.Input[str]
    networks: Mapping[str, Mapping[str, Any]]
    after: Sequence[pulumi.Resource] = ()


class RailNetworks(pulumi.ComponentResource):
    """The rails' NetworkAttachmentDefinitions in a namespace.

    Attributes:
        networks: the NetworkAttachmentDefinitions, one for each network.
    """

    networks: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RailNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:RailNetworks", name, None, opts)
        self.networks = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{rail}",
                api_version="k8s.cni.cncf.io/v1",
                kind="NetworkAttachmentDefinition",
                metadata={
                    "name": rail,
                    "namespace": args.namespace,
                    **({"annotations": item["annotations"]} if item.get("annotations") else {}),
                },
                spec={"config": json.dumps(item["config"], sort_keys=True)},
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for rail, item in args.networks.items()
        ]
        self.register_outputs({"networks": list(args.networks)})
