"""Contents of each training namespace: NICs, NCCL settings, storage, queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.programs import program
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import NicClaim
from railhead.framework import FRAMEWORKS
from railhead.framework.base import PROGRAMS as STARTERS
from railhead.framework.base import starter_key
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster
from railhead.resolve.access import Access, namespace_access
from railhead.resolve.fences import Fences, fences
from railhead.resolve.retention import cron_jobs
from railhead.resolve.runtimes import ResolvedRuntime, python_key
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.wiring import NVLINK_DOMAIN, claim_of, joins_nvlink, share, wiring

# Programs that launch starts before a job's command, in pods that mount claims.
_PROGRAMS = "railhead.launch.programs"
# What NCCL itself reads; the rest belongs to other libraries and to the process.
_NCCL = "NCCL_"


@dataclass(frozen=True, kw_only=True)
class Namespace:
    """A training namespace: names of objects -> their specs.

    Args:
        nic_claims: ResourceClaimTemplates that a runtime, or a whole node, asks for.
        nvlink_domains: ComputeDomains, by which pods reach GPU memory of other nodes over NVLink.
        nccl_profile: files of the fabric's NCCL settings (:func:`nccl_profile`), those that the
            Python of a runtime's pods loads, and the programs that start jobs' commands.
        checkpoints: ReadWriteMany claims that every pod of a gang mounts, on every node.
        retention: CronJobs that remove a claim's old checkpoints, by the claim.
        datasets: ReadOnlyMany claims, each on a volume of its own.
        queues: LocalQueues, where the scheduler has any.
        access: a role for each persona that has groups.
        fences: the limits around it.
    """

    name: str
    nic_claims: Mapping[str, Mapping[str, Any]]
    nvlink_domains: Mapping[str, Mapping[str, Any]]
    nccl_profile: Mapping[str, str]
    checkpoints: Mapping[str, Mapping[str, Any]]
    retention: Mapping[str, Mapping[str, Any]]
    datasets: Mapping[str, Mapping[str, Any]]
    queues: Mapping[str, Mapping[str, Any]]
    access: tuple[Access, ...]
    fences: Fences


def namespaces(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> tuple[Namespace, ...]:
    """Return the stack's training namespaces, in its order."""
    claims, profile = nic_claims(cluster, runtimes), nccl_profile(cluster)
    profile |= {name: program(_PROGRAMS, name) for name in ("keep.py", "probe.py")}
    # Of all frameworks: a runtime carries others than its own.
    starters = [row.starter for row in FRAMEWORKS.values() if row.starter]
    profile |= {starter_key(name): program(STARTERS, name) for name in starters}
    for runtime in runtimes:
        profile |= {python_key(path): text for path, text in runtime.framework.python.items()}
    around = fences(cluster)
    return tuple(
        Namespace(
            name=name,
            nic_claims=claims,
            nvlink_domains=nvlink_domains(cluster),
            nccl_profile=profile,
            checkpoints={
                checkpoint.claim_name: {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": checkpoint.storage_class,
                    "resources": {"requests": {"storage": checkpoint.size}},
                }
                for checkpoint in cluster.checkpoints
                if checkpoint.namespace == name
            },
            retention=cron_jobs(cluster, name),
            datasets={
                dataset.claim_name: {
                    "accessModes": ["ReadOnlyMany"],
                    # No class, so that nothing is provisioned in its place.
                    "storageClassName": "",
                    "volumeName": dataset.volume,
                    # The volume's own size counts; a claim must ask for some.
                    "resources": {"requests": {"storage": "1Ki"}},
                }
                for dataset in cluster.datasets
                if dataset.namespace == name and dataset.volume is not None
            },
            queues={
                queue: {"clusterQueue": behind}
                for queue, behind in scheduler_of(cluster).local_queues(cluster, name).items()
            },
            access=namespace_access(cluster, name),
            fences=around,
        )
        for name in cluster.training_namespaces
    )


def nic_claims(cluster: Cluster, runtimes: Sequence[ResolvedRuntime]) -> dict[str, dict[str, Any]]:
    """Return name -> spec of every ResourceClaimTemplate that a runtime or a whole node needs."""
    asked = cluster.fabric.nic_claim()
    if asked is None:
        return {}
    sizes = {share(runtime.machine, runtime.gpus) for runtime in runtimes}
    sizes |= {share(MACHINES[pool.instance_type], None) for pool in cluster.pools}
    templates = {str(claim_of(cluster, nics)): _template(asked, nics) for nics in sorted(sizes)}
    return dict(sorted(templates.items()))


