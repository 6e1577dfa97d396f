"""Rights of each persona, as rules of RBAC.

One table for each scope, in which every right has its reason; the roles, the page docs/access.md
and its test come from them. What is not listed is refused, and nothing is listed with a star.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.model.cluster import Cluster
from railhead.resolve.rights import (
    ALL,
    LEADING,
    PERSONAS,
    READ,
    SUBMITTING,
    Persona,
    Right,
)
from railhead.resolve.schedulers import scheduler_of


@dataclass(frozen=True, kw_only=True)
class Access:
    """A role and whom it is bound to; without groups it is made and nobody has it."""

    persona: Persona
    groups: tuple[str, ...]
    rules: tuple[Mapping[str, Any], ...]


def members(cluster: Cluster, namespace: str) -> dict[Persona, tuple[str, ...]]:
    """Return persona -> its groups in a training namespace: the team's own, or the stack's."""
    team, own = cluster.team_of(namespace), cluster.access
    if team is not None:
        return {"leads": team.leads, "researchers": team.researchers, "viewers": team.viewers}
    return {"leads": own.leads, "researchers": (cluster.researchers,), "viewers": own.viewers}


def rights(cluster: Cluster, namespace: str) -> tuple[Right, ...]:
    """Return the rights in a training namespace."""
    inside: frozenset[Persona] = {
        "researchers": SUBMITTING,
        "leads": LEADING,
        "nobody": frozenset[Persona](),
    }[cluster.access.exec]
    listed = (
        Right(
            group="trainer.kubeflow.org",
            resources=("trainjobs",),
            verbs=READ,
            personas=ALL,
            why="what runs and what became of it",
        ),
        Right(
            group="jobset.x-k8s.io",
            resources=("jobsets",),
            verbs=READ,
            personas=ALL,
            why="what a job became",
        ),
        Right(
            group="batch", resources=("jobs",), verbs=READ, personas=ALL, why="what a job became"
        ),
        *scheduler_of(cluster).rights(),
        Right(
            group="",
            resources=("pods", "events", "persistentvolumeclaims"),
            verbs=READ,
            personas=ALL,
            why="how the pods of a job are, and what they wait for",
        ),
        Right(group="", resources=("pods/log",), verbs=("get",), personas=ALL, why="logs"),
        Right(
            group="",
            resources=("resourcequotas", "limitranges"),
            verbs=READ,
            personas=ALL,
            why="what the namespace may hold",
        ),
        Right(
            group="trainer.kubeflow.org",
            resources=("trainjobs",),
            verbs=("create", "patch", "delete"),
            personas=SUBMITTING,
            why="submit, suspend and cancel",
        ),
        Right(
            group="jobset.x-k8s.io",
            resources=("jobsets",),
            verbs=("create", "patch", "delete"),
            personas=SUBMITTING,
            why="the same for a job without a runtime",
        ),
        Right(
            group="",
            resources=("configmaps",),
            verbs=("get", "create", "patch", "delete"),
            personas=SUBMITTING,
            why="a job's small files travel in one that the job owns",
        ),
        Right(
            group="",
            resources=("pods/exec", "pods/portforward"),
            # Over a web socket it is a get, over SPDY a create (apiserver, before 1.35).
            verbs=("get", "create"),
            personas=inside,
            why="look into a running rank, as `access.exec` says",
        ),
        Right(
            group="",
            resources=("pods",),
            verbs=("delete",),
            personas=LEADING,
            why="let a stuck gang start again",
        ),
        Right(
            group="",
            resources=("secrets",),
            verbs=("create",),
            personas=LEADING,
            why="keys that jobs mount; nobody reads them back through the API",
        ),
        *_priorities(cluster, namespace),
    )
    return tuple(right for right in listed if right.personas)


def _priorities(cluster: Cluster, namespace: str) -> tuple[Right, ...]:
    """Return who may name which priorities: everyone up to the default, leads any."""
    team = cluster.team_of(namespace)
    values = {priority.name: priority.value for priority in cluster.priorities}
    # A job without a priority has the value 0 (kueue, pkg/constants, DefaultPriority).
    usual = values.get(team.priority, 0) if team is not None else 0
    priority_rights = scheduler_of(cluster).priority_rights(
        usual=[name for name, value in values.items() if value <= usual],
        higher=[name for name, value in values.items() if value > usual],
    )
    # A rule without names would allow every name.
    return tuple(right for right in priority_rights if right.names)


def cluster_rights(cluster: Cluster) -> tuple[Right, ...]:
    """Return the rights outside of namespaces: reading what jobs refer to."""
    return (
        Right(
            group="trainer.kubeflow.org",
            resources=("clustertrainingruntimes",),
            verbs=READ,
            personas=ALL,
            why="what a job may run in",
        ),
        *scheduler_of(cluster).cluster_rights(),
        Right(
            group="",
            resources=("nodes",),
            verbs=("get", "list"),
            personas=SUBMITTING,
            why="launching looks whether enough nodes are what the contract promises",
        ),
    )


def _of(persona: Persona, groups: tuple[str, ...], listed: Sequence[Right]) -> Access:
    rules = tuple(right.rule() for right in listed if persona in right.personas)
    return Access(persona=persona, groups=groups, rules=rules)


def namespace_access(cluster: Cluster, namespace: str) -> tuple[Access, ...]:
    """Return the roles of a training namespace, of those personas that have groups."""
    groups, listed = members(cluster, namespace), rights(cluster, namespace)
    return tuple(_of(persona, groups[persona], listed) for persona in PERSONAS if groups[persona])


def cluster_access(cluster: Cluster) -> tuple[Access, ...]:
    """Return the roles beside the namespaces, each bound to the groups of every namespace."""
    everybody = [members(cluster, namespace) for namespace in cluster.training_namespaces]
    listed = cluster_rights(cluster)
    groups = {p: tuple(dict.fromkeys(g for space in everybody for g in space[p])) for p in PERSONAS}
    return tuple(_of(persona, groups[persona], listed) for persona in PERSONAS if groups[persona])
