"""What modes with Multus networks make: operator, devices, address pools and networks.

The stack writes the networks itself, in each training namespace, but for SriovNetwork: the network
operator's MacvlanNetwork, HostDeviceNetwork and IPoIBNetwork chain no plugin in any release up to
26.7.0-rc.2 (metaPlugins is network-operator #3028), and rails need some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components.fabric import cni
from components.fabric.network_operator import NetworkOperator, NetworkOperatorArgs
from components.fabric.objects import FabricArgs, Objects
from components.fabric.rails import Rails, RailsArgs
from railhead.catalog.versions import Controller
from railhead.fabric.railed import NvIpam, RailedFabric
from railhead.model.cluster import Cluster
from railhead.platform.registry import platform_of


class RailedObjects(Objects):
    """The network operator, then what hands out devices, then a network a rail."""

    def before_gpus(
        self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        """The operator where the stack installs it, and the rails where an operator makes them."""
        cluster, fabric = args.cluster, args.cluster.fabric
        if not isinstance(fabric, RailedFabric):
            return []
        controller = args.combination.addon("network-operator")
        ready: list[pulumi.Resource] = []
        if fabric.network_operator is not None:
            wanted = NetworkOperatorArgs(
                cluster=cluster,
                fabric=fabric,
                config=fabric.network_operator,
                operator=controller,
                values=self.values(fabric, controller),
                policy=self.policy(fabric, controller),
                after=args.after,
            )
            ready.append(NetworkOperator(f"{name}-network-operator", wanted, opts=opts))
        ready += self.devices(name, args, controller.namespace, [*args.after, *ready], opts)
        theirs = fabric.lanes if fabric.networks_namespace is not None else ()
        if theirs or (fabric.rails and isinstance(fabric.ipam, NvIpam)):
            rails = RailsArgs(
                cluster=cluster,
                fabric=fabric,
                operator_namespace=controller.namespace,
                networks={
                    rail.name: self.network(rail, fabric, controller.namespace) for rail in theirs
                },
                after=[*args.after, *ready],
            )
            ready.append(Rails(f"{name}-rails", rails, opts=opts))
        return ready

    def attachments(self, cluster: Cluster) -> dict[str, dict[str, Any]]:
        """One network a rail, unless an operator makes them."""
        fabric = cluster.fabric
        if not isinstance(fabric, RailedFabric) or fabric.networks_namespace is not None:
            return {}
        shared_wire = len(fabric.rails) > 1 and not platform_of(cluster).rails_apart
        return {
            rail.name: {
                "annotations": self.annotations(rail, fabric),
                "config": cni.configuration(
                    rail,
                    fabric,
                    self.plugin(rail, fabric),
                    self.chained(rail, fabric, shared_wire=shared_wire),
                ),
            }
            for rail in fabric.lanes
        }

    # -- what a mode says -------------------------------------------------------------------------

    def values(self, fabric: Any, operator: Controller) -> Mapping[str, Any]:  # noqa: ARG002
        """What the mode adds to the network operator's chart."""
        return {}

    def policy(self, fabric: Any, operator: Controller) -> Mapping[str, Any]:  # noqa: ARG002
        """What the mode adds to the NicClusterPolicy."""
        return {}

    def devices(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        namespace: str,  # noqa: ARG002
        after: list[pulumi.Resource],  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """What makes devices on nodes, in the operator's namespace, before rails use them."""
        return []

    def plugin(self, rail: Any, fabric: Any) -> dict[str, Any]:
        """The CNI plugin that makes a rail's interface, where the stack writes the network.

        Raises:
            TypeError: in this mode an operator always writes it.
        """
        raise TypeError(f"networks of mode {fabric.mode!r} are an operator's, {rail.name!r} too")

    def chained(self, rail: Any, fabric: Any, *, shared_wire: bool) -> list[dict[str, Any]]:  # noqa: ARG002
        """Plugins after the one that makes the interface."""
        return [*cni.source_routing(rail), *cni.own_address_only(rail, shared_wire=shared_wire)]

    def annotations(self, rail: Any, fabric: Any) -> dict[str, str]:  # noqa: ARG002
        """What the stack's own network says to Multus besides."""
        return {}

    def network(self, rail: Any, fabric: Any, namespace: str) -> dict[str, Any]:  # noqa: ARG002
        """The operator's object that makes a rail's network, where an operator does.

        Raises:
            TypeError: in this mode the stack writes it.
        """
        raise TypeError(f"networks of mode {fabric.mode!r} are the stack's, {rail.name!r} too")
