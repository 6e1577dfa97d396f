"""Why did it hang, fail or crawl: a knowledge base of causes, and what it makes of logs."""

from __future__ import annotations

from railhead.diagnose.model import NAMED, Finding
from railhead.diagnose.ranking import rank, signs

__all__ = ["NAMED", "Finding", "rank", "signs"]