def nvlink_domains(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return name -> spec of a namespace's ComputeDomain, where nodes share NVLink; or nothing.

    One for all jobs of the namespace: a TrainJob cannot name a claim of its own (trainer v2.1.0 and
    v2.2.0, trainjob_types.go). Its daemons join by rack, only on nodes where a pod claims it, and
    leave a node with the pod. ``numNodes`` holds no pod back; it is not 0, since the driver's
    controller leaves a 0 out as it writes the domain back, and the definition of the GPU operator,
    which comes first and stays, refuses one without (dra-driver-nvidia-gpu v0.4.1,
    api/nvidia.com/resource/v1beta1 and compute-domain-controller, addFinalizer; gpu-operator
    v26.7.0, crds/resource.nvidia.com_computedomains.yaml).
    """
    if not any(joins_nvlink(cluster, MACHINES[pool.instance_type]) for pool in cluster.pools):
        return {}
    channel = {"resourceClaimTemplate": {"name": NVLINK_DOMAIN}}
    return {NVLINK_DOMAIN: {"numNodes": 1, "channel": channel}}


def _template(asked: NicClaim, nics: int) -> dict[str, Any]:
    request: dict[str, Any] = {
        "deviceClassName": asked.device_class,
        "allocationMode": "ExactCount",
        "count": nics,
    }
    if asked.selector is not None:
        request["selectors"] = [{"cel": {"expression": asked.selector}}]
    return {"spec": {"devices": {"requests": [{"name": "nics", "exactly": request}]}}}


def common_environment(cluster: Cluster) -> dict[str, str]:
    """Return the fabric's variables that are the same on every pool's machines."""
    first, *others = (wiring(cluster, pool).environment for pool in cluster.pools)
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in others)
    }


def nccl_profile(cluster: Cluster) -> dict[str, str]:
    """Return the files: ``nccl.conf`` for NCCL, ``environment`` for tools, reasons, topologies.

    Runtimes set the same variables in the environment, which wins. NCCL reads its file in processes
    that lost their environment. Variables that differ between the pools' machines are in the
    runtimes alone.
    """
    common = common_environment(cluster)
    nccl = [f"{name}={value}" for name, value in common.items() if name.startswith(_NCCL)]
    machines = [pool.instance_type for pool in cluster.pools]
    topologies = [FABRICS[cluster.fabric.kind].topology_on(machine) for machine in machines]
    return {topology.file: topology.text() for topology in topologies if topology} | {
        "nccl.conf": "".join(f"{line}\n" for line in sorted(nccl)),
        "environment": "".join(f"{name}={value}\n" for name, value in sorted(common.items())),
        "reasons.txt": _reasons(cluster, common),
    }


def _reasons(cluster: Cluster, common: dict[str, str]) -> str:
    fabric = FABRICS[cluster.fabric.kind]
    mode = cluster.fabric.row
    rows = {
        variable.name: variable
        for pool in cluster.pools
        for variable in fabric.environment_on(pool.instance_type)
    }
    lines = [f"Fabric {fabric.name}, mode {mode.name}: {mode.summary}.", "", "Set:"]
    for name, value in sorted(common.items()):
        row = rows.get(name)
        reason = f"{row.reason} [{row.source}]" if row else "the stack's own, fabric.environment"
        lines.append(f"{name}={value}: {reason}")
    lines += ["", "Not set:"]
    lines += [
        f"{name}: {why}" for name, why in sorted(fabric.not_set.items()) if name not in common
    ]
    lines += ["", "In the image:"] + [f"- {item}" for item in fabric.userspace or ("nothing",)]
    lines += ["", "NCCL's log proves the transport by:"] + [f"- {p}" for p in fabric.proofs]
    lines += ["", "and GPUDirect, on each rank and in each direction, by:"] * bool(fabric.gpudirect)
    lines += [f"- {fabric.gpudirect}"] if fabric.gpudirect else []
    return "\n".join(lines) + "\n"
