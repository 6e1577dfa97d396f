"""Reading NCCL: which transport, how fast, and what hung.

Names are loaded when they are used, so that the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railhead.nccl.build import build as read
    from railhead.nccl.reading import Claim, Communicator, Note, Reading
    from railhead.nccl.signs import Evidence, Hit, Hits, Sign

__all__ = [
    "Claim",
    "Communicator",
    "Evidence",
    "Hit",
    "Hits",
    "Note",
    "Reading",
    "Sign",
    "read",
]


def __getattr__(name: str) -> Any:
    if name == "read":
        from railhead.nccl.build import build

        return build
    if name in ("Claim", "Communicator", "Note", "Reading"):
        from railhead.nccl import reading

        return getattr(reading, name)
    if name in ("Evidence", "Hit", "Hits", "Sign"):
        from railhead.nccl import signs

        return getattr(signs, name)
    raise AttributeError(name)
