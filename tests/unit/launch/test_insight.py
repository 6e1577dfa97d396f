"""Reports of `status` and `logs` beside a job's phase: waiting, first failures, silent ranks."""

from __future__ import annotations

import itertools
import json
import re
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.base.errors import ExitCode, RefusedError
from railhead.kube import jobs
from railhead.kube.client import ApiError, Cluster
from railhead.launch import Run, failing, insight, mounts, waiting
from railhead.launch.logs import kept, stream
from railhead.launch.programs import keep
from railhead.launch.submit import SUBMITTED
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import STAMP, Api

NOW = datetime(2026, 1, 2, 4, 0, 0, tzinfo=UTC)
PREFIX = r"\[default(\d+)\]:"
VISIBLE = (
    "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training/"
    "pendingworkloads"
)


def at(seconds: float) -> str:
    """Return a kubelet's timestamp, so many seconds before NOW."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")


# -- why it waits -------------------------------------------------------------------------------


def holder(
    api: Api, name: str, *, gpus: int, limit: int | None = None, queue: str = "training"
) -> Any:
    """Return a Workload that has quota reserved."""
    owner = world.job(api, name)
    made = world.workload(api, owner, admitted=True)
    made["metadata"]["ownerReferences"][0]["name"] = name
    made["spec"]["queueName"] = queue
    made["status"]["admission"] = {
        "clusterQueue": "training",
        "podSetAssignments": [{"name": "node", "resourceUsage": {"nvidia.com/gpu": str(gpus)}}],
    }
    for condition in made["status"]["conditions"]:
        condition["lastTransitionTime"] = STAMP
    if limit is not None:
        made["spec"]["maximumExecutionTimeSeconds"] = limit
    return made


def waiter(api: Api, name: str = "demo", **spec: Any) -> Any:
    owner = world.job(api, name)
    made = world.workload(api, owner, message="insufficient quota")
    made["spec"] |= {"queueName": "training"} | spec
    return made


@pytest.fixture
def asked(api: Api, cluster: Cluster) -> Any:
    """A call that asks the fake cluster why the job `demo` waits."""

    def ask(*namespaces: str) -> waiting.Waiting:
        job = jobs.find_job(cluster, ("training",), "demo")
        result = waiting.read(cluster, job, jobs.read_state(cluster, job), namespaces)
        assert result is not None
        return result

    return ask


def test_holders_are_named_with_what_they_hold(api: Api, asked: Any) -> None:
    holder(api, "small", gpus=4)
    holder(api, "large", gpus=8)
    holder(api, "none", gpus=0)
    holder(api, "elsewhere", gpus=8)["status"]["admission"]["clusterQueue"] = "other"
    over = holder(api, "over", gpus=8)
    over["status"]["conditions"].append({"type": "Finished", "status": "True"})
    waiter(api)
    result = asked()
    assert [(item.job, int(item.amount)) for item in result.holders] == [("large", 8), ("small", 4)]
    assert "held by: large (training/training, 8 nvidia.com/gpu), small" in result.lines()[1]
    assert "nobody can say; 2 of 2 holders have no limit" in result.lines()[2]


def test_holder_is_searched_in_all_the_clusters_namespaces(api: Api, run: Any) -> None:
    publish(api, CONTRACT.model_copy(update={"namespaces": ("training", "other")}))
    large = holder(api, "large", gpus=12)
    del api.objects[f"{world.WORKLOADS}/trainjob-large"], large["metadata"]["namespace"]
    api.put(world.WORKLOADS.replace("/training/", "/other/"), large)
    waiter(api)
    assert "held by: large (other/training, 12 nvidia.com/gpu)" in run("status", "demo")[1]


def test_a_holder_that_nothing_owns_has_its_own_name(api: Api, asked: Any) -> None:
    """A user made this Workload by hand."""
    alone = holder(api, "alone", gpus=4)
    alone["metadata"] |= {"ownerReferences": [], "name": "by-hand"}
    waiter(api)
    assert [item.job for item in asked().holders] == ["by-hand"]


def test_start_is_estimated_if_time_limits_free_enough(api: Api, asked: Any) -> None:
    """4 of 16 are free and 16 are needed: both must have ended, the later one tells."""
    holder(api, "first", gpus=8, limit=3600)
    later = holder(api, "later", gpus=4, limit=7200)
    later["status"]["accumulatedPastExecutionTimeSeconds"] = 600
    waiter(api)
    result = asked()
    begin = datetime.fromisoformat(STAMP)
    assert result.starts == begin + timedelta(seconds=6600)
    assert any(line.startswith("may start: by 2026-01-02 04:54 UTC") for line in result.lines())
    # With a third that has no limit and too little left, nobody can say.
    del later["spec"]["maximumExecutionTimeSeconds"]
    assert asked().starts is None


def pod_sets(*sets: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return one pod set for each: its pods, then the GPUs of each of their containers."""
    return [
        {
            "count": count,
            "template": {
                "spec": {
                    "containers": [
                        {"resources": {"requests": {"nvidia.com/gpu": str(item), "cpu": "1"}}}
                        for item in gpus
                    ]
                }
            },
        }
        for count, *gpus in sets
    ]


def test_holder_of_the_queue_is_named_to_jobs_without_gpus(api: Api, asked: Any) -> None:
    holder(api, "one", gpus=8)
    waiter(api, podSets=pod_sets((2,), (1,)))
    result = asked()
    assert [(item.job, item.amount) for item in result.holders] == [("one", 0)]
    assert "held by: one (training/training)" in result.lines()


@pytest.mark.parametrize(
    ("needs", "held", "reserved", "after"),
    [
        (((2, 8),), ((12, 60),), 12, 60),
        (((2, 8),), ((11, 60),), 12, None),
        (((1, 8), (2, 1, 1)), ((8, 60),), 12, 60),
        (((1, 8), (2, 1, 1)), ((7, 60),), 12, None),
        # The first to end is enough, even if another holds more.
        (((1, 8),), ((8, 7200), (4, 60)), 12, 60),
        # More is reserved than there is.
        (((2, 8),), ((16, 60),), 20, 60),
        (((2, 8),), ((15, 60),), 20, None),
        (((2, 8),), ((12, None),), 12, None),
        (((2,),), ((12, 60),), 12, None),
    ],
)
def test_it_starts_once_as_much_is_free_as_it_needs(
    api: Api, asked: Any, needs: Any, held: Any, reserved: int, after: int | None
) -> None:
    """The queue has 16 GPUs."""
    queue = api.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"]
    queue["status"]["flavorsReservation"][0]["resources"][0]["total"] = str(reserved)
    for gpus, limit in held:
        holder(api, f"with-{gpus}", gpus=gpus, limit=limit)
    waiter(api, podSets=pod_sets(*needs))
    begin = datetime.fromisoformat(STAMP)
    assert asked().starts == (None if after is None else begin + timedelta(seconds=after))


