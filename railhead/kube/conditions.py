"""Conditions of an object's status, as Kubernetes' own API conventions have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def condition(obj: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """Return an object's condition of this ``type``; empty without it, or without an object."""
    conditions = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((dict(row) for row in conditions if row.get("type") == kind), {})


def holds(obj: Mapping[str, Any] | None, kind: str) -> bool:
    """Return whether the condition exists and is ``True``."""
    return condition(obj, kind).get("status") == "True"
