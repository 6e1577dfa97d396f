"""Recorded series for each alert: on which it must fire, on which it must not.

Values are promtool's: ``1+2x3`` is 1 3 5 7, one a minute; ``_`` is no sample. Each alert has series
just on either side of its threshold, so that a threshold that was changed is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from railhead.watch.alerts import AlertValues

SITE = AlertValues(
    namespaces="training|research",
    controllers="jobset-controller|kubeflow-trainer-controller-manager|kueue-controller-manager",
    controller_count=3,
    devices="mlx5_0|mlx5_1",
    rail_bytes=50_000_000_000,
    off_fabric_bytes=100_000_000,
    checkpoint_seconds=7200,
    acceptance_seconds=7200,
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recording.

    Args:
        alert: which alert it is about.
        at: minutes after the first sample.
        labels: of the one alert that fires beside ``severity``; None where none may fire.
        summary: what it says then.
    """

    alert: str
    at: int
    series: Mapping[str, str]
    labels: Mapping[str, str] | None = None
    summary: str = ""


def fires(alert: str, at: int, series: Mapping[str, str], summary: str, **labels: str) -> Case:
    return Case(alert=alert, at=at, series=series, labels=labels, summary=summary)


def quiet(alert: str, at: int, series: Mapping[str, str]) -> Case:
    return Case(alert=alert, at=at, series=series)


def conditions(name: str, minutes: int = 400, **values: str) -> dict[str, str]:
    """Return a Workload's conditions; a value is constant unless it says otherwise."""
    head = f'railhead_workload_condition{{namespace="training", workload="{name}-w", job="{name}"'
    return {
        f'{head}, type="{kind}", reason="R"}}': value if "x" in value else f"{value}x{minutes}"
        for kind, value in values.items()
    }


def _running(pods: int, phase: str = "Running", *, gpus: int = 8) -> dict[str, str]:
    """Return pods with GPUs."""
    results = {}
    for index in range(pods):
        pod = f'namespace="training", pod="p{index}"'
        asked = f'{{{pod}, container="node", resource="nvidia_com_gpu"}}'
        results[f"kube_pod_container_resource_requests{asked}"] = f"{gpus}x60"
        results[f'kube_pod_status_phase{{{pod}, phase="{phase}"}}'] = "1x60"
    return results


def _init(runs: str) -> dict[str, str]:
    """Return an init container with four GPUs of the first pod of :func:`_running`."""
    its = 'namespace="training", pod="p0", container="init"'
    asked = f'{{{its}, resource="nvidia_com_gpu"}}'
    return {
        f"kube_pod_init_container_resource_requests{asked}": "4x60",
        f"kube_pod_init_container_status_running{{{its}}}": runs,
    }


def _charged(job: str, gpus: int, **values: str) -> dict[str, str]:
    """Return a Workload that holds quota for GPUs; ``values`` are more of its conditions."""
    labels = f'namespace="training", workload="{job}-w", job="{job}", podset="node"'
    charged = {f"railhead_workload_gpus{{{labels}}}": f"{gpus}x60"}
    return charged | conditions(job, 60, QuotaReserved="1", **values)


def gpus(clocks: list[int], idle: int = 0) -> dict[str, str]:
    """Clocks of GPUs at 99 %, the last ``idle`` of them at 80 %."""
    results = {}
    for index, clock in enumerate(clocks):
        util = 99 if index < len(clocks) - idle else 80
        labels = f'{{UUID="GPU-{index}", gpu="{index}", Hostname="n0", modelName="H100"}}'
        results[f"DCGM_FI_DEV_SM_CLOCK{labels}"] = f"{clock}x60"
        results[f"DCGM_FI_DEV_GPU_UTIL{labels}"] = f"{util}x60"
    return results


def rails(first: int, second: int) -> dict[str, str]:
    """Return two rails of one node, in bytes a minute."""
    name = "node_infiniband_port_data_transmitted_bytes_total"
    return {
        f'{name}{{instance="n0", device="mlx5_0", port="1"}}': f"0+{first}x60",
        f'{name}{{instance="n0", device="mlx5_1", port="1"}}': f"0+{second}x60",
    }


