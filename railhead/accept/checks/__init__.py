"""One file a check, each with a ``CHECK``; a new one is found by being here."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from railhead.accept.check import Check


def every() -> tuple[Check[Any], ...]:
    """Return all checks there are, in the order in which they run."""
    modules = [
        importlib.import_module(f"{__name__}.{item.name}")
        for item in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted((module.CHECK for module in modules), key=lambda check: check.order))
