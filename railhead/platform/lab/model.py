"""A stack on the lab of this machine."""

from __future__ import annotations

from typing import Literal

from railhead.model.cluster import Cluster, Name, PlatformConfig


class LabPlatform(PlatformConfig):
    """The lab on this machine. ``lab`` is its name, as in ``railhead lab up --name``."""

    kind: Literal["lab"]
    lab: Name = "lab"


class LabCluster(Cluster):
    """A cluster on the lab."""

    platform: LabPlatform
