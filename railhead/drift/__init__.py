"""What in a cluster differs from what its stack says.

The stack's word is its state: the inputs of each object as the last update gave them. Only fields
that the stack gives are compared, as server-side apply does, and those that would undo the object:
what the API server fills in, and what controllers add, is theirs. What a Helm release made is held
against the manifest that Helm keeps. Guards and controllers come first:
without them nothing else is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from railhead.base.differences import differences, undoing
from railhead.drift.added import by_hand
from railhead.drift.charts import release
from railhead.drift.objects import (
    GUARDS,
    REFRESH,
    Api,
    Discovery,
    Drift,
    Object,
    Severity,
    gone,
    subject,
)

__all__ = ["Api", "Drift", "Severity", "find", "objects", "releases"]

_RELEASE = "kubernetes:helm.sh/v3:Release"


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
        found += release(namespace, name, api, discovery, ours)
    found += by_hand(ours, api, discovery)
    return sorted(found)


def _object(wanted: Object, api: Api, discovery: Discovery) -> Iterator[Drift]:
    metadata = wanted["metadata"]
    name, namespace = metadata.get("name"), metadata.get("namespace")
    path = discovery.path(str(wanted["apiVersion"]), str(wanted["kind"]), namespace or "default")
    live = api.find(f"{path}/{name}") if path else None
    guard = wanted["kind"] in GUARDS
    if live is None:
        yield gone(wanted, guard=guard)
        return
    for field, says, has in differences(wanted, live):
        plain = Severity.CHANGED if says else Severity.ADDED
        yield Drift(
            severity=Severity.GUARD if guard else plain,
            subject=subject(wanted),
            field=field,
            stack=says,
            live=has,
            remedy=REFRESH if says else f"{REFRESH}, or leaves it to whoever added it: see there",
        )
    for field, has in undoing(wanted["kind"], wanted, live):
        yield Drift(
            severity=Severity.GUARD if guard else Severity.ADDED,
            subject=subject(wanted),
            field=field,
            live=has,
            remedy=f"no update takes it out: kubectl edit {_named(wanted)}",
        )


def _named(body: Object) -> str:
    metadata = body["metadata"]
    within = f"-n {metadata['namespace']} " if metadata.get("namespace") else ""
    return f"{within}{body['kind'].lower()} {metadata['name']}"
