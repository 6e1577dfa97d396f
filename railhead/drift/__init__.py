"""Finds what in a cluster differs from what its stack says.

The stack's state has the inputs of each object as the last update gave them. Compared are only the
fields that the stack gives, as server-side apply does, and those that would undo the object: what
the API server fills in, and what controllers add, is left out. The objects of a Helm release are
compared with the manifest that Helm keeps. Guards and controllers come first: without them nothing
else is protected. So do GPUs in use that no queue is charged for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from railhead.base.differences import differences, merged_lists, undoing
from railhead.drift.added import by_hand
from railhead.drift.charts import Release, release
from railhead.drift.charts import definitions as of_release
from railhead.drift.nodes import unlabelled
from railhead.drift.objects import (
    GUARDS,
    REFRESH,
    Api,
    Discovery,
    Drift,
    Object,
    Severity,
    gone,
    leaving,
    named,
    refreshed,
    subject,
    taken_out,
)
from railhead.drift.uncharged import uncharged

__all__ = ["Api", "Drift", "Release", "Severity", "definitions", "find", "objects", "releases"]

_RELEASE = "kubernetes:helm.sh/v3:Release"
# Marks an object that is not the stack's, and of which the stack gives a part.
_PATCH = "__patch"


def objects(state: Mapping[str, Any]) -> list[Object]:
    """Return the Kubernetes objects of an exported state (`pulumi stack export`)."""
    return [
        dict(resource["inputs"]) | ({_PATCH: True} if resource["type"].endswith("Patch") else {})
        for resource in _resources(state)
        if str(resource["type"]).startswith("kubernetes:")
        and not str(resource["type"]).startswith("kubernetes:helm.sh/")
        and isinstance(resource["inputs"].get("metadata"), dict)
        and resource["inputs"].get("kind")
    ]


def releases(state: Mapping[str, Any]) -> list[Release]:
    """Return each Helm release of an exported state."""
    return [
        Release(
            namespace=str(inputs.get("namespace", "default")),
            name=str(inputs["name"]),
            given=inputs,
        )
        for resource in _resources(state)
        if resource["type"] == _RELEASE and (inputs := resource["inputs"]).get("name")
    ]


def _resources(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in (state.get("deployment") or {}).get("resources") or ():
        if resource.get("custom") and not resource.get("delete") and not resource.get("external"):
            yield {**resource, "inputs": resource.get("inputs") or {}}


def find(state: Mapping[str, Any], api: Api) -> list[Drift]:
    """Return every difference between a stack's exported state and its cluster, the worst first.

    Raises:
        ApiError: the server refuses to be read.
        PrerequisiteError: it cannot be reached.
    """
    discovery = Discovery(api)
    ours = objects(state)
    results: list[Drift] = []
    for wanted in ours:
        results += _object(wanted, api, discovery)
    for item in releases(state):
        results += release(item, api, discovery, ours)
    results += by_hand(ours, api, discovery)
    results += uncharged(ours, api, discovery)
    results += unlabelled(ours, api)
    return sorted(results)


def definitions(state: Mapping[str, Any], api: Api) -> Iterator[Object]:
    """Yield the definitions that the charts of a stack's releases bring, which Helm installs once.

    Raises as :func:`find`.
    """
    discovery = Discovery(api)
    for item in releases(state):
        yield from of_release(item, api, discovery)


def _object(wanted: Object, api: Api, discovery: Discovery) -> Iterator[Drift]:
    metadata = wanted["metadata"]
    name, namespace = metadata.get("name"), metadata.get("namespace")
    path = discovery.path(str(wanted["apiVersion"]), str(wanted["kind"]), namespace or "default")
    live = api.find(f"{path}/{name}") if path else None
    guard = wanted["kind"] in GUARDS
    if live is None:
        yield gone(wanted, guard=guard)
        return
    if ending := leaving({**live, "kind": wanted["kind"]}):
        yield replace(ending, severity=Severity.GUARD if guard else ending.severity)
        return
    merged = merged_lists(live)
    for field, says, has in differences(wanted, live, merged=merged):
        plain = Severity.CHANGED if says else Severity.ADDED
        yield Drift(
            severity=Severity.GUARD if guard else plain,
            subject=subject(wanted),
            field=field,
            stack=says,
            live=has,
            remedy=refreshed(wanted, field)
            if says
            else f"{REFRESH}, unless another client added it: kubectl edit {named(wanted)}",
        )
    for field, has in () if _PATCH in wanted else undoing(wanted["kind"], wanted, live):
        yield Drift(
            severity=Severity.GUARD if guard else Severity.ADDED,
            subject=subject(wanted),
            field=field,
            live=has,
            remedy=taken_out(wanted),
        )
