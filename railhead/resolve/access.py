"""Who may do what: the rights of each persona, as rules of RBAC.

One table for each scope, in which every right says why it is there; roles, the page docs/access.md
and its test are made of them. What is not listed is refused, and nothing is listed with a star.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from railhead.model.cluster import Cluster

Persona = Literal["leads", "researchers", "viewers"]
PERSONAS: tuple[Persona, ...] = get_args(Persona)

READ = ("get", "list", "watch")
#: The verb by which a job may name a priority; the API server itself knows nothing of it, and the
#: guard ``railhead-priority`` asks for it.
USE = "use"

_ALL: frozenset[Persona] = frozenset(PERSONAS)
_SUBMITTING: frozenset[Persona] = frozenset({"leads", "researchers"})
_LEADING: frozenset[Persona] = frozenset({"leads"})


@dataclass(frozen=True, kw_only=True)
class Right:
    """Verbs on resources of one API group, for some personas.

    Args:
        group: the API group, empty for the core's.
        names: only objects of these names; empty for all.
        why: what it is for, for people.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    personas: frozenset[Persona]
    why: str
    names: tuple[str, ...] = ()

    def rule(self) -> dict[str, Any]:
        """As a rule of a Role."""
        made: dict[str, Any] = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return made | ({"resourceNames": list(self.names)} if self.names else {})


@dataclass(frozen=True, kw_only=True)
class Access:
    """A role and whom it is bound to; without groups it is made and nobody has it."""

    persona: Persona
    groups: tuple[str, ...]
    rules: tuple[Mapping[str, Any], ...]


def members(cluster: Cluster, namespace: str) -> dict[Persona, tuple[str, ...]]:
    """Persona -> its groups, of a training namespace: the team's own, or the stack's."""
    team, own = cluster.team_of(namespace), cluster.access
    if team is not None:
        return {"leads": team.leads, "researchers": team.researchers, "viewers": team.viewers}
    return {"leads": own.leads, "researchers": (cluster.researchers,), "viewers": own.viewers}


def rights(cluster: Cluster, namespace: str) -> tuple[Right, ...]:
    """What is allowed in a training namespace."""
    inside: frozenset[Persona] = {
        "researchers": _SUBMITTING,
        "leads": _LEADING,
        "nobody": frozenset[Persona](),
    }[cluster.access.exec]
    found = (
        Right(
            group="trainer.kubeflow.org",
            resources=("trainjobs",),
            verbs=READ,
            personas=_ALL,
            why="what runs and what became of it",
        ),
        Right(
            group="jobset.x-k8s.io",
            resources=("jobsets",),
            verbs=READ,
            personas=_ALL,
            why="what a job became",
        ),
        Right(
            group="batch", resources=("jobs",), verbs=READ, personas=_ALL, why="what a job became"
        ),
        Right(
            group="kueue.x-k8s.io",
            resources=("workloads", "localqueues"),
            verbs=READ,
            personas=_ALL,
            why="why a job waits",
        ),
        Right(
            group="visibility.kueue.x-k8s.io",
            resources=("localqueues/pendingworkloads",),
            verbs=("get",),
            personas=_ALL,
            why="the place in the queue, of the namespace's own jobs",
        ),
        Right(
            group="",
            resources=("pods", "events", "persistentvolumeclaims"),
            verbs=READ,
            personas=_ALL,
            why="how the pods of a job are, and what they wait for",
        ),
        Right(group="", resources=("pods/log",), verbs=("get",), personas=_ALL, why="logs"),
        Right(
            group="",
            resources=("resourcequotas", "limitranges"),
            verbs=READ,
            personas=_ALL,
            why="what the namespace may hold",
        ),
        Right(
            group="trainer.kubeflow.org",
            resources=("trainjobs",),
            verbs=("create", "patch", "delete"),
            personas=_SUBMITTING,
            why="submit, suspend and cancel",
        ),
        Right(
            group="jobset.x-k8s.io",
            resources=("jobsets",),
            verbs=("create", "patch", "delete"),
            personas=_SUBMITTING,
            why="the same for a job without a runtime",
        ),
        Right(
            group="",
            resources=("configmaps",),
            verbs=("get", "create", "patch", "delete"),
            personas=_SUBMITTING,
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
            personas=_LEADING,
            why="let a stuck gang start again",
        ),
        Right(
            group="",
            resources=("secrets",),
            verbs=("create",),
            personas=_LEADING,
            why="keys that jobs mount; nobody reads them back through the API",
        ),
        *_priorities(cluster, namespace),
    )
    return tuple(right for right in found if right.personas)


def _priorities(cluster: Cluster, namespace: str) -> tuple[Right, ...]:
    """Everybody may ask for no more than what a job gets that asks for nothing; leads for all."""
    team = cluster.team_of(namespace)
    values = {priority.name: priority.value for priority in cluster.priorities}
    # A job without a priority has the value 0 (kueue, pkg/constants, DefaultPriority).
    usual = values.get(team.priority, 0) if team is not None else 0
    found = (
        Right(
            group="kueue.x-k8s.io",
            resources=("workloadpriorityclasses",),
            verbs=(USE,),
            personas=_SUBMITTING,
            names=tuple(name for name, value in values.items() if value <= usual),
            why="jobs that come no sooner than others",
        ),
        Right(
            group="kueue.x-k8s.io",
            resources=("workloadpriorityclasses",),
            verbs=(USE,),
            personas=_LEADING,
            names=tuple(name for name, value in values.items() if value > usual),
            why="jobs that come before others",
        ),
    )
    # Without names a rule is of all of them.
    return tuple(right for right in found if right.names)


def cluster_rights() -> tuple[Right, ...]:
    """What is allowed beside the namespaces: reading what jobs refer to."""
    return (
        Right(
            group="trainer.kubeflow.org",
            resources=("clustertrainingruntimes",),
            verbs=READ,
            personas=_ALL,
            why="what a job may run in",
        ),
        Right(
            group="kueue.x-k8s.io",
            resources=("clusterqueues", "resourceflavors", "topologies"),
            verbs=READ,
            personas=_ALL,
            why="what a queue has",
        ),
        Right(
            group="kueue.x-k8s.io",
            resources=("workloadpriorityclasses",),
            verbs=READ,
            personas=_ALL,
            why="what a job may be called",
        ),
        Right(
            group="",
            resources=("nodes",),
            verbs=("get", "list"),
            personas=_SUBMITTING,
            why="launching looks whether enough nodes are what the contract promises",
        ),
    )


def _of(persona: Persona, groups: tuple[str, ...], listed: Sequence[Right]) -> Access:
    rules = tuple(right.rule() for right in listed if persona in right.personas)
    return Access(persona=persona, groups=groups, rules=rules)


def namespace_access(cluster: Cluster, namespace: str) -> tuple[Access, ...]:
    """The roles of a training namespace, of those personas that somebody is."""
    groups, listed = members(cluster, namespace), rights(cluster, namespace)
    return tuple(_of(persona, groups[persona], listed) for persona in PERSONAS if groups[persona])


def cluster_access(cluster: Cluster) -> tuple[Access, ...]:
    """The roles beside the namespaces, each bound to the groups of every namespace."""
    everybody = [members(cluster, namespace) for namespace in cluster.training_namespaces]
    listed = cluster_rights()
    groups = {p: tuple(dict.fromkeys(g for one in everybody for g in one[p])) for p in PERSONAS}
    return tuple(_of(persona, groups[persona], listed) for persona in PERSONAS if groups[persona])
