"""Tags of images that are moved from image to image."""

from __future__ import annotations

from typing import Final

#: Tags that are moved to other images as a habit: a branch's newest, or a channel's.
MOVING: Final = frozenset(
    "canary dev devel edge head latest main master nightly rolling stable".split()
)


def moves(image: str) -> bool:
    """Return whether a reference is another image tomorrow: no digest, and no tag or a moving one.

    >>> moves("nvcr.io/nvidia/pytorch"), moves("registry:5000/a:v1"), moves("a@sha256:0")
    (True, False, False)
    """
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return not digest and (not tag or tag in MOVING)
