"""Differences between the fields that a stack sets on an object, and the live object.

Only fields that the stack sets are compared, as in server-side apply: fields that the API server
fills in or that controllers add are theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.quantity import parse

# The key under which the engine's state marks a secret or an asset (pulumi, resource.SigKey).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
# Fields that the server derives from others, or never returns.
_NOT_COMPARED = frozenset({"status", "stringData"})
# Fields that hold text, in which `1` and `1.0` differ.
_TEXT = frozenset({"annotations", "data", "labels", "matchLabels", "nodeSelector", "value"})
# A field whose presence counts, whatever its value.
_THERE = "there"
_EACH = "[]"
_POD = ("spec", "template", "spec")
_TEMPLATE = ("spec", "template", "spec", "replicatedJobs", _EACH, "template", *_POD)
_AMOUNT = ("spec", "resourceGroups", _EACH, "flavors", _EACH, "resources", _EACH)
_WEBHOOK: Mapping[tuple[str, ...], str] = {
    ("webhooks", _EACH, "matchConditions"): "",
    ("webhooks", _EACH, "namespaceSelector"): "",
    ("webhooks", _EACH, "objectSelector"): "",
}


def _pod(at: tuple[str, ...]) -> Mapping[tuple[str, ...], str]:
    return {
        (*at, "affinity"): "",
        (*at, "hostNetwork"): "",
        (*at, "nodeSelector"): "",
        (*at, "volumes", _EACH, "hostPath"): _THERE,
    }


# Fields that undo an object if someone sets them where the stack does not, and the value that is as
# good as unset: a guard looks at less (admissionregistration.k8s.io/v1, types.go), a queue admits
# nothing or another's jobs (kueue v1beta2), a pod fits no node or controls it, a policy lets more
# in (networking/v1, types.go).
_UNDOING: Mapping[str, Mapping[tuple[str, ...], str]] = {
    "ValidatingAdmissionPolicy": {
        ("spec", "matchConditions"): "",
        ("spec", "matchConstraints", "excludeResourceRules"): "",
        ("spec", "matchConstraints", "matchPolicy"): "Equivalent",
        ("spec", "matchConstraints", "namespaceSelector"): "",
        ("spec", "matchConstraints", "objectSelector"): "",
    },
    "ValidatingAdmissionPolicyBinding": {
        ("spec", "matchResources", "excludeResourceRules"): "",
        ("spec", "matchResources", "matchPolicy"): "Equivalent",
        ("spec", "matchResources", "namespaceSelector"): "",
        ("spec", "matchResources", "objectSelector"): "",
        ("spec", "matchResources", "resourceRules"): "",
        ("spec", "paramRef", "selector"): "",
    },
    "MutatingWebhookConfiguration": _WEBHOOK,
    "ValidatingWebhookConfiguration": _WEBHOOK,
    "ClusterQueue": {
        ("spec", "admissionChecksStrategy"): "",
        ("spec", "cohortName"): "",
        ("spec", "namespaceSelector"): "",
        ("spec", "stopPolicy"): "None",
        (*_AMOUNT, "borrowingLimit"): _THERE,
        (*_AMOUNT, "lendingLimit"): _THERE,
    },
    "LocalQueue": {("spec", "stopPolicy"): "None"},
    "ResourceFlavor": {("spec", "nodeLabels"): "", ("spec", "nodeTaints"): ""},
    "ResourceQuota": {
        ("spec", "hard"): "",
        ("spec", "scopes"): "",
        ("spec", "scopeSelector"): "",
    },
    "PriorityClass": {("globalDefault",): ""},
    "DaemonSet": _pod(_POD),
    "Deployment": {**_pod(_POD), ("spec", "paused"): ""},
    "ClusterTrainingRuntime": _pod(_TEMPLATE),
    "NetworkPolicy": {
        ("spec", "egress"): "",
        ("spec", "egress", _EACH, "to", _EACH, "namespaceSelector"): _THERE,
        ("spec", "ingress"): "",
        ("spec", "ingress", _EACH, "from", _EACH, "namespaceSelector"): _THERE,
        ("spec", "podSelector"): "",
    },
    "Service": {("spec", "selector"): ""},
}


def differences(
    wanted: Any, live: Any, path: str = "", merged: Mapping[str, Sequence[str]] | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield (path, the stack's value, the live value) for each field of the stack that differs.

    Extra values in a list of plain values, or in a list of ``merged``, have no value of the stack:
    where the API calls a list a set or a map, server-side apply leaves them to their owners.
    """
    if isinstance(wanted, Mapping):
        if is_secret(wanted):
            return
        for key, value in wanted.items():
            if key.startswith("__") or (not path and key in _NOT_COMPARED):
                continue
            inner = live.get(key) if isinstance(live, Mapping) else None
            yield from differences(value, inner, f"{path}.{key}" if path else key, merged)
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        has = live if isinstance(live, list) else []
        if merged and path in merged:
            yield from _by_keys(wanted, has, path, merged)
            return
        plain = not any(isinstance(item, (Mapping, list)) for item in (*wanted, *has))
        extra = [item for item in has if item not in wanted]
        if plain and extra:
            lacks = [item for item in wanted if item not in has]
            yield path, short(wanted) if lacks else "", short(has if lacks else extra)
            return
        if len(has) != len(wanted):
            yield path, f"{len(wanted)}: {short(wanted)}", f"{len(has)}: {short(has)}"
            return
        for index, value in enumerate(wanted):
            yield from _element(value, has[index], f"{path}[{index}]", merged)
    elif not _same(wanted, live, text=not _TEXT.isdisjoint(path.split("."))):
        yield path, short(wanted) or "nothing", short(live)


