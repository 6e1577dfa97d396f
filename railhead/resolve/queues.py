"""Topology, flavors and cluster queues; quotas are what the pools really have.

CPU and memory are covered as well as devices. Kueue refuses a workload that asks for a resource
its queue does not cover, and does not charge what a pod does not ask for: the runtimes therefore
request both (see :mod:`.runtimes`), or their quota would be a number that nobody pays from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import TRAINING_LABEL, versioned
from railhead.base.quantity import parse
from railhead.catalog.versions import COMBINATIONS, LostPods
from railhead.machines import MACHINES
from railhead.model.capacity import left, promised, quantities
from railhead.model.cluster import Cluster, Pool
from railhead.model.queueing import KueueConfig
from railhead.model.teams import ShareConfig, TeamConfig
from railhead.platform.registry import platform_of
from railhead.resolve.gate import gate_labels

_PROVISIONING = "railhead-queued-provisioning"
# GKE adds a request of these to each pod that names a network, and no queue covers them: pods that
# no job owns, whose own requests Kueue reads, would wait for ever (SkyPilot's documentation, Kueue
# with GPUDirect on GKE; kueue v0.16.2, pkg/workload/workload.go, dropExcludedResources).
_GKE_NETWORKS = "networking.gke.io.networks/"
# The API server's own, on every namespace.
_NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, kw_only=True)
class Flavor:
    """A pool as Kueue knows it: the ResourceFlavor's name and spec."""

    pool: str
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ClusterQueue:
    """A ClusterQueue over ``pools``, in the order of the stack's file; ``team`` has it, if any."""

    name: str
    pools: tuple[str, ...]
    spec: Mapping[str, Any]
    team: str | None = None


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """The cohort in which the teams' queues borrow; its own quota is promised to no team."""

    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Provisioning:
    """Kueue's request for the nodes of ``pools``; ``name`` is that of its check and settings."""

    pools: tuple[str, ...]
    name: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class KueueQueues:
    """The objects of Kueue in which jobs wait.

    Args:
        topology: name of the Topology; it and flavors with one cannot be changed in place.
        levels: the Topology's spec.
        flavors: pool's name -> its flavor.
        cluster_queues: in the stack's order, the teams' last.
        cohort: the cohort of the teams' queues; None without teams.
        priorities: name -> value and description of each WorkloadPriorityClass.
        settings: the part of Kueue's own configuration file that is about waiting and sharing.
        gates: Kueue's feature gates that the stack sets.
        provisioning: set if nodes come only when Kueue asks for them; None if all are there or
            come by themselves.
    """

    topology: str
    levels: Mapping[str, Any]
    flavors: Mapping[str, Flavor]
    cluster_queues: tuple[ClusterQueue, ...]
    cohort: Cohort | None
    priorities: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    gates: Mapping[str, bool]
    provisioning: Provisioning | None

    def flavor(self, pool: str) -> str:
        """Return the name of a pool's flavor."""
        return self.flavors[pool].name

    def objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each object as (kind, object without ``apiVersion`` and ``kind``)."""
        yield "Topology", _named(self.topology, self.levels)
        for flavor in self.flavors.values():
            yield "ResourceFlavor", _named(flavor.name, flavor.spec)
        if self.cohort is not None:
            yield "Cohort", _named(self.cohort.name, self.cohort.spec)
        for queue in self.cluster_queues:
            yield "ClusterQueue", _named(queue.name, queue.spec)
        for name, fields in self.priorities.items():
            yield "WorkloadPriorityClass", {"metadata": {"name": name}, **fields}


def _named(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


def queues(cluster: Cluster) -> KueueQueues:
    """Return the stack's queues."""
    levels = {"levels": [{"nodeLabel": label} for label in cluster.topology]}
    topology = versioned(cluster.name, levels)
    queued = platform_of(cluster).queued_pools(cluster)
    flavors = {}
    for pool in cluster.pools:
        # A node that is not there yet has proven nothing, and would never be asked for. Nor is a
        # gang placed on it: what comes may lack levels, and Kueue places on nodes with all of them
        # (v0.16.2, pkg/cache/scheduler/tas_flavor.go), in a second pass that counts the gang's own
        # quota twice (flavorassigner.go; kueue PR 11040 mends it in 0.16.8).
        comes = pool.name in queued
        spec = _flavor(pool, None if comes else topology, {} if comes else gate_labels(cluster))
        flavors[pool.name] = Flavor(pool=pool.name, name=versioned(pool.name, spec), spec=spec)
    pools_of = {queue.cluster_queue: queue.pools for queue in cluster.queues}
    return KueueQueues(
        topology=topology,
        levels=levels,
        flavors=flavors,
        cluster_queues=tuple(
            ClusterQueue(name=name, pools=pools, spec=_cluster_queue(cluster, pools, flavors))
            for name, pools in pools_of.items()
        )
        + tuple(
            ClusterQueue(
                name=team.name,
                pools=team.pools,
                spec=_team_queue(cluster, team, flavors),
                team=team.name,
            )
            for team in cluster.teams
        ),
        cohort=Cohort(name=cluster.name, spec=_cohort(cluster, flavors)) if cluster.teams else None,
        priorities={
            priority.name: {"value": priority.value, "description": priority.description}
            for priority in cluster.priorities
        },
        settings=settings(cluster),
        gates={lost.gate: True} if (lost := lost_pods(cluster)) else {},
        provisioning=_provisioning(cluster, queued) if queued else None,
    )


