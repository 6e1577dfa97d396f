"""Tags of images that name no version."""

from __future__ import annotations

from typing import Final

#: Tags that are moved to other images as a habit: a branch's newest, or a channel's.
MOVING: Final = frozenset(
    "canary dev devel edge head latest main master nightly rolling stable".split()
)
