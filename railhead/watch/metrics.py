"""Every metric that an alert or a dashboard may name, and where its name was read.

A query that names another one fails a test, and so does a row that no query reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

#: Who gives metrics; those from "kueue" to "railhead" the stack itself brings.
Exporter = Literal[
    "kueue",
    "controllers",
    "objects",
    "railhead",
    "kubernetes",
    "kubelet",
    "nodes",
    "rdma",
    "efa",
    "dcgm",
    "drift",
]


@dataclass(frozen=True, kw_only=True)
class Source:
    """An exporter at the version whose names these are; ``read`` is where they were read."""

    title: str
    read: str


SOURCES: Mapping[Exporter, Source] = MappingProxyType(
    {
        "kueue": Source(title="Kueue's manager", read="kueue v0.16.2 pkg/metrics/metrics.go"),
        "controllers": Source(
            title="the managers of Kueue, JobSet and Trainer",
            read="controller-runtime v0.22.4 pkg/internal/controller/metrics/metrics.go",
        ),
        "objects": Source(
            title="the stack's own kube-state-metrics, of custom resources alone",
            read="kube-state-metrics v2.15.0 docs/metrics/extend/customresourcestate-metrics.md; "
            "the names are railhead.watch.objects'",
        ),
        "railhead": Source(
            title="the stack's own exporters of guards, controllers, nodes and checkpoints",
            read="railhead.watch.exporter; of collectives nccl v2.30.7 "
            "plugins/profiler/inspector/inspector_prom.cc",
        ),
        "kubernetes": Source(
            title="kube-state-metrics", read="kube-state-metrics v2.15.0 docs/metrics"
        ),
        "kubelet": Source(
            title="the kubelet, /metrics and /metrics/cadvisor",
            read="kubernetes v1.35.8 pkg/kubelet/metrics/metrics.go, "
            "cadvisor v0.53.0 metrics/prometheus.go",
        ),
        "nodes": Source(title="node exporter", read="node_exporter v1.9.1 collector"),
        "rdma": Source(
            title="node exporter's InfiniBand collector, which reads RoCE's ports too",
            read="node_exporter v1.9.1 collector/infiniband_linux.go; bytes a second as procfs' "
            "parseRate makes them of sysfs' Gb/sec",
        ),
        "efa": Source(
            title="the EFA fork of node exporter",
            read="awslabs/awsome-distributed-ai 4.validation_and_observability/3.efa-node-exporter",
        ),
        "dcgm": Source(
            title="DCGM's exporter as the GPU operator installs it",
            read="dcgm-exporter 4.8.2 etc/default-counters.csv; Hostname is hostname since (#655)",
        ),
        "drift": Source(title="`railhead drift --metrics`", read="railhead.drift.metrics"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: its exporter, its kind, the labels that queries use, and what it says."""

    name: str
    exporter: Exporter
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    says: str


def _of(
    exporter: Exporter, *rows: tuple[str, Literal["gauge", "counter", "histogram"], str, str]
) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=name, exporter=exporter, kind=kind, labels=tuple(labels.split()), says=says)
        for name, kind, labels, says in rows
    )


