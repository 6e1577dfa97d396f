"""Rules for queues: no capacity counted twice, room for a gang, no endless hold of quota."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import yaml

from railhead.base import quantity
from railhead.policies.plan import (
    UNKNOWN,
    PlannedObject,
    at,
    containers,
    device_requests,
    is_device,
    plain,
    rows,
)

_RELEASE = "kubernetes:helm.sh/v3:Release"
_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})


def overlapping(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for flavors that share a node, whose capacity would count twice."""
    flavors = [p for p in plan if p.kind == "ResourceFlavor"]
    labels: list[tuple[PlannedObject, Mapping[str, Any]]] = []
    for planned in flavors:
        spec = planned.body.get("spec")
        result: Any = spec if spec is UNKNOWN else (spec or {}).get("nodeLabels", {})
        if result is UNKNOWN or UNKNOWN in dict(result or {}).values():
            yield (
                f"{planned.label}: spec.nodeLabels is not known before the update, so nothing can "
                "be said of whose nodes these are: give it a value that the plan knows",
                planned.urn,
            )
            continue
        labels.append((planned, result or {}))
    for index, (item, wanted) in enumerate(labels):
        for other, given in labels[:index]:
            if all(given.get(key, value) == value for key, value in wanted.items()):
                yield (
                    f"{item.label}: a node may have both spec.nodeLabels {dict(wanted)} and those "
                    f"of {other.label} {dict(given)}: what it has would be given out twice; "
                    "give each pool another value of one label in pools[].node_selector",
                    item.urn,
                )


