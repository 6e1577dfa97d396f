"""Changes between two sets of inputs, what they force, and drift in the cluster."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from railhead.lab.engine.provider.properties import UNKNOWN, has_unknown

PathKey = tuple[str | int, ...]


class Change(Enum):
    """The kind of change of one property."""

    ADD = "add"
    DELETE = "delete"
    UPDATE = "update"


# Fields whose change means a new object, by API group, version and kind. Source: forceNew in
# provider/pkg/provider/diff.go of pulumi-kubernetes; `*` stands for any list element.
_SELECTOR = (".spec.selector",)
_WORKLOADS = {
    "DaemonSet": _SELECTOR,
    "Deployment": _SELECTOR,
    "StatefulSet": (
        ".spec.podManagementPolicy",
        ".spec.revisionHistoryLimit",
        ".spec.selector",
        ".spec.serviceName",
        ".spec.volumeClaimTemplates",
    ),
}
_JOB = (".spec.completions", ".spec.parallelism", ".spec.selector", ".spec.template")
_VOLUME_SOURCES = (
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker"
    " gcePersistentDisk glusterfs hostPath iscsi local nfs photonPersistentDisk portworxVolume"
    " quobyte rbd scaleIO storageos vsphereVolume"
).split()
_POD_FIELDS = (
    "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases"
    " hostIPC hostNetwork hostPID hostname imagePullSecrets nodeName nodeSelector overhead"
    " preemptionPolicy priority priorityClassName readinessGates restartPolicy runtimeClassName"
    " schedulerName securityContext serviceAccount serviceAccountName shareProcessNamespace"
    " subdomain terminationGracePeriodSeconds volumes"
).split()
_CONTAINER_FIELDS = (
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe resources"
    " securityContext stdin stdinOnce terminationMessagePath terminationMessagePolicy tty"
    " volumeDevices volumeMounts workingDir"
).split()
_ROLE = (".roleRef",)
FORCE_NEW: Mapping[tuple[str, str], Mapping[str, Sequence[str]]] = {
    ("apps", "v1"): _WORKLOADS,
    ("apps", "v1beta2"): _WORKLOADS,
    ("apps", "v1beta1"): {"StatefulSet": _WORKLOADS["StatefulSet"]},
    ("", "v1"): {
        "PersistentVolume": tuple(f".spec.{name}" for name in _VOLUME_SOURCES),
        "PersistentVolumeClaim": (
            ".spec.accessModes",
            ".spec.selector",
            ".spec.storageClassName",
            ".spec.volumeName",
        ),
        "Pod": (
            *(f".spec.{name}" for name in _POD_FIELDS),
            *(f".spec.containers.*.{name}" for name in _CONTAINER_FIELDS),
            *(f".spec.initContainers.*.{name}" for name in _CONTAINER_FIELDS),
        ),
        "ResourceQuota": (".spec.scopes",),
        "Secret": (".type",),
        "Service": (".spec.clusterIP",),
    },
    ("policy", "v1beta1"): {"PodDisruptionBudget": (".spec",)},
    **{
        ("rbac.authorization.k8s.io", version): {"ClusterRoleBinding": _ROLE, "RoleBinding": _ROLE}
        for version in ("v1", "v1beta1", "v1alpha1")
    },
    ("storage.k8s.io", "v1"): {"StorageClass": (".parameters", ".provisioner")},
    **{("batch", version): {"Job": _JOB} for version in ("v1", "v1beta1", "v2alpha1")},
}
_IDENTITY = (".metadata.name", ".metadata.namespace")
_READ_ONLY_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return ``(group, version)``; the core group is the empty string."""
    group, _, version = api_version.rpartition("/")
    return ("" if group == "core" else group), version


def force_new_paths(
    obj: Mapping[str, Any], *, secret_mutable: bool = False, config_map_mutable: bool = False
) -> tuple[str, ...]:
    """Return the paths whose change replaces an object of this kind.

    Args:
        obj: the new inputs.
        secret_mutable: the provider's ``enableSecretMutable``.
        config_map_mutable: the provider's ``enableConfigMapMutable``.
    """
    key = split_api_version(str(obj.get("apiVersion", "")))
    kind = str(obj.get("kind", ""))
    frozen = obj.get("immutable") is True
    if key == ("", "v1") and kind == "Secret" and (frozen or not secret_mutable):
        return (*_IDENTITY, ".type", ".stringData", ".data")
    if key == ("", "v1") and kind == "ConfigMap" and (frozen or not config_map_mutable):
        return (*_IDENTITY, ".binaryData", ".data")
    return (*_IDENTITY, *FORCE_NEW.get(key, {}).get(kind, ()))


