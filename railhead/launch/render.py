"""From a plan to the objects that the API server gets. Plain data, no templates."""

from __future__ import annotations

import base64
import re
from typing import Any

from railhead.base.names import QUEUE_LABEL, TRAINER_API
from railhead.launch.job import WORKSPACE
from railhead.launch.plan import Plan

Object = dict[str, Any]

JOB_LABEL = "railhead.dev/job"
MANAGED_BY = {"app.kubernetes.io/managed-by": "railhead"}
PATCH_MANAGER = "railhead.dev/launch"
VOLUME = "railhead-files"


def literal(text: str) -> str:
    """Protect text from the kubelet, which expands ``$(NAME)`` in commands and environments.

    The kubelet turns ``$$`` into ``$`` (k8s.io/kubernetes/third_party/forked/golang/expansion).
    """
    return re.sub(r"\$(?=[$(])", "$$", text)


def files_name(job: str) -> str:
    """The name of the ConfigMap that carries a job's files."""
    return f"{job}-files"


def _labels(plan: Plan) -> dict[str, str]:
    return MANAGED_BY | {JOB_LABEL: plan.name}


def config_map(plan: Plan, *, owner: Object | None = None) -> Object | None:
    """The ConfigMap with the job's files; None when it has none.

    Args:
        plan: the plan.
        owner: the created TrainJob; with it, the ConfigMap goes when the job goes.
    """
    if not plan.files:
        return None
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for payload in plan.files:
        try:
            text[payload.name] = payload.data.decode("utf-8")
        except UnicodeDecodeError:
            binary[payload.name] = base64.b64encode(payload.data).decode()
    metadata: Object = {
        "name": files_name(plan.name),
        "namespace": plan.namespace,
        "labels": _labels(plan),
    }
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
        ]
    result: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    if text:
        result["data"] = text
    if binary:
        result["binaryData"] = binary
    return result


def _placement(plan: Plan) -> Object:
    """The pod patch that mounts the files and labels, in the shape that Trainer reads."""
    pod: Object = {}
    if plan.pod_labels:
        pod["metadata"] = {"labels": dict(plan.pod_labels)}
    if plan.files:
        pod["spec"] = {
            "volumes": [
                {
                    "name": VOLUME,
                    "configMap": {"name": files_name(plan.name), "defaultMode": 0o555},
                }
            ],
            "containers": [
                {
                    "name": plan.container,
                    "volumeMounts": [{"name": VOLUME, "mountPath": WORKSPACE, "readOnly": True}],
                }
            ],
        }
    if not pod:
        return {}
    if plan.placement_field == "podTemplateOverrides":
        target = {"targetJobs": [{"name": plan.replicated_job}], **pod}
        return {"podTemplateOverrides": [target]}
    job = {"name": plan.replicated_job, "template": {"spec": {"template": pod}}}
    return {
        "runtimePatches": [
            {
                "manager": PATCH_MANAGER,
                "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
            }
        ]
    }


def train_job(plan: Plan) -> Object:
    """The TrainJob (trainer.kubeflow.org/v1alpha1) of a plan."""
    trainer: Object = {
        "command": [literal(plan.command[0])],
        "numNodes": plan.nodes,
        "numProcPerNode": plan.processes_per_node,
        "env": [{"name": name, "value": literal(value)} for name, value in plan.env.items()],
    }
    if len(plan.command) > 1:
        trainer["args"] = [literal(word) for word in plan.command[1:]]
    if plan.resized:
        # Complete, and only where the job differs: Trainer builds the container's resources anew
        # from them, without the runtime's claims (pkg/runtime/framework/plugins/jobset of 2.1,
        # pkg/runtime/core of 2.3).
        trainer["resourcesPerNode"] = plan.resources
    if plan.image is not None:
        trainer["image"] = plan.image
    return {
        "apiVersion": TRAINER_API,
        "kind": "TrainJob",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": _labels(plan) | plan.labels | {QUEUE_LABEL: plan.queue},
        },
        "spec": {
            "runtimeRef": {
                "apiGroup": TRAINER_API.partition("/")[0],
                "kind": "ClusterTrainingRuntime",
                "name": plan.runtime,
            },
            "trainer": trainer,
            **_placement(plan),
        },
    }


def objects(plan: Plan) -> list[Object]:
    """Everything that a launch creates, in the order of creation."""
    files = config_map(plan)
    return [*([files] if files else []), train_job(plan)]
