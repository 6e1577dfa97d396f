"""The rule that no runtime takes its jobs off the fabric by a variable of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from railhead.catalog.switches import SWITCHES
from railhead.contract import CONFIG_MAP
from railhead.fabric.kinds import FABRICS
from railhead.policies.plan import UNKNOWN, PlannedObject, containers, rows

_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})

_UNJUDGED = (
    "is not known before the update, so it may take the jobs off the fabric: give it a value that "
    "the plan knows"
)
_UNSEEN = (
    "brings variables that no rule can see, and which may take the jobs off the fabric: name each "
    "in env"
)


def forbidden(kind: str | None) -> dict[str, str]:
    """Return variable -> why a runtime must not set it, on a fabric (on any of them for None)."""
    reasons = {name: switch.reason for name, switch in SWITCHES.items()}
    for fabric in FABRICS.values():
        if kind in (None, fabric.name):
            reasons |= fabric.not_set
    return reasons


def contract(plan: Iterable[PlannedObject]) -> Mapping[str, Any] | None:
    """Return the contract that the stack publishes; None if the plan does not know it."""
    for planned in plan:
        metadata = planned.body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if planned.kind == "ConfigMap" and name == CONFIG_MAP:
            data = planned.body.get("data")
            text = data.get("contract.json") if isinstance(data, Mapping) else None
            try:
                result = json.loads(text) if isinstance(text, str) else None
            except ValueError:
                return None
            return result if isinstance(result, dict) else None
    return None


def problems(plan: Iterable[PlannedObject]) -> Iterator[tuple[str, str]]:
    """Yield (message, URN) for each variable of a runtime that only the fabric may set."""
    objects = list(plan)
    published = contract(objects) or {}
    fabric = published.get("fabric") or {}
    pinned = {name: (value,) for name, value in (fabric.get("environment") or {}).items()}
    # Variables that differ from pool to pool are not in the fabric's common environment.
    for name, switch in (fabric.get("switches") or {}).items():
        if switch.get("allowed"):
            pinned[name] = tuple(switch["allowed"])
    never = forbidden(fabric.get("kind"))
    for planned in objects:
        if planned.kind not in _RUNTIMES:
            continue
        for pod in planned.pods:
            for path, container in containers(pod):
                if container is UNKNOWN:
                    yield f"{planned.label}: {path} {_UNJUDGED}", planned.urn
                    continue
                for where, _ in rows(container, "envFrom", path):
                    yield f"{planned.label}: {where} {_UNSEEN}", planned.urn
                for where, variable in rows(container, "env", path):
                    if message := _judge(variable, pinned, never):
                        yield f"{planned.label}: {where} {message}", planned.urn


def _judge(
    variable: Any, pinned: Mapping[str, tuple[str, ...]], never: Mapping[str, str]
) -> str | None:
    if variable is UNKNOWN or variable.get("name") is UNKNOWN:
        return _UNJUDGED
    name, value = variable.get("name"), variable.get("value")
    if name in SWITCHES and value not in pinned.get(name, ()):
        allowed = pinned.get(name, ())
        says = f"the fabric says {' or '.join(map(repr, allowed))}" if allowed else "it is left"
        return (
            f"sets {name} to {value!r}, {says}: {never[name]}; jobs would meet, or talk, off the "
            "rails and still complete: remove it from runtimes[].environment"
        )
    if name in never and name not in pinned:
        return f"sets {name}: {never[name]}: remove it from runtimes[].environment"
    return None
