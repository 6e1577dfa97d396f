"""Values written into CEL expressions; JSON's escapes are CEL's."""

from __future__ import annotations

import json
from collections.abc import Sequence


def strings(values: Sequence[str]) -> str:
    """Return a CEL list of strings."""
    return json.dumps(list(values))


def string(value: str) -> str:
    """Return a CEL string."""
    return json.dumps(value)
