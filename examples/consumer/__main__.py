"""Reads a cluster's contract by stack reference, and writes what a team's jobs need into it.

It knows nothing of the cluster but its stack's name: queue, runtime, size of a node and the
fabric's environment all come from the contract.
"""

import json

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.contract import ClusterContract

config = pulumi.Config()
training = ClusterContract.from_stack(config.require("stack"))


def defaults(contract: ClusterContract) -> dict[str, str]:
    """Return the defaults of the team's launchers, as a ConfigMap's data."""
    queue, pool = contract.queue(), contract.node_pools[0]
    return {
        "queue": queue.name,
        "runtime": contract.runtimes[0].name,
        "gpus_per_node": str(pool.gpus_per_node),
        "most_nodes": str(pool.nodes),
        "fabric": f"{contract.fabric.kind} by {contract.fabric.mode}",
        "environment": json.dumps(contract.fabric.environment, sort_keys=True),
    }


# A stack that made its cluster has the kubeconfig as a secret; for any other, name the file.
cluster = kubernetes.Provider(
    "cluster",
    kubeconfig=config.get("kubeconfig") or training.kubeconfig,
    cluster_identifier=training.contract.apply(lambda contract: contract.cluster),
)
kubernetes.core.v1.ConfigMap(
    "team-defaults",
    metadata={
        "name": "team-defaults",
        "namespace": training.contract.apply(lambda contract: contract.queue().namespace),
    },
    data=training.contract.apply(defaults),
    opts=pulumi.ResourceOptions(provider=cluster),
)

pulumi.export("cluster", training.contract.apply(lambda contract: contract.cluster))
pulumi.export("platform", training.contract.apply(lambda contract: contract.platform))
pulumi.export(
    "gpus",
    training.contract.apply(
        lambda contract: sum(pool.nodes * pool.gpus_per_node for pool in contract.node_pools)
    ),
)
