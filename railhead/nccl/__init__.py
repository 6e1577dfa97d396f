"""Reading NCCL: which transport, how fast, and what hung."""

from __future__ import annotations

from railhead.nccl.reading import Communicator, Reading, read
from railhead.nccl.signs import Evidence, Hit, Hits, Sign

__all__ = ["Communicator", "Evidence", "Hit", "Hits", "Reading", "Sign", "read"]
