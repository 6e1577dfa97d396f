"""RayJob of KubeRay, which writes each pod's ``ray start`` itself and submits the program.

The program begins once all pods of the cluster are ready (rayjob_controller.go waits for the
RayCluster's state), and a retry recreates all of them.
"""

from __future__ import annotations

import shlex
from typing import Any

from railhead.base.names import (
    ENDED_WHEN_LOST,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_TOPOLOGY,
)
from railhead.base.programs import program
from railhead.framework.base import program_of
from railhead.launch.apis.base import Api, Object
from railhead.launch.choose import of_leader
from railhead.launch.plan import Plan
from railhead.launch.render import literal

#: As in the pods that Railhead starts Ray in: an agent's port of its own choice may come too late
#: (ray-project/ray issue 65983). KubeRay sets the others (pod.go, setMissingRayStartParams).
_START = {
    "dashboard-agent-grpc-port": "6381",
    "runtime-env-agent-port": "6382",
    "disable-usage-stats": "true",
}
#: The program that submits; KubeRay leaves a command that is there, and tells it the address and
#: the id (rayjob_controller.go, configureSubmitterContainer).
_SUBMITS = ("railhead.launch.programs", "submit_ray.py")
#: What the pod that submits has of the others: it takes no GPU, network or claim.
_SHARED = (
    "nodeSelector",
    "tolerations",
    "affinity",
    "serviceAccountName",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "imagePullSecrets",
    "securityContext",
)


class RayJob(Api):
    """A head, which is a node of the job too, workers, and a pod that submits the program."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return the head's service; workers have no names (common/service.go)."""
        return (f"{plan.name}-head-svc", *[""] * (plan.nodes - 1))

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return the spec.

        Without ``rayVersion``, which KubeRay asks for metadata, tokens and its autoscaler alone:
        the image's Ray runs. Without ``ttlSecondsAfterFinished``, for which an ended job's pods
        would keep devices that Kueue has given back. Without ``activeDeadlineSeconds``: by the
        job's label Kueue suspends it first.
        """
        (container,) = (c for c in template["spec"]["containers"] if c["name"] == plan.container)
        del container["command"]
        container.pop("args", None)
        if plan.nodes > 1:
            of_leader(template["metadata"].get("annotations", {}), self.name)
        group = {"rayStartParams": _START, "template": template}
        workers = plan.nodes - 1
        size = {"replicas": workers, "minReplicas": workers, "maxReplicas": workers}
        cluster: Object = {"enableInTreeAutoscaling": False, "headGroupSpec": group}
        if workers:
            cluster["workerGroupSpecs"] = [{"groupName": "worker", **size, **group}]
        # Ray's shell takes the quotes away (2.60.0, dashboard/modules/job/job_supervisor.py).
        entrypoint = shlex.join(program_of(plan.program))
        return {
            "entrypoint": entrypoint,
            # By its pod's log `kubectl logs job/NAME` shows what the program printed, also later.
            "submissionMode": "K8sJobMode",
            "submitterPodTemplate": _submitter(template, container, entrypoint),
            "shutdownAfterJobFinishes": True,
            "backoffLimit": plan.restarts or 0,
            "rayClusterSpec": cluster,
        }


def _submitter(template: Object, container: Object, entrypoint: str) -> Object:
    """Return the template of the pod that submits the program and follows it.

    KubeRay makes one by itself, but Kueue writes where it may run, and the label by which network
    policies know a job's pods, only into a template (v0.16.2, pkg/controller/jobs/rayjob,
    RunWithPodSetsInfo). Its command is not KubeRay's, which takes a broken stream of logs for the
    end of the program, and ends that (kuberay issue 4921).
    """
    own = template["metadata"].get("annotations", {})
    annotations = {k: v for k, v in own.items() if k == ENDED_WHEN_LOST}
    placed = {REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, SLICE_TOPOLOGY, UNCONSTRAINED_TOPOLOGY}
    if placed & set(own):
        # A flavor with a topology may take no pods that ask for none.
        annotations[UNCONSTRAINED_TOPOLOGY] = "true"
    metadata: Object = {"labels": template["metadata"]["labels"]}
    if annotations:
        metadata["annotations"] = annotations
    shared: dict[str, Any] = {k: v for k, v in template["spec"].items() if k in _SHARED}
    # KubeRay's own (common/job.go, GetDefaultSubmitterContainer).
    resources = {
        "requests": {"cpu": "500m", "memory": "200Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    security = container.get("securityContext", {})
    submitter: Object = {
        "name": "ray-job-submitter",
        **{k: container[k] for k in ("image", "imagePullPolicy") if k in container},
        "command": ["python3", "-c", literal(program(*_SUBMITS)), literal(entrypoint)],
        "resources": resources,
        "securityContext": {k: v for k, v in security.items() if k != "capabilities"},
    }
    return {
        "metadata": metadata,
        "spec": {**shared, "restartPolicy": "Never", "containers": [submitter]},
    }


API = RayJob(
    name="rayjob",
    api_version="ray.io/v1",
    kind="RayJob",
    plural="rayjobs",
    index=None,
    own=True,
    restarts=True,
    since="KubeRay v1.5",
    source="KubeRay v1.5.1, ray-operator/controllers/ray",
)
