"""A CronJob's spec (batch/v1): one run at a time, never tried again by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def cron_job(
    schedule: str,
    seconds: int,
    pod: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the spec of a CronJob: jobs with ``labels`` run ``pod`` for at most ``seconds``.

    ``annotations`` are the pod's.
    """
    own = {"metadata": {"annotations": dict(annotations)}} if annotations else {}
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": seconds,
        "template": {**own, "spec": dict(pod)},
    }
    return {
        "schedule": schedule,
        "timeZone": "Etc/UTC",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 3600,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": ({"metadata": {"labels": dict(labels)}} if labels else {}) | {"spec": spec},
    }
