"""One file a check, each with a ``CHECK``; a new one is found by being here."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from railhead.accept.check import Check


def every() -> tuple[Check[Any], ...]:
    """All checks there are, in the order in which they run."""
    modules = [
        importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
    ]
    return tuple(sorted((module.CHECK for module in modules), key=lambda check: check.order))
