"""The interface of the schedulers that admit gangs: one :class:`Scheduler` each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from railhead.catalog.versions import Combination, Controller
from railhead.model.cluster import Cluster, Pool, QueueConfig
from railhead.resolve.rights import Right


class Queued(Protocol):
    """A scheduler's objects in which jobs wait."""

    def flavor(self, pool: str) -> str:
        """Return the name by which the scheduler knows a pool."""
        ...

    def objects(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield each object as (kind, object without ``apiVersion`` and ``kind``)."""
        ...


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The additions to a runtime's pods by which the scheduler takes, places and ends them.

    Args:
        node_selector: labels of nodes, in addition to the pool's.
        tolerations: tolerations, in addition to the job's.
        scheduler_name: the scheduler that binds them; None for the default scheduler.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    scheduler_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
    """The place where a job names its queue.

    Args:
        expression: CEL of the queue's name in ``object``, empty where it names none.
        place: the same place in words.
        without: what would happen to a job that names none, in words.
        field: the field of the job, such as ``spec.annotations``, if it is not a label.
    """

    expression: str
    place: str
    without: str
    field: str | None = None


@dataclass(frozen=True, kw_only=True)
class Unfinished:
    """A job that would be lost: the kind of its object, and CEL of ``params`` that it goes on."""

    api_version: str
    kind: str
    expression: str


class Scheduler(ABC):
    """A scheduler that admits gangs.

    Args:
        name: its name in a stack's file.
        title: its name in messages.
        pods: the label that all pods of admitted jobs have.
        ways_in: the kinds of job that it admits, in words.
        on_cpus: how to submit work without GPUs, to be added to a message about GPUs.
        deployments: Deployments without which no job starts -> their namespaces.
        unsaid: fields of a job file that it does not support -> why.
        kinds: kind of its objects -> their API and plural.
        workloads: whether each job has a Workload of Kueue.
        unfinished: how to recognize a job that still runs.
    """

    name: str
    title: str
    pods: str
    ways_in: str
    on_cpus: str
    deployments: Mapping[str, str]
    unsaid: Mapping[str, str]
    kinds: Mapping[str, tuple[str, str]]
    workloads: bool
    unfinished: Unfinished

    @abstractmethod
    def controller(self, combination: Combination) -> Controller:
        """Return its row of the catalogue."""

    @abstractmethod
    def queues(self, cluster: Cluster) -> Queued:
        """Return the objects in which jobs wait."""

    @abstractmethod
    def queue(self, config: QueueConfig) -> str:
        """Return the name that jobs of the queue's namespace give."""

    @abstractmethod
    def local_queues(self, cluster: Cluster, namespace: str) -> Mapping[str, str]:
        """Return LocalQueue -> the cluster-wide queue behind it, of a namespace."""

    @abstractmethod
    def placed(self, cluster: Cluster, pool: Pool, level: str) -> Placed:
        """Return what keeps pods within one value of the label ``level``, if possible."""

    @abstractmethod
    def runtime(self, cluster: Cluster) -> Mapping[str, Any]:
        """Return additions to the spec of a ClusterTrainingRuntime."""

    @abstractmethod
    def named(self, cluster: Cluster) -> Named:
        """Return the place where a TrainJob names its queue."""

    @abstractmethod
    def admitted(self, cluster: Cluster) -> str:
        """Return CEL that tests whether ``object``, a pod, was charged to a queue."""

    @abstractmethod
    def no_way_in(self, cluster: Cluster) -> str:
        """Return what it does not admit, to be added to a message about what it does."""

    @abstractmethod
    def job_policies(
        self, cluster: Cluster, queues: Mapping[str, Sequence[str]]
    ) -> Mapping[str, dict[str, Any]]:
        """Return guards of jobs other than TrainJobs; ``queues`` is namespace -> allowed names."""

    @abstractmethod
    def rights(self) -> tuple[Right, ...]:
        """Return what people may read in a namespace."""

    @abstractmethod
    def priority_rights(self, usual: Sequence[str], higher: Sequence[str]) -> tuple[Right, ...]:
        """Return who may name which priorities: the usual ones everyone, higher ones leads."""

    @abstractmethod
    def cluster_rights(self) -> tuple[Right, ...]:
        """Return what people may read outside of namespaces."""

    def names(self, cluster: Cluster, namespace: str) -> tuple[str, ...]:
        """Return the queues that a namespace's jobs may name."""
        own = [self.queue(q) for q in cluster.local_queues if q.namespace == namespace]
        return tuple(dict.fromkeys((*own, *self.local_queues(cluster, namespace))))
