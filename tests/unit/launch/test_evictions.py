"""Reports of `railhead status` on a job that Kueue requeued or deactivated."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.kube.evictions import deactivated, put_back
from railhead.kube.jobs import _queue_room, _selector


def workload(*evictions: tuple[str, str, int], **spec: Any) -> dict[str, Any]:
    rows = [{"reason": r, "underlyingCause": c, "count": n} for r, c, n in evictions]
    return {
        "metadata": {"name": "trainjob-demo-1a2b3"},
        "spec": spec,
        "status": {"schedulingStats": {"evictions": rows}},
    }


@pytest.mark.parametrize("given", [None, {}, workload(), {"status": {"schedulingStats": None}}])
def test_job_never_requeued_has_no_report(given: Any) -> None:
    assert put_back(given) == ""
    assert deactivated(given) == ""


def test_how_often_and_why() -> None:
    assert put_back(workload(("PodsReadyTimeout", "WaitForStart", 2))) == (
        "put back twice (not all of its pods ran in time: they never all ran)"
    )
    text = put_back(workload(("Preempted", "", 1), ("PodsReadyTimeout", "WaitForRecovery", 3)))
    assert text == (
        "put back 4 times (3 times not all of its pods ran in time: one was lost and not replaced, "
        "once its place went to another job)"
    )
    waits = workload(("NodeFailures", "", 1))
    waits["status"]["requeueState"] = {"count": 1, "requeueAt": "2026-01-01T00:02:00Z"}
    assert put_back(waits).endswith("), tried again after 2026-01-01T00:02:00Z")


def test_deactivated_job_reports_cause_count_and_remedy() -> None:
    given = workload(
        ("PodsReadyTimeout", "WaitForStart", 5),
        ("Deactivated", "RequeuingLimitExceeded", 1),
        active=False,
    )
    given["status"]["conditions"] = [
        {
            "type": "Evicted",
            "status": "True",
            "reason": "DeactivatedDueToRequeuingLimitExceeded",
            "message": "The workload is deactivated due to exceeding the maximum number",
        }
    ]
    assert deactivated(given) == (
        "Kueue has deactivated it: its pods never all ran, as often as the stack lets it try; put "
        "back 5 times (not all of its pods ran in time: they never all ran); when the cause is "
        "fixed, set spec.active of Workload trainjob-demo-1a2b3 to true, or launch it again"
    )
    by_hand = workload(active=False)
    assert deactivated(by_hand).startswith("Kueue has deactivated it: someone set it inactive; ")
    assert deactivated(workload(active=True)) == ""


class _Cluster:
    """Two pools in one queue, of which a job can use one."""

    def find(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if "localqueues" in path:
            return {"spec": {"clusterQueue": "q"}}
        if "resourceflavors" in path:
            return {"spec": {"nodeLabels": {"pool": name}}}
        amounts = {"h100": ("64", "60"), "a100": ("32", "0")}
        resource = "nvidia.com/gpu"
        flavors = [
            {"name": f, "resources": [{"name": resource, "nominalQuota": n}]}
            for f, (n, _) in amounts.items()
        ]
        used = [
            {"name": f, "resources": [{"name": resource, "total": t}]}
            for f, (_, t) in amounts.items()
        ]
        return {
            "spec": {"resourceGroups": [{"flavors": flavors}]},
            "status": {"flavorsReservation": used},
        }


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"pool": "h100"}, "queue x has 4 of 64 free"),
        ({"pool": "a100"}, "queue x has 32 of 32 free"),
        ({}, "queue x has 36 of 96 free"),
    ],
)
def test_room_is_counted_where_the_job_can_run(labels: dict[str, str], said: str) -> None:
    cluster: Any = _Cluster()
    assert _queue_room(cluster, "n", "x", "nvidia.com/gpu", labels) == said
    pod_set = {"template": {"spec": {"nodeSelector": labels}}}
    assert _selector({"spec": {"podSets": [pod_set, pod_set]}}) == labels
