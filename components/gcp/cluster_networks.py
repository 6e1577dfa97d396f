"""The nodes' further networks as the cluster knows them: what pods ask for by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.components.gcp.node_networks import AttachedNetwork

API_VERSION = "networking.gke.io/v1"


@dataclass(frozen=True, kw_only=True)
class ClusterNetworksArgs:
    """Arguments of :class:`ClusterNetworks`.

    Args:
        networks: the nodes' further interfaces, with the VPC and the subnet of each.
    """

    networks: Sequence[AttachedNetwork]


class ClusterNetworks(pulumi.ComponentResource):
    """A Network of GKE and its parameters for each interface; both bear the interface's name.

    Attributes:
        networks: the Networks.
    """

    networks: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: ClusterNetworksArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:ClusterNetworks", name, None, opts)
        networks = []
        for attached in args.networks:
            device = attached.node.name
            parameters = kubernetes.apiextensions.CustomResource(
                f"{name}-{device}-parameters",
                api_version=API_VERSION,
                kind="GKENetworkParamSet",
                metadata={"name": device},
                spec={
                    "vpc": attached.network,
                    "vpcSubnet": attached.subnetwork,
                    "deviceMode": attached.node.device,
                },
                opts=pulumi.ResourceOptions(parent=self),
            )
            networks.append(
                kubernetes.apiextensions.CustomResource(
                    f"{name}-{device}",
                    api_version=API_VERSION,
                    kind="Network",
                    metadata={"name": device},
                    spec={
                        "type": "Device",
                        "parametersRef": {
                            "group": "networking.gke.io",
                            "kind": "GKENetworkParamSet",
                            "name": device,
                        },
                    },
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[parameters]),
                )
            )
        self.networks = networks
        self.register_outputs({"networks": [a.node.name for a in args.networks]})
