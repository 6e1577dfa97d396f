"""All modes: each module here, with a subclass of ``BaseFabric`` in ``CONFIG``."""

from __future__ import annotations

import functools
import importlib
import operator
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from railhead.fabric.mode import BaseFabric, Mode


def _found() -> Mapping[str, type[BaseFabric]]:
    models: list[type[BaseFabric]] = [
        importlib.import_module(f"{__name__}.{module.name}").CONFIG
        for module in pkgutil.iter_modules(__path__)
    ]
    return MappingProxyType({model.row.name: model for model in models})


#: Name -> model of a stack's ``fabric`` in that mode.
CONFIGS: Mapping[str, type[BaseFabric]] = _found()
#: Name -> row of each mode.
MODES: Mapping[str, Mode] = MappingProxyType({name: c.row for name, c in CONFIGS.items()})

# Tagged by ``mode``; a type checker cannot know a union that is built here.
_UNION = functools.reduce(operator.or_, CONFIGS.values())
if TYPE_CHECKING:
    FabricConfig = BaseFabric
else:
    FabricConfig = Annotated[_UNION, Field(discriminator="mode")]


def modes_of(fabrics: frozenset[str], offers: frozenset[str]) -> tuple[str, ...]:
    """Return the modes that a machine with these fabrics can use on a platform."""
    return tuple(name for name, mode in MODES.items() if mode.fabrics & fabrics and mode.on(offers))
