"""Who watches the cluster, in a stack's file: rules, dashboards and what they read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from railhead.base.fields import LabelKey, Model, Name, Positive

Source = Literal["kubernetes", "kubelet", "nodes", "rdma", "efa", "dcgm", "drift"]


class WatchingConfig(Model):
    """Alerts, dashboards, and what gives the metrics that only this cluster's own objects have.

    Args:
        kind: how a Prometheus gets the rules. ``prometheus-operator`` makes PrometheusRules and
            ServiceMonitors, whose CRDs must be there; ``files`` makes ConfigMaps of plain rule
            files, for a Prometheus that mounts them or whose sidecar loads them; ``none`` nothing.
        namespace: where all of it lives. It is the stack's own.
        labels: what the Prometheus selects rules and monitors by.
        dashboards: whether Grafana's dashboards are made, as ConfigMaps.
        dashboard_labels: what Grafana's sidecar selects dashboards by.
        sources: what the Prometheus scrapes besides the stack's own: ``kubernetes``
            (kube-state-metrics), ``kubelet`` (its cAdvisor and its volumes), ``nodes`` (node
            exporter), ``rdma`` (node exporter's InfiniBand collector, RoCE too), ``efa`` (its
            fork), ``dcgm``, ``drift`` (`railhead drift --metrics`). No alert is made of what
            nobody gives. None takes what goes with the fabric and the GPU operator.
        off_fabric_megabytes: what a pod may send through the pod network, a second, before it
            counts as training off its fabric.
        checkpoint_minutes: how old the newest checkpoint of a running job may be.
        checkpoints: whether the age of checkpoints is read off the claims, by a pod a claim that
            mounts it read-only.
    """

    kind: Literal["prometheus-operator", "files", "none"] = "none"
    namespace: Name = "railhead-watching"
    labels: dict[LabelKey, str] = Field(default_factory=dict)
    dashboards: bool = True
    dashboard_labels: dict[LabelKey, str] = Field(
        default_factory=lambda: {"grafana_dashboard": "1"}
    )
    sources: tuple[Source, ...] | None = None
    off_fabric_megabytes: Positive = 100
    checkpoint_minutes: Annotated[int, Field(strict=True, ge=5, le=10080)] = 120
    checkpoints: bool = True
