"""What of the fields that an object is given differs in the live one.

Only what is given is compared, as server-side apply does: what the API server fills in, and what
controllers add, is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.quantity import parse

# The key under which the engine's state marks a secret or an asset (pulumi, resource.SigKey).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
# Written by the server from others, or never to be read back.
_NOT_COMPARED = frozenset({"status", "stringData"})
# Text, of which `1` and `1.0` are not the same.
_TEXT = frozenset({"annotations", "data", "labels", "matchLabels", "nodeSelector", "value"})
# What counts by being there, whatever it says.
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


# Fields that undo an object if somebody gives them where the stack gives none, and what is as good
# as none: a guard looks at less (admissionregistration.k8s.io/v1, types.go), a queue admits nothing
# or another's (kueue v1beta2), a pod fits no node or has it, a policy lets more in (networking/v1,
# types.go).
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
    """(path, what the stack says, what is live) for each field that the stack gives.

    The stack says nothing of values that a list of plain values, or one of ``merged``, has besides:
    where the API calls a list a set or a map, server-side apply leaves them to whoever added them.
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
        plain = not any(isinstance(one, (Mapping, list)) for one in (*wanted, *has))
        besides = [one for one in has if one not in wanted]
        if plain and besides:
            lacks = [one for one in wanted if one not in has]
            yield path, short(wanted) if lacks else "", short(has if lacks else besides)
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
    """A list whose elements are known by some of their fields, wherever they stand."""
    besides = list(has)
    for value in wanted:
        same = [
            one
            for one in besides
            # A key that is not given was filled in by the API server, such as `protocol`.
            if all(one.get(key) == value[key] for key in merged[path] if key in value)
        ]
        if not same:
            yield path, short(value), "None"
            continue
        besides.remove(same[0])
        yield from _element(value, same[0], f"{path}[{has.index(same[0])}]", merged)
    if besides:
        yield path, "", short(besides)


def _element(
    wanted: Any, live: Any, path: str, merged: Mapping[str, Sequence[str]] | None
) -> Iterator[tuple[str, str, str]]:
    """An element of a list; one that is told by an empty field may have become another."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key in (key for key, value in wanted.items() if value == {} and key not in live):
            if others := {k: v for k, v in live.items() if k not in wanted}:
                yield f"{path}.{key}", "{}", short(others)
    yield from differences(wanted, live, path, merged)


def merged_lists(live: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Path -> the fields by which elements are known, of each list that the API merges.

    By what the server keeps of who owns what (structured-merge-diff, `k:` in fieldsV1).
    """
    found: dict[str, tuple[str, ...]] = {}
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        _owned(entry.get("fieldsV1") or {}, live, "", found)
    return found


def _owned(
    fields: Mapping[str, Any], value: Any, path: str, found: dict[str, tuple[str, ...]]
) -> None:
    for name, inner in fields.items():
        if name.startswith("f:") and isinstance(value, Mapping):
            key = name.removeprefix("f:")
            _owned(inner, value.get(key), f"{path}.{key}" if path else key, found)
        elif name.startswith("k:") and isinstance(value, list):
            keys = json.loads(name.removeprefix("k:"))
            found[path] = tuple(keys)
            for index, one in enumerate(value):
                if all(one.get(key) == given for key, given in keys.items()):
                    _owned(inner, one, f"{path}[{index}]", found)


def undoing(
    kind: str, wanted: Mapping[str, Any], live: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(path, what is live) for each field that the stack does not give and that undoes the object.

    Of what else others put beside the stack's fields nothing is said.
    """
    for path, none in _UNDOING.get(kind, {}).items():
        for where, given, has in _pairs(path, wanted, live):
            if none == _THERE:
                if given is None and has is not None:
                    yield where, short(has)
            elif (more := besides(given, has)) and more != none:
                yield where, short(more)


def besides(given: Any, has: Any) -> Any:
    """What one value has that the other does not give; of two lists nothing."""
    if given is None or given in ({}, []):
        return has
    if not isinstance(given, Mapping) or not isinstance(has, Mapping):
        return None
    found = {key: besides(given.get(key), value) for key, value in has.items()}
    return {key: value for key, value in found.items() if value not in (None, {}, [])}


def _pairs(
    path: Sequence[str], given: Any, has: Any, said: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Every place of a path with both values there, elements of lists by their place."""
    if not path:
        yield said, given, has
        return
    key, *rest = path
    if key == _EACH:
        ours = given if isinstance(given, list) else []
        for index, one in enumerate(has if isinstance(has, list) else ()):
            if index < len(ours):
                yield from _pairs(rest, ours[index], one, f"{said}[{index}]")
        return
    one, other = (value.get(key) if isinstance(value, Mapping) else None for value in (given, has))
    yield from _pairs(rest, one, other, f"{said}.{key}" if said else key)


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
    """Whether the engine's state keeps a value as a secret, which nothing is compared with."""
    return isinstance(value, Mapping) and _SIGNATURE in value


def short(value: Any) -> str:
    """A value in one line of at most 80 characters."""
    text = str(value).replace("\n", "\\n")
    return text if len(text) <= 80 else f"{text[:77]}..."
