"""The training frameworks that a runtime can be of: each module here that has a ``FRAMEWORK``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from railhead.framework.base import Framework


def _found() -> Mapping[str, Framework]:
    modules = (
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    )
    rows: list[Framework] = [m.FRAMEWORK for m in modules if hasattr(m, "FRAMEWORK")]
    return MappingProxyType({row.name: row for row in rows})


#: Name -> framework.
FRAMEWORKS: Mapping[str, Framework] = _found()
