"""Conditions of an object's status, as Kubernetes' own API conventions have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def condition(obj: Mapping[str, Any] | None, kind: str) -> dict[str, Any]:
    """An object's condition of this ``type``; empty where there is none, or no object."""
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((dict(one) for one in found if one.get("type") == kind), {})


def holds(obj: Mapping[str, Any] | None, kind: str) -> bool:
    """Whether it is there and ``True``; neither ``Unknown`` nor its absence is."""
    return condition(obj, kind).get("status") == "True"
