"""A stack on AWS: everything from the network up is its own."""

from __future__ import annotations

from typing import Literal

from railhead.config.model import Cluster, PlatformConfig, Pool


class AwsPlatform(PlatformConfig):
    """AWS."""

    kind: Literal["aws"]


class AwsPool(Pool):
    """A GPU node pool on AWS."""


class AwsCluster(Cluster):
    """A cluster on AWS."""

    platform: AwsPlatform
    pools: tuple[AwsPool, ...]
