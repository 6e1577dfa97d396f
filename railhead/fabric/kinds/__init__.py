"""All fabrics: each module here, or beside its only mode, that has a ``FABRIC``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from railhead.fabric.kind import FabricKind


def _found() -> Mapping[str, FabricKind]:
    rows = (
        importlib.import_module(f"{__name__}.{module.name}").FABRIC
        for module in pkgutil.iter_modules(__path__)
    )
    return MappingProxyType({row.name: row for row in rows})


#: Name -> row of each fabric.
FABRICS: Mapping[str, FabricKind] = _found()