GPU = '{UUID="GPU-7", gpu="7", Hostname="n0", modelName="H100"}'
ON_GPU = {"UUID": "GPU-7", "gpu": "7", "Hostname": "n0", "modelName": "H100"}
PORT = '{instance="n0", device="mlx5_1", port="1"}'
ON_PORT = {"instance": "n0", "device": "mlx5_1", "port": "1"}
OTHER_PORT = '{instance="n0", device="mlx5_bond_0", port="1"}'
ACTIVE = 'kueue_cluster_queue_status{cluster_queue="q", status="active", replica_role="leader"}'
PENDING = 'kueue_pending_workloads{cluster_queue="q", status="inadmissible"}'
ADMITTED = 'kueue_admitted_active_workloads{cluster_queue="q"}'
WAITED = 'kueue_quota_reserved_wait_time_seconds_bucket{cluster_queue="q", le="10240"}'
QUEUED = 'kueue_quota_reserved_wait_time_seconds_count{cluster_queue="q"}'
EVICTED = 'railhead_workload_condition{namespace="training", workload="w", job="j", type="Evicted"'
RESTARTS = 'railhead_jobset_restarts{namespace="training", jobset="j"}'
POD = 'kube_pod_deletion_timestamp{namespace="training", pod="j-node-0-0"}'
FAILED = (
    'railhead_trainjob_condition{namespace="training", trainjob="j", type="Failed", reason="R"}'
)
KILLED = (
    'kube_pod_container_status_terminated_reason{namespace="training", pod="p", container="node",'
)
NEWEST = (
    'railhead_checkpoint_newest_timestamp_seconds{namespace="training", claim="c", directory="run"}'
)
FREE = 'kubelet_volume_stats_available_bytes{namespace="training", persistentvolumeclaim="c"}'
SIZE = 'kubelet_volume_stats_capacity_bytes{namespace="training", persistentvolumeclaim="c"}'
SENT = "container_network_transmit_bytes_total"
RATE = "node_infiniband_rate_bytes_per_second"
GATE = "railhead_node_gate"
ALLOCATABLE = 'kube_node_status_allocatable{node="n0", resource="nvidia_com_gpu"}'
CAPACITY = 'kube_node_status_capacity{node="n0", resource="nvidia_com_gpu"}'
GUARD = 'railhead_guard_bound{policy="railhead-queue"}'
OF_GUARD = {"kind": "ValidatingAdmissionPolicyBinding", "name": "railhead-queue"}
OF_QUEUE = {"kind": "LocalQueue", "namespace": "training", "name": "gpu"}
DRIFTED = 'railhead_drift_differences{stack="lab", severity='
#: The CronJob of an acceptance that comes again and again, and its metrics.
AGAIN = {"namespace": "railhead-watching", "cronjob": "railhead-acceptance"}
_AGAIN = '{namespace="railhead-watching", cronjob="railhead-acceptance"}'
BEGUN = f"kube_cronjob_status_last_schedule_time{_AGAIN}"
ENDED = f"kube_cronjob_status_last_successful_time{_AGAIN}"
DUE = f"kube_cronjob_next_schedule_time{_AGAIN}"
LOOKED = 'railhead_drift_checked_timestamp_seconds{stack="lab"}'


def replicas(metric: str, deployment: str, namespace: str = "kueue-system") -> str:
    return f'{metric}{{namespace="{namespace}", deployment="{deployment}"}}'