def lost_pods(cluster: Cluster) -> LostPods | None:
    """Return how Kueue ends pods on a lost node; None if the stack does not ask for it."""
    queueing = cluster.queueing
    if not isinstance(queueing, KueueConfig) or not queueing.end_lost_pods:
        return None
    return COMBINATIONS[cluster.versions].lost_pods


def client_limits(cluster: Cluster) -> dict[str, int]:
    """Return how many requests a second Kueue may make, and how many at once.

    Each pod that is placed by topology is one, which removes its gate, by one limiter for all of
    Kueue (kueue issue 13683): with a gang on every node, or as many gangs as nodes, that is the
    number of nodes. The least are upstream's defaults since its PR 12440, the most since PR 15206.
    """
    nodes = sum(pool.nodes for pool in cluster.pools)
    return {"qps": min(1000, max(300, nodes)), "burst": min(1000, max(500, nodes))}


def settings(cluster: Cluster) -> dict[str, Any]:
    """Return the part of Kueue's configuration (``config.kueue.x-k8s.io/v1beta2``) the stack sets.

    See apis/config/v1beta2/configuration_types.go and pkg/config/validation.go of 0.15 to 0.19.
    """
    requeue, ready = cluster.requeue, cluster.ready_timeout_seconds
    recovery = ready if requeue.recovery_seconds is None else requeue.recovery_seconds
    strategy: dict[str, Any] = {
        "timestamp": "Eviction",
        "backoffBaseSeconds": requeue.backoff_seconds,
        "backoffMaxSeconds": requeue.backoff_max_seconds,
    }
    if requeue.limit is not None:
        strategy["backoffLimitCount"] = requeue.limit
    configuration: dict[str, Any] = {
        "clientConnection": client_limits(cluster),
        # A gang that cannot get all of its pods to run gives back what it holds.
        "waitForPodsReady": {
            "timeout": f"{ready}s",
            "recoveryTimeout": f"{recovery}s",
            "blockAdmission": False,
            "requeuingStrategy": strategy,
        },
    }
    if cluster.finished_days is not None:
        # Its job is over, so Kueue makes no other (v0.16.2, pkg/controller/jobframework/
        # reconciler.go, 2: handle job is finished).
        after = {"workloads": {"afterFinished": f"{cluster.finished_days * 24}h"}}
        configuration["objectRetentionPolicies"] = after
    if cluster.pod_groups and cluster.fabric.attachment == "gke":
        configuration["resources"] = {"excludeResourcePrefixes": [_GKE_NETWORKS]}
    if cluster.teams and cluster.fair.sharing:
        # Required where there is fair sharing at all; these are what its documentation recommends.
        strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
        configuration["fairSharing"] = {"preemptionStrategies": strategies}
    if cluster.teams and cluster.fair.half_life_hours is not None:
        configuration["admissionFairSharing"] = {
            "usageHalfLifeTime": f"{cluster.fair.half_life_hours}h",
            "usageSamplingInterval": "5m",
        }
    return configuration


def _flavor(pool: Pool, topology: str | None, proven: Mapping[str, str]) -> dict[str, Any]:
    """Return a flavor, which binds pods to the pool's nodes and adds the pool's tolerations.

    ``proven`` are labels that a node gets by proving its fabric: without them the flavor skips it.
    """
    spec: dict[str, Any] = {"nodeLabels": dict(pool.node_selector) | dict(proven)}
    if topology is not None:
        spec["topologyName"] = topology
    if pool.tolerations:
        # The API refuses a value beside the operator Exists.
        spec["tolerations"] = [t.model_dump(exclude_none=True) for t in pool.tolerations]
    return spec


def _cluster_queue(
    cluster: Cluster, names: Sequence[str], flavors: Mapping[str, Flavor]
) -> dict[str, Any]:
    """Cover every resource of the pools with what their nodes have in all."""
    pools = {pool.name: pool for pool in cluster.pools}
    quotas = {
        name: {
            resource: {"nominalQuota": total}
            for resource, total in quantities(cluster, pools[name], pools[name].nodes).items()
        }
        for name in names
    }
    return _admission_checks(cluster, names, flavors) | {
        "namespaceSelector": {"matchLabels": {TRAINING_LABEL: "true"}},
        # A gang that does not fit yet must not hold back a smaller one that does.
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": _resource_groups(quotas, flavors),
    }


_Quotas = Mapping[str, Mapping[str, Mapping[str, str]]]
_NOTHING = {"nominalQuota": "0"}


