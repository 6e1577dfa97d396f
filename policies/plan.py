"""A planned resource as plain data, in which unknown values are marked as unknown.

The SDK raises when a rule reads an unknown value, and the engine then skips the rule with only a
remark. Rules here read a copy in which an unknown value is :data:`UNKNOWN`, and report what they
cannot judge as a violation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pulumi_policy.proxy import UnknownValueError


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()

# Parts of an object that hold no pod and that no rule reads.
_ASIDE = frozenset({"metadata", "status", "data", "stringData", "binaryData"})
# Scalars beside a pod template: the pods are the same for any of their values.
_SCALARS = frozenset(
    {
        "activeDeadlineSeconds",
        "backoffLimit",
        "completions",
        "minAvailable",
        "name",
        "numNodes",
        "numProcPerNode",
        "parallelism",
        "queue",
        "replicas",
        "schedule",
        "serviceName",
        "suspend",
        "ttlSecondsAfterFinished",
    }
)


def plain(value: Any) -> Any:
    """Copy the SDK's proxies into dicts and lists; an unknown value becomes UNKNOWN."""
    # Most values are scalars, and isinstance of an abstract class is slow.
    if value is None or isinstance(value, (str, int, float, bytes)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {key: _item(value, key) for key in value}
    if isinstance(value, (list, Sequence)):
        return [_item(value, index) for index in range(len(value))]
    return value


def _item(container: Any, key: Any) -> Any:
    try:
        value = container[key]
    except UnknownValueError:
        return UNKNOWN
    return plain(value)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod's spec inside an object, and the path to it, such as ``spec.template.spec``."""

    path: str
    spec: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class PlannedObject:
    """One Kubernetes object of the plan.

    ``unknown``: unknown paths outside of pods' specs that may hold a pod.
    """

    urn: str
    name: str
    kind: str
    body: Mapping[str, Any]
    pods: tuple[Pod, ...]
    unknown: tuple[str, ...]

    @property
    def label(self) -> str:
        """Kind and name, for messages."""
        metadata = self.body.get("metadata")
        given = metadata.get("name") if isinstance(metadata, Mapping) else None
        return f"{self.kind} {given if isinstance(given, str) else self.name}"


def planned(resource_type: str, urn: str, name: str, props: Any) -> PlannedObject | None:
    """Return the Kubernetes object of a planned resource; None for others, as Helm releases."""
    package, _, token = resource_type.partition(":")
    if package != "kubernetes" or token.startswith("helm.sh/"):
        return None
    body = plain(props)
    kind = body.get("kind")
    if not isinstance(kind, str):
        kind = token.rpartition(":")[2].removesuffix("Patch")
    pods: list[Pod] = []
    unknown: list[str] = []
    for key, value in body.items():
        if key not in _ASIDE:
            _walk(value, key, pods, unknown)
    return PlannedObject(
        urn=urn, name=name, kind=kind, body=body, pods=tuple(pods), unknown=tuple(unknown)
    )


def _walk(value: Any, path: str, pods: list[Pod], unknown: list[str]) -> None:
    if value is UNKNOWN:
        if path.rpartition(".")[2] not in _SCALARS:
            unknown.append(path)
    elif isinstance(value, dict):
        if "containers" in value and _holds_containers(value["containers"]):
            pods.append(Pod(path=path, spec=value))
            return
        for key, inner in value.items():
            if key not in _ASIDE:
                _walk(inner, f"{path}.{key}", pods, unknown)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", pods, unknown)


def _holds_containers(value: Any) -> bool:
    if value is UNKNOWN:
        return True
    return isinstance(value, list) and all(v is UNKNOWN or isinstance(v, dict) for v in value)


def at(value: Any, *keys: str) -> Any:
    """Return the value at a path of mappings; UNKNOWN below an unknown one, None if missing."""
    for key in keys:
        if value is UNKNOWN or not isinstance(value, Mapping):
            return UNKNOWN if value is UNKNOWN else None
        value = value.get(key)
    return value


def rows(holder: Mapping[str, Any], key: str, path: str) -> Iterator[tuple[str, Any]]:
    """Yield each element of a list below ``holder`` with its path; UNKNOWN for an unknown list."""
    value = holder.get(key)
    if value is UNKNOWN:
        yield f"{path}.{key}", UNKNOWN
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield f"{path}.{key}[{index}]", inner


def containers(pod: Pod) -> Iterator[tuple[str, Any]]:
    """Yield every container of a pod with its path, of all three kinds."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from rows(pod.spec, key, pod.path)


def is_device(resource: str) -> bool:
    """Return whether a resource is an extended one, which only a device plugin offers."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def is_zero(quantity: Any) -> bool:
    """Return whether a quantity is zero; UNKNOWN is not."""
    if isinstance(quantity, (int, float)):
        return quantity == 0
    return isinstance(quantity, str) and quantity.strip("0.") in ("", "m", "k", "Ki", "Mi", "Gi")


def device_requests(resources: Any) -> set[str] | None:
    """Return the device resources that a ``resources`` block requests; None if unknown."""
    results: set[str] = set()
    if resources is UNKNOWN:
        return None
    if not isinstance(resources, Mapping):
        return results
    for block in ("limits", "requests"):
        quantities = resources.get(block)
        if quantities is UNKNOWN:
            return None
        if isinstance(quantities, Mapping):
            results.update(k for k, v in quantities.items() if is_device(k) and not is_zero(v))
    return results
