"""One difference, and how a cluster's objects are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

Object = dict[str, Any]

GUARDS = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
REFRESH = "`pulumi up --refresh` puts it back"
# Kueue keeps one for as long as another object names it (kueue, pkg/controller/core), which the
# stack's objects do for ever.
_WITHOUT_DATA = frozenset({"ClusterQueue", "ResourceFlavor", "Topology"})
# Fields that the API server never changes, and for which the engine recreates no object. They
# differ if a user deleted the object and created another (kubernetes, pkg/apis/scheduling and
# storage, validation.go; kueue v1beta2, the types' rules).
_AS_MADE = {
    "LocalQueue": ("spec.clusterQueue",),
    "PriorityClass": ("value", "preemptionPolicy"),
    "ResourceFlavor": ("spec",),
    "StorageClass": ("reclaimPolicy", "volumeBindingMode"),
    "Topology": ("spec.levels",),
}


class Severity(IntEnum):
    """Severity of a difference; the worst first."""

    GUARD = 0
    GONE = 1
    CHANGED = 2
    ADDED = 3


@dataclass(frozen=True, kw_only=True, order=True)
class Drift:
    """One difference.

    Args:
        severity: how bad.
        subject: kind, namespace and name of the object.
        field: path in it; empty for the whole object.
        stack: what the stack says; empty for what it does not say.
        live: what the cluster has; empty for what it lacks.
        remedy: what puts it right.
    """

    severity: Severity
    subject: str
    field: str = ""
    stack: str = ""
    live: str = ""
    remedy: str = REFRESH


class Api(Protocol):
    """The part of a cluster's client that is needed."""

    def find(self, path: str) -> Object | None:
        """Return an object; None if it does not exist."""

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[Object]:
        """Return all objects of a list."""


class Discovery:
    """Finds where objects of a kind are served."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    def path(self, version: str, kind: str, namespace: str | None = None) -> str | None:
        """Return the URL path of a kind's list; None where the server does not know the kind."""
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._known:
            served = (self._api.find(base) or {}).get("resources") or []
            self._known[version] = {
                str(item["kind"]): (str(item["name"]), bool(item["namespaced"]))
                for item in served
                if "/" not in str(item["name"])
            }
        result = self._known[version].get(kind)
        if result is None:
            return None
        plural, namespaced = result
        if namespaced and namespace is not None:
            return f"{base}/namespaces/{namespace}/{plural}"
        return f"{base}/{plural}"


def gone(wanted: Mapping[str, Any], *, guard: bool) -> Drift:
    """Return an object that should be there and is not."""
    return Drift(
        severity=Severity.GUARD if guard else Severity.GONE,
        subject=subject(wanted),
        stack="there",
        live="gone",
    )


def leaving(live: Mapping[str, Any]) -> Drift | None:
    """Return an object that was deleted but is still held by finalizers; None for any other."""
    metadata = live["metadata"]
    since = metadata.get("deletionTimestamp")
    if not since:
        return None
    kept = metadata.get("finalizers") or (live.get("spec") or {}).get("finalizers")
    held = ", ".join(kept or ()) or "its grace period"
    at_once = (
        f"; or at once, for it holds no data: kubectl patch {named(live)} --type merge "
        """-p '{"metadata":{"finalizers":null}}'"""
        if live["kind"] in _WITHOUT_DATA
        else ""
    )
    return Drift(
        severity=Severity.GONE,
        subject=subject(live),
        field="metadata.deletionTimestamp",
        stack="there",
        live=f"being deleted since {since}, held by {held}",
        remedy="nothing takes a deletion back: it ends when what uses the object does (jobs, pods, "
        f"quota){at_once}; then {REFRESH}",
    )


def refreshed(wanted: Mapping[str, Any], field: str) -> str:
    """Return the way back of a field that the stack gives."""
    if field.startswith(_AS_MADE.get(wanted["kind"], ())):
        return f"it cannot be changed in place: kubectl delete {named(wanted)}, then {REFRESH}"
    if ".volumes[" in field:
        return f"{REFRESH}; of another kind of volume kubectl delete {named(wanted)} before it"
    return REFRESH


def taken_out(live: Mapping[str, Any]) -> str:
    """Return how to remove what was added to an object."""
    return f"no update takes it out: kubectl edit {named(live)}"


def named(body: Mapping[str, Any]) -> str:
    """Return an object as kubectl's arguments name it."""
    metadata = body["metadata"]
    within = f"-n {metadata['namespace']} " if metadata.get("namespace") else ""
    return f"{within}{body['kind'].lower()} {metadata['name']}"


def subject(body: Mapping[str, Any]) -> str:
    """Return kind, namespace and name of an object."""
    metadata = body["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{body['kind']} {where}{metadata.get('name')}"
