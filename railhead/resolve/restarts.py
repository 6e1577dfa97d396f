"""Restarts of a run that dies, as set for the cluster's own controllers.

The Job controller ends the whole Job at the first failed pod (``backoffLimit`` 0) and says why;
JobSet recreates the gang, and Kueue keeps its admission meanwhile: the Workload stays admitted
with its quota and its nodes (Kueue v0.16.2, pkg/controller/jobs/jobset). A process or a pod alone
is never restarted: a static rendezvous cannot see a peer come back.
"""

from __future__ import annotations

from typing import Any

from railhead.model.restarts import RestartConfig

_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# Kubernetes v1.35, pkg/controller/job/pod_failure_policy.go: the messages of a failed Job.
_DISRUPTED = "^Pod .* has condition DisruptionTarget matching FailJob rule"
_EXITED = "^Container .* failed with exit code ({}) matching FailJob rule"


def failure_policy(restarts: RestartConfig, gpus: int) -> dict[str, Any]:
    """Return ``failurePolicy`` of the JobSet (JobSet v0.10.1, pkg/controllers/failure_policy.go).

    The first rule that matches acts; without one the gang is recreated and counted. ``gpus`` are
    all of the pool's.
    """
    rules: list[dict[str, Any]] = [
        {
            "name": "disrupted",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [_DISRUPTED],
        }
    ]
    if restarts.never_on:
        codes = "|".join(str(code) for code in sorted(restarts.never_on))
        rules.append(
            {
                "name": "hopeless",
                "action": "FailJobSet",
                "onJobFailureReasons": ["PodFailurePolicy"],
                "onJobFailureMessagePatterns": [_EXITED.format(codes)],
            }
        )
    return {
        "maxRestarts": restarts.most(gpus),
        # No pod of the new gang before the last of the old one is gone.
        "restartStrategy": "BlockingRecreate",
        "rules": rules,
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
    rules: list[dict[str, Any]] = [
        {
            "action": "FailJob",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
    if restarts.never_on:
        codes = {"operator": "In", "values": sorted(restarts.never_on)}
        rules.append({"action": "FailJob", "onExitCodes": {"containerName": container} | codes})
    kept = {} if finished_days is None else {"ttlSecondsAfterFinished": finished_days * 86400}
    return {"backoffLimit": 0, "podFailurePolicy": {"rules": rules}} | kept


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
