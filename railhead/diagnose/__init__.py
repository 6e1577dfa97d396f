"""Finds why a run hung, failed or crawled: a knowledge base of causes, and its rules for logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railhead.diagnose.model import NAMED, RankedCause
    from railhead.diagnose.ranking import rank, signs
    from railhead.diagnose.reading import read

__all__ = ["NAMED", "RankedCause", "rank", "read", "signs"]


def __getattr__(name: str) -> Any:
    """Load the knowledge base on first use, so that the command line starts fast."""
    if name in ("rank", "signs"):
        from railhead.diagnose import ranking

        return getattr(ranking, name)
    if name == "read":
        from railhead.diagnose import reading

        return reading.read
    if name in ("NAMED", "RankedCause"):
        from railhead.diagnose import model

        return getattr(model, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
