"""The platforms there are: a folder beside this file is one, and is listed nowhere."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from railhead import platform
from railhead.fabric.mode import Mode
from railhead.model.cluster import Cluster
from railhead.platform.base import Platform


def _found() -> Mapping[str, Platform[Any]]:
    folders = [m.name for m in pkgutil.iter_modules(platform.__path__) if m.ispkg]
    modules = (importlib.import_module(f"{platform.__name__}.{folder}") for folder in folders)
    return MappingProxyType({module.PLATFORM.kind: module.PLATFORM for module in modules})


#: Kind -> platform, sorted.
PLATFORMS = _found()


def platform_of(cluster: Cluster) -> Platform[Any]:
    """Return the platform that a cluster lives on."""
    return PLATFORMS[cluster.platform.kind]


def platforms_of(mode: Mode) -> tuple[str, ...]:
    """Return the platforms that a mode can be on, sorted."""
    return tuple(kind for kind, item in PLATFORMS.items() if mode.on(item.offers))