def as_made(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"railhead_object_as_made{{{inner}}}"


TOLD = replicas("railhead_controller_replicas", "kueue-controller-manager")
KUEUE = replicas("kube_deployment_spec_replicas", "kueue-controller-manager")
JOBSET = replicas("kube_deployment_spec_replicas", "jobset-controller", "jobset-system")
TRAINER = replicas(
    "kube_deployment_spec_replicas", "kubeflow-trainer-controller-manager", "kubeflow-system"
)
KUEUE_UP = replicas("kube_deployment_status_replicas_available", "kueue-controller-manager")


def condition(kind: str, status: str) -> str:
    return f'kube_node_status_condition{{node="n0", condition="{kind}", status="{status}"}}'


def collective(nodes: int = 2, gpu: str = "GPU0") -> str:
    """Return NCCL Inspector's series of one GPU's collectives."""
    return (
        'nccl_bus_bandwidth_gbs{namespace="training", node="j-node-0-0", comm_name="unknown", '
        f'n_nodes="{nodes}", nranks="16", collective="AllReduce", message_size="64-128MB", '
        f'gpu="{gpu}"}}'
    )


CASES: tuple[Case, ...] = (
    fires(
        "RailheadQueueNotActive",
        5,
        {ACTIVE: "0x60"},
        "ClusterQueue q admits nothing",
        cluster_queue="q",
    ),
    quiet("RailheadQueueNotActive", 4, {ACTIVE: "0x60"}),
    quiet("RailheadQueueNotActive", 30, {ACTIVE: "1x60"}),
    fires(
        "RailheadQueueStuck",
        15,
        {PENDING: "1x60"},
        "1 jobs wait in q, and nothing runs there",
        cluster_queue="q",
    ),
    fires(
        "RailheadQueueStuck",
        20,
        {PENDING: "3x60", ADMITTED: "0x60"},
        "3 jobs wait in q, and nothing runs there",
        cluster_queue="q",
    ),
    quiet("RailheadQueueStuck", 14, {PENDING: "1x60"}),
    quiet("RailheadQueueStuck", 40, {PENDING: "5x60", ADMITTED: "1x60"}),
    quiet("RailheadQueueStuck", 40, {PENDING: "0x60"}),
    fires(
        "RailheadQueueSlow",
        400,
        {WAITED: "0+7x500", QUEUED: "0+8x500"},
        "12.5% of the jobs in q waited almost three hours or longer",
        cluster_queue="q",
    ),
    quiet("RailheadQueueSlow", 400, {WAITED: "0+19x500", QUEUED: "0+20x500"}),
    quiet("RailheadQueueSlow", 25, {WAITED: "0+7x500", QUEUED: "0+8x500"}),
    fires(
        "RailheadGangPutBack",
        1,
        {f'{EVICTED}, reason="PodsReadyTimeout"}}': "1x10"},
        "training/j was admitted, its pods never all ran",
        namespace="training",
        workload="w",
        job="j",
        type="Evicted",
        reason="PodsReadyTimeout",
    ),
    fires(
        "RailheadGangPutBack",
        1,
        {f'{EVICTED}, reason="DeactivatedDueToRequeuingLimitExceeded"}}': "1x10"},
        "training/j was admitted, its pods never all ran",
        namespace="training",
        workload="w",
        job="j",
        type="Evicted",
        reason="DeactivatedDueToRequeuingLimitExceeded",
    ),
    quiet("RailheadGangPutBack", 5, {f'{EVICTED}, reason="Preempted"}}': "1x10"}),
    quiet("RailheadGangPutBack", 5, {f'{EVICTED}, reason="PodsReadyTimeout"}}': "0x10"}),
    fires(
        "RailheadGangRestarted",
        6,
        {RESTARTS: "0x4 1x60"},
        "training/j started again from its checkpoint",
        namespace="training",
        jobset="j",
    ),
    quiet("RailheadGangRestarted", 40, {RESTARTS: "0x4 1x60"}),
    quiet("RailheadGangRestarted", 6, {RESTARTS: "2x60"}),
    fires(
        "RailheadGangKeepsRestarting",
        110,
        {RESTARTS: "0x20 1x30 2x30 3x60"},
        "training/j restarted 3 times in two hours",
        namespace="training",
        jobset="j",
    ),
    quiet("RailheadGangKeepsRestarting", 110, {RESTARTS: "0x20 1x30 2x100"}),
    # Three restarts, but never three in two hours.
    quiet("RailheadGangKeepsRestarting", 320, {RESTARTS: "0x20 1x130 2x130 3x200"}),
    fires(
        "RailheadGangNotWhole",
        5,
        conditions("j", Admitted="1", PodsReady="0"),
        "training/j holds quota and not all its pods run",
        namespace="training",
        workload="j-w",
        job="j",
        type="PodsReady",
        reason="R",
    ),
    quiet("RailheadGangNotWhole", 4, conditions("j", Admitted="1", PodsReady="0")),
    quiet("RailheadGangNotWhole", 30, conditions("j", Admitted="1", PodsReady="1")),
    quiet("RailheadGangNotWhole", 30, conditions("j", Admitted="0", PodsReady="0")),
    quiet("RailheadGangNotWhole", 30, conditions("j", Admitted="1", PodsReady="0", Finished="1")),
    # Another gang's admission is not this one's.
    quiet(
        "RailheadGangNotWhole",
        30,
        conditions("j", PodsReady="0") | conditions("k", Admitted="1"),
    ),
    fires(
        "RailheadPodsOnLostNode",
        8,
        {POD: "60x20"},
        "pod training/j-node-0-0 cannot end: its node is gone",
        namespace="training",
        pod="j-node-0-0",
    ),
    quiet("RailheadPodsOnLostNode", 7, {POD: "60x20"}),
    quiet("RailheadPodsOnLostNode", 20, {POD.replace("training", "elsewhere"): "60x20"}),
    fires(
        "RailheadJobFailed",
        1,
        {FAILED: "1x200"},
        "training/j failed (R)",
        namespace="training",
        trainjob="j",
        type="Failed",
        reason="R",
    ),
    quiet("RailheadJobFailed", 90, {FAILED: "1x200"}),
    quiet("RailheadJobFailed", 90, {FAILED: "0x200"}),
    # Eight of sixteen GPUs have a Workload; a finished one's no longer count.
    fires(
        "RailheadGpusUncharged",
        11,
        _running(2) | _charged("j", 8) | _charged("old", 8, Finished="1"),
        "8 GPUs in training are in use, and no queue is charged",
        namespace="training",
    ),
    fires(
        "RailheadGpusUncharged",
        11,
        _running(1, gpus=1),
        "1 GPUs in training are in use, and no queue is charged",
        namespace="training",
    ),
    # A sidecar holds its GPUs while it runs, an init container that has ended none.
    fires(
        "RailheadGpusUncharged",
        11,
        _running(1) | _charged("j", 8) | _init("1x60"),
        "4 GPUs in training are in use, and no queue is charged",
        namespace="training",
    ),
    quiet("RailheadGpusUncharged", 60, _running(1) | _charged("j", 8) | _init("0x60")),
    quiet("RailheadGpusUncharged", 9, _running(1)),
    quiet("RailheadGpusUncharged", 60, _running(2) | _charged("j", 8) | _charged("k", 8)),
    quiet("RailheadGpusUncharged", 60, _running(2, "Succeeded")),
    fires(
        "RailheadOutOfMemory",
        12,
        {f'{KILLED} reason="OOMKilled"}}': "1 _x60"},
        "training/p was killed for its memory",
        namespace="training",
        pod="p",
        container="node",
        reason="OOMKilled",
    ),
    quiet(
        "RailheadOutOfMemory",
        30,
        {f'{KILLED} reason="OOMKilled"}}': "1 _x60"},
    ),
    quiet(
        "RailheadOutOfMemory",
        3,
        {f'{KILLED} reason="Error"}}': "1x60"},
    ),
    fires(
        "RailheadCheckpointOld",
        182,
        {NEWEST: "0x400", **conditions("j", Admitted="1", PodsReady="1")},
        "nothing was written to training/c for 3h 2m 0s while jobs run",
        namespace="training",
        claim="c",
    ),
    # An hour of grace from then on, or from the start of the job.
    quiet(
        "RailheadCheckpointOld",
        170,
        {NEWEST: "0x400", **conditions("j", Admitted="1", PodsReady="1")},
    ),
    quiet(
        "RailheadCheckpointOld",
        300,
        {NEWEST: "0+60x400", **conditions("j", Admitted="1", PodsReady="1")},
    ),
    quiet("RailheadCheckpointOld", 300, {NEWEST: "0x400"}),
    quiet(
        "RailheadCheckpointOld",
        300,
        {NEWEST: "0x400", **conditions("j", Admitted="1", PodsReady="1", Finished="1")},
    ),
    # Of two directories of a claim the newer one counts.
    quiet(
        "RailheadCheckpointOld",
        300,
        {
            NEWEST: "0x400",
            NEWEST.replace('"run"', '"other"'): "0+60x400",
            **conditions("j", Admitted="1", PodsReady="1"),
        },
    ),
    fires(
        "RailheadClaimFull",
        10,
        {FREE: "9x60", SIZE: "100x60"},
        "claim training/c has 9% left",
        namespace="training",
        persistentvolumeclaim="c",
    ),
    quiet("RailheadClaimFull", 9, {FREE: "9x60", SIZE: "100x60"}),
    quiet("RailheadClaimFull", 30, {FREE: "11x60", SIZE: "100x60"}),
    fires(
        "RailheadTrafficOffFabric",
        16,
        {f'{SENT}{{namespace="training", pod="p", interface="eth0"}}': "0+6600000000x60"},
        "training/p sends 104.9MiB/s over TCP through the pod network",
        namespace="training",
        pod="p",
    ),
    quiet(
        "RailheadTrafficOffFabric",
        9,
        {f'{SENT}{{namespace="training", pod="p", interface="eth0"}}': "0+6600000000x60"},
    ),
    quiet(
        "RailheadTrafficOffFabric",
        40,
        {f'{SENT}{{namespace="training", pod="p", interface="eth0"}}': "0+5400000000x60"},
    ),
    # Traffic over a rail's own interface, or not of training.
    quiet(
        "RailheadTrafficOffFabric",
        40,
        {
            f'{SENT}{{namespace="training", pod="p", interface="net1"}}': "0+6600000000x60",
            f'{SENT}{{namespace="web", pod="p", interface="eth0"}}': "0+6600000000x60",
        },
    ),
    fires(
        "RailheadLinkDown",
        2,
        {f"node_infiniband_state_id{PORT}": "1x20"},
        "mlx5_1 port 1 of n0 is not active",
        **ON_PORT,
    ),
    quiet("RailheadLinkDown", 1, {f"node_infiniband_state_id{PORT}": "1x20"}),
    quiet("RailheadLinkDown", 20, {f"node_infiniband_state_id{PORT}": "4x20"}),
    quiet("RailheadLinkDown", 20, {f"node_infiniband_state_id{OTHER_PORT}": "1x20"}),
    fires(
        "RailheadLinkFlapping",
        60,
        {f"node_infiniband_link_downed_total{PORT}": "3x20 4x20 5x30"},
        "mlx5_1 of n0 fell 2 times in an hour",
        **ON_PORT,
    ),
    quiet("RailheadLinkFlapping", 60, {f"node_infiniband_link_downed_total{PORT}": "3x20 4x60"}),
    quiet(
        "RailheadLinkFlapping",
        60,
        {f"node_infiniband_link_downed_total{OTHER_PORT}": "3x20 4x20 5x30"},
    ),
    fires(
        "RailheadLinkErrors",
        40,
        {f"node_infiniband_port_errors_received_total{PORT}": "0+90x60"},
        "mlx5_1 of n0 receives 1.5 damaged packets a second",
        **ON_PORT,
    ),
    quiet(
        "RailheadLinkErrors", 14, {f"node_infiniband_port_errors_received_total{PORT}": "0+90x60"}
    ),
    quiet(
        "RailheadLinkErrors", 50, {f"node_infiniband_port_errors_received_total{PORT}": "0+50x60"}
    ),
    fires(
        "RailheadRailSlow",
        5,
        {f"node_infiniband_rate_bytes_per_second{PORT}": "25000000000x20"},
        "mlx5_1 of n0 came up at 25GB/s only",
        **ON_PORT,
    ),
    # 0.5 % below: more than rounding.
    fires(
        "RailheadRailSlow",
        5,
        {f"node_infiniband_rate_bytes_per_second{PORT}": "49750000000x20"},
        "mlx5_1 of n0 came up at 49.75GB/s only",
        **ON_PORT,
    ),
    quiet(
        "RailheadRailSlow", 4, {f"node_infiniband_rate_bytes_per_second{PORT}": "25000000000x20"}
    ),
    quiet(
        "RailheadRailSlow", 20, {f"node_infiniband_rate_bytes_per_second{PORT}": "50000000000x20"}
    ),
    fires(
        "RailheadRailUneven",
        16,
        rails(120_000_000_000, 30_000_000_000),
        "mlx5_1 of n0 carries less than half of what its other rails do",
        **ON_PORT,
    ),
    quiet("RailheadRailUneven", 9, rails(120_000_000_000, 30_000_000_000)),
    # A mean of 85e9, and 45e9 is more than its half.
    quiet("RailheadRailUneven", 40, rails(125_000_000_000, 45_000_000_000)),
    # Idle rails are not compared: their mean is under 1 GB/s.
    quiet("RailheadRailUneven", 40, rails(110_000_000_000, 5_000_000_000)),
    fires(
        "RailheadCollectivesSlow",
        76,
        {collective(): "150x60 60x60"},
        "AllReduce of 64-128MB among 16 ranks in training has 60 GB/s, not half of its day's",
        namespace="training",
        comm_name="unknown",
        collective="AllReduce",
        message_size="64-128MB",
        nranks="16",
    ),
    quiet("RailheadCollectivesSlow", 75, {collective(): "150x60 60x60"}),
    quiet("RailheadCollectivesSlow", 76, {collective(): "150x60 70x60"}),
    # Within a node the fabric has no part in it.
    quiet("RailheadCollectivesSlow", 90, {collective(nodes=1): "150x60 60x60"}),
    # The others' waiting shows one slow GPU of two; a mean does not.
    quiet(
        "RailheadCollectivesSlow",
        90,
        {collective(): "150x60 60x60", collective(gpu="GPU1"): "150x120"},
    ),
    fires(
        "RailheadEfaDrops",
        25,
        {f"node_amazonefa_rx_drops{PORT}": "0+90x60"},
        "mlx5_1 of n0 drops 1.5 packets a second",
        **ON_PORT,
    ),
    quiet("RailheadEfaDrops", 9, {f"node_amazonefa_rx_drops{PORT}": "0+90x60"}),
    quiet("RailheadEfaDrops", 40, {f"node_amazonefa_rx_drops{PORT}": "0+50x60"}),
    fires(
        "RailheadEfaErrors",
        10,
        {f"node_amazonefa_rdma_read_wr_err{PORT}": "5x8 6x20"},
        "RDMA reads of mlx5_1 on n0 end with errors",
        **ON_PORT,
    ),
    quiet("RailheadEfaErrors", 10, {f"node_amazonefa_rdma_read_wr_err{PORT}": "5x30"}),
    fires(
        "RailheadNodeNotProven",
        15,
        {f'{GATE}{{node="n0", state="failed"}}': "1x60"},
        "node n0 has not proven its fabric (failed)",
        node="n0",
        state="failed",
    ),
    quiet("RailheadNodeNotProven", 14, {f'{GATE}{{node="n0", state="failed"}}': "1x60"}),
    quiet("RailheadNodeNotProven", 40, {f'{GATE}{{node="n0", state="ready"}}': "1x60"}),
    quiet(
        "RailheadNodeNotProven",
        40,
        {
            f'{GATE}{{node="n0", state="ready"}}': "1x60",
            f'{GATE}{{node="n0", state="none"}}': "0x60",
        },
    ),
    *(
        fires(
            "RailheadXid",
            1,
            {f"DCGM_FI_DEV_XID_ERRORS{GPU}": f"{number}x10"},
            f"Xid {number} on GPU 7 of n0",
            **ON_GPU,
        )
        for number in (46, 48, 64, 74, 79, 95, 119, 120, 140)
    ),
    quiet("RailheadXid", 5, {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "0x10"}),
    # A program's own fault: an illegal access, a stopped channel.
    quiet("RailheadXid", 5, {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "31x10"}),
    quiet("RailheadXid", 5, {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "43x10"}),
    quiet("RailheadXid", 5, {f"DCGM_FI_DEV_XID_ERRORS{GPU}": "94x10"}),
    fires(
        "RailheadEcc",
        20,
        {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{GPU}": "1x10 2x60"},
        "GPU 7 of n0 had an uncorrectable memory error",
        **ON_GPU,
    ),
    quiet("RailheadEcc", 20, {f"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS{GPU}": "1x60"}),
    fires(
        "RailheadRowRemapFailed",
        1,
        {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{GPU}": "1x10"},
        "GPU 7 of n0 has no spare memory rows left",
        **ON_GPU,
    ),
    quiet("RailheadRowRemapFailed", 5, {f"DCGM_FI_DEV_ROW_REMAP_FAILURE{GPU}": "0x10"}),
    fires(
        "RailheadGpuMissing",
        5,
        {ALLOCATABLE: "7x60", CAPACITY: "8x60"},
        "node n0 offers 7 GPUs, fewer than it has",
        node="n0",
    ),
    quiet("RailheadGpuMissing", 4, {ALLOCATABLE: "7x60", CAPACITY: "8x60"}),
    quiet("RailheadGpuMissing", 40, {ALLOCATABLE: "8x60", CAPACITY: "8x60"}),
    fires(
        "RailheadPcieReplays",
        25,
        {f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{GPU}": "0+90x60"},
        "GPU 7 of n0 repeats 1.5 PCIe packets a second",
        **ON_GPU,
    ),
    quiet("RailheadPcieReplays", 9, {f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{GPU}": "0+90x60"}),
    quiet("RailheadPcieReplays", 40, {f"DCGM_FI_DEV_PCIE_REPLAY_COUNTER{GPU}": "0+50x60"}),
    fires(
        "RailheadStraggler",
        20,
        gpus([1980, 1980, 1980, 1500]),
        "GPU 3 of n0 works at 1.5k MHz, a fifth below its like",
        UUID="GPU-3",
        gpu="3",
        Hostname="n0",
        modelName="H100",
    ),
    quiet("RailheadStraggler", 9, gpus([1980, 1980, 1980, 1500])),
    quiet("RailheadStraggler", 40, gpus([1980, 1980, 1980, 1620])),
    # An idle GPU clocks down: it is no straggler, and nothing to compare with.
    quiet("RailheadStraggler", 40, gpus([1980, 1980, 1980, 345], idle=1)),
    fires(
        "RailheadStraggler",
        20,
        gpus([1980, 1980, 1500, 345, 345, 345, 345], idle=4),
        "GPU 2 of n0 works at 1.5k MHz, a fifth below its like",
        UUID="GPU-2",
        gpu="2",
        Hostname="n0",
        modelName="H100",
    ),
    fires(
        "RailheadNodeNotReady",
        2,
        {condition("Ready", "true"): "0x20"},
        "node n0 does not answer",
        node="n0",
        condition="Ready",
        status="true",
    ),
    quiet("RailheadNodeNotReady", 1, {condition("Ready", "true"): "0x20"}),
    quiet("RailheadNodeNotReady", 20, {condition("Ready", "true"): "1x20"}),
    fires(
        "RailheadNodeProblem",
        1,
        {condition("AcceleratedHardwareReady", "false"): "1x20"},
        "node n0: AcceleratedHardwareReady",
        node="n0",
        condition="AcceleratedHardwareReady",
        status="false",
    ),
    fires(
        "RailheadNodeProblem",
        1,
        {condition("GpuXid", "true"): "1x20"},
        "node n0: GpuXid",
        node="n0",
        condition="GpuXid",
        status="true",
    ),
    quiet("RailheadNodeProblem", 0, {condition("GpuXid", "true"): "1x20"}),
    quiet(
        "RailheadNodeProblem",
        10,
        {
            condition("AcceleratedHardwareReady", "true"): "1x20",
            condition("AcceleratedHardwareReady", "false"): "0x20",
            condition("GpuXid", "true"): "0x20",
            condition("Ready", "false"): "1x20",
        },
    ),
    fires(
        "RailheadGuardGone",
        1,
        {GUARD: "0x20"},
        "guard railhead-queue is gone or no longer denies",
        policy="railhead-queue",
    ),
    quiet("RailheadGuardGone", 0, {GUARD: "0x20"}),
    quiet("RailheadGuardGone", 10, {GUARD: "1x20"}),
    *(
        case
        for alert, mine, others, summary in (
            (
                "RailheadGuardEdited",
                OF_GUARD,
                OF_QUEUE,
                "ValidatingAdmissionPolicyBinding railhead-queue is gone or not as the stack "
                "gives it",
            ),
            (
                "RailheadObjectEdited",
                OF_QUEUE,
                OF_GUARD,
                "LocalQueue training/gpu is gone or not as the stack gives it",
            ),
        )
        for case in (
            fires(alert, 15, {as_made(mine): "0x20", as_made(others): "0x20"}, summary, **mine),
            quiet(alert, 14, {as_made(mine): "0x20"}),
            quiet(alert, 30, {as_made(mine): "1x30", as_made(others): "0x30"}),
        )
    ),
    fires(
        "RailheadControllerScaledToZero",
        1,
        {TOLD: "0x20"},
        "kueue-system/kueue-controller-manager is scaled to zero, or gone",
        namespace="kueue-system",
        deployment="kueue-controller-manager",
    ),
    quiet("RailheadControllerScaledToZero", 0, {TOLD: "0x20"}),
    quiet("RailheadControllerScaledToZero", 10, {TOLD: "1x20"}),
    fires(
        "RailheadControllerDown",
        5,
        {KUEUE: "1x20", KUEUE_UP: "0x20"},
        "no pod of kueue-system/kueue-controller-manager answers",
        namespace="kueue-system",
        deployment="kueue-controller-manager",
    ),
    quiet("RailheadControllerDown", 4, {KUEUE: "1x20", KUEUE_UP: "0x20"}),
    quiet("RailheadControllerDown", 20, {KUEUE: "1x20", KUEUE_UP: "1x20"}),
    # That is the other alert's.
    quiet("RailheadControllerDown", 20, {KUEUE: "0x20", KUEUE_UP: "0x20"}),
    fires(
        "RailheadControllerGone",
        5,
        {KUEUE: "1x20", JOBSET: "1x20"},
        "a controller that jobs need is not there",
    ),
    fires(
        "RailheadControllerGone",
        5,
        {replicas("kube_deployment_spec_replicas", "someone-elses"): "1x20"},
        "a controller that jobs need is not there",
    ),
    quiet("RailheadControllerGone", 4, {KUEUE: "1x20", JOBSET: "1x20"}),
    quiet("RailheadControllerGone", 20, {KUEUE: "1x20", JOBSET: "1x20", TRAINER: "1x20"}),
    fires(
        "RailheadReconcileErrors",
        35,
        {
            "controller_runtime_reconcile_errors_total"
            '{namespace="jobset-system", controller="jobset"}': "0+8x60"
        },
        "controller jobset in jobset-system fails again and again",
        namespace="jobset-system",
        controller="jobset",
    ),
    quiet(
        "RailheadReconcileErrors",
        14,
        {
            "controller_runtime_reconcile_errors_total"
            '{namespace="jobset-system", controller="jobset"}': "0+8x60"
        },
    ),
    quiet(
        "RailheadReconcileErrors",
        50,
        {
            "controller_runtime_reconcile_errors_total"
            '{namespace="jobset-system", controller="jobset"}': "0+5x60"
        },
    ),
    fires(
        "RailheadDriftOfGuards",
        1,
        {f'{DRIFTED}"guard"}}': "1x20"},
        "1 guards or controllers differ from stack lab",
        stack="lab",
    ),
    quiet(
        "RailheadDriftOfGuards", 10, {f'{DRIFTED}"guard"}}': "0x20", f'{DRIFTED}"gone"}}': "4x20"}
    ),
    fires(
        "RailheadDrift",
        60,
        {f'{DRIFTED}"gone"}}': "1x90", f'{DRIFTED}"added"}}': "2x90"},
        "3 things differ from stack lab",
        stack="lab",
    ),
    fires(
        "RailheadDrift",
        70,
        {f'{DRIFTED}"changed"}}': "1x90"},
        "1 things differ from stack lab",
        stack="lab",
    ),
    quiet("RailheadDrift", 59, {f'{DRIFTED}"gone"}}': "1x90"}),
    quiet("RailheadDrift", 80, {f'{DRIFTED}"gone"}}': "0x90", f'{DRIFTED}"guard"}}': "1x90"}),
    fires(
        "RailheadDriftNotChecked",
        2881,
        {LOOKED: "0x3000"},
        "nobody has compared stack lab with its cluster for two days",
        stack="lab",
    ),
    quiet("RailheadDriftNotChecked", 2879, {LOOKED: "0x3000"}),
    # Begun at minute 0; two hours and ten minutes are given.
    fires(
        "RailheadAcceptanceNotProven",
        131,
        {BEGUN: "0x200"},
        "the last acceptance did not prove what it was asked for",
        **AGAIN,
    ),
    fires(
        "RailheadAcceptanceNotProven",
        331,
        # The one before ended well, at minute 20.
        {BEGUN: "0x199 12000x200", ENDED: "_x19 1200x400"},
        "the last acceptance did not prove what it was asked for",
        **AGAIN,
    ),
    quiet("RailheadAcceptanceNotProven", 129, {BEGUN: "0x200"}),
    quiet("RailheadAcceptanceNotProven", 200, {BEGUN: "0x300", ENDED: "_x19 1200x300"}),
    quiet("RailheadAcceptanceNotProven", 200, {BEGUN.replace("-acceptance", "-other"): "0x300"}),
    fires(
        "RailheadAcceptanceNotRun",
        121,
        {DUE: "0x200"},
        "the acceptance that was due has not begun for two hours",
        **AGAIN,
    ),
    quiet("RailheadAcceptanceNotRun", 119, {DUE: "0x200"}),
    quiet("RailheadAcceptanceNotRun", 121, {DUE.replace("-acceptance", "-other"): "0x200"}),
    # One of the three is not enough.
    *(
        case
        for missing in (GUARD, TOLD, as_made(OF_QUEUE))
        for case in (
            fires(
                "RailheadBlindToGuards",
                15,
                {name: "1x60" for name in (GUARD, TOLD, as_made(OF_QUEUE)) if name != missing},
                "the exporter of guards, controllers and nodes does not tell all of them",
            ),
            quiet("RailheadBlindToGuards", 14, {"up": "1x60"}),
        )
    ),
    quiet(
        "RailheadBlindToGuards",
        30,
        dict.fromkeys((GUARD, TOLD, as_made(OF_QUEUE)), "1x60"),
    ),
    *(
        case
        for alert, metric, summary in (
            ("RailheadBlindToQueues", ACTIVE, "Kueue gives no metrics"),
            (
                "RailheadBlindToFabric",
                f"node_infiniband_state_id{PORT}",
                "no node gives counters of its RDMA ports",
            ),
            ("RailheadBlindToGpus", f"DCGM_FI_DEV_GPU_UTIL{GPU}", "no GPU gives metrics"),
        )
        for case in (
            fires(alert, 15, {"up": "1x60"}, summary),
            quiet(alert, 14, {"up": "1x60"}),
            quiet(alert, 30, {metric: "1x60"}),
        )
    ),
)
