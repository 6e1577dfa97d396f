"""Objects of a stack whose edit stops nothing at once and nobody sees: guards, queues, runtimes.

Each as the stack gives it, for a program in the cluster that may list them and read no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import KUEUE_API, TRAINER_API
from railhead.resolve.guards import Guard
from railhead.resolve.namespaces import Namespace
from railhead.resolve.queues import Queues
from railhead.resolve.runtimes import Runtime

_ADMISSION = "admissionregistration.k8s.io/v1"
#: Kind -> its API and the plural under which it is served.
KINDS: Mapping[str, tuple[str, str]] = {
    "ValidatingAdmissionPolicy": (_ADMISSION, "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (_ADMISSION, "validatingadmissionpolicybindings"),
    "Topology": (KUEUE_API, "topologies"),
    "ResourceFlavor": (KUEUE_API, "resourceflavors"),
    "Cohort": (KUEUE_API, "cohorts"),
    "ClusterQueue": (KUEUE_API, "clusterqueues"),
    "LocalQueue": (KUEUE_API, "localqueues"),
    "WorkloadPriorityClass": (KUEUE_API, "workloadpriorityclasses"),
    "ClusterTrainingRuntime": (TRAINER_API, "clustertrainingruntimes"),
}


@dataclass(frozen=True, kw_only=True)
class Made:
    """The stack's objects of one kind.

    Args:
        kind: of :data:`KINDS`.
        objects: each without ``apiVersion`` and ``kind``, which elements of a list lack too.
    """

    kind: str
    objects: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> str:
        """Where the API server lists them, those of every namespace together."""
        api, plural = KINDS[self.kind]
        return f"/apis/{api}/{plural}"


def made(
    guards: Mapping[str, Guard],
    queues: Queues,
    namespaces: Sequence[Namespace],
    runtimes: Sequence[Runtime],
) -> tuple[Made, ...]:
    """All of them, by kind; none of a kind that the stack does not have."""
    found: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in KINDS}
    for kind, body in (
        *_guards(guards),
        *_queues(queues),
        *(
            ("LocalQueue", {"metadata": {"name": name, "namespace": space.name}, "spec": spec})
            for space in namespaces
            for name, spec in space.queues.items()
        ),
        *(
            (
                "ClusterTrainingRuntime",
                {"metadata": {"name": one.name, "labels": one.labels}, "spec": one.spec},
            )
            for one in runtimes
        ),
    ):
        found[kind].append(body)
    return tuple(Made(kind=kind, objects=tuple(those)) for kind, those in found.items() if those)


def _guards(guards: Mapping[str, Guard]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, guard in guards.items():
        yield "ValidatingAdmissionPolicy", _named(name, guard.policy)
        for bound, spec in guard.bound(name).items():
            yield "ValidatingAdmissionPolicyBinding", _named(bound, spec)


def _queues(queues: Queues) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "Topology", _named(queues.topology, queues.levels)
    for flavor in queues.flavors.values():
        yield "ResourceFlavor", _named(flavor.name, flavor.spec)
    if queues.cohort is not None:
        yield "Cohort", _named(queues.cohort.name, queues.cohort.spec)
    for queue in queues.cluster_queues:
        yield "ClusterQueue", _named(queue.name, queue.spec)
    for name, fields in queues.priorities.items():
        yield "WorkloadPriorityClass", {"metadata": {"name": name}, **fields}


def _named(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}
