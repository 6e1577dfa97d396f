"""A stack on GCP: everything from the network up is its own."""

from __future__ import annotations

from typing import Literal

from railhead.config.model import Cluster, PlatformConfig, Pool


class GcpPlatform(PlatformConfig):
    """GCP."""

    kind: Literal["gcp"]


class GcpPool(Pool):
    """A GPU node pool on GCP."""


class GcpCluster(Cluster):
    """A cluster on GCP."""

    platform: GcpPlatform
    pools: tuple[GcpPool, ...]