def identity_paths() -> tuple[str, ...]:
    """Return the paths that replace an object of any kind, a Patch included."""
    return _IDENTITY


def diff(old: Any, new: Any) -> dict[PathKey, tuple[Change, Any]]:
    """Return the changes from ``old`` to ``new``: path to ``(change, value)``.

    A null member counts as absent. An unknown new value counts as an update. Numbers compare by
    value. Lists compare element by element.
    """
    changes: dict[PathKey, tuple[Change, Any]] = {}
    _diff((), old, new, changes)
    return changes


def _diff(path: PathKey, old: Any, new: Any, into: dict[PathKey, tuple[Change, Any]]) -> None:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            _member((*path, key), old.get(key), new.get(key), into)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            _member(
                (*path, index),
                old[index] if index < len(old) else None,
                new[index] if index < len(new) else None,
                into,
            )
    elif not _same_scalar(old, new):
        into[path] = (Change.UPDATE, new)


def _member(path: PathKey, old: Any, new: Any, into: dict[PathKey, tuple[Change, Any]]) -> None:
    if old is None and new is None:
        return
    if old is None:
        # An empty object or list on one side only says nothing that the API server would keep.
        if not (isinstance(new, (Mapping, list)) and not new):
            into[path] = (Change.ADD, new)
    elif new is None:
        if not (isinstance(old, (Mapping, list)) and not old):
            into[path] = (Change.DELETE, old)
    else:
        _diff(path, old, new, into)


def _same_scalar(old: Any, new: Any) -> bool:
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(new, type(UNKNOWN)) or isinstance(old, type(UNKNOWN)):
        return False
    return bool(old == new)


def replaces(path: PathKey, value: Any, change: Change, patterns: Iterable[str]) -> bool:
    """Return whether a change at ``path`` to ``value`` forces a replacement."""
    for pattern in patterns:
        parts = pattern.strip(".").split(".")
        if _matches(path, parts) or (
            change is not Change.DELETE
            and len(path) < len(parts)
            and _matches(path, parts[: len(path)])
            and _holds(value, parts[len(path) :])
        ):
            return True
    return change is Change.DELETE and path == ("metadata",)


def _matches(path: PathKey, parts: Sequence[str]) -> bool:
    if len(path) < len(parts):
        return False
    return all(
        isinstance(given, int) if part == "*" else given == part
        for given, part in zip(path, parts, strict=False)
    )


def _holds(value: Any, parts: Sequence[str]) -> bool:
    if not parts:
        return True
    if parts[0] == "*":
        return isinstance(value, list) and any(_holds(item, parts[1:]) for item in value)
    return isinstance(value, Mapping) and parts[0] in value and _holds(value[parts[0]], parts[1:])


def path_text(path: PathKey) -> str:
    """Return the path in Pulumi's notation, such as ``spec.template.spec.containers[0].image``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif any(mark in part for mark in '."[]'):
            escaped = part.replace('"', '\\"')
            text += f'["{escaped}"]'
        else:
            text += f".{part}" if text else part
    return text


def parse_path(text: str) -> PathKey:
    """Return a path in Pulumi's notation as a tuple; ``*`` stays a string.

    Raises:
        ValueError: a bracket is not closed.
    """
    parts: list[str | int] = []
    rest = text
    while rest:
        if rest.startswith("["):
            if rest.startswith('["'):
                end = rest.find('"]')
                while end > 0 and rest[end - 1] == "\\":
                    end = rest.find('"]', end + 1)
                if end < 0:
                    raise ValueError(f"property path {text!r}: missing closing quote and bracket")
                parts.append(rest[2:end].replace('\\"', '"'))
                rest = rest[end + 2 :]
            else:
                end = rest.find("]")
                if end < 0:
                    raise ValueError(f"property path {text!r}: missing closing bracket")
                inner = rest[1:end]
                parts.append(int(inner) if inner.isdigit() else inner)
                rest = rest[end + 1 :]
            rest = rest.removeprefix(".")
            continue
        cut = min((rest.find(mark) for mark in ".[" if mark in rest), default=len(rest))
        parts.append(rest[:cut])
        rest = rest[cut:].removeprefix(".")
    return tuple(parts)


def path_contains(outer: PathKey, inner: PathKey) -> bool:
    """Return whether ``inner`` lies at or below ``outer``; ``*`` in ``outer`` matches anything."""
    if len(inner) < len(outer):
        return False
    return all(a == "*" or a == b for a, b in zip(outer, inner, strict=False))


def normalize(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs without read-only metadata, a Secret's ``stringData`` folded into ``data``.

    The API server folds it in the same way, so both spellings compare equal.
    """
    result = copy.deepcopy(dict(obj))
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        for key in _READ_ONLY_METADATA:
            metadata.pop(key, None)
    text = result.get("stringData")
    if (
        result.get("kind") == "Secret"
        and result.get("apiVersion") == "v1"
        and isinstance(text, dict)
        and not has_unknown(text)
        and isinstance(result.get("data") or {}, dict)
    ):
        data = dict(result.get("data") or {})
        for key, value in text.items():
            if value is not None:
                data[key] = base64.b64encode(str(value).encode()).decode()
        del result["stringData"]
        result["data"] = data
    return result