def too_small(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for a queue whose whole quota of a device is less than one gang's."""
    objects = list(plan)
    for planned in objects:
        if planned.kind in _RUNTIMES and _nodes(planned) is UNKNOWN:
            yield (
                f"{planned.label}: spec.mlPolicy.numNodes is not known before the update, so "
                "nothing can be said of what a gang takes: give it a value that the plan knows",
                planned.urn,
            )
    gangs = [gang for planned in objects if (gang := _gang(planned))]
    for runtime, wanted in gangs:
        for resource in sorted(name for name, amount in wanted.items() if not amount):
            yield (
                f"{runtime.label}: how much of {resource!r} a gang takes is not known before the "
                "update: give it a value that the plan knows",
                runtime.urn,
            )
    for planned in objects:
        spec = planned.body.get("spec")
        if planned.kind not in _MOST:
            continue
        if hidden := _hidden(planned):
            yield (
                f"{planned.label}: {hidden} is not known before the update, so nothing can be said "
                "of what it holds: give it a value that the plan knows",
                planned.urn,
            )
            continue
        field, quotas = _MOST[planned.kind](spec or {}, objects)
        for runtime, wanted in gangs:
            for resource, needed in wanted.items():
                quota = quotas.get(resource)
                if quota and quota < needed:
                    yield (
                        f"{planned.label}: the {field} of {resource!r} is "
                        f"{quantity.show(quota)} in all, but a gang of "
                        f"{runtime.label} takes {quantity.show(needed)}, so it would wait for "
                        "ever: set what the nodes have in all",
                        planned.urn,
                    )


def _gang(planned: PlannedObject) -> tuple[PlannedObject, dict[str, Decimal]] | None:
    if planned.kind not in _RUNTIMES:
        return None
    given = _nodes(planned)
    nodes = int(given) if isinstance(given, (int, float)) else 1
    wanted: dict[str, Decimal] = {}
    for pod in planned.pods:
        for path, container in containers(pod):
            if container is UNKNOWN or ".initContainers" in path:
                continue
            resources = container.get("resources")
            for name in device_requests(resources) or ():
                for block in ("limits", "requests"):
                    if name in (amounts := resources.get(block) or {}):
                        amount = _amount(amounts[name])
                        wanted[name] = wanted.get(name, Decimal(0)) + amount * nodes
                        break
    return planned, wanted


def _nodes(planned: PlannedObject) -> Any:
    """Return the number of nodes of a runtime's gang, unless a job chooses."""
    return at(planned.body, "spec", "mlPolicy", "numNodes")


def _quotas(spec: Mapping[str, Any]) -> dict[str, Decimal]:
    quotas: dict[str, Decimal] = {}
    for _, group in rows(spec, "resourceGroups", ""):
        for _, flavor in rows(group, "flavors", "") if isinstance(group, dict) else ():
            for _, row in rows(flavor, "resources", "") if isinstance(flavor, dict) else ():
                if isinstance(row, dict) and is_device(str(row.get("name"))):
                    name = str(row["name"])
                    quotas[name] = quotas.get(name, Decimal(0)) + _amount(row.get("nominalQuota"))
    return quotas


def _of_cluster_queue(
    spec: Mapping[str, Any], plan: Sequence[PlannedObject]
) -> tuple[str, dict[str, Decimal]]:
    """Return a Kueue queue's quota; in a cohort, the plan's total, from which it may borrow."""
    if not _shared(spec):
        return "nominalQuota in all flavors together", _quotas(spec)
    results: dict[str, Decimal] = {}
    for other in plan:
        theirs = other.body.get("spec")
        if isinstance(theirs, Mapping) and (other.kind == "Cohort" or _shared(theirs)):
            for name, amount in _quotas(theirs).items():
                results[name] = results.get(name, Decimal(0)) + amount
    return "nominalQuota of its whole cohort", results


def _shared(spec: Mapping[str, Any]) -> bool:
    return bool(spec.get("cohortName") or spec.get("cohort"))


def _of_queue(
    spec: Mapping[str, Any], _plan: Sequence[PlannedObject]
) -> tuple[str, dict[str, Decimal]]:
    """Return a Volcano queue's limits; resources outside its capability have no limit."""
    named = spec.get("capability") or {}
    return "capability", {str(name): _amount(value) for name, value in named.items()}


def _hidden(planned: PlannedObject) -> str | None:
    """Describe an unknown of Volcano; :mod:`railhead.policies.queue_coverage` does it for Kueue."""
    spec = planned.body.get("spec")
    if spec is UNKNOWN:
        return "spec"
    most = at(spec, "capability")
    known = most is not UNKNOWN and UNKNOWN not in dict(most or {}).values()
    return None if known else "spec.capability"


# Kind -> what a queue of it may have at the most, by resource, and where it says so.
_MOST = {"ClusterQueue": _of_cluster_queue, "Queue": _of_queue}


def _amount(value: Any) -> Decimal:
    try:
        return quantity.parse(int(value) if isinstance(value, float) else value)
    except (TypeError, ValueError):
        return Decimal(0)


def patient(resource_type: str, name: str, props: Any) -> Iterator[str]:
    """Yield a message for a Kueue in which a gang holds quota although its pods never start."""
    if resource_type != _RELEASE:
        return
    body = plain(props)
    if not _may_be_kueue(body):
        return
    values = body.get("values")
    text = values if values is UNKNOWN else _settings(values)
    if text is UNKNOWN:
        yield (
            f"{name}: the values of Kueue's chart are not known before the update, so nothing can "
            "be said of how long a gang holds its quota: give them values that the plan knows"
        )
        return
    try:
        settings = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError:
        settings = None
    waits = settings.get("waitForPodsReady") if isinstance(settings, dict) else None
    if not isinstance(waits, dict) or waits.get("enable") is False:
        yield (
            f"{name}: Kueue's waitForPodsReady is off: a gang whose pods do not start (a missing "
            "image, a broken node) holds its quota for ever: set it, with a timeout, in "
            "managerConfig.controllerManagerConfigYaml"
        )


def _may_be_kueue(body: Mapping[str, Any]) -> bool:
    """Return whether the release's or the chart's name is Kueue's, or unknown."""
    chart = body.get("chart")
    return body.get("name") in ("kueue", UNKNOWN) or (
        chart is UNKNOWN or re.fullmatch(r"kueue(-[\d.]+)?", PurePath(str(chart)).name) is not None
    )


def _settings(values: Any) -> Any:
    manager = values.get("managerConfig") if isinstance(values, Mapping) else None
    if manager is UNKNOWN:
        return UNKNOWN
    return manager.get("controllerManagerConfigYaml") if isinstance(manager, Mapping) else None
