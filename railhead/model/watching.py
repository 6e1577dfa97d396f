"""Monitoring of the cluster, in a stack's file: rules, dashboards and their sources."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from railhead.base.fields import ImageReference, LabelKey, Model, Name, Positive, matching, problem

Source = Literal["kubernetes", "kubelet", "nodes", "rdma", "efa", "dcgm", "drift"]


# Five fields of cron's (robfig/cron v3, ParseStandard, which Kubernetes takes).
_FIELD = r"[0-9A-Za-z*?,/-]+"
_RANGES = (
    ("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12),
    ("day of the week", 0, 6),
)  # fmt: skip


def _in_range(value: str) -> str:
    for (what, least, most), text in zip(_RANGES, value.split(" "), strict=True):
        for number in re.findall(r"(?<!/)\b[0-9]+", text):
            if not least <= int(number) <= most:
                raise problem(f"{value!r}: {number} is no {what}, which is {least} to {most}")
    return value


Schedule = Annotated[
    str,
    matching(
        rf"^{_FIELD}( {_FIELD}){{4}}$",
        "a schedule of five fields as cron has them, such as '0 3 * * *'",
        longest=100,
    ),
    AfterValidator(_in_range),
]
#: Checks that can run beside others' jobs, with a researcher's rights: the other checks fill the
#: queue with contests, harm their own jobs or act as another user.
Recurring = Literal["rdma", "slow-nodes", "scaling"]


class AcceptanceConfig(Model):
    """Checks of `railhead accept --quick` that a CronJob repeats.

    Args:
        image: an image with `railhead` on its PATH: any image with Python in which the
            wheels of the stack's own release of Railhead are installed.
        schedule: when, in UTC, as a cron expression.
        checks: which of them; their jobs wait in the queue at the cluster's lowest priority.
        namespace: the training namespace whose queue they wait in; the cluster's first when absent.
        minutes: how long all of it may take, its wait in the queue included. What is not proven
            by then is not proven.
    """

    image: ImageReference
    schedule: Schedule = "0 3 * * *"
    checks: Annotated[tuple[Recurring, ...], Field(min_length=1)] = ("rdma", "slow-nodes")
    namespace: Name | None = None
    minutes: Annotated[int, Field(strict=True, ge=10, le=1440)] = 120


class WatchingConfig(Model):
    """Alerts, dashboards, and what gives the metrics that only this cluster's own objects have.

    Args:
        kind: how a Prometheus gets the rules. ``prometheus-operator`` makes PrometheusRules and
            ServiceMonitors, whose CRDs must be there; ``files`` makes ConfigMaps of plain rule
            files, for a Prometheus that mounts them or whose sidecar loads them; ``none`` nothing.
        namespace: the namespace of all of it. It is the stack's own.
        labels: labels by which the Prometheus selects rules and monitors.
        dashboards: whether Grafana's dashboards are made, as ConfigMaps.
        dashboard_labels: labels by which Grafana's sidecar selects dashboards.
        sources: what the Prometheus scrapes beside the stack's own: ``kubernetes``
            (kube-state-metrics), ``kubelet`` (its cAdvisor and its volumes), ``nodes`` (node
            exporter), ``rdma`` (node exporter's InfiniBand collector, RoCE too), ``efa`` (its
            fork), ``dcgm``, ``drift`` (`railhead drift --metrics`). An alert without its source
            is left out. None takes what goes with the fabric and the GPU operator.
        off_fabric_megabytes: what a pod may send through the pod network, a second, before it
            counts as training off its fabric.
        checkpoint_minutes: how old the newest checkpoint of a running job may be.
        acceptance: checks of `railhead accept` to repeat; None repeats none.
        checkpoints: whether the age of checkpoints is read off the claims, by one pod for each
            claim, which mounts it read-only.
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
    acceptance: AcceptanceConfig | None = None

    @model_validator(mode="after")
    def _told(self) -> WatchingConfig:
        if self.acceptance is not None and self.kind == "none":
            raise problem("acceptance: nobody sees what it finds where kind is 'none'")
        return self
