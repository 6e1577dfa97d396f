"""The kinds of job that a plan can be written as: each module here that has an ``API``.

TrainJob is what launch submits; these are for clusters that have others. The pods are the same in
all: same image, command, resources, networks and fabric's variables, the same world.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from railhead.launch.apis.base import Api


@cache
def apis() -> Mapping[str, Api]:
    """Return the kinds of job by name, as ``--api`` takes it."""
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    rows: list[Api] = [m.API for m in modules if hasattr(m, "API")]
    return {row.name: row for row in rows}
