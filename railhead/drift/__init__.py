"""What in a cluster differs from what its stack says.

The stack's word is its state: the inputs of each object as the last update gave them. Only fields
that the stack gives are compared, as server-side apply does: what the API server fills in, and what
controllers add, is theirs. Guards and controllers come first: without them nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from railhead.base.differences import differences, short

Object = dict[str, Any]

GUARDS = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
_RELEASE = "kubernetes:helm.sh/v3:Release"
_REFRESH = "`pulumi up --refresh` puts it back"


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
    remedy: str = _REFRESH


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


def objects(state: Mapping[str, Any]) -> list[Object]:
    """The Kubernetes objects of an exported state (`pulumi stack export`), as their inputs say."""
    return [
        dict(resource["inputs"])
        for resource in _resources(state)
        if str(resource["type"]).startswith("kubernetes:")
        and not str(resource["type"]).startswith("kubernetes:helm.sh/")
        and isinstance(resource["inputs"].get("metadata"), dict)
        and resource["inputs"].get("kind")
    ]


def releases(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(namespace, name) of each Helm release of an exported state."""
    return [
        (str(inputs.get("namespace", "default")), str(inputs["name"]))
        for resource in _resources(state)
        if resource["type"] == _RELEASE and (inputs := resource["inputs"]).get("name")
    ]


def _resources(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in (state.get("deployment") or {}).get("resources") or ():
        if resource.get("custom") and not resource.get("delete") and not resource.get("external"):
            yield {**resource, "inputs": resource.get("inputs") or {}}


def find(state: Mapping[str, Any], api: Api) -> list[Drift]:
    """Every difference between a stack's exported state and its cluster, the worst first.

    Raises:
        ApiError: the server refuses to be read.
        PrerequisiteError: it cannot be reached.
    """
    discovery = Discovery(api)
    ours = objects(state)
    found: list[Drift] = []
    for wanted in ours:
        found += _object(wanted, api, discovery)
    for namespace, name in releases(state):
        found += _release(namespace, name, api, discovery)
    found += _extra(ours, api, discovery)
    return sorted(found)


def _subject(body: Mapping[str, Any]) -> str:
    metadata = body["metadata"]
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{body['kind']} {where}{metadata.get('name')}"


def _object(wanted: Object, api: Api, discovery: Discovery) -> Iterator[Drift]:
    metadata = wanted["metadata"]
    name, namespace = metadata.get("name"), metadata.get("namespace")
    path = discovery.path(str(wanted["apiVersion"]), str(wanted["kind"]), namespace or "default")
    live = api.find(f"{path}/{name}") if path else None
    guard = wanted["kind"] in GUARDS
    if live is None:
        yield Drift(
            severity=Severity.GUARD if guard else Severity.GONE,
            subject=_subject(wanted),
            stack="there",
            live="gone",
        )
        return
    for field, says, has in differences(wanted, live):
        plain = Severity.CHANGED if says else Severity.ADDED
        yield Drift(
            severity=Severity.GUARD if guard else plain,
            subject=_subject(wanted),
            field=field,
            stack=says,
            live=has,
            remedy=_REFRESH if says else f"{_REFRESH}, or leaves it to whoever added it: see there",
        )


def _release(namespace: str, name: str, api: Api, discovery: Discovery) -> Iterator[Drift]:
    """Controllers of a release that are not there, or scaled to nothing.

    Helm marks what it makes with the release's name (helm v3, pkg/action/validate.go).
    """
    path = discovery.path("apps/v1", "Deployment", namespace)
    made = [
        one
        for one in (api.list(path) if path else [])
        if (one["metadata"].get("annotations") or {}).get("meta.helm.sh/release-name") == name
    ]
    for one in made:
        if one["spec"].get("replicas", 1) == 0:
            yield Drift(
                severity=Severity.GUARD,
                subject=f"Deployment {namespace}/{one['metadata']['name']}",
                field="spec.replicas",
                stack="what the chart says",
                live="0",
                remedy=f"kubectl -n {namespace} scale deployment {one['metadata']['name']} "
                "--replicas=1: the engine does not look into a Helm release",
            )
    secrets = discovery.path("v1", "Secret", namespace)
    selector = f"owner=helm,name={name},status=deployed"
    if secrets and not api.list(secrets, selector=selector):
        yield Drift(
            severity=Severity.GUARD,
            subject=f"Release {namespace}/{name}",
            stack="deployed",
            live="gone",
        )


# Kinds of which one more changes who may do what, or what is handed out.
_WATCHED = (
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
)


def _extra(ours: Sequence[Object], api: Api, discovery: Discovery) -> Iterator[Drift]:
    known = {(o["kind"], o["metadata"].get("namespace"), o["metadata"].get("name")) for o in ours}
    kinds = {kind for kind, _, _ in known}
    namespaces = {name for kind, _, name in known if kind == "Namespace"}
    people = {
        subject.get("name")
        for o in ours
        if o["kind"] in ("RoleBinding", "ClusterRoleBinding")
        for subject in o.get("subjects") or ()
        if subject.get("kind") == "Group"
    }
    for version, kind in _WATCHED:
        path = discovery.path(version, kind) if kind in kinds else None
        for one in api.list(path) if path else []:
            metadata = one["metadata"]
            at = (kind, metadata.get("namespace"), metadata["name"])
            if at in known or metadata.get("ownerReferences") or _of_helm(metadata):
                continue
            subjects = {s.get("name") for s in one.get("subjects") or ()}
            bound = kind in ("RoleBinding", "ClusterRoleBinding") and not subjects & people
            if bound and metadata.get("namespace") not in namespaces:
                continue
            if kind == "LocalQueue" and metadata.get("namespace") not in namespaces:
                continue
            yield Drift(
                severity=Severity.ADDED,
                subject=_subject({"kind": kind, "metadata": metadata}),
                live=short(one.get("roleRef", {}).get("name") or "there"),
                remedy="no update removes it: delete it, or take it into the stack",
            )


def _of_helm(metadata: Mapping[str, Any]) -> bool:
    return (metadata.get("labels") or {}).get("app.kubernetes.io/managed-by") == "Helm"
