"""Topology, flavors and cluster queues; quotas are what the pools really have.

CPU and memory are covered as well as devices. Kueue refuses a workload that asks for a resource
its queue does not cover, and does not charge what a pod does not ask for: the runtimes therefore
request both (see runtimes.py), or their quota would be a number that nobody pays from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.queueing.provisioning import (
    Provisioning,
    ProvisioningArgs,
    checks_spec,
    queued_pools,
)
from railhead.base.names import TRAINING_LABEL, versioned
from railhead.model.cluster import Cluster, Pool
from railhead.resolve.gate import gate_labels
from railhead.resolve.wiring import quantities

API_VERSION = "kueue.x-k8s.io/v1beta2"


@dataclass(frozen=True, kw_only=True)
class QueuesArgs:
    """Arguments of :class:`Queues`."""

    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def topology_spec(cluster: Cluster) -> dict[str, Any]:
    """Levels from the widest to the host."""
    return {"levels": [{"nodeLabel": label} for label in cluster.topology]}


def flavor_spec(pool: Pool, topology: str, proven: Mapping[str, str]) -> dict[str, Any]:
    """A flavor binds pods to the pool's nodes and brings the pool's tolerations.

    ``proven`` are labels that a node gets by proving its fabric: one without them is none of it.
    """
    labels = dict(pool.node_selector) | dict(proven)
    spec: dict[str, Any] = {"nodeLabels": labels, "topologyName": topology}
    if pool.tolerations:
        spec["tolerations"] = [
            {
                key: value
                for key, value in toleration.model_dump().items()
                # The API refuses a value beside the operator Exists.
                if value is not None
            }
            for toleration in pool.tolerations
        ]
    return spec


def cluster_queue_spec(
    cluster: Cluster, pools: Sequence[Pool], flavors: Mapping[str, str]
) -> dict[str, Any]:
    """Cover every resource of the pools with what their nodes have in all."""
    totals = {pool.name: quantities(cluster, pool, pool.nodes) for pool in pools}
    covered = list(dict.fromkeys(name for total in totals.values() for name in total))
    return checks_spec(cluster, [pool.name for pool in pools], flavors) | {
        "namespaceSelector": {"matchLabels": {TRAINING_LABEL: "true"}},
        # A gang that does not fit yet must not hold back a smaller one that does.
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [
            {
                "coveredResources": covered,
                "flavors": [
                    {
                        "name": flavors[pool.name],
                        "resources": [
                            {"name": name, "nominalQuota": totals[pool.name].get(name, "0")}
                            for name in covered
                        ],
                    }
                    for pool in pools
                ],
            }
        ],
    }


class Queues(pulumi.ComponentResource):
    """ClusterQueues over ResourceFlavors over one Topology.

    ``flavors``: pool name -> name of its ResourceFlavor.
    """

    flavors: Mapping[str, str]

    def __init__(
        self, name: str, args: QueuesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Queues", name, None, opts)
        cluster = args.cluster
        # Levels, and a flavor that has a topology, cannot be changed in place.
        levels = topology_spec(cluster)
        topology_name = versioned(cluster.name, levels)
        topology = kubernetes.apiextensions.CustomResource(
            f"{name}-topology",
            api_version=API_VERSION,
            kind="Topology",
            metadata={"name": topology_name},
            spec=levels,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        flavors: dict[str, str] = {}
        flavors_made = []
        after = [*args.after]
        if queued := queued_pools(cluster):
            asked = Provisioning(
                f"{name}-provisioning",
                ProvisioningArgs(cluster=cluster, after=args.after),
                opts=pulumi.ResourceOptions(parent=self),
            )
            after += asked.ready
        for pool in cluster.pools:
            # A node that is not there yet has proven nothing, and would never be asked for.
            proven = {} if pool.name in queued else gate_labels(cluster)
            spec = flavor_spec(pool, topology_name, proven)
            flavors[pool.name] = versioned(pool.name, spec)
            flavors_made.append(
                kubernetes.apiextensions.CustomResource(
                    f"{name}-flavor-{pool.name}",
                    api_version=API_VERSION,
                    kind="ResourceFlavor",
                    metadata={"name": flavors[pool.name]},
                    spec=spec,
                    opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.after, topology]),
                )
            )
        self.flavors = flavors
        pools = {pool.name: pool for pool in cluster.pools}
        for queue_name, pool_names in cluster_queues(cluster).items():
            kubernetes.apiextensions.CustomResource(
                f"{name}-cluster-queue-{queue_name}",
                api_version=API_VERSION,
                kind="ClusterQueue",
                metadata={"name": queue_name},
                spec=cluster_queue_spec(cluster, [pools[p] for p in pool_names], flavors),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*after, *flavors_made]),
            )
        self.register_outputs({"flavors": flavors})


def cluster_queues(cluster: Cluster) -> dict[str, tuple[str, ...]]:
    """Cluster queue -> names of its pools, in the order of the stack's file."""
    return {queue.cluster_queue: queue.pools for queue in cluster.queues}