_INSPECTED = "namespace claim node gpu comm_name n_nodes nranks collective message_size algo_proto"
_ROWS = (
    *_of(
        "kueue",
        ("kueue_cluster_queue_status", "gauge", "cluster_queue status", "1 for the queue's state"),
        ("kueue_pending_workloads", "gauge", "cluster_queue status", "gangs that wait"),
        ("kueue_admitted_active_workloads", "gauge", "cluster_queue", "gangs that hold quota"),
        (
            "kueue_quota_reserved_wait_time_seconds",
            "histogram",
            "cluster_queue priority_class",
            "from the queueing of a gang to its quota",
        ),
        (
            "kueue_admitted_until_ready_wait_time_seconds",
            "histogram",
            "cluster_queue priority_class",
            "from a gang's admission until all of its pods are ready",
        ),
        (
            "kueue_evicted_workloads_total",
            "counter",
            "cluster_queue reason underlying_cause",
            "gangs that Kueue evicted",
        ),
        (
            "kueue_preempted_workloads_total",
            "counter",
            "preempting_cluster_queue reason",
            "gangs that had to make room",
        ),
    ),
    *_of(
        "controllers",
        (
            "controller_runtime_reconcile_errors_total",
            "counter",
            "controller namespace",
            "reconciles that failed",
        ),
    ),
    *_of(
        "objects",
        (
            "railhead_jobset_restarts",
            "gauge",
            "namespace jobset",
            "how often the gang began again",
        ),
        (
            "railhead_workload_condition",
            "gauge",
            "namespace workload job type reason",
            "1 where a condition of Kueue's Workload is True, else 0",
        ),
        (
            "railhead_workload_gpus",
            "gauge",
            "namespace workload podset",
            "GPUs that Kueue charges for a pod set",
        ),
        (
            "railhead_trainjob_condition",
            "gauge",
            "namespace trainjob type reason",
            "1 where a condition of the TrainJob is True, else 0",
        ),
    ),
    *_of(
        "railhead",
        ("railhead_guard_bound", "gauge", "policy", "1 where a guard is there and denies, else 0"),
        (
            "railhead_controller_replicas",
            "gauge",
            "namespace deployment",
            "replicas that a controller is to have, 0 where it is gone",
        ),
        (
            "railhead_object_as_made",
            "gauge",
            "kind namespace name",
            "1 where an object is there and as the stack gives it, else 0",
        ),
        ("railhead_node_gate", "gauge", "node state", "1 for what the node gate says of a node"),
        (
            "railhead_checkpoint_newest_timestamp_seconds",
            "gauge",
            "namespace claim directory",
            "when the newest file below a directory of a claim was written",
        ),
        (
            "railhead_checkpoint_unreadable",
            "gauge",
            "namespace claim",
            "directories of a claim that may not be read, and so are not in it",
        ),
        (
            "nccl_bus_bandwidth_gbs",
            "gauge",
            _INSPECTED,
            "bus bandwidth of a collective, GB/s, of jobs with NCCL Inspector",
        ),
        (
            "nccl_collective_exec_time_microseconds",
            "gauge",
            _INSPECTED,
            "time that a collective took on one GPU, of jobs with NCCL Inspector",
        ),
    ),
    *_of(
        "kubernetes",
        ("kube_cronjob_next_schedule_time", "gauge", "namespace cronjob", "when it is due"),
        (
            "kube_cronjob_status_last_schedule_time",
            "gauge",
            "namespace cronjob",
            "when it was last begun, as scheduled",
        ),
        (
            "kube_cronjob_status_last_successful_time",
            "gauge",
            "namespace cronjob",
            "when a job of it last ended well",
        ),
        ("kube_deployment_spec_replicas", "gauge", "namespace deployment", "replicas asked for"),
        (
            "kube_deployment_status_replicas_available",
            "gauge",
            "namespace deployment",
            "replicas that are available",
        ),
        ("kube_node_status_condition", "gauge", "node condition status", "1 for what holds"),
        ("kube_node_status_allocatable", "gauge", "node resource", "what pods may take"),
        ("kube_node_status_capacity", "gauge", "node resource", "what the node has"),
        ("kube_node_spec_unschedulable", "gauge", "node", "1 where it is cordoned"),
        (
            "kube_pod_container_resource_requests",
            "gauge",
            "namespace pod container resource",
            "what a container asks for",
        ),
        (
            "kube_pod_init_container_resource_requests",
            "gauge",
            "namespace pod container resource",
            "what an init container asks for",
        ),
        (
            "kube_pod_init_container_status_running",
            "gauge",
            "namespace pod container",
            "1 while it runs: in a running pod, a sidecar",
        ),
        ("kube_pod_status_phase", "gauge", "namespace pod phase", "1 for the pod's phase"),
        ("kube_pod_deletion_timestamp", "gauge", "namespace pod", "when its grace ends or ended"),
        (
            "kube_pod_container_status_terminated_reason",
            "gauge",
            "namespace pod container reason",
            "1 for why a container ended",
        ),
    ),
    *_of(
        "kubelet",
        (
            "container_network_transmit_bytes_total",
            "counter",
            "namespace pod interface",
            "bytes that a pod sent through an interface of its network namespace",
        ),
        (
            "container_network_receive_bytes_total",
            "counter",
            "namespace pod interface",
            "bytes that a pod received through such an interface",
        ),
        (
            "kubelet_volume_stats_available_bytes",
            "gauge",
            "namespace persistentvolumeclaim",
            "what is free on a claim, where its driver says so",
        ),
        (
            "kubelet_volume_stats_capacity_bytes",
            "gauge",
            "namespace persistentvolumeclaim",
            "its size",
        ),
    ),
    *_of(
        "nodes",
        ("node_cpu_seconds_total", "counter", "instance mode", "seconds of CPU time"),
        ("node_memory_MemAvailable_bytes", "gauge", "instance", "memory that is available"),
        ("node_memory_MemTotal_bytes", "gauge", "instance", "memory there is"),
    ),
    *_of(
        "rdma",
        (
            "node_infiniband_port_data_transmitted_bytes_total",
            "counter",
            "instance device port",
            "bytes sent by a port",
        ),
        (
            "node_infiniband_port_data_received_bytes_total",
            "counter",
            "instance device port",
            "bytes received by a port",
        ),
        ("node_infiniband_state_id", "gauge", "instance device port", "4 where it is active"),
        (
            "node_infiniband_rate_bytes_per_second",
            "gauge",
            "instance device port",
            "the rate that the link was trained to",
        ),
        (
            "node_infiniband_link_downed_total",
            "counter",
            "instance device port",
            "how often the link went down",
        ),
        (
            "node_infiniband_port_errors_received_total",
            "counter",
            "instance device port",
            "packets with an error",
        ),
        (
            "node_infiniband_port_transmit_wait_total",
            "counter",
            "instance device port",
            "ticks in which the port had data and could not send",
        ),
    ),
    *_of(
        "efa",
        ("node_amazonefa_tx_bytes", "counter", "instance device port", "bytes sent"),
        ("node_amazonefa_rdma_write_bytes", "counter", "instance device port", "of them, written"),
        ("node_amazonefa_rx_drops", "counter", "instance device port", "packets dropped"),
        (
            "node_amazonefa_rdma_read_wr_err",
            "counter",
            "instance device port",
            "reads that ended with an error",
        ),
    ),
    *_of(
        "dcgm",
        ("DCGM_FI_DEV_XID_ERRORS", "gauge", "UUID gpu", "number of the last Xid, 0 for none"),
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", "UUID gpu modelName", "per cent of the time in kernels"),
        ("DCGM_FI_DEV_SM_CLOCK", "gauge", "UUID gpu modelName", "MHz"),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", "UUID gpu modelName", "watts"),
        (
            "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
            "counter",
            "UUID gpu",
            "packets sent again over PCIe",
        ),
        (
            "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
            "counter",
            "UUID gpu",
            "rows of memory replaced after uncorrectable errors",
        ),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "UUID gpu", "1 where no row was left"),
    ),
    *_of(
        "drift",
        (
            "railhead_drift_differences",
            "gauge",
            "stack severity",
            "what differs from the stack, by how bad it is",
        ),
        (
            "railhead_drift_checked_timestamp_seconds",
            "gauge",
            "stack",
            "when it was last looked at",
        ),
    ),
)

METRICS: Mapping[str, Metric] = MappingProxyType({row.name: row for row in _ROWS})


def metric_of(series: str) -> Metric:
    """Return the metric that a series' name belongs to; a histogram has three series.

    Raises:
        KeyError: no exporter here gives it.
    """
    for end in ("_bucket", "_count", "_sum"):
        result = METRICS.get(series.removesuffix(end))
        if series.endswith(end) and result is not None and result.kind == "histogram":
            return result
    return METRICS[series]
