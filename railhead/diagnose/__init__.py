"""Why did it hang, fail or crawl: a knowledge base of causes, and what it makes of logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railhead.diagnose.model import NAMED, RankedCause
    from railhead.diagnose.ranking import rank, signs
    from railhead.diagnose.reading import read

__all__ = ["NAMED", "RankedCause", "rank", "read", "signs"]


def __getattr__(name: str) -> Any:
    """The knowledge base is loaded with the first use, not with the command line."""
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
