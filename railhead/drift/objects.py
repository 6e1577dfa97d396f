"""One difference, and how a cluster's objects are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

Object = dict[str, Any]

GUARDS = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
REFRESH = "`pulumi up --refresh` puts it back"


class Severity(IntEnum):
    """How bad; the worst first."""

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
        """An object; None where there is none."""

    def list(self, path: str, *, selector: str = "", fields: str = "") -> list[Object]:
        """All objects of a list."""


class Discovery:
    """Where objects of a kind are served."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    def path(self, version: str, kind: str, namespace: str | None = None) -> str | None:
        """The URL path of a kind's list; None where the server does not know the kind."""
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._known:
            served = (self._api.find(base) or {}).get("resources") or []
            self._known[version] = {
                str(one["kind"]): (str(one["name"]), bool(one["namespaced"]))
                for one in served
                if "/" not in str(one["name"])
            }
        found = self._known[version].get(kind)
        if found is None:
            return None
        plural, namespaced = found
        if namespaced and namespace is not None:
            return f"{base}/namespaces/{namespace}/{plural}"
        return f"{base}/{plural}"


def gone(wanted: Mapping[str, Any], *, guard: bool) -> Drift:
    """An object that should be there and is not."""
    return Drift(
        severity=Severity.GUARD if guard else Severity.GONE,
        subject=subject(wanted),
        stack="there",
        live="gone",
    )


def subject(body: Mapping[str, Any]) -> str:
    """Kind, namespace and name of an object."""
    metadata = body["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{body['kind']} {where}{metadata.get('name')}"
