"""Reads the rows of machines, which are YAML: ours under ``rows/``, a team's beside its stacks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from railhead.base.data import load
from railhead.machines.machine import Machine

FOLDER = Path(__file__).with_name("rows")
# CPUs and the share of the memory that a node keeps for itself, if no publisher says it.
_RESERVED_VCPUS = 4
_SCHEDULABLE_MEMORY = 0.92


@cache
def _row() -> TypeAdapter[Machine]:
    return TypeAdapter(Machine)


def machine(raw: Any) -> Machine:
    """Return a row as its type.

    If a row does not say what pods can request, it is computed: four CPUs and 8 % of the memory
    less than the machine has, about what the published AWS nodes leave.

    Args:
        raw: fields of :class:`Machine`.

    Raises:
        pydantic.ValidationError: a field is unknown, missing or of another type.
    """
    if isinstance(raw, Mapping):
        raw = dict(raw)
        if isinstance(cpus := raw.get("vcpus"), int):
            raw.setdefault("schedulable_vcpus", cpus - _RESERVED_VCPUS)
        if isinstance(memory := raw.get("memory_gib"), int):
            raw.setdefault("schedulable_memory_gib", int(memory * _SCHEDULABLE_MEMORY))
    return _row().validate_python(raw, extra="forbid")


@cache
def shipped() -> tuple[Machine, ...]:
    """Return the rows that ship, by file.

    Raises:
        pydantic.ValidationError: as :func:`machine`, with a note of its file and name.
    """
    files = sorted(FOLDER.glob("*.yaml"))
    return tuple(_shipped(file, raw) for file in files for raw in load(file)["machines"])


def _shipped(file: Path, raw: Any) -> Machine:
    try:
        return machine(raw)
    except ValidationError as error:
        name = raw.get("name") if isinstance(raw, Mapping) else None
        error.add_note(f"railhead/machines/rows/{file.name}: machine {name!r}")
        raise


@cache
def readings() -> Mapping[str, Mapping[str, Any]]:
    """Return the last readings of figures, ``sources`` and ``unread``, by their names in rows."""
    return MappingProxyType(load(FOLDER.parent / "readings.yaml"))
