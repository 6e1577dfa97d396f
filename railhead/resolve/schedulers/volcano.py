"""Volcano: pods of a gang wait as a PodGroup, and are bound together or not at all.

Read at v1.15.1 (pkg/scheduler, pkg/controllers, staging/src/volcano.sh/apis), and Trainer's side of
it at v2.1.0 and v2.3.0, pkg/runtime/framework/plugins/volcano.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from railhead.base.names import GANG_LABEL, POD_GROUP, TRAINER_API, VOLCANO_API, VOLCANO_QUEUE
from railhead.catalog.versions import COMBINATIONS, Combination, Controller
from railhead.model.capacity import beside, promised, quantities
from railhead.model.cluster import Cluster, Pool, QueueConfig
from railhead.model.teams import TeamConfig
from railhead.resolve import cel
from railhead.resolve.callers import controllers
from railhead.resolve.gate import gate_labels
from railhead.resolve.job_guards import spec_queue_policy, unadmitted_policy
from railhead.resolve.rights import ALL, LEADING, READ, SUBMITTING, USE, Right
from railhead.resolve.schedulers.base import Named, Placed, Scheduler, Unfinished

SCHEDULER_NAME = "volcano"
# At most 20 characters (pkg/controllers/hypernode/discovery/label, networkTopologyTypeLength).
_TOPOLOGY = "railhead"


@dataclass(frozen=True, kw_only=True)
class VolcanoQueues:
    """The objects of Volcano in which gangs wait.

    Args:
        queues: name -> spec of each Queue; Queues have no namespace.
        priorities: name -> value and description of each PriorityClass.
        scheduler: the scheduler's configuration file.
        controller: the controllers' configuration, which creates HyperNodes by labels.
    """

    queues: Mapping[str, Mapping[str, Any]]
    priorities: Mapping[str, Mapping[str, Any]]
    scheduler: str
    controller: Mapping[str, Any]

    def flavor(self, pool: str) -> str:
        """Return the pool's own name: Volcano has no flavors."""
        return pool

    def objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each object as (kind, object without ``apiVersion`` and ``kind``)."""
        for name, spec in self.queues.items():
            yield "Queue", {"metadata": {"name": name}, "spec": spec}
        for name, fields in self.priorities.items():
            yield "PriorityClass", {"metadata": {"name": name}, **fields}


def _queues(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return name -> spec. A stack with Volcano has one pool (:mod:`railhead.config.volcano`)."""
    (pool,) = cluster.pools
    everything = quantities(cluster, pool, pool.nodes)
    own = {q.cluster_queue: {"deserved": everything} for q in cluster.queues}
    return own | {team.name: _team(cluster, team, pool) for team in cluster.teams}


def _team(cluster: Cluster, team: TeamConfig, pool: Pool) -> dict[str, Any]:
    """Return a share as the capacity plugin reads it.

    ``deserved`` is what others give back on demand, ``capability`` what is never exceeded,
    ``guarantee`` what nobody else gets. ``priority`` is the rank of the team's jobs that name no
    priority: a TrainJob cannot name one.
    """
    (share,) = team.shares
    values = {priority.name: priority.value for priority in cluster.priorities}
    spec: dict[str, Any] = {
        "deserved": promised(cluster, share, pool),
        "weight": team.weight,
        "priority": sorted(set(values.values())).index(values[team.priority]),
        "reclaimable": team.preemption.reclaim != "never",
    }
    if share.borrow is not None:
        spec["capability"] = beside(cluster, share, pool, share.borrow)
    if share.lend is not None:
        spec["guarantee"] = {"resource": beside(cluster, share, pool, -share.lend)}
    return spec


def scheduler_file(cluster: Cluster) -> dict[str, Any]:
    """Return the scheduler's configuration (docs/user-guide/how_to_use_capacity_plugin.md).

    Gangs are stopped whole, by the actions that do that, which exclude ``preempt`` and ``reclaim``
    (docs/design/gang-aware-eviction-design.md). The victims are chosen by the first tier that
    names any (framework/session_plugins.go, UnifiedEvictable), so ``capacity``, which spares what
    is within a queue's share, is in the first tier. There is no ``enqueue``, and no ``overcommit``
    for it: a full queue would take no gang, and both actions skip gangs that were not taken.
    Without ``enqueue`` every gang is taken (allocate.go). Both as in test/e2e/gangevict.
    """
    stops = [team.preemption for team in cluster.teams]
    actions = ["allocate", "backfill"]
    if not stops or any(rule.within != "never" for rule in stops):
        actions.append("gangpreempt")
    if any(rule.reclaim != "never" for rule in stops):
        actions.append("gangreclaim")
    first = [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}]
    second = [{"name": "drf", "enablePreemptable": False}]
    second += [{"name": name} for name in ("predicates", "nodeorder", "binpack")]
    topology = {"name": "network-topology-aware", "arguments": {"weight": 10}}
    return {
        "actions": ", ".join(actions),
        "tiers": [
            {"plugins": [*first, {"name": "conformance"}, {"name": "capacity"}]},
            {"plugins": [*second, *([topology] if _tiers(cluster) else [])]},
        ],
    }


