"""Findings of checks, and the discovery of the checks of a package.

One type for every check: before a launch, on a node, of a cluster. Standard library only, because
the node gate ships this file to images that have nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Args:
        name: of the thing that was checked, such as ``quota`` or ``interface eth2``.
        passed: None when it could not be determined, which is never a pass.
        text: what was read, as a sentence.
        evidence: the lines or objects that prove it, if the text does not hold them.
        remedy: what to do about it; empty when there is nothing to repair.
    """

    name: str
    passed: bool | None
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


def checks_in(package: ModuleType) -> list[ModuleType]:
    """Return the modules of a package of checks, one per check, sorted by their ``ORDER``."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return sorted(modules, key=lambda module: (module.ORDER, module.__name__))
