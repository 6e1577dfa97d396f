"""The platforms there are, each with the model of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.model.cluster import Cluster
from railhead.platform.aws.model import AwsCluster
from railhead.platform.existing.model import ExistingCluster
from railhead.platform.gcp.model import GcpCluster
from railhead.platform.lab.model import LabCluster

CLUSTERS: Mapping[str, type[Cluster]] = MappingProxyType(
    {
        "lab": LabCluster,
        "existing": ExistingCluster,
        "aws": AwsCluster,
        "gcp": GcpCluster,
    }
)
