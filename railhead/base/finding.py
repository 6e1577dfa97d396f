"""What a check finds, and how the checks of a package are found.

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
    """What one check found.

    Args:
        name: of what was looked at, such as ``quota`` or ``interface eth2``.
        passed: None where it could not be told, which is never a pass.
        text: what was read, as a sentence.
        evidence: the lines or objects that it rests on, where the text does not hold them.
        remedy: what to do about it; empty where there is nothing to mend.
    """

    name: str
    passed: bool | None
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


def checks_in(package: ModuleType) -> list[ModuleType]:
    """The modules of a package of checks, one a check, in the order of their ``ORDER``."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return sorted(modules, key=lambda module: (module.ORDER, module.__name__))
