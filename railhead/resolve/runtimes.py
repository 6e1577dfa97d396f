"""The ClusterTrainingRuntimes of a stack: what each pod gets, and what a job may change.

A runtime gives the same pods to `railhead launch`, kubectl and the Kubeflow SDK.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from railhead.base.names import LOGS, PUBLISHED_LABEL, physical_name
from railhead.catalog.images import IMAGES
from railhead.catalog.versions import COMBINATIONS
from railhead.framework import FRAMEWORKS
from railhead.framework.base import NODE_RANK, Framework
from railhead.machines import MACHINES, Machine
from railhead.model.cluster import CheckpointConfig, Cluster, DatasetConfig, Pool, RuntimeConfig
from railhead.platform.registry import platform_of
from railhead.resolve import restarts
from railhead.resolve.pods import PROFILE, PYTHON_DIRECTORY, wire
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.wiring import Wiring, memory_limit, shared_memory_gib, wiring

ANCESTOR_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_DISK = "ephemeral-storage"
FRAMEWORK_LABEL = "trainer.kubeflow.org/framework"


@dataclass(frozen=True, kw_only=True)
class ResolvedRuntime:
    """A runtime of the stack, and what follows from it.

    Args:
        config: what the stack's file says.
        framework: how its processes find each other.
        pool: where its pods run; ``machine`` is that pool's.
        gpus: of each pod.
        wired: the fabric as its pods meet it.
        claims: what its pods mount for checkpoints: one a namespace, all at one path.
        datasets: what its pods mount read-only: of each, one a namespace, all at one path.
        shares: GPUs of a pod -> what it requests with so many; every number that a job may ask for.
        environment: variables of the container that trains.
        level: the topology level within whose value pods are placed where that is possible.
        pod: the pod's template.
        spec: of the ClusterTrainingRuntime.
    """

    config: RuntimeConfig
    framework: Framework
    pool: Pool
    machine: Machine
    gpus: int
    wired: Wiring
    claims: tuple[CheckpointConfig, ...]
    datasets: tuple[DatasetConfig, ...]
    shares: Mapping[int, Mapping[str, str]]
    environment: Mapping[str, str]
    level: str
    pod: Mapping[str, Any]
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the runtime."""
        return self.config.name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the ClusterTrainingRuntime."""
        label = self.framework.label or self.framework.name
        return {FRAMEWORK_LABEL: label, PUBLISHED_LABEL: "true"}

    @property
    def stays(self) -> tuple[str, ...]:
        """Fields that stay as they were made.

        Restarts are fitted to the pool, whose size is edited; of a JobSet's failurePolicy Trainer
        takes no change (v2.1.0, the definition's rule ``self == oldSelf``).
        """
        fitted = self.config.restarts.gang is None
        return ("spec.template.spec.failurePolicy.maxRestarts",) if fitted else ()

    @property
    def processes(self) -> int:
        """Processes that a pod starts unless its job says otherwise."""
        return 1 if self.framework.one_process else self.gpus

    @property
    def devices(self) -> Mapping[str, str]:
        """Extended resources of one pod: its GPUs, the fabric's devices, and huge pages."""
        return self.shares[self.gpus]


def runtimes(cluster: Cluster) -> tuple[ResolvedRuntime, ...]:
    """Return the stack's runtimes, in its order."""
    return tuple(_runtime(cluster, config) for config in cluster.runtimes)


def _runtime(cluster: Cluster, config: RuntimeConfig) -> ResolvedRuntime:
    pool = next(pool for pool in cluster.pools if pool.name == config.pool)
    machine = MACHINES[pool.instance_type]
    gpus = config.gpus_per_node or machine.gpus
    framework, wired = FRAMEWORKS[config.framework], wiring(cluster, pool, gpus)
    claims = tuple(c for c in cluster.checkpoints if c.name == config.checkpoint)
    datasets = tuple(d for d in cluster.datasets if d.name in config.datasets)
    shares = _shares(cluster, pool, gpus)
    environment = _environment(cluster, config, framework, wired)
    # As close together as free capacity allows: within one of these, else within the next wider.
    level = cluster.topology[-2] if len(cluster.topology) > 1 else cluster.topology[0]
    placed = scheduler_of(cluster).placed(cluster, pool, level)
    annotations = dict(placed.annotations)
    also = [*_read_only(config, datasets), *_scratch(config), *_python(framework)]
    for claim in claims:
        annotations |= platform_of(cluster).mount_annotations(cluster, claim)
    container = {
        "name": framework.container,
        "image": cluster.mirrored(config.image),
        "imagePullPolicy": "IfNotPresent",
        "env": [
            *_own_number(framework),
            *({"name": name, "value": value} for name, value in environment.items()),
        ],
        "resources": _resources(config, pool, gpus, shares[gpus]),
        "securityContext": {"allowPrivilegeEscalation": False} | _user(framework),
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}]  # noqa: S108 - not a temporary file
        + [{"name": "checkpoints", "mountPath": claim.mount_path} for claim in claims[:1]]
        + [mount for _, mount in also],
    }
    memory = config.shared_memory or f"{shared_memory_gib(machine, gpus)}Gi"
    template = {
        "metadata": {"annotations": annotations}
        | ({"labels": dict(placed.labels)} if placed.labels else {}),
        "spec": ({"schedulerName": placed.scheduler_name} if placed.scheduler_name else {})
        | {
            # Of a queue's flavors Kueue takes one whose labels say the same (pkg/scheduler/
            # flavorassigner, 0.15 to 0.19: of the group's label keys, since 0.19 of the flavor's).
            "nodeSelector": dict(pool.node_selector) | dict(placed.node_selector),
            **_group(framework),
            "restartPolicy": "Never",
            "tolerations": [*restarts.tolerations(config.restarts), *placed.tolerations],
            # On purpose: a pod that is deleted before it finds its master takes all of it to go.
            "terminationGracePeriodSeconds": config.grace_seconds,
            # Training code has no business with the API server.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container],
            "volumes": [
                # The container runtime's default is 64 MiB, which data loaders and NCCL exceed.
                {
                    "name": "shared-memory",
                    "emptyDir": {"medium": "Memory", "sizeLimit": memory},
                },
                *(
                    {
                        "name": "checkpoints",
                        "persistentVolumeClaim": {"claimName": claim.claim_name},
                    }
                    for claim in claims[:1]
                ),
                *(volume for volume, _ in also),
            ],
        },
    }
    pod = wire(template, wired, container=framework.container)
    return ResolvedRuntime(
        config=config,
        framework=framework,
        pool=pool,
        machine=machine,
        gpus=gpus,
        wired=wired,
        claims=claims,
        datasets=datasets,
        shares=shares,
        environment=environment,
        level=level,
        pod=pod,
        spec=_spec(cluster, config, framework, pool, gpus, pod),
    )


