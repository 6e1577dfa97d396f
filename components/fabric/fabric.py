"""The training fabric on nodes, in the order in which its parts can work and go away again.

Operators, then their policies, then device plugins and drivers, then networks: each depends on what
must be alive to take it away, since an operator holds the finalizers of what it serves.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from railhead.components.controllers.charts import Chart
from railhead.components.controllers.gpu_operator import GpuOperator, GpuOperatorArgs, nfd_owner
from railhead.components.fabric.fleet import patience, tolerations
from railhead.components.fabric.objects import FabricArgs, objects_of
from railhead.machines import MACHINES
from railhead.model.gpu import GpuOperatorConfig


def gpu_operator_args(
    args: FabricArgs, config: GpuOperatorConfig, after: Sequence[pulumi.Resource] = ()
) -> GpuOperatorArgs:
    """Return the arguments of a fabric's GPU operator."""
    network = args.fabric.nic_operator
    return GpuOperatorArgs(
        config=config,
        operator=Chart.of(args.addons["gpu-operator"]),
        dra_driver=Chart.of(args.addons["dra-driver-nvidia-gpu"]),
        runs_nfd=nfd_owner(args.fabric, args.gpu_operator) == "gpu-operator",
        operator_loads_nic_driver=network is not None and network.loads_driver,
        switches_need_nic_driver=any(
            MACHINES[pool.instance_type].switches_behind_infiniband for pool in args.pools
        ),
        # Modes that say nothing of it leave it to the nodes' image, as OKE's with functions.
        rdma_on_host_alone=args.fabric.rdma_netns != "shared",
        rdma_devices_unlisted=not args.fabric.row.hcas
        and (args.fabric.rdma_netns == "shared" or args.fabric.row.moves),
        tolerations=tolerations(args.pools),
        monitor_labels=args.monitor_labels,
        paths=args.paths,
        timeout_seconds=patience(args.pools),
        after=after,
    )


class Fabric(pulumi.ComponentResource):
    """Everything that nodes need before a training pod can have the fabric.

    Attributes:
        ready: what a training namespace waits for; empty where the cluster has it all already.
    """

    ready: Sequence[pulumi.Resource]

    def __init__(
        self, name: str, args: FabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Fabric", name, None, opts)
        below = pulumi.ResourceOptions(parent=self)
        objects = objects_of(args.fabric)
        ready: list[pulumi.Resource] = [*objects.before_gpus(name, args, below)]
        if args.gpu_operator is not None:
            wanted = gpu_operator_args(args, args.gpu_operator, [*args.after, *ready])
            ready.append(GpuOperator(f"{name}-gpu-operator", wanted, opts=below))
        ready += objects.after_gpus(name, args, [*args.after, *ready], below)
        self.ready = ready
        self.register_outputs({"kind": args.fabric.kind, "mode": args.fabric.mode})
