"""ClusterTrainingRuntimes that already carry the fabric's wiring.

Whoever names one, with `railhead launch`, kubectl or the Kubeflow SDK, gets the same pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import PUBLISHED_LABEL
from railhead.catalog.images import IMAGES
from railhead.catalog.machines import MACHINES, Machine
from railhead.catalog.versions import COMBINATIONS, Combination
from railhead.framework import FRAMEWORKS
from railhead.framework.base import Framework
from railhead.model.cluster import CheckpointConfig, Cluster, Pool, RuntimeConfig
from railhead.platform.registry import platform_of
from railhead.resolve import restarts
from railhead.resolve.pods import wire
from railhead.resolve.wiring import Wiring, shared_memory_gib, wiring

API_VERSION = "trainer.kubeflow.org/v1alpha1"
ANCESTOR_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
FRAMEWORK_LABEL = "trainer.kubeflow.org/framework"
TOPOLOGY_ANNOTATION = "kueue.x-k8s.io/podset-preferred-topology"


@dataclass(frozen=True, kw_only=True)
class RuntimesArgs:
    """Arguments of :class:`Runtimes`."""

    cluster: Cluster
    after: Sequence[pulumi.Resource] = ()


def pool_of(cluster: Cluster, runtime: RuntimeConfig) -> Pool:
    """The pool that the runtime's pods run on."""
    return next(pool for pool in cluster.pools if pool.name == runtime.pool)


def machine_of(cluster: Cluster, runtime: RuntimeConfig) -> Machine:
    """The instance type whose pool the runtime's pods run on."""
    return MACHINES[pool_of(cluster, runtime).instance_type]


def gpus_of(cluster: Cluster, runtime: RuntimeConfig) -> int:
    """GPUs that each pod of the runtime requests."""
    return runtime.gpus_per_node or machine_of(cluster, runtime).gpus


def framework_of(runtime: RuntimeConfig) -> Framework:
    """How the runtime's processes find each other."""
    return FRAMEWORKS[runtime.framework]


def wiring_of(cluster: Cluster, runtime: RuntimeConfig) -> Wiring:
    """The fabric as the runtime's pods meet it."""
    return wiring(cluster, pool_of(cluster, runtime), gpus_of(cluster, runtime))


def device_requests(cluster: Cluster, runtime: RuntimeConfig) -> dict[str, str]:
    """Extended resources of one pod: its GPUs, the fabric's devices, and huge pages."""
    gpus = {machine_of(cluster, runtime).gpu_resource: str(gpus_of(cluster, runtime))}
    return gpus | wiring_of(cluster, runtime).requests()


def environment(cluster: Cluster, runtime: RuntimeConfig) -> dict[str, str]:
    """The container's variables; the stack's own win over the image's, those over the fabric's."""
    image = IMAGES.get(runtime.image)
    own = {v.name: v.value for v in image.environment} if image else {}
    unwired = dict(framework_of(runtime).unwired)
    return dict(wiring_of(cluster, runtime).environment) | unwired | own | dict(runtime.environment)


def container(cluster: Cluster, runtime: RuntimeConfig) -> dict[str, Any]:
    """The container that Trainer fills in with the job's command and the rendezvous."""
    devices = device_requests(cluster, runtime)
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]  # noqa: S108 - not a temporary file
    if claims := claims_of(cluster, runtime):
        mounts.append({"name": "checkpoints", "mountPath": claims[0].mount_path})
    return {
        "name": framework_of(runtime).container,
        "image": runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": k, "value": v} for k, v in environment(cluster, runtime).items()],
        "resources": {
            "requests": {"cpu": runtime.cpu, "memory": runtime.memory} | devices,
            "limits": devices,
        },
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": mounts,
    }


def claims_of(cluster: Cluster, runtime: RuntimeConfig) -> tuple[CheckpointConfig, ...]:
    """The claims that the runtime's pods mount: one a namespace, all at one path."""
    return tuple(c for c in cluster.checkpoints if c.name == runtime.checkpoint)


def shares(cluster: Cluster, runtime: RuntimeConfig) -> dict[int, dict[str, str]]:
    """GPUs of a pod -> what it requests with so many; only for numbers that the runtime serves.

    A job may change what its container requests and nothing else of the fabric: a number of GPUs
    that needs another claim or other devices of a sidecar needs another runtime.
    """
    pool, machine = pool_of(cluster, runtime), machine_of(cluster, runtime)
    own = _wired(wiring_of(cluster, runtime))
    found = {gpus: wiring(cluster, pool, gpus) for gpus in range(1, machine.gpus + 1)}
    return {
        gpus: {machine.gpu_resource: str(gpus)} | wired.requests()
        for gpus, wired in found.items()
        if _wired(wired) == own
    }