def _user(framework: Framework) -> dict[str, int]:
    user = framework.user
    return {} if user is None else {"runAsUser": user, "runAsGroup": user}


def _group(framework: Framework) -> dict[str, Any]:
    """Return the group to which drivers open a claim, where pods do not run as root.

    Lustre's driver on GKE gives it the file system's own folder, GCS FUSE a bucket's every file
    (lustre-csi-driver v0.6.9, pkg/csi_driver/node.go: setVolumeOwnershipTopLevel; gcs-fuse-csi-
    driver, pkg/csi_driver/utils.go: parseRequestArguments). For Filestore kubelet changes every
    file, but once (fsGroupPolicy File; kubernetes 1.34, pkg/volume/volume_linux.go); the stack's
    NFS driver asks for none.
    """
    group = {"fsGroup": framework.user, "fsGroupChangePolicy": "OnRootMismatch"}
    return {} if framework.user is None else {"securityContext": group}


def _resources(
    config: RuntimeConfig, pool: Pool, gpus: int, devices: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """Return the requests and limits of the container that trains.

    Of the disk nothing is requested, as queues charge none: Kueue skips a request of 0 for what
    no queue covers (v0.16.2, flavorassigner.go; its PR 8241).
    """
    memory = memory_limit(pool, gpus, config.memory)
    return {
        "requests": {"cpu": config.cpu, "memory": config.memory}
        | ({_DISK: "0"} if config.disk else {})
        | dict(devices),
        "limits": {"memory": memory}
        | ({_DISK: config.disk} if config.disk else {})
        | dict(devices),
    }


def _read_only(
    config: RuntimeConfig, datasets: Sequence[DatasetConfig]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield (volume, mount) of each data set; its claim has one name in all namespaces."""
    first = {dataset.name: dataset for dataset in reversed(datasets)}
    for name in config.datasets:
        volume = physical_name("dataset", name)
        source = {"claimName": first[name].claim_name, "readOnly": True}
        mount = {"name": volume, "mountPath": first[name].mount_path, "readOnly": True}
        yield {"name": volume, "persistentVolumeClaim": source}, mount


def _scratch(config: RuntimeConfig) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if (scratch := config.scratch) is not None:
        volume = {"name": "scratch", "emptyDir": {"sizeLimit": scratch.size}}
        yield volume, {"name": "scratch", "mountPath": scratch.mount_path}


def python_key(path: str) -> str:
    """Return the key of the profile's ConfigMap that has a file of a framework's ``python``."""
    return path.replace("/", ".")


def _python(framework: Framework) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    if framework.python:
        items = [{"key": python_key(path), "path": path} for path in framework.python]
        volume = {"name": "python", "configMap": {"name": PROFILE, "items": items}}
        yield volume, {"name": "python", "mountPath": PYTHON_DIRECTORY, "readOnly": True}


def _shares(cluster: Cluster, pool: Pool, gpus: int) -> Mapping[int, Mapping[str, str]]:
    """Return the requests of a pod by the number of GPUs, for the numbers that the runtime serves.

    A job may change what its container requests and nothing else of the fabric: a number that needs
    another claim, or other devices of a sidecar, needs another runtime. Where anything comes by a
    claim there is one number: Trainer takes a job's resources in place of the runtime's, and with
    them goes the container's use of the claim (v2.1.0, pkg/runtime/framework/plugins/jobset).
    """
    machine = MACHINES[pool.instance_type]
    fewest = machine.gpus if cluster.fabric.whole_nodes else 1
    wired = {count: wiring(cluster, pool, count) for count in range(fewest, machine.gpus + 1)}
    own = _in_template(wired[gpus])
    return MappingProxyType(
        {
            count: {machine.gpu_resource: str(count)} | pod.requests()
            for count, pod in wired.items()
            if count == gpus or (_in_template(pod) == own and not pod.claims)
        }
    )


def _in_template(wired: Wiring) -> dict[str, Any]:
    bare = {"spec": {"containers": [{"name": "trainer"}]}}
    return wire(bare, wired, container="trainer")


def _environment(
    cluster: Cluster, config: RuntimeConfig, framework: Framework, wired: Wiring
) -> Mapping[str, str]:
    """Return the variables; the stack's win over the image's, and those over the fabric's."""
    image = IMAGES.get(config.image)
    of_image = {v.name: v.value for v in image.environment} if image else {}
    # An image's own PYTHONPATH cannot be known, and is replaced: the stack sets it if needed.
    python = {"PYTHONPATH": PYTHON_DIRECTORY} if framework.python else {}
    saving = framework.saving(config.grace_seconds)
    patience = framework.patience(cluster.ready_timeout_seconds)
    interfaces = wired.environment.get("GLOO_SOCKET_IFNAME")
    sockets = dict.fromkeys(framework.sockets, interfaces) if interfaces else {}
    logs = {LOGS: config.logs} if config.logs != "kept" else {}
    ours = dict(framework.unwired) | sockets | saving | patience | python | logs
    own = ours | of_image | dict(config.environment)
    if python and own["PYTHONPATH"] != PYTHON_DIRECTORY:
        own["PYTHONPATH"] += f":{PYTHON_DIRECTORY}"
    every = dict(wired.environment) | own
    return MappingProxyType(dict(framework.forwarding((), every)) | every)


def _own_number(framework: Framework) -> list[dict[str, Any]]:
    """Return a pod's number among its job's, before whatever refers to it."""
    if NODE_RANK not in framework.rendezvous:
        return []
    path = "metadata.labels['batch.kubernetes.io/job-completion-index']"
    return [{"name": NODE_RANK, "valueFrom": {"fieldRef": {"fieldPath": path}}}]


def pool_gpus(pool: Pool) -> int:
    """Return the GPUs of all of a pool's nodes."""
    return pool.nodes * MACHINES[pool.instance_type].gpus


def _spec(
    cluster: Cluster,
    config: RuntimeConfig,
    framework: Framework,
    pool: Pool,
    gpus: int,
    pod: Mapping[str, Any],
) -> dict[str, Any]:
    combination = COMBINATIONS[cluster.versions]
    policy = restarts.job_policy(config.restarts, framework.container, cluster.finished_days)
    job: dict[str, Any] = {**policy, "template": dict(pod)}
    if combination.gang_charge == "template":
        # Such a Kueue reads the gang's size here and nowhere else; a guard holds jobs to it.
        job["parallelism"] = job["completions"] = config.nodes
    job_set = framework.job_set(job, config.nodes)
    for replicated in job_set["replicatedJobs"]:
        if replicated["name"] == framework.replicated_job:
            labels = {"labels": {ANCESTOR_LABEL: "trainer"}}
            replicated["template"] = replicated["template"] | {"metadata": labels}
    processes = 1 if framework.one_process else gpus
    return {
        "mlPolicy": {"numNodes": config.nodes} | framework.ml_policy(combination, processes),
        "template": {
            "spec": {"failurePolicy": restarts.failure_policy(config.restarts, pool_gpus(pool))}
            | job_set,
        },
        **scheduler_of(cluster).runtime(cluster),
    }
