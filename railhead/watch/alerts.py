"""The alerts: one row each. docs/watching.md and the rules of every stack are made of them.

Expressions hold for every stack; what a stack decides stands in them as ``$name``
(:class:`Site`). A row is published where somebody gives each of its metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any, Literal

#: Xids after which NVIDIA's catalogue has the GPU reset or the node restarted, and none that a
#: program can cause: analyzing-xid-catalog.html, and the drains of Health Validation's Xid checks.
FATAL_XIDS = (46, 48, 64, 74, 79, 95, 119, 120, 140)


@dataclass(frozen=True, kw_only=True)
class Site:
    """What of a stack stands in expressions.

    Args:
        namespaces: a regular expression of the training namespaces.
        controllers: likewise of the Deployments without which no job runs.
        controller_count: how many those are.
        devices: likewise of the fabric's RDMA devices, as the kernel names them.
        rail_bytes: bytes a second that each of them must be trained to; 0 where it is not known.
        off_fabric_bytes: what a pod may send through the pod network, bytes a second.
        checkpoint_seconds: how old the newest checkpoint of a running job may be.
        acceptance_seconds: what a run of the acceptance that comes again and again may take.
    """

    namespaces: str
    controllers: str
    controller_count: int
    devices: str
    rail_bytes: int
    off_fabric_bytes: int
    checkpoint_seconds: int
    acceptance_seconds: int

    def fill(self, expression: str) -> str:
        """An expression with this stack's own in it."""
        return Template(expression).substitute(vars(self))


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert.

    Args:
        name: CamelCase, as Prometheus shows it.
        group: what it is about; rules of a group are evaluated together.
        expr: PromQL; it fires for each series that it gives.
        wait: how long it must hold before it fires.
        severity: ``critical`` for what stops training and does not mend itself, ``warning`` for
            what needs a hand this day, ``info`` for what heals or what its owner should know.
        summary: one line; ``{{ $labels.x }}`` is a label of the series.
        action: what to do, with commands.
        fabric: whether it is about jobs that have a network beside the pods'.
        acceptance: whether it is about an acceptance that comes again and again.
        named: whether it would be wrong of devices that are not the fabric's: only where the
            catalogue names those.
    """

    name: str
    group: str
    expr: str
    wait: str = "0s"
    severity: Literal["critical", "warning", "info"]
    summary: str
    action: str
    fabric: bool = False
    acceptance: bool = False
    named: bool = False

    def rule(self, site: Site, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
        """As an element of a rule group's ``rules``."""
        return {
            "alert": self.name,
            "expr": site.fill(self.expr),
            "for": self.wait,
            "labels": {"severity": self.severity, **(labels or {})},
            "annotations": {
                "summary": self.summary,
                "description": self.action,
                "runbook": f"{PAGE}#{self.name.lower()}",
            },
        }


#: Where the table of alerts stands; relative, for whoever serves the repository.
PAGE = "docs/watching.md"

#: The CronJob of that acceptance.
ACCEPTANCE = "railhead-acceptance"

#: An admitted gang that has not ended: what holds quota.
RUNNING = (
    'railhead_workload_condition{type="Admitted"} == 1'
    " unless on (namespace, workload)"
    ' railhead_workload_condition{type="Finished"} == 1'
)

_BUSY = "avg_over_time(DCGM_FI_DEV_GPU_UTIL[10m]) > 90"
_CLOCK = f"(avg_over_time(DCGM_FI_DEV_SM_CLOCK[10m]) and on (UUID) {_BUSY})"
_SENT = 'rate(node_infiniband_port_data_transmitted_bytes_total{device=~"$devices"}[5m])'
# By NCCL Inspector, between nodes; of one communicator and size, over its GPUs.
_BANDWIDTH = 'nccl_bus_bandwidth_gbs{n_nodes!="1"}'
_ALIKE = "namespace, comm_name, collective, message_size, nranks"
_CONTROLLERS = 'kube_deployment_spec_replicas{deployment=~"$controllers"}'

