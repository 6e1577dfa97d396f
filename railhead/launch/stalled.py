"""Finds the controller that should have acted on a job, and whether it runs.

Kueue makes a Workload of a TrainJob and unsuspends the TrainJob once that is admitted (kueue
v0.16.2, pkg/controller/jobframework/reconciler.go); Trainer makes a JobSet and unsuspends it
(trainer v2.1.0, pkg/runtime/framework/plugins/jobset); JobSet does the same with Jobs (jobset
v0.10.1, pkg/controllers/jobset_controller.go). Each takes seconds.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from railhead.base.names import (
    JOBSET_DEPLOYMENT,
    KUEUE_DEPLOYMENT,
    QUEUE_LABEL,
    TRAINER_DEPLOYMENT,
)
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.conditions import condition
from railhead.kube.jobs import JobState, Phase
from railhead.launch.reasons import Meaning

Object = dict[str, Any]

# A controller that runs is busy for some seconds at most, a new leader takes 15 to 30.
_LATE_SECONDS = 60
_DEPLOYMENTS = {
    "Kueue": KUEUE_DEPLOYMENT,
    "Trainer": TRAINER_DEPLOYMENT,
    "JobSet": JOBSET_DEPLOYMENT,
}


def stalled(
    cluster: kube.Cluster, job: Object, state: JobState, *, explained: bool
) -> tuple[str, Meaning] | None:
    """Return the controller that a job waits for, if it is down or a minute late.

    Only an operator may read whether it is down. None where what it makes may not be read, or it
    is only late and the wait is ``explained``: a controller that complains runs.
    """
    if state.nodes or state.phase is Phase.SUSPENDED:
        return None
    try:
        turn = _turn(cluster, job, state)
    except kube.ApiError as error:
        if error.status not in (403, 404):
            raise
        return None
    if turn is None:
        return None
    controller, lacking, since = turn
    if down := _down(cluster, controller):
        text = f"it has no pod that is ready, so it has not {lacking or 'decided on the job'}"
        return controller, Meaning(
            text=text, change=f"ask the platform team: `kubectl describe {down}` says why"
        )
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds())
    if explained or not lacking or seconds < _LATE_SECONDS:
        return None
    return controller, Meaning(
        text=f"it has not {lacking}, {seconds} s after it could",
        change=f"ask the platform team whether {controller} runs",
    )


def _turn(cluster: kube.Cluster, job: Object, state: JobState) -> tuple[str, str, str] | None:
    """Return whose turn it is, the part that is lacking, and since when it could be done.

    The part is empty where Kueue may rightly take its time: the job waits for quota.
    """
    since = state.created.isoformat()
    if (job["metadata"].get("labels") or {}).get(QUEUE_LABEL):
        selector = f"{jobs.UID_LABEL}={state.uid}"
        workloads = cluster.list(kube.kueue(state.namespace, "workloads"), selector=selector)
        if not workloads:
            return "Kueue", "taken the job up", since
        if state.phase is Phase.QUEUED:
            return "Kueue", "", since
        since = condition(workloads[0], "Admitted").get("lastTransitionTime") or since
        if job["spec"].get("suspend"):
            return "Kueue", "started the job that it admitted", since
    child = cluster.find(kube.jobset(state.namespace, state.name))
    if child is None:
        return "Trainer", "made the job's JobSet", since
    if (child.get("spec") or {}).get("suspend"):
        return "Trainer", "started the job's JobSet", since
    selector = f"{jobs.JOBSET_LABEL}={state.name}"
    made = cluster.list(f"/apis/batch/v1/namespaces/{state.namespace}/jobs", selector=selector)
    if all(item["spec"].get("suspend") for item in made):
        return "JobSet", "started the job's Jobs" if made else "made the job's Jobs", since
    return None


def _down(cluster: kube.Cluster, controller: str) -> str:
    """Return a controller's Deployment without a ready pod; empty if all have one or are secret."""
    fields = f"metadata.name={_DEPLOYMENTS[controller]}"
    for item in jobs.allowed(cluster, "/apis/apps/v1/deployments", fields=fields):
        if not (item.get("status") or {}).get("readyReplicas"):
            return f"-n {item['metadata']['namespace']} deployment {item['metadata']['name']}"
    return ""
