"""Restarts of a run that dies, as set for the cluster's own controllers.

The Job controller ends the whole Job at the first failed pod (``backoffLimit`` 0) and says why;
JobSet recreates the gang, and Kueue keeps its admission meanwhile: the Workload stays admitted
with its quota and its nodes (Kueue v0.16.2, pkg/controller/jobs/jobset). A process or a pod alone
is never restarted: a static rendezvous cannot see a peer come back.
"""

from __future__ import annotations

from typing import Any

from railhead.base import retries
from railhead.model.restarts import RestartConfig

_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def failure_policy(restarts: RestartConfig, gpus: int) -> dict[str, Any]:
    """Return ``failurePolicy`` of the JobSet; ``gpus`` are all of the pool's."""
    return {
        "maxRestarts": restarts.most(gpus),
        # No pod of the new gang before the last of the old one is gone.
        "restartStrategy": "BlockingRecreate",
        "rules": retries.of_job_set(restarts.never_on),
    }


def job_policy(
    restarts: RestartConfig, container: str, finished_days: int | None
) -> dict[str, Any]:
    """Return the policy of the gang's Job: any failed pod ends it, with the kind of failure.

    Kubernetes deletes a Job and its pods so long after its end. The JobSet and the TrainJob stay,
    and make no other: a JobSet that is over makes no Job (v0.10.1, jobset_controller.go,
    reconcile). Trainer would make a JobSet again that had gone, and the job would run a second time
    (v2.1.0, trainjob_controller.go, reconcileObjects).
    """
    kept = {} if finished_days is None else {"ttlSecondsAfterFinished": finished_days * 86400}
    return retries.of_job(restarts.never_on, container) | kept


def tolerations(restarts: RestartConfig) -> list[dict[str, Any]]:
    """Return how long a pod stays on a node that does not answer; Kubernetes' default is 300 s."""
    return [
        {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": restarts.unreachable_seconds,
        }
        for key in _UNREACHABLE
    ]
