"""From a parsed stack to all that everything else reads: :func:`resolve`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.contract import ClusterContract
from railhead.model.cluster import Cluster
from railhead.resolve.access import Access, cluster_access
from railhead.resolve.contract import build
from railhead.resolve.guards import Guard, guards
from railhead.resolve.keepers import keepers
from railhead.resolve.made import made
from railhead.resolve.namespaces import Namespace, namespaces
from railhead.resolve.runtimes import Runtime, runtimes
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.schedulers.base import Queued
from railhead.resolve.watching import Watching, watching


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A stack, resolved. Pure data: components make resources of it and decide nothing.

    Args:
        cluster: the stack as it was parsed.
        runtimes: what jobs run in, each with its pool, its wiring and its pods.
        queues: what jobs wait in.
        guards: name -> what the API server refuses.
        namespaces: what jobs have around them.
        access: what people may read beside their namespaces.
        contract: what users are told of all of it.
        watching: what watches the cluster; None where the stack has nothing of it.
    """

    cluster: Cluster
    runtimes: tuple[Runtime, ...]
    queues: Queued
    guards: Mapping[str, Guard]
    namespaces: tuple[Namespace, ...]
    access: tuple[Access, ...]
    contract: ClusterContract
    watching: Watching | None


def resolve(cluster: Cluster) -> Resolved:
    """What follows from a stack's file; the one place that puts it together."""
    of, waiting = runtimes(cluster), scheduler_of(cluster).queues(cluster)
    refused, spaces = guards(cluster, of) | keepers(cluster), namespaces(cluster, of)
    return Resolved(
        cluster=cluster,
        runtimes=of,
        queues=waiting,
        guards=refused,
        namespaces=spaces,
        access=cluster_access(cluster),
        contract=build(cluster, of, waiting),
        watching=watching(cluster, spaces, list(refused), made(refused, waiting, spaces, of)),
    )
