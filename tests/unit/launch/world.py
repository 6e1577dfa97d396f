"""Plays the controllers in front of the fake API: queue, gang, logs, end."""

from __future__ import annotations

from typing import Any

from tests.unit.launch.fake_api import Api

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/training/trainjobs"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/training/workloads"
PODS = "/api/v1/namespaces/training/pods"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/training/jobsets"
TEMPLATE = {
    "spec": {"containers": [{"name": "node", "resources": {"requests": {"nvidia.com/gpu": "8"}}}]}
}


def job(api: Api, name: str, *, nodes: int = 2, processes: int = 2, queue: str = "training") -> Any:
    """Return a TrainJob as Kueue leaves it: suspended."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return api.put(
        JOBS,
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "suspend": True,
                "runtimeRef": {"name": "torch"},
                "trainer": {"numNodes": nodes, "numProcPerNode": processes},
            },
        },
    )


def workload(api: Api, owner: Any, *, message: str = "", admitted: bool = False) -> Any:
    """Kueue's view of a job."""
    state = "True" if admitted else "False"
    return api.put(
        WORKLOADS,
        {
            "metadata": {
                "name": f"trainjob-{owner['metadata']['name']}",
                "labels": {"kueue.x-k8s.io/job-uid": owner["metadata"]["uid"]},
                "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
            },
            "spec": {
                "podSets": [
                    {
                        "name": "node",
                        "count": owner["spec"]["trainer"]["numNodes"],
                        "template": TEMPLATE,
                    }
                ]
            },
            "status": {
                "conditions": [
                    {"type": "QuotaReserved", "status": state, "message": message},
                    {"type": "Admitted", "status": state},
                ]
            },
        },
    )


def pod(api: Api, owner: Any, index: int, *, state: dict[str, Any], phase: str = "Running") -> Any:
    """Return one pod of the gang; ``state`` is its container's state."""
    name = owner["metadata"]["name"]
    return api.put(
        PODS,
        {
            "metadata": {
                "name": f"{name}-node-0-{index}-abcde",
                "labels": {
                    "jobset.sigs.k8s.io/jobset-name": name,
                    "jobset.sigs.k8s.io/replicatedjob-name": "node",
                    "batch.kubernetes.io/job-completion-index": str(index),
                },
                "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
            },
            "spec": {"nodeName": f"lab-node-{index}"},
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "node", "restartCount": 0, "state": state}],
            },
        },
    )


def admit(api: Api, owner: Any) -> None:
    """Unsuspend, and let both pods run with something to say."""
    workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    api.put(
        JOBSETS,
        {
            "metadata": {
                "name": owner["metadata"]["name"],
                "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
            },
            "status": {"restarts": 0},
        },
    )
    for index in range(owner["spec"]["trainer"]["numNodes"]):
        made = pod(api, owner, index, state={"running": {}})
        api.logs[made["metadata"]["name"]] = [
            f"2026-01-02T03:04:0{second}.000000001Z [default{local}]:node {index} second {second}"
            for second, local in ((5, 0), (6, 1))
        ]
        api.open_logs.add(made["metadata"]["name"])


def end(api: Api, owner: Any, *, failed: bool = False) -> None:
    """End the gang's containers, and with them the job."""
    with api.lock:
        for index in range(owner["spec"]["trainer"]["numNodes"]):
            code = 1 if failed and index == 1 else 0
            state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
            name = f"{owner['metadata']['name']}-node-0-{index}-abcde"
            status = api.objects[f"{PODS}/{name}"]["status"]
            status["phase"] = "Failed" if code else "Succeeded"
            status["containerStatuses"][0]["state"] = state
            api.open_logs.discard(name)
        kind = "Failed" if failed else "Complete"
        message = "jobset failed due to one or more job failures" if failed else "all done"
        owner["status"] = {"conditions": [{"type": kind, "status": "True", "message": message}]}


def run_out(api: Api, owner: Any) -> Any:
    """End a job by its limit of time, as Kueue does, and return its Workload."""
    name = owner["metadata"]["name"]
    with api.lock:
        made = api.objects[f"{WORKLOADS}/trainjob-{name}"]
        made["spec"]["active"] = False
        message = "The workload is deactivated due to exceeding the maximum execution time"
        made["status"]["conditions"] = [
            {
                "type": "Evicted",
                "status": "True",
                "reason": "Deactivated",
                "message": message,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
            }
        ]
        owner["spec"]["suspend"] = True
        for index in range(owner["spec"]["trainer"]["numNodes"]):
            api.open_logs.discard(f"{name}-node-0-{index}-abcde")
        return made


def remove_pods(api: Api, owner: Any) -> None:
    """Take the pods away, as kubelets do once the containers have ended."""
    for index in range(owner["spec"]["trainer"]["numNodes"]):
        api.remove(f"{PODS}/{owner['metadata']['name']}-node-0-{index}-abcde")
