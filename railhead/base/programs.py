"""Programs that pods run: kept as modules, tested like any other, shipped as text."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def program(package: str, name: str) -> str:
    """Return the text of a file in a package such as ``railhead.framework.programs``."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
