"""What differs between the schedulers that admit gangs: one :class:`Scheduler` each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from railhead.catalog.versions import Combination, Controller
from railhead.model.cluster import Cluster, Pool, QueueConfig
from railhead.resolve.rights import Right


class Queued(Protocol):
    """What jobs wait in, as a scheduler's objects."""

    def flavor(self, pool: str) -> str:
        """By which name the scheduler knows a pool."""
        ...

    def objects(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """(kind, object without ``apiVersion`` and ``kind``) of each."""
        ...


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What a runtime's pods have so that the scheduler takes, places and ends them.

    Args:
        node_selector: besides the pool's own labels.
        tolerations: besides the job's own.
        scheduler_name: who binds them; None for the default scheduler.
    """

    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Any], ...] = ()
    scheduler_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Named:
    """Where a job says its queue.

    Args:
        expression: CEL of the queue's name in ``object``, empty where it names none.
        place: the same in words.
        without: what becomes of a job that names none.
        field: of the job, such as ``spec.annotations``, where that is none of its labels.
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
    """Who admits gangs.

    Args:
        name: in a stack's file.
        title: for people.
        pods: the label that all pods of admitted jobs have.
        ways_in: the kinds of job that it admits, in words.
        on_cpus: how to submit work without GPUs, after what is to be said of work with them.
        deployments: without which no job starts -> their namespaces, as its chart names them.
        unsaid: fields of a job file that it has no word for -> why.
        kinds: of its objects -> their API and the plural under which it is served.
        workloads: whether each job has a Workload of Kueue.
        unfinished: what shows that a job goes on.
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
        """Its row of the catalogue."""

    @abstractmethod
    def queues(self, cluster: Cluster) -> Queued:
        """What jobs wait in."""

    @abstractmethod
    def queue(self, config: QueueConfig) -> str:
        """What jobs of a queue's namespace name."""

    @abstractmethod
    def local_queues(self, cluster: Cluster, namespace: str) -> Mapping[str, str]:
        """LocalQueue -> what is behind it, of a namespace."""

    @abstractmethod
    def placed(self, cluster: Cluster, pool: Pool, level: str) -> Placed:
        """What pods have that are to be within one value of the label ``level`` where possible."""

    @abstractmethod
    def runtime(self, cluster: Cluster) -> Mapping[str, Any]:
        """What the spec of a ClusterTrainingRuntime has besides."""

    @abstractmethod
    def named(self, cluster: Cluster) -> Named:
        """Where a TrainJob says its queue."""

    @abstractmethod
    def admitted(self, cluster: Cluster) -> str:
        """CEL: whether ``object``, a pod, was charged to a queue."""

    @abstractmethod
    def no_way_in(self, cluster: Cluster) -> str:
        """What it does not admit, after what is to be said of what it does."""

    @abstractmethod
    def job_policies(
        self, cluster: Cluster, queues: Mapping[str, Sequence[str]]
    ) -> Mapping[str, dict[str, Any]]:
        """Guards of jobs besides TrainJobs; ``queues`` is namespace -> names that jobs may give."""

    @abstractmethod
    def rights(self) -> tuple[Right, ...]:
        """What people may read in a namespace."""

    @abstractmethod
    def priority_rights(self, usual: Sequence[str], higher: Sequence[str]) -> tuple[Right, ...]:
        """Who may name which priorities: those for everybody, and those for leads alone."""

    @abstractmethod
    def cluster_rights(self) -> tuple[Right, ...]:
        """What people may read beside the namespaces."""

    def names(self, cluster: Cluster, namespace: str) -> tuple[str, ...]:
        """Queues that a namespace's jobs may name."""
        own = [self.queue(q) for q in cluster.local_queues if q.namespace == namespace]
        return tuple(dict.fromkeys((*own, *self.local_queues(cluster, namespace))))