def _resource_groups(quotas: _Quotas, flavors: Mapping[str, Flavor]) -> list[dict[str, Any]]:
    """Return pool -> resource -> quota and limits, as one group that covers the same resources."""
    covered = list(dict.fromkeys(resource for quota in quotas.values() for resource in quota))
    return [
        {
            "coveredResources": covered,
            "flavors": [
                {
                    "name": flavors[pool].name,
                    "resources": [
                        {"name": resource} | dict(quota.get(resource, _NOTHING))
                        for resource in covered
                    ],
                }
                for pool, quota in quotas.items()
            ],
        }
    ]


_STRATEGY = {"best-effort": "BestEffortFIFO", "strict": "StrictFIFO"}
_WITHIN = {
    "never": "Never",
    "lower": "LowerPriority",
    "lower-or-newer-equal": "LowerOrNewerEqualPriority",
}
_RECLAIM = {"never": "Never", "lower": "LowerPriority", "any": "Any"}


def _team_queue(
    cluster: Cluster, team: TeamConfig, flavors: Mapping[str, Flavor]
) -> dict[str, Any]:
    """Return a team's cluster queue: its shares, what it may borrow, and whom it stops."""
    pools = {pool.name: pool for pool in cluster.pools}
    policy = team.preemption
    preemption: dict[str, Any] = {
        "withinClusterQueue": _WITHIN[policy.within],
        "reclaimWithinCohort": _RECLAIM[policy.reclaim],
    }
    if policy.borrow != "never":
        preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
    scope = {"admissionMode": "UsageBasedAdmissionFairSharing"}
    by_use = {} if cluster.fair.half_life_hours is None else {"admissionScope": scope}
    return (
        _admission_checks(cluster, team.pools, flavors)
        | by_use
        | {
            "cohortName": cluster.name,
            # A namespace cannot take this label off, nor another put it on: the API server sets it.
            "namespaceSelector": {
                "matchLabels": {TRAINING_LABEL: "true"},
                "matchExpressions": [
                    {"key": _NAME_LABEL, "operator": "In", "values": list(team.namespaces)}
                ],
            },
            "queueingStrategy": _STRATEGY[team.order],
            "preemption": preemption,
            "fairSharing": {"weight": str(team.weight)},
            "resourceGroups": _resource_groups(
                {share.pool: _share(cluster, share, pools[share.pool]) for share in team.shares},
                flavors,
            ),
        }
    )


def _share(cluster: Cluster, share: ShareConfig, pool: Pool) -> dict[str, dict[str, str]]:
    """Return resource -> nominal quota and limits. Kueue refuses to lend more than there is."""
    nominal = promised(cluster, share, pool)
    limits = {resource: {"nominalQuota": amount} for resource, amount in nominal.items()}
    if share.borrow is not None:
        for resource, amount in quantities(cluster, pool, share.borrow).items():
            limits[resource]["borrowingLimit"] = amount
    if share.lend is not None:
        for resource, amount in quantities(cluster, pool, share.lend).items():
            limits[resource]["lendingLimit"] = min(amount, nominal[resource], key=parse)
    return limits


def _cohort(cluster: Cluster, flavors: Mapping[str, Flavor]) -> dict[str, Any]:
    """Return the quota of shared pools that no team is promised: any of them may borrow it."""
    rest = {
        pool.name: {
            resource: {"nominalQuota": amount} for resource, amount in left(cluster, pool).items()
        }
        for pool in cluster.pools
        if any(pool.name in team.pools for team in cluster.teams)
    }
    return {"resourceGroups": _resource_groups(rest, flavors)}


def _admission_checks(
    cluster: Cluster, names: Sequence[str], flavors: Mapping[str, Flavor]
) -> dict[str, Any]:
    """Return the question for nodes that come when a gang waits for them; nothing where none do."""
    queued = platform_of(cluster).queued_pools(cluster)
    if asking := [flavors[name].name for name in names if name in queued]:
        check = {"name": _PROVISIONING, "onFlavors": asking}
        return {"admissionChecksStrategy": {"admissionChecks": [check]}}
    return {}


def _provisioning(cluster: Cluster, queued: tuple[str, ...]) -> Provisioning:
    machines = [MACHINES[pool.instance_type] for pool in cluster.pools if pool.name in queued]
    platform = platform_of(cluster)
    parameters = platform.provisioning_parameters(cluster)
    return Provisioning(
        pools=queued,
        name=_PROVISIONING,
        spec={
            "provisioningClassName": platform.provisioning_class,
            **({"parameters": dict(parameters)} if parameters else {}),
            "managedResources": sorted({machine.gpu_resource for machine in machines}),
            # A gang runs on the nodes that came for it, and on no other gang's.
            "podSetUpdates": {
                "nodeSelector": [
                    {"key": label, "valueFromProvisioningClassDetail": detail}
                    for label, detail in platform.provisioning_labels.items()
                ]
            },
            # A request waits for capacity by itself, for days. Retried are failures, such as a
            # quota, and nodes that were paid for while no job began on them: over three hours, as
            # each wait is twice the one before (kueue, pkg/util/wait/backoff.go),
            # and then the job stops and says why. Kueue's own three are over in a quarter of one.
            "retryStrategy": {
                "backoffBaseSeconds": 60,
                "backoffLimitCount": 10,
                "backoffMaxSeconds": 1800,
            },
        },
    )
