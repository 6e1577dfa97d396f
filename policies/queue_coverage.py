"""The rule that a ClusterQueue covers every device resource that the stack's workloads request.

Kueue never admits a workload that asks for a resource its queue leaves out; the job waits for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from railhead.base.errors import InputError
from railhead.contract import CONFIG_MAP, KEY, ClusterContract
from railhead.policies.plan import (
    UNKNOWN,
    PlannedObject,
    at,
    containers,
    device_requests,
    is_zero,
    rows,
)

# For a queue of jobs without devices; the reviewer sees it in the plan.
DEVICE_FREE = "railhead.dev/device-free"
_SERVICES = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})


def problems(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for each queue that omits a device, or that cannot be judged."""
    objects = list(plan)
    for planned in objects:
        if path := _hidden(planned):
            yield _unjudged(planned, path), planned.urn
    wanted: dict[str, str] = {}
    for planned in objects:
        for resource in sorted(_requested(planned)):
            wanted.setdefault(resource, planned.label)
    for planned in objects:
        if planned.kind == "ClusterQueue":
            for message in _queue(planned, wanted):
                yield message, planned.urn


def _requested(planned: PlannedObject) -> set[str]:
    if planned.kind in _SERVICES:
        return set()
    results: set[str] = set()
    for pod in planned.pods:
        for _, container in containers(pod):
            if container is not UNKNOWN:
                results |= device_requests(container.get("resources")) or set()
    if planned.kind == "TrainJob":
        results |= device_requests(at(planned.body, "spec", "trainer", "resourcesPerNode")) or set()
    if planned.kind == "ConfigMap" and at(planned.body, "metadata", "name") == CONFIG_MAP:
        results |= _of_contract(planned)
    return results


def _hidden(planned: PlannedObject) -> str | None:
    """Return an unknown part of a workload or the contract that may request a device."""
    if planned.kind in _SERVICES:
        return None
    for pod in planned.pods:
        for path, container in containers(pod):
            if container is UNKNOWN or device_requests(container.get("resources")) is None:
                return path
    if planned.kind == "ConfigMap" and at(planned.body, "metadata", "name") == CONFIG_MAP:
        data = planned.body.get("data")
        if data is UNKNOWN or at(data, KEY) is UNKNOWN:
            return "data"
    return None


def _of_contract(planned: PlannedObject) -> set[str]:
    """Return the fabric's devices, as the published contract lists them."""
    text = at(planned.body, "data", KEY)
    if not isinstance(text, str):
        return set()
    try:
        contract = ClusterContract.from_json(text, where=planned.label)
    except InputError:
        return set()
    return set(contract.device_resources)


class _HiddenError(Exception):
    """A part of a queue that is not known before the update; its path is the only argument."""


def _queue(planned: PlannedObject, wanted: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each resource that a queue omits, or for the part that hides it."""
    if at(planned.body, "metadata", "annotations", DEVICE_FREE) == "true":
        return
    spec = planned.body.get("spec")
    try:
        covered = _covered(spec)
    except _HiddenError as hidden:
        yield _unjudged(planned, str(hidden))
        return
    borrows = bool(at(spec, "cohortName") or at(spec, "cohort"))
    for resource, by in wanted.items():
        if resource not in covered:
            yield (
                f"{planned.label}: spec.resourceGroups covers {', '.join(covered) or 'nothing'} "
                f"but not {resource!r}, which {by} requests, so its jobs would wait for ever: add "
                "it to coveredResources with a nominalQuota of what the nodes have in all, or "
                f"annotate a queue for jobs without devices with {DEVICE_FREE}: 'true'"
            )
        elif not borrows and covered[resource] and all(is_zero(q) for q in covered[resource]):
            yield (
                f"{planned.label}: the nominalQuota of {resource!r} is 0 in every flavor and the "
                f"queue borrows from no cohort, while {by} requests it: set what the nodes have"
            )


def _covered(spec: Any) -> dict[str, list[Any]]:
    """Return resource -> its quotas in all flavors of a ClusterQueue's spec.

    Raises:
        _HiddenError: a part of it is not known.
    """
    if spec is UNKNOWN:
        raise _HiddenError("spec")
    covered: dict[str, list[Any]] = {}
    for path, group in rows(spec or {}, "resourceGroups", "spec"):
        names: Any = group if group is UNKNOWN else group.get("coveredResources")
        if names is UNKNOWN or UNKNOWN in (names or []):
            raise _HiddenError(f"{path}.coveredResources")
        covered |= {name: [] for name in names or []}
        for where, flavor in rows(group, "flavors", path):
            for name, quota in _quotas(where, flavor):
                covered.setdefault(name, []).append(quota)
    return covered


def _quotas(path: str, flavor: Any) -> Iterator[tuple[str, Any]]:
    """Yield (resource, quota) of one flavor of a queue."""
    if flavor is UNKNOWN or flavor.get("resources") is UNKNOWN:
        raise _HiddenError(path)
    for _, row in rows(flavor, "resources", path):
        if row is UNKNOWN or UNKNOWN in (row.get("name"), row.get("nominalQuota")):
            raise _HiddenError(f"{path}.resources[].nominalQuota")
        yield str(row.get("name")), row.get("nominalQuota")


def _unjudged(planned: PlannedObject, path: str) -> str:
    return (
        f"{planned.label}: {path} is not known before the update, so nothing can be said of the "
        "devices it covers: give it a value that the plan knows"
    )
