"""Label selectors, as the API server applies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def matches(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether a label selector selects these labels; an empty one selects everything."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    for term in selector.get("matchExpressions") or ():
        key, values = str(term.get("key")), term.get("values") or []
        value = labels.get(key)
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(str(term.get("operator")), False)
        if not holds:
            return False
    return True
