"""One macvlan network a rail, as Multus attaches it, in one training namespace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.config.model import FabricConfig, Rail


@dataclass(frozen=True, kw_only=True)
class RailNetworksArgs:
    """Arguments of :class:`RailNetworks`; the NetworkAttachmentDefinition CRD must be there."""

    namespace: pulumi.Input[str]
    fabric: FabricConfig
    after: Sequence[pulumi.Resource] = ()


def cni_configuration(rail: Rail, fabric: FabricConfig) -> dict[str, Any]:
    """The CNI configuration of one rail."""
    address_range: dict[str, str] = {"subnet": rail.subnet}
    if rail.range_start is not None:
        address_range["rangeStart"] = rail.range_start
    if rail.range_end is not None:
        address_range["rangeEnd"] = rail.range_end
    return {
        "cniVersion": "1.0.0",
        # host-local keeps its leases by this name, so it is the rail's in every namespace.
        "name": rail.name,
        "type": "macvlan",
        "master": rail.master,
        # Pods of one node must reach each other on the rail as well.
        "mode": "bridge",
        "mtu": fabric.mtu,
        "ipam": {
            "type": fabric.ipam.kind,
            "dataDir": fabric.ipam.data_dir,
            "ranges": [[address_range]],
        },
    }


class RailNetworks(pulumi.ComponentResource):
    """The rails' NetworkAttachmentDefinitions in a namespace."""

    networks: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RailNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:RailNetworks", name, None, opts)
        self.networks = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{rail.name}",
                api_version="k8s.cni.cncf.io/v1",
                kind="NetworkAttachmentDefinition",
                metadata={"name": rail.name, "namespace": args.namespace},
                spec={"config": json.dumps(cni_configuration(rail, args.fabric), sort_keys=True)},
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for rail in args.fabric.rails
        ]
        self.register_outputs({"networks": [rail.name for rail in args.fabric.rails]})
