"""Programs that travel: text that a pod starts, kept as a module that is tested like any other."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def program(package: str, name: str) -> str:
    """The text of one file of a package of programs, such as ``railhead.framework.programs``."""
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")