def _tiers(cluster: Cluster) -> int:
    """Return the number of HyperNodes' tiers: every level of the topology but the host itself."""
    return len(cluster.topology) - 1


def controller_file(cluster: Cluster) -> dict[str, Any]:
    """Return the controllers' configuration: a HyperNode for each value of each level's label.

    The widest level is first (docs/user-guide/how_to_use_hypernode_auto_discovery.md). The last
    label is the nodes' own and gets no HyperNode (discovery/label, parseCfg); tiers count from 1,
    from the narrowest level up.
    """
    if not _tiers(cluster):
        return {}
    levels = [{"nodeLabel": label} for label in cluster.topology]
    source = {
        "source": "label",
        "enabled": True,
        "config": {"networkTopologyTypes": {_TOPOLOGY: levels}},
    }
    return {"networkTopologyDiscovery": [source]}


class Volcano(Scheduler):
    """VolcanoQueues are the cluster's; which of them a namespace's jobs may name a guard says."""

    name = "volcano"
    title = "Volcano"
    pods = GANG_LABEL
    ways_in = "a TrainJob or a Job of batch.volcano.sh"
    on_cpus = ""
    deployments: Mapping[str, str] = {
        "volcano-admission": "volcano-system",
        "volcano-controllers": "volcano-system",
        "volcano-scheduler": "volcano-system",
    }
    kinds: Mapping[str, tuple[str, str]] = {
        "Queue": (VOLCANO_API, "queues"),
        "PriorityClass": ("scheduling.k8s.io/v1", "priorityclasses"),
    }
    unsaid: Mapping[str, str] = {
        "priority": "Volcano takes a gang's from its pods' PriorityClass, which a TrainJob cannot "
        "set; its team's queue has a rank of its own",
        "topology": "a TrainJob cannot say how its PodGroup lies to the topology; the runtime's "
        "says as close together as there is room",
        "timeout": "nothing ends a TrainJob after a time where Volcano admits it",
    }
    workloads = False
    unfinished = Unfinished(
        api_version=TRAINER_API,
        kind="TrainJob",
        expression="!(has(params.status) && has(params.status.conditions)"
        " && params.status.conditions.exists(c, c.type in ['Complete', 'Failed']"
        " && c.status == 'True'))",
    )

    def controller(self, combination: Combination) -> Controller:
        """Return an add-on of each combination."""
        return combination.addon("volcano")

    def queues(self, cluster: Cluster) -> VolcanoQueues:
        """Return a Queue for each cluster queue and each team."""
        return VolcanoQueues(
            queues=_queues(cluster),
            priorities={
                priority.name: {"value": priority.value, "description": priority.description}
                for priority in cluster.priorities
            },
            scheduler=yaml.safe_dump(scheduler_file(cluster), sort_keys=False),
            controller=controller_file(cluster),
        )

    def queue(self, config: QueueConfig) -> str:
        """Return the Queue itself: queues have no namespace."""
        return config.cluster_queue

    def local_queues(self, cluster: Cluster, namespace: str) -> Mapping[str, str]:
        """Return no local queues: Volcano has none."""
        del cluster, namespace
        return {}

    def placed(self, cluster: Cluster, pool: Pool, level: str) -> Placed:
        """Return what Kueue's flavor would add; the level is in the runtime (:meth:`runtime`)."""
        del level
        return Placed(
            labels={GANG_LABEL: "true"},
            # The autoscaler adds a first node for pods that its pool's own labels suffice.
            node_selector={} if pool.may_be_empty else gate_labels(cluster),
            tolerations=tuple(t.model_dump(exclude_none=True) for t in pool.tolerations),
            scheduler_name=SCHEDULER_NAME,
        )

    def runtime(self, cluster: Cluster) -> Mapping[str, Any]:
        """Return the gang policy: Trainer makes a PodGroup whose ``minMember`` is every pod.

        ``highestTierAllowed`` is there in soft mode as well, where it is not read: Trainer takes it
        without asking whether it is (volcano.go, Build).
        """
        tiers = _tiers(cluster)
        topology = {"networkTopology": {"mode": "soft", "highestTierAllowed": tiers}}
        return {"podGroupPolicy": {"volcano": topology if tiers else {}}}

    def named(self, cluster: Cluster) -> Named:
        """Return an annotation that Trainer reads, where its version has it."""
        key, without = cel.string(VOLCANO_QUEUE), "would be charged to no team"
        if COMBINATIONS[cluster.versions].placement_field == "podTemplateOverrides":
            annotations = "object.spec.annotations"
            return Named(
                expression=f"has({annotations}) && {key} in {annotations}"
                f" ? {annotations}[{key}] : ''",
                place=f"the annotation {VOLCANO_QUEUE} in spec.annotations",
                without=without,
                field="spec.annotations",
            )
        patches, at = "object.spec.runtimePatches", "m.trainingRuntimeSpec.template.metadata"
        has = (
            "has(m.trainingRuntimeSpec) && has(m.trainingRuntimeSpec.template)"
            f" && has({at}) && has({at}.annotations) && {key} in {at}.annotations"
        )
        # Of several patches the last one wins (pkg/runtime/core/trainingruntime.go).
        queues = f"{patches}.filter(m, {has}).map(m, {at}.annotations[{key}])"
        return Named(
            expression=f"has({patches}) && size({queues}) > 0 ? {queues}[size({queues}) - 1] : ''",
            place=f"the annotation {VOLCANO_QUEUE} in spec.runtimePatches[].trainingRuntimeSpec."
            "template.metadata.annotations",
            without=without,
            field="spec.runtimePatches",
        )

    def admitted(self, cluster: Cluster) -> str:
        """Return CEL that tests that a pod waits for Volcano, as a member of a PodGroup."""
        return (
            f"has(object.spec.schedulerName) && object.spec.schedulerName == '{SCHEDULER_NAME}'"
            " && has(object.metadata.annotations)"
            f" && '{POD_GROUP}' in object.metadata.annotations"
            " && has(object.metadata.ownerReferences)"
            " && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)"
            f" && {controllers(cluster)}"
        )

    def no_way_in(self, cluster: Cluster) -> str:
        """Return all else."""
        del cluster
        return "; bare pods, and pods of a JobSet, a Job or a Deployment have no way in"

    def job_policies(
        self, cluster: Cluster, queues: Mapping[str, Sequence[str]]
    ) -> Mapping[str, dict[str, Any]]:
        """Return policies; a PodGroup is checked last: its queue is one of its namespace's."""
        del cluster
        resources = {"batch.volcano.sh": ("jobs",), "scheduling.volcano.sh": ("podgroups",)}
        return {
            "railhead-queued-job": spec_queue_policy(queues, resources),
            "railhead-unadmitted-job": unadmitted_policy(self.title, self.ways_in),
        }

    def rights(self) -> tuple[Right, ...]:
        """Return the rights to see why a job waits."""
        return (
            Right(
                group="scheduling.volcano.sh",
                resources=("podgroups",),
                verbs=READ,
                personas=ALL,
                why="why a job waits",
            ),
        )

    def priority_rights(self, usual: Sequence[str], higher: Sequence[str]) -> tuple[Right, ...]:
        """Return rights to PriorityClasses, by the verb that ``railhead-pod-priority`` checks."""
        return tuple(
            Right(
                group="scheduling.k8s.io",
                resources=("priorityclasses",),
                verbs=(USE,),
                personas=personas,
                names=tuple(names),
                why=why,
            )
            for personas, names, why in (
                (SUBMITTING, usual, "jobs that come no sooner than others"),
                (LEADING, higher, "jobs that come before others"),
            )
        )

    def cluster_rights(self) -> tuple[Right, ...]:
        """Return the rights to read queues and HyperNodes."""
        return tuple(
            Right(group=group, resources=resources, verbs=READ, personas=ALL, why=why)
            for group, resources, why in (
                (VOLCANO_API.partition("/")[0], ("queues",), "what a queue has"),
                ("topology.volcano.sh", ("hypernodes",), "how nodes lie to each other"),
            )
        )


SCHEDULER = Volcano()
