"""What modes with Multus networks make: operator, devices and rails, or networks of the stack's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi

from components.fabric import cni
from components.fabric.network_operator import (
    API_VERSION,
    NetworkOperator,
    NetworkOperatorArgs,
)
from components.fabric.objects import FabricArgs, Objects
from components.fabric.rails import Rails, RailsArgs
from railhead.catalog.versions import Controller
from railhead.fabric.railed import Addresses, RailedFabric
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
        if fabric.networks_namespace is not None and fabric.rails:
            rails = RailsArgs(
                cluster=cluster,
                fabric=fabric,
                operator_namespace=controller.namespace,
                networks={
                    rail.name: self.network(rail, fabric, controller.namespace)
                    for rail in fabric.lanes
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

    def network(self, rail: Any, fabric: Any, namespace: str) -> dict[str, Any]:
        """The operator's object that makes a rail's network, or what all of them share."""
        raise NotImplementedError


def network_spec(
    rail: Addresses, fabric: RailedFabric, chained: list[dict[str, Any]]
) -> dict[str, Any]:
    """What every operator's network says: where it is made, its addresses, plugins after it."""
    spec: dict[str, Any] = {"networkNamespace": str(fabric.networks_namespace)}
    spec |= cni.meta_plugins(chained)
    if addresses := cni.ipam(rail, fabric):
        spec["ipam"] = json.dumps(addresses, sort_keys=True)
    return spec


def mellanox(rail: Addresses, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A network object of NVIDIA's operator."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": rail.name},
        "spec": spec,
    }
