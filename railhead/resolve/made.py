"""Objects of a stack whose edit stops nothing at once and nobody sees: guards, queues, runtimes.

Each as the stack gives it, for a program in the cluster that may list them and read no state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.names import TRAINER_API
from railhead.model.cluster import Cluster
from railhead.resolve.guards import Guard
from railhead.resolve.namespaces import Namespace
from railhead.resolve.runtimes import ResolvedRuntime
from railhead.resolve.schedulers import SCHEDULERS, scheduler_of
from railhead.resolve.schedulers.base import Queued

_ADMISSION = "admissionregistration.k8s.io/v1"
#: Kind -> its API and the plural under which it is served.
KINDS: Mapping[str, tuple[str, str]] = {
    "ValidatingAdmissionPolicy": (_ADMISSION, "validatingadmissionpolicies"),
    "ValidatingAdmissionPolicyBinding": (_ADMISSION, "validatingadmissionpolicybindings"),
    **{kind: row for scheduler in SCHEDULERS.values() for kind, row in scheduler.kinds.items()},
    "ClusterTrainingRuntime": (TRAINER_API, "clustertrainingruntimes"),
}


def kinds(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """Return the :data:`KINDS` that a stack may have, so of schedulers only its own."""
    others = {kind for scheduler in SCHEDULERS.values() for kind in scheduler.kinds}
    others -= set(scheduler_of(cluster).kinds)
    return {kind: row for kind, row in KINDS.items() if kind not in others}


@dataclass(frozen=True, kw_only=True)
class ObjectsOfKind:
    """The stack's objects of one kind.

    Args:
        kind: of :data:`KINDS`.
        objects: each without ``apiVersion`` and ``kind``, which elements of a list lack too.
    """

    kind: str
    objects: tuple[Mapping[str, Any], ...]

    @property
    def path(self) -> str:
        """Path under which the API server lists the objects of all namespaces."""
        api, plural = KINDS[self.kind]
        return f"/apis/{api}/{plural}"


def made(
    guards: Mapping[str, Guard],
    queues: Queued,
    namespaces: Sequence[Namespace],
    runtimes: Sequence[ResolvedRuntime],
) -> tuple[ObjectsOfKind, ...]:
    """Return all objects by kind, without kinds that the stack does not have."""
    objects_of: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in KINDS}
    for kind, body in (
        *_guards(guards),
        *queues.objects(),
        *(
            ("LocalQueue", {"metadata": {"name": name, "namespace": space.name}, "spec": spec})
            for space in namespaces
            for name, spec in space.queues.items()
        ),
        *(
            (
                "ClusterTrainingRuntime",
                {
                    "metadata": {"name": runtime.name, "labels": runtime.labels},
                    "spec": runtime.spec,
                },
            )
            for runtime in runtimes
        ),
    ):
        objects_of[kind].append(body)
    return tuple(
        ObjectsOfKind(kind=kind, objects=tuple(those))
        for kind, those in objects_of.items()
        if those
    )


def manifests(guards: Mapping[str, Guard]) -> Iterator[dict[str, Any]]:
    """Yield each guard's policy and then its bindings as whole objects, as `kubectl` takes them."""
    for kind, body in _guards(guards):
        yield {"apiVersion": _ADMISSION, "kind": kind, **body}


def _guards(guards: Mapping[str, Guard]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, guard in guards.items():
        yield "ValidatingAdmissionPolicy", _named(name, guard.policy)
        for bound, spec in guard.bound(name).items():
            yield "ValidatingAdmissionPolicyBinding", _named(bound, spec)


def _named(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}
