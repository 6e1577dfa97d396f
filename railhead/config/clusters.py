"""The platforms there are, each with the model of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.config.aws import AwsCluster
from railhead.config.existing import ExistingCluster
from railhead.config.gcp import GcpCluster
from railhead.config.lab import LabCluster
from railhead.config.model import Cluster

CLUSTERS: Mapping[str, type[Cluster]] = MappingProxyType(
    {
        "lab": LabCluster,
        "existing": ExistingCluster,
        "aws": AwsCluster,
        "gcp": GcpCluster,
    }
)
