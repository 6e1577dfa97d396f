"""Failures after which a gang is recreated, as rules of JobSet and of the Job controller.

A runtime's gangs have them, and so has a job of several roles, which is of no runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: sysexits' bad usage and bad configuration, what argparse and `python no-such-file` end with, and
#: what shells say of a program that is not there or cannot be started. 128 is absent: containerd
#: gives it when it cannot create the task (1.7.30, pkg/cri/server/helpers.go, errorStartExitCode),
#: and so when the node's GPU driver, its hook or a mount fails, which another node may not share.
HOPELESS = (2, 64, 78, 126, 127)
# Kubernetes v1.35, pkg/controller/job/pod_failure_policy.go: the messages of a failed Job.
_DISRUPTED = "^Pod .* has condition DisruptionTarget matching FailJob rule"
_EXITED = "^Container .* failed with exit code ({}) matching FailJob rule"


def of_job_set(never_on: Sequence[int]) -> list[dict[str, Any]]:
    """Return the ``rules`` of a JobSet (v0.10.1, pkg/controllers/failure_policy.go).

    The first that matches acts; without one the gang is recreated and counted.
    """
    rules: list[dict[str, Any]] = [
        {
            "name": "disrupted",
            "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["PodFailurePolicy"],
            "onJobFailureMessagePatterns": [_DISRUPTED],
        }
    ]
    if never_on:
        codes = "|".join(str(code) for code in sorted(never_on))
        rules.append(
            {
                "name": "hopeless",
                "action": "FailJobSet",
                "onJobFailureReasons": ["PodFailurePolicy"],
                "onJobFailureMessagePatterns": [_EXITED.format(codes)],
            }
        )
    return rules


def of_job(never_on: Sequence[int], container: str) -> dict[str, Any]:
    """Return the fields of a gang's Job by which its first failed pod ends it, and says why."""
    rules: list[dict[str, Any]] = [
        {
            "action": "FailJob",
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        }
    ]
    if never_on:
        codes = {"operator": "In", "values": sorted(never_on)}
        rules.append({"action": "FailJob", "onExitCodes": {"containerName": container} | codes})
    return {"backoffLimit": 0, "podFailurePolicy": {"rules": rules}}
