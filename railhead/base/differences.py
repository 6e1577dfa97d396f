"""What of the fields that an object is given differs in the live one.

Only what is given is compared, as server-side apply does: what the API server fills in, and what
controllers add, is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.quantity import parse

# The key under which the engine's state marks a secret or an asset (pulumi, resource.SigKey).
_SIGNATURE = "4dabf18193072939515e22adb298388d"
# Written by the server from others, or never to be read back.
_NOT_COMPARED = frozenset({"status", "stringData"})
# Fields that undo an object if somebody gives them where the stack gives none, and what is as good
# as none: a guard looks at less (admissionregistration.k8s.io/v1, types.go), a queue admits nothing
# (kueue v1beta2, StopPolicy).
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
    "ClusterQueue": {("spec", "stopPolicy"): "None"},
    "LocalQueue": {("spec", "stopPolicy"): "None"},
}


def differences(wanted: Any, live: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """(path, what the stack says, what is live) for each field that the stack gives.

    The stack says nothing of values that a list of plain values has besides: where the API calls
    such a list a set, server-side apply leaves them to whoever added them.
    """
    if isinstance(wanted, Mapping):
        if _SIGNATURE in wanted:
            return
        for key, value in wanted.items():
            if key.startswith("__") or (not path and key in _NOT_COMPARED):
                continue
            inner = live.get(key) if isinstance(live, Mapping) else None
            yield from differences(value, inner, f"{path}.{key}" if path else key)
    elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
        has = live if isinstance(live, list) else []
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
            yield from differences(value, has[index], f"{path}[{index}]")
    elif not _same(wanted, live):
        yield path, short(wanted) or "nothing", short(live)


def undoing(
    kind: str, wanted: Mapping[str, Any], live: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """(path, what is live) for each field that the stack does not give and that undoes the object.

    Of what else others put beside the stack's fields nothing is said.
    """
    for path, none in _UNDOING.get(kind, {}).items():
        has = _at(live, path)
        if has and has != none and not _at(wanted, path):
            yield ".".join(path), short(has)


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _same(wanted: Any, live: Any) -> bool:
    if wanted == live or (not wanted and live is None):
        return True
    try:
        return parse(wanted) == parse(live)
    except (TypeError, ValueError):
        return False


def short(value: Any) -> str:
    """A value in one line of at most 80 characters."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
