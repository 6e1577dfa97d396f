"""The lab on this machine: nothing below Kubernetes is the stack's."""

from __future__ import annotations

import pulumi

from railhead.components.cluster_access import standing
from railhead.components.platform import Infrastructure
from railhead.model.cluster import Cluster


def build(cluster: Cluster, opts: pulumi.ResourceOptions) -> Infrastructure:  # noqa: ARG001
    """Find it; no resource is made."""
    return Infrastructure(access=standing(cluster))