def _wired(wired: Wiring) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "trainer"}]}}
    return wire(template, wired, container="trainer")


def pod_template(cluster: Cluster, runtime: RuntimeConfig) -> dict[str, Any]:
    """The gang's pod; tolerations, and what its nodes must have proven, come from the flavor."""
    volumes: list[dict[str, Any]] = [
        {
            "name": "shared-memory",
            # The container runtime's default is 64 MiB, which data loaders and NCCL exceed.
            "emptyDir": {"medium": "Memory", "sizeLimit": shared_memory(cluster, runtime)},
        }
    ]
    annotations: dict[str, str] = {}
    if claims := claims_of(cluster, runtime):
        volumes.append(
            {"name": "checkpoints", "persistentVolumeClaim": {"claimName": runtime.checkpoint}}
        )
        for claim in claims:
            annotations |= platform_of(cluster).mount_annotations(cluster, claim)
    # As close together as free capacity allows: within one of these, else within the next wider.
    level = cluster.topology[-2] if len(cluster.topology) > 1 else cluster.topology[0]
    template: dict[str, Any] = {
        "metadata": {"annotations": {TOPOLOGY_ANNOTATION: level} | annotations},
        "spec": {
            # Of a queue's flavors Kueue takes one whose labels say the same (pkg/scheduler/
            # flavorassigner, 0.15 to 0.19: of the group's label keys, since 0.19 of the flavor's).
            "nodeSelector": dict(pool_of(cluster, runtime).node_selector),
            "restartPolicy": "Never",
            "tolerations": restarts.tolerations(runtime.restarts),
            # On purpose: a pod that is deleted before it finds its master takes all of it to go.
            "terminationGracePeriodSeconds": runtime.grace_seconds,
            # Training code has no business with the API server.
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "containers": [container(cluster, runtime)],
            "volumes": volumes,
        },
    }
    name = framework_of(runtime).container
    return wire(template, wiring_of(cluster, runtime), container=name)


def shared_memory(cluster: Cluster, runtime: RuntimeConfig) -> str:
    """``/dev/shm`` of the runtime's pods as a quantity; sized from the node unless it is given."""
    machine = machine_of(cluster, runtime)
    return runtime.shared_memory or f"{shared_memory_gib(machine, gpus_of(cluster, runtime))}Gi"


def runtime_spec(
    cluster: Cluster, runtime: RuntimeConfig, combination: Combination
) -> dict[str, Any]:
    """The spec of the ClusterTrainingRuntime."""
    job: dict[str, Any] = {
        **restarts.job_policy(runtime.restarts, framework_of(runtime).container),
        "template": pod_template(cluster, runtime),
    }
    if combination.gang_charge == "template":
        # Such a Kueue reads the gang's size here and nowhere else; guards.py holds jobs to it.
        job["parallelism"] = runtime.nodes
        job["completions"] = runtime.nodes
    framework = framework_of(runtime)
    policy = framework.ml_policy(combination, processes=gpus_of(cluster, runtime))
    return {
        "mlPolicy": {"numNodes": runtime.nodes} | policy,
        "template": {
            "spec": {
                "failurePolicy": restarts.failure_policy(runtime.restarts),
                "replicatedJobs": [
                    {
                        "name": framework.replicated_job,
                        "template": {
                            "metadata": {"labels": {ANCESTOR_LABEL: "trainer"}},
                            "spec": job,
                        },
                    }
                ],
            }
        },
    }


class Runtimes(pulumi.ComponentResource):
    """The stack's ClusterTrainingRuntimes."""

    runtimes: Sequence[kubernetes.apiextensions.CustomResource]

    def __init__(
        self, name: str, args: RuntimesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Runtimes", name, None, opts)
        cluster = args.cluster
        combination = COMBINATIONS[cluster.versions]
        self.runtimes = [
            kubernetes.apiextensions.CustomResource(
                f"{name}-{runtime.name}",
                api_version=API_VERSION,
                kind="ClusterTrainingRuntime",
                metadata={
                    "name": runtime.name,
                    "labels": {FRAMEWORK_LABEL: runtime.framework, PUBLISHED_LABEL: "true"},
                },
                spec=runtime_spec(cluster, runtime, combination),
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for runtime in cluster.runtimes
        ]
        self.register_outputs({"runtimes": [runtime.name for runtime in cluster.runtimes]})
