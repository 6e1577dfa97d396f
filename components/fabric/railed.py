"""The objects of modes with Multus networks: operator, devices, address pools and networks.

The stack writes the networks itself, in each training namespace, but for SriovNetwork: the network
operator's MacvlanNetwork, HostDeviceNetwork and IPoIBNetwork chain no plugin in any release up to
26.7.0-rc.2 (metaPlugins is network-operator #3028), and rails need some.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from railhead.catalog.versions import Controller
from railhead.components.controllers.charts import Chart
from railhead.components.controllers.gpu_operator import nfd_owner
from railhead.components.fabric import cni
from railhead.components.fabric.fleet import affinity, node_selector, patience, tolerations
from railhead.components.fabric.network_operator import NetworkOperator, NetworkOperatorArgs
from railhead.components.fabric.objects import FabricArgs, ModeObjects
from railhead.components.fabric.rails import Rails, RailsArgs
from railhead.fabric.modes import FabricConfig
from railhead.fabric.railed import NetworkOperatorConfig, NvIpam, RailedFabric
from railhead.machines import MACHINES


def network_operator_args(
    args: FabricArgs, fabric: RailedFabric, config: NetworkOperatorConfig, objects: RailedObjects
) -> NetworkOperatorArgs:
    """Return the arguments of a fabric's network operator; ``objects`` are the mode's."""
    operator = args.addons["network-operator"]
    return NetworkOperatorArgs(
        chart=Chart.of(operator),
        images=operator.operands,
        ofed=config.ofed,
        networks=fabric.brings_multus,
        nv_ipam=isinstance(fabric.ipam, NvIpam),
        runs_nfd=nfd_owner(fabric, args.gpu_operator) == "network-operator",
        jobs_label=args.jobs_label,
        nodes=affinity(args.pools),
        tolerations=tolerations(args.pools),
        paths=args.paths,
        timeout_seconds=patience(args.pools),
        values=objects.values(fabric, operator),
        policy=objects.policy(fabric, operator),
        after=args.after,
    )


class RailedObjects(ModeObjects):
    """The network operator, then what hands out devices, then a network a rail."""

    def before_gpus(
        self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        """Make the operator where it is installed, and the rails where an operator makes them."""
        fabric = args.fabric
        if not isinstance(fabric, RailedFabric):
            return []
        namespace = args.addons["network-operator"].namespace
        ready: list[pulumi.Resource] = []
        if fabric.network_operator is not None:
            wanted = network_operator_args(args, fabric, fabric.network_operator, self)
            ready.append(NetworkOperator(f"{name}-network-operator", wanted, opts=opts))
        ready += self.devices(name, args, namespace, [*args.after, *ready], opts)
        theirs = fabric.lanes if fabric.networks_namespace is not None else ()
        if theirs or (fabric.rails and isinstance(fabric.ipam, NvIpam)):
            rails = RailsArgs(
                fabric=fabric,
                pods_per_node=fabric.pods_at_once(
                    max(MACHINES[pool.instance_type].gpus for pool in args.pools)
                ),
                nodes=node_selector(args.pools),
                operator_namespace=namespace,
                networks={rail.name: self.network(rail, fabric, namespace) for rail in theirs},
                after=[*args.after, *ready],
            )
            ready.append(Rails(f"{name}-rails", rails, opts=opts))
        return ready

    def attachments(self, fabric: FabricConfig, *, rails_apart: bool) -> dict[str, dict[str, Any]]:
        """Return one network a rail, unless an operator makes them."""
        if not isinstance(fabric, RailedFabric) or fabric.networks_namespace is not None:
            return {}
        shared_wire = len(fabric.rails) > 1 and not rails_apart
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

    # -- what a mode fills in ---------------------------------------------------------------------

    def values(self, fabric: Any, operator: Controller) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the values that the mode adds to the network operator's chart."""
        return {}

    def policy(self, fabric: Any, operator: Controller) -> Mapping[str, Any]:  # noqa: ARG002
        """Return the fields that the mode adds to the NicClusterPolicy."""
        return {}

    def devices(
        self,
        name: str,  # noqa: ARG002 - each mode's own
        args: FabricArgs,  # noqa: ARG002
        namespace: str,  # noqa: ARG002
        after: list[pulumi.Resource],  # noqa: ARG002
        opts: pulumi.ResourceOptions,  # noqa: ARG002
    ) -> list[pulumi.Resource]:
        """Make the objects that make devices on nodes, in the operator's namespace."""
        return []

    def plugin(self, rail: Any, fabric: Any) -> dict[str, Any]:
        """Return the CNI plugin that makes a rail's interface, where the stack writes the network.

        Raises:
            TypeError: in this mode an operator always writes it.
        """
        raise TypeError(f"networks of mode {fabric.mode!r} are an operator's, {rail.name!r} too")

    def chained(self, rail: Any, fabric: Any, *, shared_wire: bool) -> list[dict[str, Any]]:  # noqa: ARG002
        """Return the plugins after the one that makes the interface."""
        return [*cni.source_routing(rail), *cni.own_address_only(rail, shared_wire=shared_wire)]

    def annotations(self, rail: Any, fabric: Any) -> dict[str, str]:  # noqa: ARG002
        """Return the annotations of the stack's own network, which Multus reads."""
        return {}

    def network(self, rail: Any, fabric: Any, namespace: str) -> dict[str, Any]:  # noqa: ARG002
        """Return the operator's object that makes a rail's network, where an operator does.

        Raises:
            TypeError: in this mode the stack writes it.
        """
        raise TypeError(f"networks of mode {fabric.mode!r} are the stack's, {rail.name!r} too")