def _by_keys(
    wanted: Sequence[Any], has: Sequence[Any], path: str, merged: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the differences of a list whose elements are identified by keys, in any order."""
    unmatched = list(has)
    for value in wanted:
        same = [
            element
            for element in unmatched
            # The API server filled in a key that is not given, such as `protocol`.
            if all(element.get(key) == value[key] for key in merged[path] if key in value)
        ]
        if not same:
            yield path, short(value), "None"
            continue
        unmatched.remove(same[0])
        yield from _element(value, same[0], f"{path}[{has.index(same[0])}]", merged)
    if unmatched:
        yield path, "", short(unmatched)


def _element(
    wanted: Any, live: Any, path: str, merged: Mapping[str, Sequence[str]] | None
) -> Iterator[tuple[str, str, str]]:
    """Yield an element's differences; one identified by an empty field may have been replaced."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key in (key for key, value in wanted.items() if value == {} and key not in live):
            if others := {k: v for k, v in live.items() if k not in wanted}:
                yield f"{path}.{key}", "{}", short(others)
    yield from differences(wanted, live, path, merged)


def merged_lists(live: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return path -> the fields that identify an element, for each list that the API merges.

    The server's record of field owners has them (structured-merge-diff, `k:` in fieldsV1).
    """
    keys_of: dict[str, tuple[str, ...]] = {}
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        _owned(entry.get("fieldsV1") or {}, live, "", keys_of)
    return keys_of


def _owned(
    fields: Mapping[str, Any], value: Any, path: str, keys_of: dict[str, tuple[str, ...]]
) -> None:
    for name, inner in fields.items():
        if name.startswith("f:") and isinstance(value, Mapping):
            key = name.removeprefix("f:")
            _owned(inner, value.get(key), f"{path}.{key}" if path else key, keys_of)
        elif name.startswith("k:") and isinstance(value, list):
            keys = json.loads(name.removeprefix("k:"))
            keys_of[path] = tuple(keys)
            for index, element in enumerate(value):
                if all(element.get(key) == given for key, given in keys.items()):
                    _owned(inner, element, f"{path}[{index}]", keys_of)


def undoing(
    kind: str, wanted: Mapping[str, Any], live: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield (path, live value) for each field that undoes the object and that the stack lacks.

    Other fields that someone added are not reported.
    """
    for path, none in _UNDOING.get(kind, {}).items():
        for where, given, has in _pairs(path, wanted, live):
            if none == _THERE:
                if given is None and has is not None:
                    yield where, short(has)
            elif (more := surplus(given, has)) and more != none:
                yield where, short(more)


def surplus(given: Any, has: Any) -> Any:
    """Return what ``has`` holds in addition to ``given``; None for two lists."""
    if given is None or given in ({}, []):
        return has
    if not isinstance(given, Mapping) or not isinstance(has, Mapping):
        return None
    more = {key: surplus(given.get(key), value) for key, value in has.items()}
    return {key: value for key, value in more.items() if value not in (None, {}, [])}


def _pairs(
    path: Sequence[str], given: Any, has: Any, prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield every place that matches a path, with both values; lists are matched by index."""
    if not path:
        yield prefix, given, has
        return
    key, *rest = path
    if key == _EACH:
        ours = given if isinstance(given, list) else []
        for index, element in enumerate(has if isinstance(has, list) else ()):
            if index < len(ours):
                yield from _pairs(rest, ours[index], element, f"{prefix}[{index}]")
        return
    below = [value.get(key) if isinstance(value, Mapping) else None for value in (given, has)]
    yield from _pairs(rest, below[0], below[1], f"{prefix}.{key}" if prefix else key)


def _same(wanted: Any, live: Any, *, text: bool) -> bool:
    if wanted == live or (not wanted and live is None):
        return True
    if text:
        return False
    try:
        return parse(wanted) == parse(live)
    except (TypeError, ValueError):
        return False


def is_secret(value: Any) -> bool:
    """Return whether the engine's state keeps a value as a secret, which cannot be compared."""
    return isinstance(value, Mapping) and _SIGNATURE in value


def short(value: Any) -> str:
    """Return a value in one line of at most 80 characters."""
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= 80 else f"{text[:77]}..."
