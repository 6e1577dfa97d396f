"""Topology, flavors and cluster queues; quotas are what the pools really have.

CPU and memory are covered as well as devices. Kueue refuses a workload that asks for a resource
its queue does not cover, and does not charge what a pod does not ask for: the runtimes therefore
request both (see :mod:`.runtimes`), or their quota would be a number that nobody pays from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import TRAINING_LABEL, versioned
from railhead.catalog.machines import MACHINES
from railhead.model.cluster import Cluster, Pool
from railhead.platform.registry import platform_of
from railhead.resolve.gate import gate_labels
from railhead.resolve.wiring import quantities

_PROVISIONING = "railhead-queued-provisioning"


@dataclass(frozen=True, kw_only=True)
class Flavor:
    """A pool as Kueue knows it: the ResourceFlavor's name and spec."""

    pool: str
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue over ``pools``, in the order of the stack's file."""

    name: str
    pools: tuple[str, ...]
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Provisioning:
    """How Kueue asks for the nodes of ``pools``; ``name`` is the check's and its settings'."""

    pools: tuple[str, ...]
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Queues:
    """What jobs wait in.

    Args:
        topology: name of the Topology; it and flavors with one cannot be changed in place.
        levels: the Topology's spec.
        flavors: pool's name -> its flavor.
        cluster_queues: in the stack's order.
        provisioning: where nodes come only when Kueue asks for them; None where all are there or
            come by themselves.
    """

    topology: str
    levels: Mapping[str, Any]
    flavors: Mapping[str, Flavor]
    cluster_queues: tuple[ClusterQueue, ...]
    provisioning: Provisioning | None


def queues(cluster: Cluster) -> Queues:
    """The stack's queues."""
    levels = {"levels": [{"nodeLabel": label} for label in cluster.topology]}
    topology = versioned(cluster.name, levels)
    queued = platform_of(cluster).queued_pools(cluster)
    flavors = {}
    for pool in cluster.pools:
        # A node that is not there yet has proven nothing, and would never be asked for.
        proven = {} if pool.name in queued else gate_labels(cluster)
        spec = _flavor(pool, topology, proven)
        flavors[pool.name] = Flavor(pool=pool.name, name=versioned(pool.name, spec), spec=spec)
    pools_of = {queue.cluster_queue: queue.pools for queue in cluster.queues}
    return Queues(
        topology=topology,
        levels=levels,
        flavors=flavors,
        cluster_queues=tuple(
            ClusterQueue(name=name, pools=pools, spec=_cluster_queue(cluster, pools, flavors))
            for name, pools in pools_of.items()
        ),
        provisioning=_provisioning(cluster, queued) if queued else None,
    )


def _flavor(pool: Pool, topology: str, proven: Mapping[str, str]) -> dict[str, Any]:
    """A flavor binds pods to the pool's nodes and brings the pool's tolerations.

    ``proven`` are labels that a node gets by proving its fabric: one without them is none of it.
    """
    labels = dict(pool.node_selector) | dict(proven)
    spec: dict[str, Any] = {"nodeLabels": labels, "topologyName": topology}
    if pool.tolerations:
        # The API refuses a value beside the operator Exists.
        spec["tolerations"] = [t.model_dump(exclude_none=True) for t in pool.tolerations]
    return spec


def _cluster_queue(
    cluster: Cluster, names: Sequence[str], flavors: Mapping[str, Flavor]
) -> dict[str, Any]:
    """Cover every resource of the pools with what their nodes have in all."""
    pools = {pool.name: pool for pool in cluster.pools}
    totals = {name: quantities(cluster, pools[name], pools[name].nodes) for name in names}
    covered = list(dict.fromkeys(resource for total in totals.values() for resource in total))
    return _admission_checks(cluster, names, flavors) | {
        "namespaceSelector": {"matchLabels": {TRAINING_LABEL: "true"}},
        # A gang that does not fit yet must not hold back a smaller one that does.
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [
            {
                "coveredResources": covered,
                "flavors": [
                    {
                        "name": flavors[name].name,
                        "resources": [
                            {"name": resource, "nominalQuota": total.get(resource, "0")}
                            for resource in covered
                        ],
                    }
                    for name, total in totals.items()
                ],
            }
        ],
    }


def _admission_checks(
    cluster: Cluster, names: Sequence[str], flavors: Mapping[str, Flavor]
) -> dict[str, Any]:
    """The question for nodes that come when a gang waits for them; nothing where none do."""
    queued = platform_of(cluster).queued_pools(cluster)
    if asking := [flavors[name].name for name in names if name in queued]:
        check = {"name": _PROVISIONING, "onFlavors": asking}
        return {"admissionChecksStrategy": {"admissionChecks": [check]}}
    return {}


def _provisioning(cluster: Cluster, queued: tuple[str, ...]) -> Provisioning:
    machines = [MACHINES[pool.instance_type] for pool in cluster.pools if pool.name in queued]
    return Provisioning(
        pools=queued,
        name=_PROVISIONING,
        spec={
            "provisioningClassName": platform_of(cluster).provisioning_class,
            "managedResources": sorted({machine.gpu_resource for machine in machines}),
            # Nodes of the kind may be hours away: asked for again, and not given up.
            "retryStrategy": {
                "backoffBaseSeconds": 60,
                "backoffLimitCount": 100,
                "backoffMaxSeconds": 1800,
            },
        },
    )
