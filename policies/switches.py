"""No runtime takes its jobs off the fabric by a variable of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policies.plan import UNKNOWN, Planned, containers, rows
from railhead.contract import CONFIG_MAP
from railhead.fabric.checks import NEVER
from railhead.fabric.kinds import FABRICS
from railhead.fabric.variables import ITSELF

# Which network NCCL takes and where its ranks meet: the fabric's to say, never a runtime's.
CHOOSING = ("NCCL_NET", "NCCL_SOCKET_IFNAME")
_RUNTIMES = frozenset({"ClusterTrainingRuntime", "TrainingRuntime"})


def forbidden(kind: str | None) -> dict[str, str]:
    """Variable -> why a runtime must not set it, on a fabric (on any of them for None)."""
    reasons = dict.fromkeys(NEVER, "left behind it costs every job the fabric, or half of it")
    reasons |= {name: why for name, why in ITSELF.items() if name in NEVER}
    for fabric in FABRICS.values():
        if kind in (None, fabric.name):
            reasons |= fabric.not_set
    return reasons


def contract(plan: Iterable[Planned]) -> Mapping[str, Any] | None:
    """The contract that the stack publishes; None where the plan does not know it."""
    for planned in plan:
        metadata = planned.body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if planned.kind == "ConfigMap" and name == CONFIG_MAP:
            data = planned.body.get("data")
            text = data.get("contract.json") if isinstance(data, Mapping) else None
            try:
                found = json.loads(text) if isinstance(text, str) else None
            except ValueError:
                return None
            return found if isinstance(found, dict) else None
    return None


def problems(plan: Iterable[Planned]) -> Iterator[tuple[str, str]]:
    """(message, URN) for each variable of a runtime that is the fabric's to say."""
    objects = list(plan)
    published = contract(objects) or {}
    fabric = published.get("fabric") or {}
    pinned = fabric.get("environment") or {}
    never = forbidden(fabric.get("kind"))
    for planned in objects:
        if planned.kind not in _RUNTIMES:
            continue
        for pod in planned.pods:
            for path, container in containers(pod):
                if container is UNKNOWN:
                    continue
                for where, variable in rows(container, "env", path):
                    if message := _judge(variable, pinned, never):
                        yield f"{planned.label}: {where} {message}", planned.urn


def _judge(variable: Any, pinned: Mapping[str, str], never: Mapping[str, str]) -> str | None:
    if variable is UNKNOWN or variable.get("name") is UNKNOWN:
        return (
            "is not known before the update, so it may take the jobs off the fabric: give it a "
            "value that the plan knows"
        )
    name, value = variable.get("name"), variable.get("value")
    if name in CHOOSING and value != pinned.get(name):
        says = f"the fabric says {pinned[name]!r}" if name in pinned else "the fabric leaves it"
        return (
            f"sets {name} to {value!r}, {says}: jobs would meet, or talk, off the rails and still "
            "complete: remove it from runtimes[].environment"
        )
    if name in never and name not in pinned:
        return f"sets {name}: {never[name]}: remove it from runtimes[].environment"
    return None
