"""Grafana's dashboards: rows of panels, as JSON that its sidecar loads.

One panel is one question, with its queries. Every query is parsed by a test, and names metrics that
:mod:`railhead.watch.metrics` has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.watch.alerts import RUNNING, AlertValues

#: Panels are drawn from it; the person who opens a dashboard chooses which Prometheus it is.
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A time series.

    Args:
        queries: legend, as Grafana's ``{{label}}`` has it -> PromQL; ``$name`` is the stack's.
        unit: Grafana's name of it (packages/grafana-data, valueFormats).
        says: what is to be seen in it.
    """

    title: str
    queries: Mapping[str, str]
    unit: str = "short"
    says: str = ""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard; ``uid`` is part of its address and never changes."""

    uid: str
    title: str
    panels: tuple[Panel, ...]

    def document(self, site: AlertValues) -> dict[str, Any]:
        """Return the dashboard as Grafana imports it: the classic schema, read since version 10."""
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["railhead"],
            "timezone": "utc",
            "editable": True,
            "graphTooltip": 1,
            "schemaVersion": 39,
            "time": {"from": "now-6h", "to": "now"},
            "refresh": "1m",
            "templating": {
                "list": [
                    {
                        "name": "datasource",
                        "type": "datasource",
                        "query": "prometheus",
                        "label": "Prometheus",
                    }
                ]
            },
            "annotations": {"list": []},
            "panels": [_panel(panel, n, site) for n, panel in enumerate(self.panels)],
        }

    def text(self, site: AlertValues) -> str:
        """Return the same as text."""
        return json.dumps(self.document(site), indent=1) + "\n"


def _panel(panel: Panel, number: int, site: AlertValues) -> dict[str, Any]:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": _SOURCE,
        "gridPos": {
            "h": _HEIGHT,
            "w": _WIDTH,
            "x": number * _WIDTH % _COLUMNS,
            "y": number * _WIDTH // _COLUMNS * _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": site.fill(query),
                "legendFormat": legend,
                "range": True,
            }
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def queries(site: AlertValues) -> Iterator[str]:
    """Yield every query of every dashboard."""
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for query in panel.queries.values():
                yield site.fill(query)


_READY = 'railhead_workload_condition{type="PodsReady"} == 1'
_HELD = f"count by (namespace) ({RUNNING})"
_WHOLE = f"count by (namespace) ({_READY} and on (namespace, workload) ({RUNNING}))"
_WAIT = "kueue_quota_reserved_wait_time_seconds"
_START = "kueue_admitted_until_ready_wait_time_seconds"
# DCGM's exporter has called the host both.
_GPU = "{{Hostname}}{{hostname}} {{gpu}}"
_NET = '{namespace=~"$namespaces", interface="eth0"}[5m]'

DASHBOARDS: tuple[Dashboard, ...] = (
    Dashboard(
        uid="railhead-jobs",
        title="Railhead: jobs and their queue",
        panels=(
            Panel(
                title="Gangs that wait",
                queries={"{{cluster_queue}} {{status}}": "kueue_pending_workloads"},
            ),
            Panel(
                title="Gangs that hold quota",
                queries={"{{cluster_queue}}": "kueue_admitted_active_workloads"},
            ),
            Panel(
                title="Queue wait, nine in ten",
                queries={
                    "{{cluster_queue}}": "histogram_quantile(0.9, sum by (cluster_queue, le) "
                    f"(increase({_WAIT}_bucket[6h])))"
                },
                unit="s",
                says="Never above 10240 s, the last bucket that Kueue has.",
            ),
            Panel(
                title="From admission to all pods ready, nine in ten",
                queries={
                    "{{cluster_queue}}": "histogram_quantile(0.9, sum by (cluster_queue, le) "
                    f"(increase({_START}_bucket[6h])))"
                },
                unit="s",
            ),
            Panel(
                title="Share of held time in which gangs were whole (a day)",
                queries={
                    "{{namespace}}": f"sum_over_time(({_WHOLE})[1d:1m])"
                    f" / sum_over_time(({_HELD})[1d:1m])"
                },
                unit="percentunit",
                says="An upper bound of goodput: steps made twice count as made.",
            ),
            Panel(
                title="Restarts",
                queries={"{{namespace}}/{{jobset}}": "railhead_jobset_restarts"},
            ),
            Panel(
                title="Seconds per restart until whole again (a day)",
                queries={
                    "{{namespace}}": "sum by (namespace) (sum_over_time(("
                    'railhead_workload_condition{type="PodsReady"} == bool 0)[1d:1m])) * 60'
                    " / sum by (namespace) (max_over_time(railhead_jobset_restarts[1d])"
                    " - min_over_time(railhead_jobset_restarts[1d]) > 0)"
                },
                unit="s",
                says="Time to resume, to the minute, with the first start of each gang in it.",
            ),
            Panel(
                title="Put back and preempted",
                queries={
                    "{{cluster_queue}} {{reason}}": "sum by (cluster_queue, reason) "
                    "(increase(kueue_evicted_workloads_total[1h]))",
                    "by {{preempting_cluster_queue}}": "sum by (preempting_cluster_queue) "
                    "(increase(kueue_preempted_workloads_total[1h]))",
                },
            ),
            Panel(
                title="Age of the newest checkpoint",
                queries={
                    "{{namespace}}/{{claim}}/{{directory}}": "time() - "
                    "railhead_checkpoint_newest_timestamp_seconds"
                },
                unit="s",
            ),
            Panel(
                title="Directories of claims that may not be read",
                queries={"{{namespace}}/{{claim}}": "railhead_checkpoint_unreadable"},
            ),
        ),
    ),
    Dashboard(
        uid="railhead-fabric",
        title="Railhead: the fabric",
        panels=(
            Panel(
                title="Sent, by rail",
                queries={
                    "{{instance}} {{device}}": "rate("
                    "node_infiniband_port_data_transmitted_bytes_total[5m])"
                },
                unit="Bps",
            ),
            Panel(
                title="Received, by rail",
                queries={
                    "{{instance}} {{device}}": "rate("
                    "node_infiniband_port_data_received_bytes_total[5m])"
                },
                unit="Bps",
            ),
            Panel(
                title="EFA: sent and written, by device",
                queries={
                    "{{instance}} {{device}} sent": "rate(node_amazonefa_tx_bytes[5m])",
                    "{{instance}} {{device}} written": "rate(node_amazonefa_rdma_write_bytes[5m])",
                },
                unit="Bps",
            ),
            Panel(
                title="TCP of jobs through the pod network",
                queries={
                    "{{namespace}}/{{pod}} out": "sum by (namespace, pod) "
                    f"(rate(container_network_transmit_bytes_total{_NET}))",
                    "{{namespace}}/{{pod}} in": "sum by (namespace, pod) "
                    f"(rate(container_network_receive_bytes_total{_NET}))",
                },
                unit="Bps",
                says="Ranks that meet on the fabric leave it almost idle.",
            ),
            Panel(
                title="Ports that had data and could not send",
                queries={
                    "{{instance}} {{device}}": "rate(node_infiniband_port_transmit_wait_total[5m])"
                },
                says="Congestion, in the port's own ticks a second.",
            ),
            Panel(
                title="NCCL's bus bandwidth between nodes",
                queries={
                    "{{namespace}} {{collective}} {{message_size}} {{nranks}}": "avg by "
                    "(namespace, collective, message_size, nranks) "
                    '(nccl_bus_bandwidth_gbs{n_nodes!="1"}) * 1e9'
                },
                unit="Bps",
                says="Of jobs that NCCL Inspector watches.",
            ),
            Panel(
                title="Time in collectives between nodes, by node",
                queries={
                    "{{namespace}} {{node}}": "avg by (namespace, node) "
                    '(nccl_collective_exec_time_microseconds{n_nodes!="1"}) / 1e6'
                },
                unit="s",
                says="The node with the least comes last, and all others wait for it.",
            ),
            Panel(
                title="Links that fell, in an hour",
                queries={
                    "{{instance}} {{device}}": "increase(node_infiniband_link_downed_total[1h])"
                },
            ),
        ),
    ),
    Dashboard(
        uid="railhead-gpus",
        title="Railhead: GPUs and nodes",
        panels=(
            Panel(
                title="Clock of each GPU: stragglers",
                queries={_GPU: "DCGM_FI_DEV_SM_CLOCK * 1e6"},
                unit="hertz",
            ),
            Panel(
                title="Power of each GPU",
                queries={_GPU: "DCGM_FI_DEV_POWER_USAGE"},
                unit="watt",
                says="One that waits for others in NCCL takes less than one that computes.",
            ),
            Panel(
                title="In kernels",
                queries={_GPU: "DCGM_FI_DEV_GPU_UTIL"},
                unit="percent",
            ),
            Panel(
                title="Xids and replaced rows of memory",
                queries={
                    f"Xid {_GPU}": "DCGM_FI_DEV_XID_ERRORS > 0",
                    f"rows {_GPU}": "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS > 0",
                },
            ),
            Panel(
                title="Nodes, by what the gate says",
                queries={"{{state}}": "count by (state) (railhead_node_gate)"},
            ),
            Panel(
                title="Nodes that are cordoned",
                queries={"{{node}}": "kube_node_spec_unschedulable == 1"},
            ),
            Panel(
                title="CPUs that work",
                queries={
                    "{{instance}}": "1 - avg by (instance) "
                    '(rate(node_cpu_seconds_total{mode="idle"}[5m]))'
                },
                unit="percentunit",
            ),
            Panel(
                title="Memory in use",
                queries={
                    "{{instance}}": "1 - node_memory_MemAvailable_bytes"
                    " / node_memory_MemTotal_bytes"
                },
                unit="percentunit",
            ),
        ),
    ),
)
