"""The platforms there are, each with the model of its clusters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.fabric.mode import Mode
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

#: Platform -> what it offers to modes (:class:`railhead.fabric.mode.Mode`, ``needs``).
OFFERS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "lab": frozenset({"multus"}),
        "existing": frozenset({"multus", "operator", "efa", "gke", "nic-claims", "provider"}),
        "aws": frozenset({"efa"}),
        "gcp": frozenset({"gke", "nic-claims"}),
    }
)


def platforms_of(mode: Mode) -> tuple[str, ...]:
    """The platforms that a mode can be on, sorted."""
    return tuple(sorted(name for name, offers in OFFERS.items() if mode.on(offers)))
