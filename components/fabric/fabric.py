"""The training fabric on nodes, in the order in which its parts can work and go away again.

Operators, then their policies, then device plugins and drivers, then networks: each depends on what
must be alive to take it away, since an operator holds the finalizers of what it serves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from components.controllers.gpu_operator import GpuOperator, GpuOperatorArgs
from components.fabric.objects import FabricArgs, objects_of


class Fabric(pulumi.ComponentResource):
    """Everything that nodes need before a training pod can have the fabric.

    ``ready``: what a training namespace waits for; empty where the cluster has it all already.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Fabric", name, None, opts)
        cluster = args.cluster
        below = pulumi.ResourceOptions(parent=self)
        objects = objects_of(cluster.fabric)
        ready: list[pulumi.Resource] = [*objects.before_gpus(name, args, below)]
        if cluster.gpu_operator is not None:
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
        ready += objects.after_gpus(name, args, [*args.after, *ready], below)
        self.ready = ready
        self.register_outputs({"kind": cluster.fabric.kind, "mode": cluster.fabric.mode})
