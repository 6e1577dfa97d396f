"""A cluster on GCP, from the network to its node pools."""

from __future__ import annotations

import pulumi

from components.platforms import Infrastructure
from railhead.config.gcp import GcpCluster


def build(cluster: GcpCluster, opts: pulumi.ResourceOptions) -> Infrastructure:
    """Build all that lies below Kubernetes, and its API server; ``opts`` carries the parent."""
    raise NotImplementedError
