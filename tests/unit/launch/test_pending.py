"""Reasons why a job waits, as `status`, `describe` and the SDK give them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from railhead.kube import jobs
from railhead.kube.client import Cluster
from railhead.launch import Run, reasons
from railhead.launch.reasons import meanings
from tests.unit.launch import world
from tests.unit.launch.fake_api import STAMP, Api

RECORDED = yaml.load((Path(__file__).parent / "pending.yaml").read_text(), yaml.CSafeLoader)
EVENTS = "/api/v1/namespaces/training/events"
CLAIMS = "/api/v1/namespaces/training/persistentvolumeclaims"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"
LOCAL = "/apis/kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training"


def test_recorded_messages_have_their_meaning() -> None:
    for row in RECORDED:
        assert [item.text for item in meanings(row["message"])] == row["means"], row["message"]


def test_each_row_is_of_a_recorded_message() -> None:
    texts = [row["message"] for row in RECORDED]
    for number, (pattern, _, _) in enumerate(reasons._compiled()):
        assert any(pattern.search(text) for text in texts), reasons._ROWS[number][0]


def test_unknown_message_has_no_meaning() -> None:
    assert meanings("the moon is in the wrong house") == []
    assert meanings("") == []


def event(api: Api, kind: str, name: str, message: str, at: str = STAMP, uid: str = "") -> None:
    body = {
        "metadata": {"name": f"event-{api.counter}"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"kind": kind, "name": name, "uid": uid},
    }
    api.put(EVENTS, body)


def reported(run: Any, command: str = "status") -> list[str]:
    """Return the lines about why the job waits."""
    return [
        line.strip()
        for line in run(command, "demo")[1].splitlines()
        if line.strip().startswith(("why: ", "change: "))
    ]


def test_status_and_describe_say_why_and_what_to_change(api: Api, run: Any) -> None:
    owner = world.job(api, "demo")
    world.workload(api, owner, message="LocalQueue training is inactive")
    closed = {"type": "Active", "status": "False", "message": "LocalQueue is stopped"}
    api.objects[LOCAL]["status"] = {"conditions": [closed]}
    why = [
        "why: Kueue: LocalQueue training admits no jobs",
        "change: name another queue, or ask the platform team",
        "why: queue training: the platform team stopped it (`stopPolicy`)",
        "change: ask the platform team when it goes on",
    ]
    assert reported(run) == why
    assert reported(run, "describe") == why
    api.objects[QUEUE]["status"]["conditions"] = [
        closed | {"message": "Can't admit new workloads: is stopped."}
    ]
    assert "why: cluster queue training: the platform team stopped it (`stopPolicy`)" in reported(
        run
    )


def test_sdk_and_json_have_message_and_meaning(api: Api, run: Any, cluster: Cluster) -> None:
    message = "Workload no longer fits after processing another workload"
    world.workload(api, world.job(api, "demo"), message=message)
    (reason,) = Run(cluster, "demo").insight().reasons
    assert (reason.source, reason.message) == ("Kueue", message)
    (row,) = json.loads(run("status", "demo", "--json")[1])["reasons"]
    assert row == {
        "source": "Kueue",
        "message": message,
        "meanings": [
            {
                "text": "another job took the place in the same moment",
                "change": "nothing: Kueue tries again by itself",
            }
        ],
    }


def test_check_that_is_not_ready_is_named(api: Api, run: Any) -> None:
    """A job with its quota holds it itself: its place and the holders are no reason."""
    made = world.workload(api, world.job(api, "demo"), admitted=True)
    made["spec"]["queueName"] = "training"
    made["status"] |= {
        "conditions": [{"type": "QuotaReserved", "status": "True"}],
        "admission": {"clusterQueue": "training"},
        "admissionChecks": [
            {"name": "nodes", "state": "Pending", "message": "Retrying after failure: no stock"},
            {"name": "budget", "state": "Pending", "message": ""},
            {"name": "done", "state": "Ready", "message": "yes"},
        ],
    }
    code, out, _ = run("status", "demo")
    assert code == 0
    assert "place:" not in out
    assert "held by:" not in out
    assert reported(run) == [
        "why: check nodes: nodes were asked for and did not come (no stock); they are asked for "
        "again",
        "change: nothing, or ask for fewer nodes or GPUs, or name another queue",
        "why: check budget: Pending, with no reason given",
    ]


def test_guard_that_refuses_pods_is_reported(api: Api, run: Any) -> None:
    """Warnings of an earlier job of that name, and of other jobs, are not its own."""
    owner = world.job(api, "demo")
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    denied = "ValidatingAdmissionPolicy 'railhead-x' with binding 'b' denied request: "
    event(api, "Job", "demo-node-0", f"Error creating: {denied}first", "2026-01-02T03:04:06Z")
    event(api, "Job", "demo-node-0", f"Error creating: {denied}last", "2026-01-02T03:04:07Z")
    event(api, "JobSet", "demo", f"{denied}before it", "2026-01-02T03:04:04Z")
    event(api, "Job", "demo-2-node-0", f"{denied}another's")
    conflict = "the object has been modified; please apply your changes to the latest version"
    early = (
        'admission webhook "mjobset.kb.io" denied the request: workload owner not found\n'
        'TrainJob.trainer.kubeflow.org "demo" not found'
    )
    event(api, "TrainJob", "demo", conflict, "2026-01-02T03:04:08Z")
    event(api, "TrainJob", "demo", early, "2026-01-02T03:04:09Z")
    assert reported(run) == [
        "why: Job demo-node-0: the guard railhead-x refuses its pods: last",
        "change: change what the guard names, and launch it again",
    ]


def pod(api: Api, owner: Any, index: int, **status: Any) -> Any:
    made = world.pod(api, owner, index, state={}, phase="Pending")
    made["spec"] = {}
    made["status"] = {"phase": "Pending"} | status
    return made


def test_same_reason_of_many_pods_is_said_once(api: Api, run: Any, cluster: Cluster) -> None:
    owner = world.job(api, "demo", nodes=5)
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "hub" not found'}
    for index in range(5):
        pod(api, owner, index, containerStatuses=[{"name": "node", "state": {"waiting": waiting}}])
    state = jobs.read_state(cluster, jobs.find_job(cluster, ("training",), "demo"))
    assert state.detail == (
        "0 of 5 pods running; node-0, node-1, node-2 and 2 more: CreateContainerConfigError: "
        'secret "hub" not found'
    )
    assert reported(run) == [
        "why: node-0, node-1, node-2 and 2 more: the secret hub does not exist in its namespace",
        "change: correct `secrets`, or ask a lead of the namespace to create it",
    ]


def test_claim_without_a_volume_says_why(api: Api, run: Any) -> None:
    owner = world.job(api, "demo", nodes=1)
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    unbound = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    condition = {"type": "PodScheduled", "status": "False", "message": unbound}
    made = pod(api, owner, 0, conditions=[condition])
    names = ("data", "bound", "nowhere")
    made["spec"]["volumes"] = [
        {"name": "tmp", "emptyDir": {}},
        *({"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names),
    ]
    for name, phase in (("data", "Pending"), ("bound", "Bound")):
        body = {"metadata": {"name": name, "uid": f"of-{name}"}, "status": {"phase": phase}}
        api.put(CLAIMS, body)
    missing = 'storageclass.storage.k8s.io "fast" not found'
    event(api, "PersistentVolumeClaim", "data", missing, uid="of-data")
    assert reported(run) == [
        "why: node-0: a claim that it mounts has no volume yet",
        "change: wait for its provisioner; `railhead storage` tests claims",
        "why: claim data: its storage class fast does not exist",
        "change: mount another claim, or ask the platform team",
    ]


def test_known_line_is_not_repeated_and_running_jobs_have_none(api: Api, run: Any) -> None:
    owner = world.job(api, "demo")
    world.workload(api, owner, message="something that no row knows")
    assert reported(run) == []
    assert "something that no row knows" in run("status", "demo")[1]
    event(api, "TrainJob", "demo", "a controller's own words", STAMP)
    assert reported(run) == ["why: TrainJob demo: a controller's own words"]
    world.admit(api, owner)
    assert reported(run, "describe") == []


def test_controller_that_is_late_or_down_is_named(api: Api, run: Any) -> None:
    """A minute of silence is evident to anybody; an operator may read who has no pod."""
    deployments, batch = "/apis/apps/v1/deployments", "/apis/batch/v1/namespaces/training/jobs"
    kueue: dict[str, Any] = {
        "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    }

    def told(*words: str) -> None:
        why, change = reported(run)
        assert all(word in why + change for word in words), (why, change)

    owner = world.job(api, "demo")
    told("why: Kueue: it has not taken the job up", "ask the platform team whether Kueue runs")
    made = world.workload(api, owner, message="something that no row knows")
    assert reported(run) == []
    api.put(deployments, kueue)
    told("why: Kueue: it has no pod that is ready", "-n kueue-system deployment kueue-controller")
    kueue["status"] = {"readyReplicas": 1}
    for condition in made["status"]["conditions"]:
        condition["status"] = "True"
    told("why: Kueue: it has not started the job that it admitted")
    owner["spec"]["suspend"] = False
    told("why: Trainer: it has not made the job's JobSet")
    child = api.put(world.JOBSETS, {"metadata": {"name": "demo"}, "spec": {"suspend": True}})
    told("why: Trainer: it has not started the job's JobSet", "whether Trainer runs")
    child["spec"]["suspend"] = False
    told("why: JobSet: it has not made the job's Jobs")
    labels = {"jobset.sigs.k8s.io/jobset-name": "demo"}
    gang = {"metadata": {"name": "demo-node-0", "labels": labels}, "spec": {"suspend": True}}
    api.put(batch, gang)
    told("why: JobSet: it has not started the job's Jobs")
    gang["spec"] = {}
    assert reported(run) == []


def test_controller_that_may_be_busy_or_unread_is_not_blamed(api: Api, run: Any) -> None:
    owner = world.job(api, "demo")
    api.refusals["GET", world.WORKLOADS] = (403, "no")
    assert reported(run) == []
    api.refusals.clear()
    owner["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert reported(run) == []