ALERTS: tuple[Alert, ...] = (
    # -- the queue ------------------------------------------------------------------------------
    Alert(
        name="RailheadQueueNotActive",
        group="queue",
        expr='max by (cluster_queue) (kueue_cluster_queue_status{status="active"}) == 0',
        wait="5m",
        severity="critical",
        summary="ClusterQueue {{ $labels.cluster_queue }} admits nothing",
        action="A queue is inactive when a ResourceFlavor, a Topology or an AdmissionCheck that it "
        "names is gone, or when it was stopped. `kubectl describe clusterqueue "
        "{{ $labels.cluster_queue }}` says which; `railhead drift STACK` says who changed it, "
        "`pulumi up --refresh` puts it back.",
    ),
    Alert(
        name="RailheadQueueStuck",
        group="queue",
        expr="sum by (cluster_queue) (kueue_pending_workloads) > 0"
        " unless on (cluster_queue)"
        " sum by (cluster_queue) (kueue_admitted_active_workloads) > 0",
        wait="15m",
        severity="warning",
        summary="{{ $value }} jobs wait in {{ $labels.cluster_queue }}, and nothing runs there",
        action="The jobs ask for more than the queue has, or no node has proven its fabric. "
        "`railhead status JOB` says what Kueue answers; `kubectl get nodes -L railhead.dev/fabric` "
        "shows which nodes may be used, and their annotation railhead.dev/fabric-report why not.",
    ),
    Alert(
        name="RailheadQueueSlow",
        group="queue",
        # The last bucket but +Inf that Kueue has: no quantile of this histogram is ever above it.
        expr="1 - sum by (cluster_queue)"
        ' (increase(kueue_quota_reserved_wait_time_seconds_bucket{le="10240"}[6h]))'
        " / sum by (cluster_queue)"
        " (increase(kueue_quota_reserved_wait_time_seconds_count[6h])) > 0.1",
        wait="30m",
        severity="info",
        summary="{{ $value | humanizePercentage }} of the jobs in {{ $labels.cluster_queue }} "
        "waited almost three hours or longer",
        action="The queue is full, not broken. The dashboard of the queue shows who holds the "
        "quota; move quota between teams, or add nodes to a pool.",
    ),
    Alert(
        name="RailheadGangPutBack",
        group="queue",
        expr="railhead_workload_condition"
        '{type="Evicted", reason=~"PodsReadyTimeout|Deactivated.*"} == 1',
        severity="warning",
        summary="{{ $labels.namespace }}/{{ $labels.job }} was admitted, its pods never all ran",
        action="Kueue took the quota back ({{ $labels.reason }}) and tries again later, or gave up "
        "if it was deactivated. `railhead status {{ $labels.job }} -n {{ $labels.namespace }}` "
        "lists events: refused pods, images that cannot be pulled, a claim that cannot be mounted.",
    ),
    # -- gangs ----------------------------------------------------------------------------------
    Alert(
        name="RailheadGangRestarted",
        group="gang",
        expr="max_over_time(railhead_jobset_restarts[15m])"
        " - min_over_time(railhead_jobset_restarts[15m]) > 0",
        severity="info",
        summary="{{ $labels.namespace }}/{{ $labels.jobset }} started again from its checkpoint",
        action="It healed by itself. `railhead logs {{ $labels.jobset }} -n {{ $labels.namespace "
        "}}` shows how it ended before; a node that is behind several of these is taken out with "
        "`kubectl cordon`.",
    ),
    Alert(
        name="RailheadGangKeepsRestarting",
        group="gang",
        expr="max_over_time(railhead_jobset_restarts[2h])"
        " - min_over_time(railhead_jobset_restarts[2h]) >= 3",
        severity="critical",
        summary="{{ $labels.namespace }}/{{ $labels.jobset }} restarted {{ $value }} times in two "
        "hours",
        action="It holds its nodes and gets nowhere. `railhead diagnose {{ $labels.jobset }} -n "
        "{{ $labels.namespace }}` names the cause; if each attempt ends on the same node, cordon "
        "it, otherwise stop the job with `railhead cancel`.",
    ),
    Alert(
        name="RailheadGangNotWhole",
        group="gang",
        expr='railhead_workload_condition{type="PodsReady"} == 0'
        f" and on (namespace, workload) ({RUNNING})",
        wait="5m",
        severity="warning",
        summary="{{ $labels.namespace }}/{{ $labels.job }} holds quota and not all its pods run",
        action="`kubectl -n {{ $labels.namespace }} get pods -o wide` shows which pod is missing "
        "and on which node; `kubectl -n {{ $labels.namespace }} get events --field-selector "
        "type=Warning` says why, a guard's refusal included. Kueue puts the gang back after the "
        "stack's ready_timeout_seconds.",
    ),
    Alert(
        name="RailheadPodsOnLostNode",
        group="gang",
        expr='time() - kube_pod_deletion_timestamp{namespace=~"$namespaces"} > 300',
        wait="1m",
        severity="critical",
        summary="pod {{ $labels.namespace }}/{{ $labels.pod }} cannot end: its node is gone",
        action="As long as it is Terminating its Job never fails, and the gang never starts again. "
        "Where the stack says `end_lost_pods` Kueue ends it: see that its manager runs. Else, if "
        "the machine is really off: `kubectl taint node NODE "
        "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`, or `kubectl delete node NODE`. "
        "Never while it may still write to a checkpoint.",
    ),
    Alert(
        name="RailheadJobFailed",
        group="gang",
        expr='railhead_trainjob_condition{type="Failed"} == 1'
        ' unless on (namespace, trainjob) (railhead_trainjob_condition{type="Failed"} offset 1h'
        " == 1)",
        severity="info",
        summary="{{ $labels.namespace }}/{{ $labels.trainjob }} failed ({{ $labels.reason }})",
        action="Its restarts are used up, or it ended with an exit code after which none is made. "
        "`railhead diagnose {{ $labels.trainjob }} -n {{ $labels.namespace }}` names the cause. It "
        "is told for an hour.",
    ),
    Alert(
        name="RailheadOutOfMemory",
        group="gang",
        expr="max_over_time(kube_pod_container_status_terminated_reason"
        '{namespace=~"$namespaces", reason="OOMKilled"}[15m]) == 1',
        severity="warning",
        summary="{{ $labels.namespace }}/{{ $labels.pod }} was killed for its memory",
        action="Ask for more memory, or for less in /dev/shm, which counts as memory. A second "
        "kill of the same job says that a restart will not help.",
    ),
    # -- checkpoints ----------------------------------------------------------------------------
    Alert(
        name="RailheadCheckpointOld",
        group="checkpoints",
        expr="time() - max by (namespace, claim)"
        " (railhead_checkpoint_newest_timestamp_seconds) > $checkpoint_seconds"
        " and on (namespace)"
        ' (railhead_workload_condition{type="PodsReady"} == 1'
        f" and on (namespace, workload) ({RUNNING}))",
        wait="1h",
        severity="warning",
        summary="nothing was written to {{ $labels.namespace }}/{{ $labels.claim }} for "
        "{{ $value | humanizeDuration }} while jobs run",
        action="Whatever fails now loses that long. `railhead status JOB` says whether the claim "
        "does not answer, is full or gone; `railhead logs` whether the job still makes steps (if "
        "not: `railhead diagnose`). See that the script saves below the path that the runtime "
        "mounts.",
    ),
    Alert(
        name="RailheadClaimFull",
        group="checkpoints",
        expr='kubelet_volume_stats_available_bytes{namespace=~"$namespaces"}'
        ' / kubelet_volume_stats_capacity_bytes{namespace=~"$namespaces"} < 0.1',
        wait="10m",
        severity="warning",
        summary="claim {{ $labels.namespace }}/{{ $labels.persistentvolumeclaim }} has "
        "{{ $value | humanizePercentage }} left",
        action="A checkpoint that does not fit fails its run. Delete old checkpoints, or raise "
        "`size` in the stack where the class can grow. Drivers that do not enforce a size report "
        "the whole server.",
    ),
    # -- the fabric -----------------------------------------------------------------------------
    Alert(
        name="RailheadTrafficOffFabric",
        group="fabric",
        expr="sum by (namespace, pod) (rate(container_network_transmit_bytes_total"
        '{namespace=~"$namespaces", interface="eth0"}[5m])) > $off_fabric_bytes',
        wait="10m",
        severity="critical",
        summary="{{ $labels.namespace }}/{{ $labels.pod }} sends {{ $value | humanize1024 }}B/s "
        "over TCP through the pod network",
        action="Ranks of a job here should meet on the fabric. `railhead nccl read` on the job's "
        "log says which transport NCCL chose and why; an upload to an object store also looks like "
        "this, and then watching.off_fabric_megabytes is too low.",
        fabric=True,
    ),
    Alert(
        name="RailheadLinkDown",
        group="fabric",
        expr='node_infiniband_state_id{device=~"$devices"} != 4',
        wait="2m",
        severity="critical",
        summary="{{ $labels.device }} port {{ $labels.port }} of {{ $labels.instance }} is not "
        "active",
        action="The node gate takes the node out of the queue; running jobs on it hang or fail. "
        "`ibstat` or `rdma link` on the node, then cable, transceiver and switch port.",
        named=True,
    ),
    Alert(
        name="RailheadLinkFlapping",
        group="fabric",
        expr='increase(node_infiniband_link_downed_total{device=~"$devices"}[1h]) > 1.5',
        severity="warning",
        summary="{{ $labels.device }} of {{ $labels.instance }} fell {{ $value | humanize }} times "
        "in an hour",
        action="`kubectl cordon` the node, clean or change the transceiver and the cable, and look "
        "at the switch port's counters.",
    ),
    Alert(
        name="RailheadLinkErrors",
        group="fabric",
        expr='rate(node_infiniband_port_errors_received_total{device=~"$devices"}[15m]) > 1',
        wait="15m",
        severity="warning",
        summary="{{ $labels.device }} of {{ $labels.instance }} receives {{ $value | humanize }} "
        "damaged packets a second",
        action="A cable or transceiver is failing: every retry slows each gang that crosses it. "
        "Change it before it flaps.",
    ),
    Alert(
        name="RailheadRailSlow",
        group="fabric",
        expr='node_infiniband_rate_bytes_per_second{device=~"$devices"} < $rail_bytes',
        wait="5m",
        severity="critical",
        summary="{{ $labels.device }} of {{ $labels.instance }} came up at "
        "{{ $value | humanize }}B/s only",
        action="One slow rail slows every collective of its gang. Train the link again (`ip link "
        "set ... down`, `up`, or the switch port), then change cable or transceiver.",
        named=True,
    ),
    Alert(
        name="RailheadRailUneven",
        group="fabric",
        expr=f"{_SENT} < on (instance) group_left () 0.5 * avg by (instance) ({_SENT})"
        f" and on (instance) avg by (instance) ({_SENT}) > 1e9",
        wait="10m",
        severity="warning",
        summary="{{ $labels.device }} of {{ $labels.instance }} carries less than half of what its "
        "other rails do",
        action="The job does not use this rail, or it is congested. `railhead nccl read` lists the "
        "HCAs that NCCL uses; compare port_transmit_wait on the dashboard of the fabric.",
    ),
    Alert(
        name="RailheadCollectivesSlow",
        group="fabric",
        expr=f"avg by ({_ALIKE}) ({_BANDWIDTH})"
        f" < 0.5 * avg by ({_ALIKE}) (avg_over_time({_BANDWIDTH}[1d]))",
        wait="15m",
        severity="warning",
        summary="{{ $labels.collective }} of {{ $labels.message_size }} among {{ $labels.nranks }} "
        "ranks in {{ $labels.namespace }} has {{ $value | humanize }} GB/s, not half of its day's",
        action="Something between these nodes is slower than it was. The dashboard of the fabric "
        "shows whose collectives are the shortest: that GPU comes last, and all others wait for "
        "it; and which rail carries less. `railhead diagnose JOB` looks for the cause, `railhead "
        "accept --quick --only slow-nodes` for the node.",
    ),
    Alert(
        name="RailheadEfaDrops",
        group="fabric",
        expr="rate(node_amazonefa_rx_drops[10m]) > 1",
        wait="10m",
        severity="warning",
        summary="{{ $labels.device }} of {{ $labels.instance }} drops {{ $value | humanize }} "
        "packets a second",
        action="SRD sends them again: the gang is slowed. Look at whether one node is behind all "
        "of it, and have AWS replace it if so.",
    ),
    Alert(
        name="RailheadEfaErrors",
        group="fabric",
        expr="increase(node_amazonefa_rdma_read_wr_err[15m]) > 0",
        severity="warning",
        summary="RDMA reads of {{ $labels.device }} on {{ $labels.instance }} end with errors",
        action="The other end of a connection is gone or its device is broken: look for a gang "
        "that restarted at the same time, and for its nodes in AWS' health events.",
    ),
    Alert(
        name="RailheadNodeNotProven",
        group="fabric",
        expr='railhead_node_gate{state!="ready"} == 1',
        wait="15m",
        severity="warning",
        summary="node {{ $labels.node }} has not proven its fabric ({{ $labels.state }})",
        action="No job is placed on it. `kubectl get node {{ $labels.node }} -o jsonpath="
        "'{.metadata.annotations.railhead\\.dev/fabric-report}'` says what failed and the remedy.",
    ),
    # -- GPUs -----------------------------------------------------------------------------------
    Alert(
        name="RailheadXid",
        group="gpu",
        expr=" or ".join(f"DCGM_FI_DEV_XID_ERRORS == {number}" for number in FATAL_XIDS),
        severity="critical",
        summary="Xid {{ $value }} on GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
        "{{ $labels.hostname }}",
        action="The GPU needs a reset or its node a restart; NVIDIA's Xid catalogue says which. "
        "`kubectl cordon` the node, let its jobs restart elsewhere, reset it (`nvidia-smi -r`) "
        "or reboot; replace what shows it again.",
    ),
    Alert(
        name="RailheadEcc",
        group="gpu",
        expr="increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS[1h]) > 0",
        severity="warning",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} had an "
        "uncorrectable memory error",
        action="The row is replaced at the GPU's next reset. Drain the node at the next "
        "opportunity and reset the GPU.",
    ),
    Alert(
        name="RailheadRowRemapFailed",
        group="gpu",
        expr="DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
        severity="critical",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} has no "
        "spare memory rows left",
        action="Cordon the node and have the GPU replaced: it will go on failing runs.",
    ),
    Alert(
        name="RailheadGpuMissing",
        group="gpu",
        expr='kube_node_status_allocatable{resource="nvidia_com_gpu"}'
        ' < on (node) kube_node_status_capacity{resource="nvidia_com_gpu"}',
        wait="5m",
        severity="critical",
        summary="node {{ $labels.node }} offers {{ $value }} GPUs, fewer than it has",
        action="The device plugin calls a GPU unhealthy. `kubectl cordon {{ $labels.node }}`, "
        "`nvidia-smi` on it, then reset or reboot.",
    ),
    Alert(
        name="RailheadPcieReplays",
        group="gpu",
        expr="rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[10m]) > 1",
        wait="10m",
        severity="warning",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} repeats "
        "{{ $value | humanize }} PCIe packets a second",
        action="Its slot, riser or link fails: GPUDirect through it is slow. Drain and have it "
        "reseated.",
    ),
    Alert(
        name="RailheadStraggler",
        group="gpu",
        expr=f"{_CLOCK} < on (modelName) group_left ()"
        f" 0.8 * quantile by (modelName) (0.5, {_CLOCK})",
        wait="10m",
        severity="warning",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }}{{ $labels.hostname }} works at "
        "{{ $value | humanize }} MHz, a fifth below its like",
        action="The whole gang waits for it at each step. `nvidia-smi -q -d PERFORMANCE` on the "
        "node says what throttles it: heat, power, or a brake from the power supply.",
    ),
    # -- nodes ----------------------------------------------------------------------------------
    Alert(
        name="RailheadNodeNotReady",
        group="nodes",
        expr='kube_node_status_condition{condition="Ready", status="true"} == 0',
        wait="2m",
        severity="critical",
        summary="node {{ $labels.node }} does not answer",
        action="Gangs on it start again elsewhere once its pods are gone. If the machine is off, "
        "delete the node or taint it out-of-service (see RailheadPodsOnLostNode); if not, its "
        "kubelet's and containerd's logs.",
    ),
    Alert(
        name="RailheadNodeProblem",
        group="nodes",
        expr="kube_node_status_condition"
        '{condition=~"(AcceleratedHardware|ContainerRuntime|Kernel|Networking|Storage)Ready",'
        ' status="false"} == 1'
        " or kube_node_status_condition"
        '{condition=~"GpuXid|RdmaLinkFlapping|KernelDeadlock|ReadonlyFilesystem",'
        ' status="true"} == 1',
        wait="1m",
        severity="warning",
        summary="node {{ $labels.node }}: {{ $labels.condition }}",
        action="What watches nodes here (EKS' node monitoring agent, or a node problem detector) "
        "found it. `kubectl describe node {{ $labels.node }}` has its words. Drain, repair.",
    ),
    # -- what keeps all of it ---------------------------------------------------------------------
    Alert(
        name="RailheadGuardGone",
        group="keeping",
        expr="railhead_guard_bound == 0",
        wait="1m",
        severity="critical",
        summary="guard {{ $labels.policy }} is gone or no longer denies",
        action="Jobs can leave the fabric, take devices unpaid or outrank others in silence. "
        "`railhead drift STACK` shows it, `pulumi up --refresh` puts it back; the API server's "
        "audit log says who took it away.",
    ),
    Alert(
        name="RailheadGuardEdited",
        group="keeping",
        expr='railhead_object_as_made{kind=~"ValidatingAdmissionPolicy.*"} == 0',
        wait="15m",
        severity="critical",
        summary="{{ $labels.kind }} {{ $labels.name }} is gone or not as the stack gives it",
        action="It may let through what it is there to refuse. `railhead drift STACK` shows the "
        "field, `pulumi up --refresh` puts it back. During an update it differs for minutes.",
    ),
    Alert(
        name="RailheadObjectEdited",
        group="keeping",
        expr='railhead_object_as_made{kind!~"ValidatingAdmissionPolicy.*"} == 0',
        wait="15m",
        severity="warning",
        summary="{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }} is gone or not as "
        "the stack gives it",
        action="Jobs wait, start or are placed otherwise than the stack's file says. `railhead "
        "drift STACK` shows the field; what was meant goes into the file, the rest goes with "
        "`pulumi up --refresh`.",
    ),
    Alert(
        name="RailheadControllerScaledToZero",
        group="keeping",
        expr="railhead_controller_replicas == 0",
        wait="1m",
        severity="critical",
        summary="{{ $labels.namespace }}/{{ $labels.deployment }} is scaled to zero, or gone",
        action="Nothing is admitted, started or restarted. `kubectl -n {{ $labels.namespace }} "
        "scale deployment {{ $labels.deployment }} --replicas=1`; `railhead drift STACK` says how "
        "many there were.",
    ),
    Alert(
        name="RailheadControllerDown",
        group="keeping",
        expr='kube_deployment_status_replicas_available{deployment=~"$controllers"} == 0'
        f" and on (namespace, deployment) {_CONTROLLERS} > 0",
        wait="5m",
        severity="critical",
        summary="no pod of {{ $labels.namespace }}/{{ $labels.deployment }} answers",
        action="Running jobs go on, but nothing starts or starts again. `kubectl -n "
        "{{ $labels.namespace }} describe deployment {{ $labels.deployment }}`, and the log of its "
        "last pod.",
    ),
    Alert(
        name="RailheadControllerGone",
        group="keeping",
        expr=f"count({_CONTROLLERS}) < $controller_count or absent({_CONTROLLERS})",
        wait="5m",
        severity="critical",
        summary="a controller that jobs need is not there",
        action="The Deployment of Kueue, JobSet or Trainer was deleted, or nobody scrapes "
        "kube-state-metrics. `railhead drift STACK` names it; `pulumi up --refresh` installs it "
        "again.",
    ),
    Alert(
        name="RailheadReconcileErrors",
        group="keeping",
        expr="sum by (namespace, controller)"
        " (rate(controller_runtime_reconcile_errors_total[10m])) > 0.1",
        wait="15m",
        severity="warning",
        summary="controller {{ $labels.controller }} in {{ $labels.namespace }} fails again and "
        "again",
        action="`kubectl -n {{ $labels.namespace }} logs` of its manager names the object; jobs "
        "that it belongs to stand still.",
    ),
    Alert(
        name="RailheadDriftOfGuards",
        group="keeping",
        expr='railhead_drift_differences{severity="guard"} > 0',
        severity="critical",
        summary="{{ $value }} guards or controllers differ from stack {{ $labels.stack }}",
        action="`railhead drift {{ $labels.stack }}` lists them, the worst first; `pulumi up "
        "--refresh` puts guards back, the printed `kubectl scale` a controller.",
    ),
    Alert(
        name="RailheadDrift",
        group="keeping",
        expr='sum by (stack) (railhead_drift_differences{severity!="guard"}) > 0',
        wait="1h",
        severity="warning",
        summary="{{ $value }} things differ from stack {{ $labels.stack }}",
        action="`railhead drift {{ $labels.stack }}` lists them. What was meant goes into the "
        "stack's file, the rest goes with `pulumi up --refresh`.",
    ),
    Alert(
        name="RailheadDriftNotChecked",
        group="keeping",
        expr="time() - railhead_drift_checked_timestamp_seconds > 172800",
        severity="warning",
        summary="nobody has compared stack {{ $labels.stack }} with its cluster for two days",
        action="The scheduled check does not run or fails: see its last run (docs/drift.md).",
    ),
    Alert(
        name="RailheadAcceptanceNotProven",
        group="keeping",
        # One that ended well sets the last success to its end, which is after its schedule.
        expr=f'time() - kube_cronjob_status_last_schedule_time{{cronjob="{ACCEPTANCE}"}}'
        " > $acceptance_seconds"
        " unless on (namespace, cronjob) kube_cronjob_status_last_successful_time"
        " >= kube_cronjob_status_last_schedule_time",
        wait="10m",
        severity="warning",
        summary="the last acceptance did not prove what it was asked for",
        action="`kubectl -n {{ $labels.namespace }} logs -l batch.kubernetes.io/job-name --tail=60`"
        " shows each check's verdict and its remedy: failed is a fabric or a node to mend, "
        "not-proven is one that nobody knows of (its jobs did not get their turn, or were "
        "preempted). `railhead accept --quick --only CHECK` runs one by hand.",
        acceptance=True,
    ),
    Alert(
        name="RailheadAcceptanceNotRun",
        group="keeping",
        expr=f'time() - kube_cronjob_next_schedule_time{{cronjob="{ACCEPTANCE}"}} > 7200',
        severity="warning",
        summary="the acceptance that was due has not begun for two hours",
        action="`kubectl -n {{ $labels.namespace }} describe cronjob {{ $labels.cronjob }}` says "
        "why: an invalid schedule, a run before it that has not ended, or no controller.",
        acceptance=True,
    ),
    # -- what watches -----------------------------------------------------------------------------
    Alert(
        name="RailheadBlindToQueues",
        group="watching",
        expr="absent(kueue_cluster_queue_status)",
        wait="15m",
        severity="warning",
        summary="Kueue gives no metrics",
        action="Nobody scrapes it, or it does not run. Its endpoint wants HTTPS and a token whose "
        "account may get /metrics (docs/watching.md).",
    ),
    Alert(
        name="RailheadBlindToGuards",
        group="watching",
        expr="absent(railhead_guard_bound) or absent(railhead_controller_replicas)"
        " or absent(railhead_object_as_made)",
        wait="15m",
        severity="warning",
        summary="the exporter of guards, controllers and nodes does not tell all of them",
        action="`kubectl -n railhead-watching get pods`, or the namespace that the stack names. "
        "Where the pod runs, its log says what it cannot list: definitions that are gone, rights.",
    ),
    Alert(
        name="RailheadBlindToFabric",
        group="watching",
        expr="absent(node_infiniband_state_id)",
        wait="15m",
        severity="warning",
        summary="no node gives counters of its RDMA ports",
        action="Node exporter must run on the pools' nodes (tolerations) with its InfiniBand "
        "collector, which is on by default.",
    ),
    Alert(
        name="RailheadBlindToGpus",
        group="watching",
        expr="absent(DCGM_FI_DEV_GPU_UTIL)",
        wait="15m",
        severity="warning",
        summary="no GPU gives metrics",
        action="DCGM's exporter does not run or nobody scrapes it (gpu_operator.service_monitor).",
    ),
)
