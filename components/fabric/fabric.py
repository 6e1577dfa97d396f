"""The training fabric on nodes, in the order in which its parts can work and go away again.

Operators, then their policies, then device plugins and drivers, then networks: each depends on what
must be alive to take it away, since an operator holds the finalizers of what it serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.controllers.gpu_operator import GpuOperator, GpuOperatorArgs
from components.fabric import gke as gke_fabric
from components.fabric.dranet import Dranet, DranetArgs
from components.fabric.efa import Efa, EfaArgs
from components.fabric.network_operator import NetworkOperator, NetworkOperatorArgs
from components.fabric.rails import Rails, RailsArgs
from components.fabric.sriov import Sriov, SriovArgs
from railhead.catalog.versions import Combination
from railhead.fabric.config import (
    DranetFabric,
    EfaFabric,
    GkeFabric,
    RailedFabric,
    SriovIbFabric,
    SriovRoceFabric,
)
from railhead.fabric.gke_plugins import GKE_PLUGINS
from railhead.fabric.rows import ModeName
from railhead.model.cluster import Cluster
from railhead.resolve.wiring import qualified


@dataclass(frozen=True, kw_only=True)
class FabricArgs:
    """Arguments of :class:`Fabric`; ``after`` is what the platform makes inside the cluster."""

    cluster: Cluster
    combination: Combination
    after: Sequence[pulumi.Resource] = ()


class Fabric(pulumi.ComponentResource):
    """Everything that nodes need before a training pod can have the fabric.

    ``ready``: what a training namespace waits for; empty where the cluster has it all already.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Fabric", name, None, opts)
        cluster, fabric = args.cluster, args.cluster.fabric
        below = pulumi.ResourceOptions(parent=self)
        ready: list[pulumi.Resource] = []
        if isinstance(fabric, RailedFabric):
            ready += self._rails(name, args, fabric, below)
        if cluster.gpu_operator is not None:
            # After the NICs' driver: nvidia-peermem is built against it.
            ready.append(
                GpuOperator(
                    f"{name}-gpu-operator",
                    GpuOperatorArgs(
                        cluster=cluster,
                        config=cluster.gpu_operator,
                        operator=args.combination.addon("gpu-operator"),
                        dra_driver=args.combination.addon("dra-driver-nvidia-gpu"),
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        if isinstance(fabric, EfaFabric) and fabric.install:
            ready.append(
                Efa(
                    f"{name}-efa",
                    EfaArgs(
                        cluster=cluster,
                        fabric=fabric,
                        device_plugin=args.combination.addon("aws-efa-k8s-device-plugin"),
                        dra_driver=args.combination.addon("aws-dranet"),
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        plugin = fabric.kind if fabric.kind in GKE_PLUGINS else None
        if plugin and isinstance(fabric, (GkeFabric, DranetFabric)) and fabric.install:
            ready.append(
                gke_fabric.GkeFabric(
                    f"{name}-gke",
                    gke_fabric.GkeFabricArgs(
                        cluster=cluster,
                        mode=ModeName(plugin),
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        if isinstance(fabric, DranetFabric):
            ready.append(
                Dranet(
                    f"{name}-dranet",
                    DranetArgs(
                        cluster=cluster,
                        fabric=fabric,
                        driver=args.combination.addon("dranet"),
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        self.ready = ready
        self.register_outputs({"kind": fabric.kind, "mode": fabric.mode})

    def _rails(
        self, name: str, args: FabricArgs, fabric: RailedFabric, below: pulumi.ResourceOptions
    ) -> list[pulumi.Resource]:
        cluster = args.cluster
        controller = args.combination.addon("network-operator")
        ready: list[pulumi.Resource] = []
        if fabric.network_operator is not None:
            ready.append(
                NetworkOperator(
                    f"{name}-network-operator",
                    NetworkOperatorArgs(
                        cluster=cluster,
                        fabric=fabric,
                        config=fabric.network_operator,
                        operator=controller,
                        after=args.after,
                    ),
                    opts=below,
                )
            )
        if isinstance(fabric, (SriovRoceFabric, SriovIbFabric)):
            ready.append(
                Sriov(
                    f"{name}-sriov",
                    SriovArgs(
                        cluster=cluster,
                        fabric=fabric,
                        namespace=controller.namespace,
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        if qualified(fabric) and fabric.rails:
            ready.append(
                Rails(
                    f"{name}-rails",
                    RailsArgs(
                        cluster=cluster,
                        fabric=fabric,
                        operator_namespace=controller.namespace,
                        after=[*args.after, *ready],
                    ),
                    opts=below,
                )
            )
        return ready