def managed_fields(obj: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Return the union of what ``manager`` owns in a live object, in the ``fieldsV1`` form."""
    owned: dict[str, Any] = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or []:
        if entry.get("manager") == manager and not entry.get("subresource"):
            owned = merge_fields(owned, entry.get("fieldsV1") or {})
    return owned


def merge_fields(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two ``fieldsV1`` sets."""
    merged = dict(left)
    for key, value in right.items():
        merged[key] = merge_fields(merged.get(key) or {}, value or {})
    return merged


def live_inputs(inputs: Any, before: Any, now: Any, fields: Mapping[str, Any] | None = None) -> Any:
    """Return the inputs as the cluster has them now, for the fields that the inputs manage.

    A field that has not moved since ``before`` keeps its input, however the API server spells it,
    so that only drift shows. A field that others manage never shows.

    Args:
        inputs: what was asked for.
        before: the live object when it was last applied or read.
        now: the live object.
        fields: what our field manager owns here, in the ``fieldsV1`` form; None when not known.
    """
    if isinstance(inputs, Mapping) and isinstance(now, Mapping):
        old = before if isinstance(before, Mapping) else {}
        result = {}
        for key, value in inputs.items():
            if key in now:
                inner = None if fields is None else fields.get(f"f:{key}")
                result[key] = live_inputs(value, old.get(key), now[key], inner)
            elif key not in old or value is None:
                # The API server never kept it; its absence is no drift.
                result[key] = value
        return result
    if isinstance(inputs, list) and isinstance(now, list):
        if before == now:
            return copy.deepcopy(inputs)
        old_items = before if isinstance(before, list) else []
        keys = _merge_keys(inputs, fields)
        if keys:
            return _live_associative(inputs, old_items, now, keys, fields)
        if fields and any(name.startswith("v:") for name in fields):
            return [item for item in inputs if item in now or item not in old_items]
        if len(inputs) == len(now) == len(old_items):
            return [
                live_inputs(item, old_items[index], now[index]) for index, item in enumerate(inputs)
            ]
        return copy.deepcopy(now)
    if now in (before, inputs):
        return copy.deepcopy(inputs)
    return copy.deepcopy(now)


def _merge_keys(inputs: Sequence[Any], fields: Mapping[str, Any] | None) -> tuple[str, ...]:
    if fields is not None:
        for name in fields:
            if name.startswith("k:"):
                try:
                    return tuple(json.loads(name[2:]))
                except ValueError:
                    return ()
        return ()
    if inputs and all(isinstance(item, Mapping) and "name" in item for item in inputs):
        return ("name",)
    return ()


def _live_associative(
    inputs: Sequence[Any],
    before: Sequence[Any],
    now: Sequence[Any],
    keys: tuple[str, ...],
    fields: Mapping[str, Any] | None,
) -> list[Any]:
    def find(items: Sequence[Any], wanted: Mapping[str, Any]) -> Any:
        for item in items:
            # A key that the input leaves out was defaulted by the API server, such as `protocol`.
            if isinstance(item, Mapping) and all(
                key not in wanted or item.get(key) == wanted[key] for key in keys
            ):
                return item
        return None

    result = []
    for item in inputs:
        if not isinstance(item, Mapping):
            return copy.deepcopy(list(now))
        current = find(now, item)
        previous = find(before, item)
        if current is None:
            if previous is None:
                result.append(item)
            continue
        inner = None
        for name, value in (fields or {}).items():
            if name.startswith("k:"):
                try:
                    identity = json.loads(name[2:])
                except ValueError:
                    continue
                if all(current.get(key) == identity.get(key) for key in identity):
                    inner = value
        result.append(live_inputs(item, previous, current, inner))
    return result


def imported_inputs(live: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs that describe a live object: everything but what the server fills in."""
    result = normalize(live)
    result.pop("status", None)
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            for key in (
                "deployment.kubernetes.io/revision",
                "kubectl.kubernetes.io/last-applied-configuration",
            ):
                annotations.pop(key, None)
            if not annotations:
                del metadata["annotations"]
    return result
