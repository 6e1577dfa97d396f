"""Evictions of a job that Kueue had admitted: how often it was put back, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.kube.conditions import condition

Object = Mapping[str, Any]

#: Reasons of a Workload's evictions (kueue v0.16.2, apis/kueue/v1beta2/workload_types.go).
WHY = {
    "PodsReadyTimeout": "not all of its pods ran in time",
    "Preempted": "its place went to another job",
    "NodeFailures": "a node of it failed and there was no other",
    "AdmissionCheck": "its nodes did not come",
    "ClusterQueueStopped": "its cluster queue was stopped",
    "LocalQueueStopped": "its queue was stopped",
    "Deactivated": "it was deactivated",
}
_CAUSES = {"WaitForStart": "they never all ran", "WaitForRecovery": "one was lost and not replaced"}
_LIMIT = "RequeuingLimitExceeded"


def _evictions(workload: Object) -> list[tuple[str, int]]:
    """Return (reason, count) pairs, the most frequent first."""
    stats = (workload.get("status") or {}).get("schedulingStats") or {}
    count_of: dict[str, int] = {}
    for row in stats.get("evictions") or []:
        reason = str(row.get("reason") or "")
        # A deactivation is reported as such, not as one more time that it was put back.
        if reason.startswith("Deactivated"):
            continue
        cause = _CAUSES.get(str(row.get("underlyingCause") or ""))
        why = WHY.get(reason, reason) + (f": {cause}" if cause else "")
        count_of[why] = count_of.get(why, 0) + int(row.get("count") or 0)
    return sorted(count_of.items(), key=lambda item: -item[1])


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def times_put_back(workload: Object | None) -> int:
    """Return how often a job was put back into its queue."""
    return sum(count for _, count in _evictions(workload or {}))


def put_back(workload: Object | None) -> str:
    """Return a sentence on how often and why a job was put back into its queue, or nothing.

    >>> put_back({"status": {"schedulingStats": {"evictions": [
    ...     {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 2}]},
    ...     "requeueState": {"requeueAt": "2026-01-01T00:02:00Z"}}})  # doctest: +ELLIPSIS
    'put back twice (not all of its pods ran in time: they never all ran), tried again after ...'
    """
    if workload is None:
        return ""
    happened = _evictions(workload)
    if not happened:
        return ""
    total = times_put_back(workload)
    reasons = ", ".join(why if len(happened) == 1 else f"{_times(n)} {why}" for why, n in happened)
    text = f"put back {_times(total)} ({reasons})"
    at = ((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt")
    return f"{text}, tried again after {at}" if at else text


def deactivated(workload: Object | None) -> str:
    """Return why Kueue will not try a job again and how to make it; empty if it will."""
    if workload is None or (workload.get("spec") or {}).get("active", True) is not False:
        return ""
    evicted = condition(workload, "Evicted")
    history = put_back(workload).partition(", tried again")[0]
    why = (
        "its pods never all ran, as often as the stack lets it try"
        if _LIMIT in str(evicted.get("reason") or "")
        else str(evicted.get("message") or "someone set it inactive")
    )
    name = (workload.get("metadata") or {}).get("name") or ""
    return "; ".join(
        part
        for part in (
            f"Kueue has deactivated it: {why}",
            history,
            f"when the cause is fixed, set spec.active of Workload {name} to true, or launch it "
            "again",
        )
        if part
    )
