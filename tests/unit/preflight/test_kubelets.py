"""Kubelets that lose the drivers of claimed devices, asked of a client that plays a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from railhead import config
from railhead.platform.existing.model import ExistingCluster
from railhead.preflight import existing as checks
from tests.shipped import stack


class Client:
    """A cluster of Kubernetes 1.34 with one node of the pool."""

    def __init__(self, kubelet: str) -> None:
        labels = {"railhead.dev/pool": "h100"}
        info = {"kubeletVersion": kubelet}
        self.node = {"metadata": {"name": "a", "labels": labels}, "status": {"nodeInfo": info}}

    def get(self, _: str) -> dict[str, str]:
        return {"major": "1", "minor": "34"}

    def list(self, _: str, **__: Any) -> list[Any]:
        return [self.node]


@pytest.mark.parametrize(
    ("kubelet", "claims", "passed"),
    [
        ("v1.34.1", True, [True, False]),
        ("v1.34.0+rke2r1", True, [True, False]),
        ("v1.34.2", True, [True]),
        ("v1.34.10", True, [True]),
        ("v1.34.1-gke.1829001", True, [True]),  # Google's has the mend.
        ("v1.34.1", False, [True]),
    ],
)
def test_kubelet_that_loses_idle_drivers_fails(
    kubelet: str, claims: bool, passed: list[bool]
) -> None:
    section = stack("onprem-ib-sriov")
    section["gpu_operator"] |= {"compute_domains": claims}
    section["fabric"].pop("network_operator", None)
    cluster = config.parse(section, where="test")
    assert isinstance(cluster, ExistingCluster)
    client: Any = Client(kubelet)
    assert [f.passed for f in checks.kubernetes(client, cluster)] == passed