def test_a_limit_of_time_counts_from_the_admission(api: Api, asked: Any) -> None:
    item = holder(api, "one", gpus=12, limit=60)
    waiter(api)
    (admitted,) = [c for c in item["status"]["conditions"] if c["type"] == "Admitted"]
    for change in ({"status": "False"}, {"status": "True", "lastTransitionTime": None}):
        admitted |= change
        assert [entry.until for entry in asked().holders] == [None]


def test_unreadable_workloads_are_reported_without_a_time(api: Api, asked: Any) -> None:
    holder(api, "first", gpus=12, limit=60)
    waiter(api)
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/closed/workloads"
    api.refusals[("GET", path)] = (403, "workloads is forbidden: User")
    result = asked("closed")
    assert result.unseen == ("closed",)
    assert result.starts is None
    assert "not seen: jobs of closed, which you may not read" in result.lines()


def test_position_in_the_queue_is_kueues_own(api: Api, asked: Any) -> None:
    own = waiter(api)
    items = [
        {"metadata": {"name": "x"}, "positionInClusterQueue": 0, "positionInLocalQueue": 0},
        {
            "metadata": {"name": own["metadata"]["name"]},
            "positionInClusterQueue": 3,
            "positionInLocalQueue": 1,
        },
    ]
    api.put(VISIBLE, {"metadata": {"name": "pendingworkloads"}, "items": items})
    result = asked()
    assert (result.ahead, result.ahead_here, result.kueue) == (3, 1, True)
    assert result.lines()[0] == "place: 3 jobs ahead of it, 1 of them of its own queue"


