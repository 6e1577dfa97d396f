"""Output of the gate and its keeper: one JSON object per line."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone


def now() -> str:
    """Return the time, as Kubernetes writes it."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - Python 3.9


def say(level: str, text: str, remedy: str = "") -> None:
    """Write a line."""
    line = {"at": now(), "level": level, "text": text} | ({"remedy": remedy} if remedy else {})
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
