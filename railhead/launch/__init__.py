"""Launches gangs from ten-line job files: read, plan, check, submit, watch, cancel.

``Job``, ``Run`` and ``connect`` are the same in Python; they are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railhead.launch.api import Job, Run, connect

__all__ = ["Job", "Run", "connect"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from railhead.launch import api

    return getattr(api, name)