@pytest.mark.parametrize("status", [403, 404, 503])
def test_without_kueue_the_place_is_read_off_the_workloads(
    api: Api, asked: Any, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railhead.kube.connection.time.sleep", lambda _: None)
    if status != 404:
        api.refusals[("GET", VISIBLE)] = (status, "no")
    waiter(api, priority=100)
    waiter(api, "urgent", priority=1000)
    waiter(api, "idle", priority=1000)["spec"]["active"] = False
    waiter(api, "low", priority=1)
    result = asked()
    assert (result.ahead, result.kueue) == (1, False)
    assert "by priority and age as far as they may be read" in result.lines()[0]


KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


@pytest.mark.parametrize(
    "path", [f"{KUEUE}/namespaces/closed/workloads", f"{KUEUE}/clusterqueues/training", VISIBLE]
)
def test_answer_without_rights_is_ignored(api: Api, cluster: Cluster, path: str) -> None:
    waiter(api)
    job = jobs.find_job(cluster, ("training",), "demo")
    state = jobs.read_state(cluster, job)
    api.refusals[("GET", path)] = (422, "it is odd")
    with pytest.raises(ApiError, match="it is odd"):
        waiting.read(cluster, job, state, ("closed",))


@pytest.mark.parametrize(
    ("change", "ahead"),
    [
        ({}, 1),
        ({"spec": {"queueName": None}}, 0),
        ({"spec": {"queueName": "another"}}, 0),
        ({"spec": {"active": False}}, 0),
        ({"spec": {"priority": 7}, "metadata": {"creationTimestamp": STAMP}}, 0),
        ({"spec": {"priority": 7}, "metadata": {"creationTimestamp": STAMP, "name": "a"}}, 1),
        ({"spec": {"priority": 7}, "metadata": {"creationTimestamp": "2026-01-02T03:04:04Z"}}, 1),
        ({"spec": {"priority": 7}, "metadata": {"creationTimestamp": "2026-01-02T03:04:06Z"}}, 0),
        ({"spec": {"priority": None}, "metadata": {"name": "a"}}, 0),
        ({"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}, 0),
        ({"status": {"conditions": [{"type": "Finished", "status": "True"}]}}, 0),
        ({"metadata": {"namespace": "another"}}, 0),
    ],
)
def test_jobs_ahead_are_read_from_workloads(
    api: Api, asked: Any, change: dict[str, Any], ahead: int
) -> None:
    waiter(api, priority=7)
    other = waiter(api, "other", priority=8)
    for part, fields in change.items():
        other[part] |= fields
    result = asked()
    assert (result.ahead, result.ahead_here, result.kueue) == (ahead, ahead, False)


def test_status_says_all_of_it(api: Api, run: Any) -> None:
    holder(api, "large", gpus=12)
    waiter(api)
    code, out, _ = run("status", "demo")
    assert code == 0
    assert "held by: large (training/training, 12 nvidia.com/gpu)" in out
    read = json.loads(run("status", "demo", "--json")[1])
    assert read["waiting"]["holders"][0]["job"] == "large"
    assert (read["first_failure"], read["silent"]) == (None, None)
    # The keys of the state itself stay.
    assert read["phase"] == "queued"


# -- who failed first ---------------------------------------------------------------------------


@pytest.fixture
def gang(api: Api) -> Any:
    """Two nodes of two processes, running."""
    owner = world.job(api, "demo")
    world.admit(api, owner)
    return owner


def pod(index: int) -> str:
    return f"demo-node-0-{index}-abcde"


def ended(api: Api, index: int, *, finished: str, code: int = 1) -> None:
    status = api.objects[f"{world.PODS}/{pod(index)}"]["status"]
    status["phase"] = "Failed"
    status["containerStatuses"][0]["state"] = {
        "terminated": {"exitCode": code, "reason": "Error", "finishedAt": finished}
    }
    api.open_logs.discard(pod(index))


def first(cluster: Cluster) -> failing.Failure:
    job = jobs.find_job(cluster, ("training",), "demo")
    result = failing.first_failure(cluster, jobs.read_state(cluster, job), prefix=PREFIX)
    assert result is not None
    return result


def test_the_first_rank_is_named_not_the_one_that_lost_its_peer(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    """Node 0's container ended first, by a second, for it lost its peer on node 1."""
    ended(api, 0, finished="2026-01-02T03:59:50Z")
    ended(api, 1, finished="2026-01-02T03:59:51Z")
    api.logs[pod(0)] = [
        f"{at(12)} [default0]:step 7",
        f"{at(11)} [default0]:torch.distributed.DistBackendError: Connection closed by peer",
    ]
    api.logs[pod(1)] = [
        f"{at(13)} [default1]:Traceback (most recent call last):",
        f'{at(13)} [default1]:  File "train.py", line 3, in <module>',
        f"{at(13)} [default1]:ValueError: loss is nan at step 8",
        f"{at(12)} [default0]:torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ]
    result = first(cluster)
    assert (result.rank, result.node, result.machine) == (3, 1, "lab-node-1")
    assert result.line == "ValueError: loss is nan at step 8"
    assert result.at == at(13)
    assert result.text() == (
        "first to fail: rank 3 on node-1 (lab-node-1): ValueError: loss is nan at step 8"
    )


def test_out_of_memory_is_the_first_failure(api: Api, cluster: Cluster, gang: Any) -> None:
    """The kernel ends a container's processes at once, and its log says nothing of it."""
    ended(api, 0, finished="2026-01-02T03:59:50Z")
    ended(api, 1, finished="2026-01-02T03:59:51Z", code=137)
    memory = api.objects[f"{world.PODS}/{pod(1)}"]
    memory["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "OOMKilled"
    memory["spec"]["containers"] = [{"name": "node", "resources": {"limits": {"memory": "4Gi"}}}]
    api.logs[pod(0)] = [f"{at(11)} [default0]:DistBackendError: Connection closed by peer"]
    api.logs[pod(1)] = [f"{at(13)} [default1]:step 7"]
    result = first(cluster)
    assert result.lines() == [
        "first to fail: a process of node-1 (lab-node-1): out of memory: exited 137 (OOMKilled: it "
        "held all of its 4Gi), with ranks 2-3"
    ]
    del memory["spec"]["containers"]
    assert "(OOMKilled, its node had no more)" in first(cluster).line


def test_container_that_could_not_be_made_says_why(api: Api, cluster: Cluster, gang: Any) -> None:
    """Containers that were never made have no log, but their status has the runtime's words."""
    ended(api, 1, finished="2026-01-02T03:59:51Z", code=128)
    state = api.objects[f"{world.PODS}/{pod(1)}"]["status"]["containerStatuses"][0]["state"]
    message = "nvidia-container-cli: initialization error: nvml error: driver not loaded"
    state["terminated"] |= {"reason": "StartError", "message": message}
    line, again = first(cluster).lines()
    assert f"exited 128 (StartError: {message})" in line
    assert "--avoid lab-node-1" in again


def test_machine_that_may_be_the_cause_can_be_left_out(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    ended(api, 1, finished="2026-01-02T03:59:51Z")
    api.logs[pod(1)] = [f"{at(13)} [default1]:RuntimeError: CUDA error: uncorrectable ECC error"]
    _, again = first(cluster).lines()
    assert again == "  `railhead restart demo --avoid lab-node-1` runs it on other machines"
    api.logs[pod(1)] = [f"{at(13)} [default1]:KeyError: 'x'"]
    assert len(first(cluster).lines()) == 1


def test_missing_module_may_be_on_the_images_own_path(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    ended(api, 1, finished="2026-01-02T03:59:51Z")
    api.logs[pod(1)] = [f"{at(13)} [default1]:ModuleNotFoundError: No module named 'megatron'"]
    _, fix = first(cluster).lines()
    assert "a runtime's PYTHONPATH replaces the image's own" in fix


def test_root_cause_of_torchrun_names_the_rank_without_prefixes(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    ended(api, 1, finished="2026-01-02T03:59:50Z")
    api.logs[pod(1)] = [
        f"{at(9)} RuntimeError: CUDA error: device-side assert triggered",
        f"{at(8)} Root Cause (first observed failure):",
        f"{at(8)}   rank      : 2 (local_rank: 0)",
    ]
    assert first(cluster).rank == 2


def test_silent_process_is_reported_by_its_exit_code(api: Api, cluster: Cluster, gang: Any) -> None:
    ended(api, 0, finished="2026-01-02T03:59:50Z", code=137)
    api.logs[pod(0)] = [f"{at(9)} step 7"]
    result = first(cluster)
    assert (result.rank, result.line) == (None, "")
    assert "exited 137" in result.text()


NODE = jobs.Node(
    index=0, pod="p", uid="u", machine="m", phase="Running", started=True, ended=False,
    restarts=0, reason="",
)  # fmt: skip


def state_of(*nodes: jobs.Node, processes: int = 2, age: int = 1000) -> jobs.JobState:
    """Return a job that runs."""
    return jobs.JobState(
        name="demo", namespace="training", uid="u", phase=jobs.Phase.RUNNING, detail="",
        queue="training", runtime="torch", wanted=len(nodes), processes_per_node=processes,
        gpus_per_node=8, charged=None, created=NOW - timedelta(seconds=age), nodes=nodes,
        restarts=0,
    )  # fmt: skip


#: What says why a process died, the plainest first.
CAUSES = (
    ("railhead verify: stopped, for the fabric is not proven",),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "jaxlib.xla_extension.XlaRuntimeError: INTERNAL: failed",
        "KeyError",
        "subprocess.TimeoutExpiredException: late",
        "KeyboardInterrupt",
        "SystemExit: 3",
    ),
    (
        "CUDA error: device-side assert triggered",
        "RuntimeError in native code: CUDA out of memory",
        "cuda runtime error (59)",
        "NVRM: Xid (PCI:0000:18:00): 79",
        "uncorrectable ECC error encountered",
    ),
    (
        "Segmentation fault",
        "Bus error",
        "Killed",
        "Aborted",
        "train: core dumped",
        "terminate called after throwing an instance of 'c10::Error'",
    ),
    (
        "node-1:17:42 [0] NCCL WARN Call to ibv_modify_qp failed",
        "ncclSystemError here",
        "ncclInternalError here",
        "ncclRemoteError here",
        "[Rank 2] Watchdog caught collective operation timeout",
    ),
    (
        "ERROR: dataset is not there",
        "FATAL no such table",
        "[train] CRITICAL: no such table",
        "Error: no such table",
        "error: no such table",
        "fatal: no such table",
    ),
)
NO_CAUSES = (
    "errors: 0 of 3",
    "no such Error: x",
    "at KeyError: 'x'",
    "keyError: x",
    "not Killed",
    "done",
)
#: What is said because another process died.
ECHOES = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "torch.distributed.elastic.multiprocessing.api.SignalException: got signal: 15",
    "ERROR: got SIGTERM",
    *(f"ConnectionError: Connection {how} by peer" for how in ("reset", "closed", "refused")),
    "BrokenPipeError: Broken pipe",
    "RuntimeError: socket closed by peer",
    "DistBackendError: a Remote process exited",
    "DistBackendError: a remote process exited",
    "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: no",
    "torch.distributed.elastic.rendezvous.api.RendezvousClosedError",
    "torch.distributed.DistNetworkError: no",
    "RuntimeError: peer 3 is gone",
    "RuntimeError: peer 3 was lost",
)


def test_plainest_line_of_a_cause_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: Any = None
    state = state_of(replace(NODE, ended=True, reason="exited 1"))

    def said(*lines: str) -> str:
        stamped = [f"{at(9)} [default0]:{line}" for line in lines]
        monkeypatch.setattr(stream, "stamped", lambda *_, **__: stamped)
        result = failing.first_failure(cluster, state, prefix=PREFIX)
        assert result is not None
        return result.line

    assert said(*NO_CAUSES) == ""
    for plainer, other in itertools.pairwise(CAUSES):
        for line in plainer:
            assert said(*NO_CAUSES, other[0], line, plainer[0]) == line
    for line in (*CAUSES[-1], *ECHOES):
        assert said(*NO_CAUSES, line) == line
    for line in ECHOES:
        assert said(line, CAUSES[-1][0]) == CAUSES[-1][0], line


def test_long_line_is_cut_to_fit(api: Api, cluster: Cluster, gang: Any) -> None:
    ended(api, 1, finished="2026-01-02T03:59:50Z")
    api.logs[pod(1)] = [f"{at(9)} [default0]:  KeyError: {'x' * 500}  "]
    assert first(cluster).line == f"KeyError: {'x' * 390}"


@pytest.mark.parametrize(
    ("lines", "processes", "rank"),
    [
        (["[default1]:KeyError: 1", "[default0]:KeyError: 0"], 2, 3),
        (["[default2]:KeyError: of no process of ours"], 2, None),
        (["KeyError: of nobody"], 2, None),
        (["KeyError: of nobody"], 1, 1),
        (["rank      : 7 (local_rank: 1)", "KeyError: of nobody"], 2, 7),
        (["rank      : 7 (local_rank: 1)", "[default0]:KeyError: 0"], 2, 2),
        ([], 1, 1),
    ],
)
def test_lines_are_attributed_to_ranks(
    api: Api, cluster: Cluster, lines: list[str], processes: int, rank: int | None
) -> None:
    world.admit(api, world.job(api, "demo", processes=processes))
    ended(api, 1, finished="2026-01-02T03:59:50Z")
    api.logs[pod(1)] = [f"{at(9)} {line}" for line in lines]
    assert first(cluster).rank == rank


def test_logs_of_the_first_pods_to_end_are_read(api: Api, cluster: Cluster) -> None:
    """The lines tell equally much, so the earliest names the first rank to fail."""
    world.admit(api, world.job(api, "demo", nodes=18))
    for index in range(18):
        ended(api, index, finished=f"2026-01-02T03:59:{59 - index}Z")
        api.logs[pod(index)] = [f"{at(50 if index == 5 else 40)} [default0]:KeyError: {index}"]
    ended(api, 9, finished="")
    api.asked.clear()
    assert first(cluster).node == 5
    read = {path.split("/")[-2] for _, path, _ in api.asked if path.endswith("/log")}
    assert read == {pod(index) for index in range(18) if index not in (0, 9)}


def test_status_and_the_end_of_a_launch_name_it(
    api: Api, run: Any, cluster: Cluster, gang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.end(api, gang, failed=True)
    api.logs[pod(1)] = [f"{at(9)} [default0]:KeyError: 'x'"]
    code, out, _ = run("status", "demo")
    assert code == 0
    assert "first to fail: rank 2 on node-1 (lab-node-1): KeyError: 'x'" in out
    read = json.loads(run("status", "demo", "--json")[1])
    assert read["first_failure"]["rank"] == 2
    state = jobs.read_state(cluster, jobs.find_job(cluster, ("training",), "demo"))
    assert [text in out for text in insight.failure(cluster, state)] == [True]

    def no(*_: object, **__: object) -> None:
        raise RefusedError("not yours")

    monkeypatch.setattr(failing, "first_failure", no)
    assert insight.failure(cluster, state) == []


# -- and what the diagnosis makes of it ---------------------------------------------------------

#: As NCCL 2.27 prints it where the limit of locked memory is small.
LOCKED = "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"


def failed_with(api: Api, owner: Any, *lines: str) -> None:
    world.end(api, owner, failed=True)
    api.logs[pod(1)] = [f"{at(9)} [default0]:{line}" for line in lines]


def test_status_makes_the_diagnosis_by_itself(api: Api, run: Any, gang: Any) -> None:
    """One reading, in `status` and in `diagnose`: the object is the very same."""
    failed_with(api, gang, f"node-1:17:42 [0] {LOCKED}")
    out = run("status", "demo")[1]
    reported = json.loads(run("diagnose", "--job", "demo", "--json")[1])
    assert reported["cause"]
    assert f"diagnosis: {reported['cause']}: {reported['findings'][0]['title']}" in out
    assert reported["findings"][0]["fix"]["text"] in out
    assert out.index("first to fail") < out.index("diagnosis:") < out.index("RANKS")
    read = json.loads(run("status", "demo", "--json")[1])
    assert read["diagnosis"] == reported


def test_python_hears_the_same(api: Api, run: Any, cluster: Cluster, gang: Any) -> None:
    failed_with(api, gang, f"node-1:17:42 [0] {LOCKED}")
    reported = json.loads(run("status", "demo", "--json")[1])
    seen = Run(cluster, "demo").insight().to_json()
    assert seen["diagnosis"]["cause"]
    assert seen.items() <= reported.items()


def test_cause_is_named_only_if_a_line_names_it(api: Api, run: Any, gang: Any) -> None:
    failed_with(api, gang, "KeyError: 'x'")
    out = run("status", "demo")[1]
    assert "diagnosis: no line names a cause; `railhead diagnose --job demo`" in out
    assert json.loads(run("status", "demo", "--json")[1])["diagnosis"]["cause"] is None


def test_a_job_without_trouble_is_not_diagnosed(
    api: Api, run: Any, gang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railhead.evidence.live.report_of", None)
    world.end(api, gang)
    out = run("status", "demo")[1]
    assert "diagnosis" not in out
    assert json.loads(run("status", "demo", "--json")[1])["diagnosis"] is None


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RefusedError("logs may not be read", remedy="ask"), "diagnosis: logs may not be read"),
        (KeyError("spec"), "diagnosis: KeyError: 'spec'"),
    ],
)
def test_a_diagnosis_that_cannot_be_made_takes_nothing_away(
    api: Api,
    run: Any,
    gang: Any,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: str,
) -> None:
    def no(*_: object) -> None:
        raise error

    monkeypatch.setattr("railhead.evidence.live.report_of", no)
    failed_with(api, gang, "KeyError: 'x'")
    code, out, _ = run("status", "demo")
    assert code == 0
    assert "first to fail: rank 2" in out
    assert said in out


def test_the_diagnosis_is_not_waited_for_for_ever(
    api: Api, run: Any, gang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insight, "DIAGNOSIS_SECONDS", 0.01)
    over = threading.Event()
    monkeypatch.setattr("railhead.evidence.live.report_of", lambda *_: over.wait(60))
    failed_with(api, gang, "KeyError: 'x'")
    try:
        assert "diagnosis: not made in 0.01 s" in run("status", "demo")[1]
    finally:
        over.set()


def test_the_same_trouble_is_diagnosed_once(
    api: Api, cluster: Cluster, gang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--watch` asks every two seconds."""
    made: list[str] = []

    def report(*_: object) -> dict[str, Any]:
        made.append("one")
        return {"findings": [], "number": len(made)}

    monkeypatch.setattr("railhead.evidence.live.report_of", report)
    job = jobs.find_job(cluster, ("training",), "demo")

    def look(before: insight.Insight | None) -> insight.Insight:
        return insight.read(cluster, job, jobs.read_state(cluster, job), silent=300, before=before)

    first_look = look(None)
    assert first_look.silence is not None
    assert look(first_look).diagnosis == first_look.diagnosis
    assert len(made) == 1
    world.end(api, gang, failed=True)
    job = jobs.find_job(cluster, ("training",), "demo")
    assert look(first_look).failure is not None
    assert len(made) == 2


FIX = {"where": "job file", "setting": "env", "text": "do this", "by_hand": "or that"}
CAUSE = {
    "named": True, "cause": "mtu", "title": "frames are cut", "confidence": 0.875,
    "because": "it says so", "fix": FIX,
}  # fmt: skip


@pytest.mark.parametrize(
    ("findings", "where"),
    [
        (
            [CAUSE | {"named": False, "cause": "x"}, CAUSE, CAUSE | {"cause": "y"}],
            " in the job file, env",
        ),
        ([CAUSE | {"fix": FIX | {"where": "none"}}], ""),
    ],
)
def test_first_known_cause_is_reported_with_its_fix(
    findings: list[dict[str, Any]], where: str
) -> None:
    assert insight.Diagnosis(report={"findings": findings}, job="demo").lines() == [
        "diagnosis: mtu: frames are cut (88%)",
        "  because: it says so",
        f"  fix{where}: do this",
        "  by hand: or that",
        "  evidence: `railhead diagnose --job demo`",
    ]


def test_unknown_cause_comes_with_the_next_command() -> None:
    whole = "`railhead diagnose --job demo`"
    unmade = insight.Diagnosis(report=None, unread="not made in 20 s", job="demo")
    assert unmade.lines() == [f"diagnosis: not made in 20 s; {whole} looks for the cause"]
    unnamed = insight.Diagnosis(report={"findings": []}, job="demo")
    assert unnamed.lines() == [f"diagnosis: no line names a cause; {whole} says what to collect"]


FAILED = failing.Failure(
    node=1, rank=2, machine="a", exit="1", line="x", at=STAMP, job="demo", name="node-1"
)
SILENT = failing.Silence(node=1, name="node-1", ranks=(2,), seconds=400, others=390)
CLAIM = mounts.Trouble(nodes=(0,), names=("node-0",), line="claim a at /b is slow")
Seen = insight.Insight


def test_all_observations_of_a_job_are_reported() -> None:
    unmade = insight.Diagnosis(report=None, unread="no", job="demo")
    seen = Seen(failure=FAILED, silence=SILENT, claims=(CLAIM,), diagnosis=unmade, unread="why")
    texts = [FAILED.text(), SILENT.text(), CLAIM.text()]
    assert seen.lines() == [*texts, *unmade.lines(), "not looked at further: why"]
    assert seen.to_json() == {
        "waiting": None,
        "reasons": [],
        "first_failure": FAILED.to_json(),
        "silent": SILENT.to_json(),
        "claims": [{"nodes": [0], "said": "claim a at /b is slow"}],
        "diagnosis": None,
    }
    assert Seen().lines() == []


@pytest.mark.parametrize(
    ("before", "now", "made"),
    [
        (None, Seen(), False),
        (None, Seen(failure=FAILED), True),
        (None, Seen(silence=SILENT), True),
        (Seen(failure=FAILED), Seen(failure=FAILED), False),
        (Seen(failure=FAILED), Seen(failure=replace(FAILED, node=0)), True),
        (Seen(failure=FAILED), Seen(silence=SILENT), True),
        (Seen(silence=SILENT), Seen(failure=FAILED), True),
        (Seen(silence=SILENT), Seen(silence=replace(SILENT, seconds=900)), False),
        (Seen(silence=SILENT), Seen(silence=replace(SILENT, node=0)), True),
    ],
)
def test_new_trouble_is_diagnosed_again(
    cluster: Cluster,
    gang: Any,
    monkeypatch: pytest.MonkeyPatch,
    before: insight.Insight | None,
    now: insight.Insight,
    made: bool,
) -> None:
    monkeypatch.setattr(insight, "_seen", lambda *_: now)
    monkeypatch.setattr("railhead.evidence.live.report_of", lambda *_: {"new": True})
    job = jobs.find_job(cluster, ("training",), "demo")
    state = jobs.read_state(cluster, job)
    old = insight.Diagnosis(report={"new": False}, job="demo")
    before = before and replace(before, diagnosis=old)
    result = insight.read(cluster, job, state, silent=300, before=before)
    trouble = bool(now.failure or now.silence)
    assert result == replace(now, diagnosis=result.diagnosis)
    assert result.diagnosis == (
        insight.Diagnosis(report={"new": made}, job="demo") if trouble else None
    )


def test_a_node_that_is_done_hides_no_trouble_of_another(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    ended(api, 0, finished=at(9), code=0)
    api.objects[f"{world.PODS}/{pod(0)}"]["status"]["phase"] = "Succeeded"
    api.logs[pod(1)] = [says(9, "has no space left since 2026-01-02T02:00:00Z")]
    job = jobs.find_job(cluster, ("training",), "demo")
    result = insight.read(cluster, job, jobs.read_state(cluster, job), silent=10**10)
    assert [claim.nodes for claim in result.claims] == [(1,)]


def test_failed_node_is_reported_while_the_job_runs(api: Api, cluster: Cluster, gang: Any) -> None:
    ended(api, 1, finished=at(9))
    job = jobs.find_job(cluster, ("training",), "demo")
    state = jobs.read_state(cluster, job)
    failure = insight.read(cluster, job, state, silent=300).failure
    assert not state.phase.finished
    assert failure is not None
    assert failure.node == 1


def test_output_of_earlier_containers_is_not_current_trouble(api: Api, cluster: Cluster) -> None:
    """One more than the job needs starts again; until then the kubelet has the log before."""
    owner = world.job(api, "demo", nodes=1)
    world.admit(api, owner)
    world.pod(api, owner, 1, state={"waiting": {}}, phase="Pending")
    for index in range(2):
        api.logs[pod(index)] = [says(9, "has no space left since 2026-01-02T02:00:00Z")]
    job = jobs.find_job(cluster, ("training",), "demo")
    state = jobs.read_state(cluster, job)
    result = insight.read(cluster, job, state, silent=10**10)
    assert (result.unread, [claim.nodes for claim in result.claims]) == ("", [(0,)])
    assert insight.claims(cluster, state) == [claim.text() for claim in result.claims]


def test_a_log_that_may_not_be_read_says_nothing_of_claims(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    state = jobs.read_state(cluster, jobs.find_job(cluster, ("training",), "demo"))
    api.logs[pod(0)] = [says(9, "has no space left since 2026-01-02T02:00:00Z")]
    (text,) = insight.claims(cluster, state)
    assert text.endswith("has no space left since 2026-01-02T02:00:00Z")
    assert insight.claims(cluster, replace(state, phase=jobs.Phase.FAILED)) == []
    for index in (0, 1):
        api.refusals[("GET", f"{world.PODS}/{pod(index)}/log")] = (403, "not yours")
    assert insight.claims(cluster, state) == []


# -- who is silent ------------------------------------------------------------------------------


def quiet(cluster: Cluster, limit: int = 300) -> failing.Silence | None:
    job = jobs.find_job(cluster, ("training",), "demo")
    state = jobs.read_state(cluster, job)
    tails = failing.tails_of(cluster, state, [node for node in state.nodes if node.started])
    return failing.silence(state, tails, NOW, limit=limit, prefix=PREFIX)


def test_a_job_that_prints_does_not_hang(api: Api, cluster: Cluster, gang: Any) -> None:
    api.logs[pod(0)] = [f"{at(20)} step 7"]
    api.logs[pod(1)] = []
    # One node prints, the other never does: so do most scripts.
    assert quiet(cluster) is None


def test_the_node_that_fell_silent_first_is_named(api: Api, cluster: Cluster, gang: Any) -> None:
    api.logs[pod(0)] = [f"{at(400)} [default0]:step 7", f"{at(400)} [default1]:step 7"]
    api.logs[pod(1)] = [f"{at(420)} [default0]:step 7", f"{at(480)} [default1]:step 6"]
    result = quiet(cluster)
    assert result is not None
    assert (result.node, result.ranks, result.seconds, result.others) == (1, (3,), 420, 400)
    assert "it may hang: node-1 (rank 3) has been silent for 7m" in result.text()
    assert quiet(cluster, limit=401) is None


def test_a_node_that_never_wrote_is_the_one(api: Api, cluster: Cluster, gang: Any) -> None:
    api.logs[pod(0)] = [f"{at(400)} waiting for peers"]
    api.logs[pod(1)] = []
    result = quiet(cluster)
    assert result is not None
    assert (result.node, result.ranks, result.seconds) == (1, (2, 3), None)
    assert "has printed nothing at all" in result.text()


def test_stalled_steps_are_reported_though_lines_come(
    api: Api, cluster: Cluster, gang: Any
) -> None:
    api.logs[pod(0)] = [f"{at(900)} step 7/100", f"{at(600)} step 8/100"]
    api.logs[pod(0)] += [f"{at(seconds)} retrying a read, step 8/100" for seconds in (500, 10)]
    api.logs[pod(1)] = []
    result = quiet(cluster)
    assert result is not None
    assert (result.step, result.seconds, result.ranks) == ("8/100", 600, (0,))
    assert quiet(cluster, limit=600) is not None
    assert quiet(cluster, limit=601) is None
    assert "no progress: at step 8/100 for 10m" in result.text()
    # The last step is followed by evaluation and saving, which print no other.
    api.logs[pod(0)] = [line.replace("8/100", "100/100") for line in api.logs[pod(0)]]
    assert quiet(cluster) is None


def lines_of(*said: tuple[float, int]) -> list[str]:
    """Lines so many seconds old of local ranks."""
    return [f"{at(ago)} [default{local}]:ready" for ago, local in said]


@pytest.mark.parametrize(
    ("age", "first", "second", "expected"),
    [
        (1000, lines_of((300, 0)), lines_of((300, 0)), (0, (0, 1), 300, 300)),
        (1000, lines_of((299, 0)), [], None),
        (300, [], [], (0, (0, 1), None, 300)),
        (299, [], [], None),
        (1000, lines_of((300, 0)), lines_of((301, 1)), (1, (2, 3), 301, 300)),
        (1000, lines_of((400, 1)), [], (1, (2, 3), None, 400)),
        # Of a node all of whose processes have printed, the one that stopped first.
        (1000, lines_of((400, 0), (350, 1)), lines_of((300, 0)), (0, (0,), 350, 300)),
        (1000, lines_of((400, 1), (350, 0)), lines_of((300, 0)), (0, (1,), 350, 300)),
        (1000, lines_of((400, 0), (400, 1)), lines_of((300, 0)), (0, (0, 1), 400, 300)),
        (1000, lines_of((400, 0), (390, 1), (380, 0)), lines_of((300, 0)), (0, (1,), 380, 300)),
    ],
)
def test_silent_ranks(
    age: int, first: list[str], second: list[str], expected: tuple[Any, ...] | None
) -> None:
    state = state_of(NODE, replace(NODE, index=1), age=age)
    result = failing.silence(state, {0: first, 1: second}, NOW, limit=300, prefix=PREFIX)
    seen = None if result is None else (result.node, result.ranks, result.seconds, result.others)
    assert seen == expected


def test_silence_is_counted_from_this_attempts_start() -> None:
    began = (NOW - timedelta(seconds=40)).isoformat()
    nodes = [replace(NODE, since=began), replace(NODE, index=1, since=began)]
    old = state_of(*nodes, age=4000)
    assert failing.silence(old, {0: [], 1: []}, NOW, limit=300, prefix=PREFIX) is None
    result = failing.silence(old, {0: [], 1: []}, NOW, limit=30, prefix=PREFIX)
    assert result is not None
    assert (result.seconds, result.others) == (None, 40)


def test_first_of_processes_with_one_time_is_named() -> None:
    lines = lines_of((400, 1), (400, 0), (350, 2))
    result = failing.silence(state_of(NODE, processes=3), {0: lines}, NOW, limit=300, prefix=PREFIX)
    assert result is not None
    assert result.ranks == (0,)


def test_a_node_that_has_not_started_is_not_silent() -> None:
    state = state_of(NODE, replace(NODE, index=1, started=False))
    result = failing.silence(state, {0: lines_of((400, 0))}, NOW, limit=300, prefix=PREFIX)
    assert result is not None
    assert (result.node, result.seconds) == (0, 400)


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (("step 7/9", "step 8/9", "step 8/9"), "8/9"),
        (("step 7", "step 8", "step 8"), "8"),
        (("step 8/9", "step 9/9", "step 9/9"), None),
        (("step 7/9", "step 8/9", "step 9/9"), None),
        (("epoch 1", "epoch 1", "epoch 1"), None),
        (("ready", "ready", "ready"), None),
    ],
)
def test_which_steps_stand_still(lines: tuple[str, ...], step: str | None) -> None:
    texts = [f"{at(ago)} {line}" for ago, line in zip((900, 600, 10), lines, strict=True)]
    # Another node that stands for longer, and moved before.
    other = [f"{at(ago)} {line}" for ago, line in ((950, "step 1/9"), (9, "step 1/9"))]
    state = state_of(NODE, replace(NODE, index=1))
    result = failing.silence(state, {0: other, 1: texts} if step else {1: texts}, NOW, limit=300)
    seen = None if result is None else (result.node, result.ranks, result.seconds, result.step)
    assert seen == (None if step is None else (1, (1,), 600, step))


def test_status_watches_for_the_given_time(api: Api, run: Any, gang: Any) -> None:
    assert "it may hang" in run("status", "demo")[1]
    forever = str(60 * 24 * 365 * 100)
    assert "it may hang" not in run("status", "demo", "--silent", forever)[1]


def test_five_minutes_of_silence_are_too_long(
    api: Api, run: Any, cluster: Cluster, gang: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insight, "datetime", SimpleNamespace(now=lambda _: NOW))
    for index in range(2):
        api.logs[pod(index)] = [f"{at(300)} ready"]
    job = Run(cluster, "demo")
    assert job.insight().silence is not None
    assert job.insight(silent=301).silence is None
    assert "it may hang" in run("status", "demo")[1]
    assert "it may hang" not in run("status", "demo", "--silent", "5.02")[1]


# -- logs ---------------------------------------------------------------------------------------


def test_logs_are_merged_by_time(api: Api, run: Any, gang: Any) -> None:
    api.logs[pod(0)] = [f"{at(30)} a", f"{at(10)} c"]
    api.logs[pod(1)] = [f"{at(20)} b"]
    assert run("logs", "demo")[1].split() == "[node-0] a [node-0] c [node-1] b".split()
    assert run("logs", "demo", "--merged")[1].split() == "[node-0] a [node-1] b [node-0] c".split()
    dated = run("logs", "demo", "--timestamps")[1].splitlines()
    assert dated == [f"{at(30)} [node-0] a", f"{at(20)} [node-1] b", f"{at(10)} [node-0] c"]


def follow_to_the_end(api: Api, run: Any, owner: Any) -> None:
    api.open_logs.clear()
    world.end(api, owner)
    assert run("logs", "demo", "--follow")[0] == 0


def test_followed_logs_outlive_the_job(api: Api, run: Any, gang: Any) -> None:
    follow_to_the_end(api, run, gang)
    api.remove(f"{world.JOBS}/demo")
    code, out, _ = run("logs", "demo", "--previous")
    assert code == 0
    assert "[node-1] [default1]:node 1 second 6" in out
    assert run("logs", "demo", "--previous", "--node", "0")[1].count("[node-1]") == 0
    # Nothing was followed of another, and it is not there.
    assert run("logs", "other", "--previous")[0] == ExitCode.NOT_FOUND
    assert run("logs", "../demo", "--previous")[0] == ExitCode.NOT_FOUND


def test_logs_of_an_awaited_job_outlive_it(api: Api, run: Any, gang: Any) -> None:
    """All logs are kept, though nobody followed them and none are printed."""
    api.open_logs.clear()
    world.end(api, gang)
    code, out, err = run("wait", "demo")
    assert (code, out) == (0, "")
    assert "node 1 second 6" not in err
    api.remove(f"{world.JOBS}/demo")
    out = run("logs", "demo", "--previous")[1]
    assert "[node-0] [default0]:node 0 second 5" in out
    assert "[node-1] [default1]:node 1 second 6" in out


def test_cancelled_job_leaves_its_logs(api: Api, run: Any, gang: Any) -> None:
    """A running job's logs are kept as well, up to the cancellation."""
    code, _, err = run("cancel", "demo")
    assert code == 0
    assert "what it has printed is kept: `railhead logs demo --previous`" in err
    assert "[node-1] [default1]:node 1 second 6" in run("logs", "demo", "--previous")[1]


@pytest.mark.parametrize("how", ["wait", "cancel"])
def test_events_outlive_the_job(api: Api, run: Any, gang: Any, how: str) -> None:
    """`describe` is the same before and after, but for the age and what says that it is gone."""
    if how == "wait":
        # What happens meanwhile is known, too.
        threading.Timer(0.2, world.end, (api, gang)).start()
        assert run("wait", "demo")[0] == 0
    else:
        world.end(api, gang)
    before = json.loads(run("describe", "demo", "--json")[1])
    if how == "wait":
        api.remove(f"{world.JOBS}/demo")
    else:
        assert run("cancel", "demo")[0] == 0
    code, out, err = run("describe", "demo", "--json")
    assert code == 0
    assert "demo is gone" in err
    after = json.loads(out)
    assert before | {"age_seconds": 0} == after | {"age_seconds": 0}
    out = run("describe", "demo")[1]
    assert "demo-node-0-1-abcde on lab-node-1" in out
    assert "Complete" in out
    assert run("describe", "other")[0] == ExitCode.NOT_FOUND


def test_logs_of_an_earlier_job_of_the_name_are_reported(api: Api, run: Any, gang: Any) -> None:
    """`restart` leaves such logs: the same name, another job."""
    asked = {"labels": gang["metadata"]["labels"], "spec": gang["spec"]}
    gang["metadata"]["annotations"] = {SUBMITTED: json.dumps(asked)}
    assert run("restart", "demo")[0] == 0
    world.admit(api, api.objects[f"{world.JOBS}/demo"])
    for index in range(2):
        api.logs[pod(index)] = [f"{at(1)} of the second"]
    out = run("logs", "demo", "--previous", "--node", "1")[1]
    assert "node 1 second 6" in out
    assert "of the second" not in out


def test_a_log_that_cannot_be_read_stops_no_cancel(api: Api, run: Any, gang: Any) -> None:
    api.refusals[("GET", f"{world.PODS}/{pod(0)}/log")] = (403, "pods/log is forbidden")
    assert run("cancel", "demo")[0] == 0
    out = run("logs", "demo", "--previous")[1]
    assert "[node-1]" in out
    assert "[node-0]" not in out


def test_partly_followed_logs_are_completed(api: Api, cluster: Cluster, gang: Any) -> None:
    state = jobs.read_state(cluster, jobs.find_job(cluster, ("training",), "demo"))
    folder = kept.folder("training", "demo", state.uid)
    first = state.nodes[0]
    writer = folder.writer(index=0, uid=first.uid, restarts=0, of=2)
    # The kubelet has given this one up.
    writer.write("2026-01-02T03:04:04.000000001Z long before")
    writer.write(api.logs[pod(0)][0])
    writer.close()
    assert stream.keep(cluster, state) == 2
    kept_lines = [text for _, node, text in folder.lines() if node == 0]
    assert kept_lines[0] == "long before"
    assert [line.partition(" ")[2] for line in api.logs[pod(0)]] == kept_lines[1:]


def test_earlier_attempts_are_distinguished(api: Api, run: Any, gang: Any) -> None:
    follow_to_the_end(api, run, gang)
    code, out, err = run("logs", "demo", "--previous")
    # What was followed is the present attempt: nothing is earlier.
    assert (code, out) == (0, "")
    assert "nothing is kept of earlier attempts" in err
    for index in range(2):
        api.objects[f"{world.PODS}/{pod(index)}"]["metadata"]["uid"] = f"new-{index}"
    api.logs[pod(0)] = [f"{at(1)} present"]
    out = run("logs", "demo", "--previous")[1]
    assert "node 0 second 5" in out
    assert "present" not in out


def test_a_container_that_restarted_has_its_log_with_the_kubelet(
    api: Api, run: Any, gang: Any
) -> None:
    status = api.objects[f"{world.PODS}/{pod(1)}"]["status"]
    status["containerStatuses"][0]["restartCount"] = 1
    api.logs[f"{pod(1)} before"] = [f"{at(90)} it died"]
    assert run("logs", "demo", "--previous")[1] == "[node-1] it died\n"
    # The kubelet keeps the last one alone: where it has none, nothing fails.
    api.logs.clear()
    assert run("logs", "demo", "--previous")[0] == 0


def test_previous_is_of_what_is_over(run: Any, gang: Any) -> None:
    code, _, err = run("logs", "demo", "--previous", "--follow")
    assert code == ExitCode.BAD_INPUT
    assert "attempts that are over" in err


def test_kept_logs_are_bounded_and_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 90)
    monkeypatch.setattr(kept, "LEAST_BYTES", 10)
    folder = kept.Folder(path=tmp_path / "job")
    writer = folder.writer(index=0, uid="u", restarts=0, of=1)
    for number in range(50):
        writer.write(f"2026-01-01T00:00:{number:02}Z line{number:4}")
    writer.close()
    # Lines of 30 bytes with their end: just three fit into a file, and the one before stays.
    lines = [text for _, _, text in folder.lines()]
    assert lines == [f"line{number:4}" for number in range(45, 50)]
    assert {path.stat().st_size for path in (tmp_path / "job").iterdir()} == {90, 60}
    assert not any(path.stat().st_mode & 0o077 for path in (tmp_path / "job").iterdir())


def test_old_jobs_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_JOBS", 3)
    import os

    for number in range(5):
        folder = kept.folder("training", f"job-{9 - number}", "uid")
        folder.writer(index=0, uid="u", restarts=0, of=1).close()
        os.utime(folder.path, (number, number))
    names = sorted(path.parent.name for path in kept.home().glob("*/*/*"))
    assert names == ["job-5", "job-6", "job-7"]
    # What cannot be taken away stays.
    path = kept.home() / "training" / "job-5" / "uid"
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    monkeypatch.setattr(kept, "MOST_JOBS", 1)
    kept.folder("training", "another", "uid")
    assert [path.name for path in kept.home().glob("*/*/*")] == ["uid"]


def test_a_disk_that_takes_nothing_stops_no_follower(api: Api, run: Any, gang: Any) -> None:
    kept.home().parent.parent.mkdir(parents=True, exist_ok=True)
    kept.home().parent.write_text("no folder")
    follow_to_the_end(api, run, gang)


def test_kept_logs_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    reported, followed = (
        kept.Folder(path=tmp_path / "told"),
        kept.Folder(path=tmp_path / "followed"),
    )
    reported.describe({"name": "demo"})
    followed.writer(index=0, uid="u", restarts=0, of=1).close()
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")}
    assert modes == {
        **dict.fromkeys(("told", "followed"), "0o700"),
        **dict.fromkeys(("history.json", "0-u-0.log"), "0o600"),
    }


def test_a_full_disk_stops_no_follower(tmp_path: Path) -> None:
    (tmp_path / "0-u-0.log").symlink_to("/dev/full")
    writer = kept.Folder(path=tmp_path).writer(index=0, uid="u", restarts=0, of=1)
    for number in range(2):
        writer.write(f"2026-01-01T00:00:0{number}Z line")
    writer.close()
    assert not (tmp_path / "0-u-0.log").is_file()


# -- claims -------------------------------------------------------------------------------------


def says(seconds: float, what: str, path: str = "/checkpoints") -> str:
    return f"{at(seconds)} railhead: claim checkpoints at {path} {what}"


def test_claim_in_trouble_is_reported(api: Api, run: Any, gang: Any) -> None:
    """The report names each node that met it, in the first one's words, until it is over."""
    hangs = "does not answer since 2026-01-02T03:00:{}Z: whatever uses it waits"
    api.logs[pod(0)] = [says(9, hangs.format("07"))]
    api.logs[pod(1)] = [
        says(9, "has no space left since 2026-01-02T02:00:00Z (statvfs has no free block)"),
        says(9, "is as it should be again, after trouble since 2026-01-02T02:00:00Z"),
        says(9, "is slow since 2026-01-02T03:30:00Z (it took 12 s to answer)", "/data"),
        says(9, hangs.format("05")),
        f"{at(8)} loss 0.5",
    ]
    slow = (
        "node-1: claim checkpoints at /data is slow since 2026-01-02T03:30:00Z "
        "(it took 12 s to answer)"
    )
    both = f"node-0, node-1: claim checkpoints at /checkpoints {hangs.format('05')}"
    for command in ("status", "describe"):
        out = run(command, "demo")[1]
        result = re.findall(r"^(?:claim: +)?(node-.*claim checkpoints at .*)$", out, re.M)
        assert result == [both, slow]
    reported = json.loads(run("status", "demo", "--json")[1])["claims"]
    assert [item["nodes"] for item in reported] == [[0, 1], [1]]
    assert json.loads(run("describe", "demo", "--json")[1])["claims"] == [both, slow]


def test_report_on_a_claim_names_the_first_few_nodes() -> None:
    lines = {index: [says(9, "does not answer since 2026-01-02T03:00:00Z")] for index in range(9)}
    (item,) = mounts.troubles(lines, "node-{}".format)
    assert item.text().startswith("node-0, node-1, node-2 and 6 more: claim checkpoints at ")


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (1, "node-0"),
        (3, "node-0, node-1, node-2"),
        (4, "node-0, node-1, node-2 and 1 more"),
    ],
)
def test_three_nodes_are_named_at_the_most(count: int, named: str) -> None:
    names = tuple(f"node-{index}" for index in range(count))
    trouble = mounts.Trouble(nodes=tuple(range(count)), names=names, line="x")
    assert trouble.text() == f"{named}: x"


def test_job_messages_about_a_claim_are_parsed() -> None:
    """The words of the program are those that are looked for here."""
    for what in keep.TROUBLES.values():
        text = what.format(since="2026-01-02T03:00:00Z", why="why", none="")
        (trouble,) = mounts.troubles({0: [says(1, text)]}, str)
        assert [trouble.line] == [f"claim checkpoints at /checkpoints {text}"]
