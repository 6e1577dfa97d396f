"""Compares a stack's outputs: names that others read, and what of them is secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.lab.planning import Plan
from railhead.review.judged import Judged, few
from railhead.review.model import Level
from railhead.review.reading import snake
from railhead.review.texts import FORMS

_STACK = "pulumi:pulumi:Stack"
_SECRET = "[secret]"  # noqa: S105 - as plans print one
_PLAIN = "it lies in plain text in the stack's state, and `pulumi stack output` prints it"
_LATER = "nobody, until someone reads it"
# The end of a name whose value lets its reader in.
_LETS_IN = re.compile(
    r"(?:^|_)(passw(?:or)?d|passphrase|token|kubeconfig|credential|client_?secret"
    r"|(?:private|api|secret|access)_?key)s?$"
)
# Values that only say where something is.
_PLACE = re.compile(r"^(?:arn:|projects/|alias/|\w+://[^@]*$|[~./]|\$\{)|^[\d.]*$")
_IN_KUBECONFIG = re.compile(r"client-key-data|token:|password:")


def outputs(before: Plan, after: Plan) -> Iterator[tuple[str, Judged]]:
    """Yield each output that is gone or that is plain text now, by its name.

    The engine's own preview does not print outputs: what it planned is not compared.
    """
    was, now = _of(before), _of(after)
    for name in was if now else ():
        if name not in now:
            text = "is no output any more: what reads it finds nothing"
            yield name, Judged("ask", "access", text, "projects and pipelines that read it")
        elif shown := list(_shown(name, was[name], now[name])):
            text = f"is no secret any more in {few(shown, 4)}: {_PLAIN}"
            yield name, Judged("refuse", "rights", text, _LATER)
    for name in now if was else ():
        opens = list(_opening(name, was.get(name), now[name]))
        for level in dict.fromkeys(level for level, _ in opens):
            paths = [path for grade, path in opens if grade == level]
            text = f"is new, and no secret in {few(paths, 4)}: {_PLAIN}"
            yield name, Judged(level, "rights", text, _LATER)


def _of(plan: Plan) -> Mapping[str, Any]:
    stacks = (state for state in plan.states.values() if state["type"] == _STACK)
    return next((state.get("outputs") or {} for state in stacks), {})


def _shown(path: str, was: Any, now: Any) -> Iterator[str]:
    """Yield the paths of values that were secret and are plain text."""
    if was == _SECRET:
        if now is not None and _SECRET not in str(now):
            yield path
    elif isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in was:
            yield from _shown(f"{path}.{key}", was[key], now.get(key))
    elif _SECRET in str(was) and isinstance(was, list):
        yield from _shown(path, _SECRET, now)


def _opening(path: str, was: Any, now: Any, name: str = "") -> Iterator[tuple[Level, str]]:
    """Yield the paths of new values in plain text that let their reader in.

    A value that is not known yet may be a secret, which a plan does not say.
    """
    name = name or path
    if was == _SECRET:
        return
    if isinstance(now, Mapping):
        known = was if isinstance(was, Mapping) else {}
        for key, value in now.items():
            yield from _opening(f"{path}.{key}", known.get(key), value, str(key))
    elif isinstance(now, list):
        for value in now if was is None else ():
            yield from _opening(path, None, value, name)
    elif isinstance(now, str) and was is None and UNKNOWN not in now and _SECRET not in now:
        if FORMS.search(now):
            yield "refuse", path
        elif _lets_in(name, now):
            yield "ask", path


def _lets_in(name: str, value: str) -> bool:
    """Return whether a value lets its reader in, by its name; not one that names where it is."""
    match = _LETS_IN.search(snake(name))
    if match is None or _PLACE.search(value):
        return False
    if match.group(1) in value.lower() and not re.search(r"[\d\n]", value):
        return False  # The name of an object that has it.
    return match.group(1) != "kubeconfig" or bool(_IN_KUBECONFIG.search(value))
