"""Resolves a parsed stack into all that the other parts read: :func:`resolve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.contract import ClusterContract
from railhead.model.cluster import Cluster
from railhead.resolve.access import Access, cluster_access
from railhead.resolve.contract import build
from railhead.resolve.ending import ending
from railhead.resolve.guards import Guard, guards
from railhead.resolve.keepers import keepers
from railhead.resolve.made import made
from railhead.resolve.namespaces import Namespace, namespaces
from railhead.resolve.runtimes import ResolvedRuntime, runtimes
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.schedulers.base import Queued
from railhead.resolve.watching import Watching, watching


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A stack, resolved. Pure data: components make resources of it and decide nothing.

    Args:
        cluster: the stack as it was parsed.
        runtimes: the runtimes of jobs, each with its pool, its wiring and its pods.
        queues: the queues in which jobs wait.
        guards: name -> guard by which the API server refuses objects.
        ending: those that stop `destroy` while jobs run, the first things to be deleted.
        namespaces: the training namespaces with their contents.
        access: the rights of people outside of their namespaces.
        contract: the facts about the cluster that users can read.
        watching: the monitoring of the cluster; None if the stack has none.
    """

    cluster: Cluster
    runtimes: tuple[ResolvedRuntime, ...]
    queues: Queued
    guards: Mapping[str, Guard]
    ending: Mapping[str, Guard]
    namespaces: tuple[Namespace, ...]
    access: tuple[Access, ...]
    contract: ClusterContract
    watching: Watching | None


def resolve(cluster: Cluster) -> Resolved:
    """Resolve a stack's file; the one place that puts all the parts together.

    Raises:
        InputError: its contract would not fit into a ConfigMap.
    """
    of, waiting = runtimes(cluster), scheduler_of(cluster).queues(cluster)
    refused, spaces = guards(cluster, of) | keepers(cluster), namespaces(cluster, of)
    last = ending(cluster)
    every = refused | last
    return Resolved(
        cluster=cluster,
        runtimes=of,
        queues=waiting,
        guards=refused,
        ending=last,
        namespaces=spaces,
        access=cluster_access(cluster),
        contract=build(cluster, of, waiting),
        watching=watching(cluster, spaces, list(every), made(every, waiting, spaces, of)),
    )
