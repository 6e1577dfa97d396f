"""Kueue: a job stays suspended until its whole quota is there, and then gets its pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from railhead.base.names import (
    DEFAULT_QUEUE,
    KUEUE_API,
    KUEUE_DEPLOYMENT,
    PODSET_LABEL,
    PREFERRED_TOPOLOGY,
    QUEUE_LABEL,
)
from railhead.catalog.versions import Combination, Controller
from railhead.model.cluster import Cluster, Pool, QueueConfig
from railhead.platform.registry import platform_of
from railhead.resolve import cel
from railhead.resolve.callers import controllers
from railhead.resolve.job_guards import MANAGED, queued_pod_policy, queued_policy
from railhead.resolve.pod_guards import ADMISSION_GATE, NO_WAY_IN, WAYS_IN
from railhead.resolve.queues import KueueQueues, lost_pods, queues
from railhead.resolve.rights import ALL, LEADING, READ, SUBMITTING, USE, Right
from railhead.resolve.schedulers.base import Named, Placed, Scheduler, Unfinished


class Kueue(Scheduler):
    """KueueQueues are LocalQueues of a namespace, before ClusterQueues in a cohort."""

    name = "kueue"
    title = "Kueue"
    pods = PODSET_LABEL
    ways_in = WAYS_IN
    on_cpus = f"; for work on CPUs alone submit a Job with the label {QUEUE_LABEL}"
    deployments: Mapping[str, str] = {KUEUE_DEPLOYMENT: "kueue-system"}
    kinds: Mapping[str, tuple[str, str]] = {
        "Topology": (KUEUE_API, "topologies"),
        "ResourceFlavor": (KUEUE_API, "resourceflavors"),
        "Cohort": (KUEUE_API, "cohorts"),
        "ClusterQueue": (KUEUE_API, "clusterqueues"),
        "LocalQueue": (KUEUE_API, "localqueues"),
        "WorkloadPriorityClass": (KUEUE_API, "workloadpriorityclasses"),
    }
    unsaid: Mapping[str, str] = {}
    workloads = True
    # One that Kueue has given up on is deactivated.
    unfinished = Unfinished(
        api_version=KUEUE_API,
        kind="Workload",
        expression="!(has(params.status) && has(params.status.conditions)"
        " && params.status.conditions.exists(c, c.type == 'Finished' && c.status == 'True'))"
        " && (!has(params.spec.active) || params.spec.active)",
    )

    def controller(self, combination: Combination) -> Controller:
        """Return the Kueue of the combination."""
        return combination.kueue

    def queues(self, cluster: Cluster) -> KueueQueues:
        """Return ClusterQueues over flavors over a Topology."""
        return queues(cluster)

    def queue(self, config: QueueConfig) -> str:
        """Return the name of the LocalQueue."""
        return config.name

    def local_queues(self, cluster: Cluster, namespace: str) -> Mapping[str, str]:
        """Return the stack's local queues, and ``default`` if the stack asks for one.

        Kueue gives a job that names no queue the LocalQueue ``default`` of its namespace, if there
        is one (v0.16.2 and v0.19.2, pkg/controller/jobframework/defaults.go).
        """
        queues = {q.name: q.cluster_queue for q in cluster.local_queues if q.namespace == namespace}
        if cluster.default_queue and len(queues) == 1:
            (behind,) = queues.values()
            queues[DEFAULT_QUEUE] = behind
        return queues

    def placed(self, cluster: Cluster, pool: Pool, level: str) -> Placed:
        """Return the annotations; the flavor brings the rest when the job is admitted."""
        lost = lost_pods(cluster)
        ended = {lost.annotation: "true"} if lost else {}
        # A flavor without a topology takes no job that asks for one (v0.16.2, pkg/scheduler/
        # flavorassigner/tas_flavorassigner.go).
        queued = pool.name in platform_of(cluster).queued_pools(cluster)
        return Placed(annotations=({} if queued else {PREFERRED_TOPOLOGY: level}) | ended)

    def runtime(self, cluster: Cluster) -> Mapping[str, Any]:
        """Return nothing: the whole TrainJob is held back."""
        del cluster
        return {}

    def named(self, cluster: Cluster) -> Named:
        """Return a label, whatever the kind of job."""
        del cluster
        return Named(
            expression=f"'{QUEUE_LABEL}' in variables.labels"
            f" ? variables.labels['{QUEUE_LABEL}'] : ''",
            place=f"the label {QUEUE_LABEL}",
            without="would stay suspended for ever",
        )

    def admitted(self, cluster: Cluster) -> str:
        """Return a label that Kueue gives to the pods of a job that it let in.

        With ``pod_groups`` Kueue's webhook, which is asked first, has closed the scheduling gate of
        a pod that it manages by itself (pod_webhook.go).
        """
        admitted = (
            "has(object.metadata.labels)"
            f" && '{PODSET_LABEL}' in object.metadata.labels"
            " && has(object.metadata.ownerReferences)"
            " && object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller"
            f" && o.kind in {cel.strings(MANAGED)}) && {controllers(cluster)}"
        )
        gated = (
            "has(object.spec.schedulingGates)"
            f" && object.spec.schedulingGates.exists(g, g.name == {cel.string(ADMISSION_GATE)})"
        )
        return f"{admitted} || {gated}" if cluster.pod_groups else admitted

    def no_way_in(self, cluster: Cluster) -> str:
        """Return the kinds that Kueue does not admit; nothing if it admits pods."""
        return "" if cluster.pod_groups else f"; bare pods, and {NO_WAY_IN}"

    def job_policies(
        self, cluster: Cluster, queues: Mapping[str, Sequence[str]]
    ) -> Mapping[str, dict[str, Any]]:
        """Return the policies that jobs name a queue, and pods too if Kueue admits pods."""
        policies = {"railhead-queued-job": queued_policy(queues)}
        if cluster.pod_groups:
            policies["railhead-queued-pod"] = queued_pod_policy(queues)
        return policies

    def rights(self) -> tuple[Right, ...]:
        """Return the rights to see why a job waits."""
        return (
            Right(
                group="kueue.x-k8s.io",
                resources=("workloads", "localqueues"),
                verbs=READ,
                personas=ALL,
                why="why a job waits",
            ),
            Right(
                group="visibility.kueue.x-k8s.io",
                resources=("localqueues/pendingworkloads",),
                verbs=("get",),
                personas=ALL,
                why="the place in the queue, of the namespace's own jobs",
            ),
        )

    def priority_rights(self, usual: Sequence[str], higher: Sequence[str]) -> tuple[Right, ...]:
        """Return the rights by the verb that the guard ``railhead-priority`` checks."""
        return (
            Right(
                group="kueue.x-k8s.io",
                resources=("workloadpriorityclasses",),
                verbs=(USE,),
                personas=SUBMITTING,
                names=tuple(usual),
                why="jobs that come no sooner than others",
            ),
            Right(
                group="kueue.x-k8s.io",
                resources=("workloadpriorityclasses",),
                verbs=(USE,),
                personas=LEADING,
                names=tuple(higher),
                why="jobs that come before others",
            ),
        )

    def cluster_rights(self) -> tuple[Right, ...]:
        """Return the rights to read queues and priorities."""
        return (
            Right(
                group="kueue.x-k8s.io",
                resources=("clusterqueues", "resourceflavors", "topologies"),
                verbs=READ,
                personas=ALL,
                why="what a queue has",
            ),
            Right(
                group="kueue.x-k8s.io",
                resources=("workloadpriorityclasses",),
                verbs=READ,
                personas=ALL,
                why="what a job may be called",
            ),
        )


SCHEDULER = Kueue()
