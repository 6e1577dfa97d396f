"""Compares a stack's outputs: names that others read, and what of them is secret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from railhead.lab.planning import Plan
from railhead.review.judged import Judged, few

_STACK = "pulumi:pulumi:Stack"
_SECRET = "[secret]"  # noqa: S105 - as plans print one


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
            text = f"is no secret any more in {few(shown, 4)}: it lies in plain text in the "
            text += "stack's state, and `pulumi stack output` prints it"
            yield name, Judged("refuse", "rights", text, "nobody, until someone reads it")


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
