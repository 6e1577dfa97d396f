"""The commands against a fake API server: what they create, refuse, say and exit with."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import cli
from railhead.base import running
from railhead.base.errors import ExitCode, PrerequisiteError
from railhead.base.names import JOBS_OWNER
from railhead.kube.client import ApiError, Cluster
from railhead.launch import console, submit
from railhead.launch.apis import apis
from railhead.launch.job import read_job
from railhead.launch.plan import make_plan
from railhead.storage.claims import SHARED_ANNOTATION
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, Clock
from tests.unit.launch.fake_api import Api

Captured = pytest.CaptureFixture[str]
FILES = "/api/v1/namespaces/training/configmaps/demo-files"


def created(api: Api) -> list[str]:
    return [
        path for method, path, params in api.asked if method == "POST" and "dryRun" not in params
    ]


# -- launch -------------------------------------------------------------------------------------


def test_launch_creates_the_job_and_its_files(api: Api, run: Any, job_file: Path) -> None:
    code, _, err = run("launch", job_file)
    assert code == 0
    job = api.objects[f"{world.JOBS}/demo"]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "training"
    files = api.objects[FILES]
    assert files["data"] == {"train.py": "say('hello')\n"}
    assert files["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert "demo: 2 x 2 = 4 processes, 8 nvidia.com/gpu a node" in err
    assert "created TrainJob training/demo" in err


def test_state_of_a_new_job_has_the_gpus_of_its_runtime(run: Any, job_file: Path) -> None:
    code, out, _ = run("launch", job_file, "--json")
    assert code == 0
    state = json.loads(out)
    assert (state["gpus_per_node"], state["nodes"], state["phase"]) == (8, 2, "admitted")


def test_unknown_fields_would_be_refused_not_pruned(api: Api, run: Any, job_file: Path) -> None:
    run("launch", job_file)
    posts = [params for method, path, params in api.asked if method == "POST"]
    assert posts
    assert all(params["fieldValidation"] == "Strict" for params in posts)


def test_the_cluster_is_asked_before_anything_is_created(
    api: Api, run: Any, job_file: Path
) -> None:
    api.refusals[("POST", world.JOBS)] = (422, "admission webhook says no")
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "the cluster refuses the job: admission webhook says no" in err
    assert created(api) == []
    assert FILES not in api.objects


def test_dry_run_prints_the_objects_and_creates_nothing(api: Api, run: Any, job_file: Path) -> None:
    code, out, _ = run("launch", job_file, "--dry-run")
    assert code == 0
    assert [o["kind"] for o in yaml.safe_load_all(out)] == ["ConfigMap", "TrainJob"]
    assert created(api) == []
    code, out, _ = run("launch", job_file, "--dry-run", "--json")
    assert [o["kind"] for o in json.loads(out)] == ["ConfigMap", "TrainJob"]


@pytest.mark.parametrize(
    ("said", "noted"), [(None, False), ("unsure: its pods never ran", True), ("yes: x", False)]
)
def test_a_claim_that_nobody_tried_is_not_noted_on_every_job(
    api: Api, run: Any, job_file: Path, said: str | None, noted: bool
) -> None:
    claim = api.objects["/api/v1/namespaces/training/persistentvolumeclaims/checkpoints"]
    claim["metadata"]["annotations"] = {SHARED_ANNOTATION: said} if said else {}
    code, _, err = run("launch", job_file, "--dry-run")
    assert (code, "is not proven" in err) == (0, noted)


def test_all_or_nothing(api: Api, run: Any, job_file: Path) -> None:
    """The job is refused after the dry run took it: the files go again."""
    real = Api.put

    def put(self: Api, path: str, body: dict[str, Any]) -> dict[str, Any]:
        made = real(self, path, body)
        if path.endswith("/configmaps"):
            self.refusals[("POST", world.JOBS)] = (409, "a TrainJob demo appeared meanwhile")
        return made

    api.put = put.__get__(api)  # type: ignore[method-assign]
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "appeared meanwhile" in err
    assert FILES not in api.objects


def test_a_job_goes_with_the_stacks_owner_of_jobs(api: Api, run: Any, job_file: Path) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": JOBS_OWNER}}
    uid = api.put(FILES.rsplit("/", 1)[0], owner)["metadata"]["uid"]
    assert run("launch", job_file)[0] == 0
    (reference,) = api.objects[f"{world.JOBS}/demo"]["metadata"]["ownerReferences"]
    assert reference == {"apiVersion": "v1", "kind": "ConfigMap", "name": JOBS_OWNER, "uid": uid}


@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (500, 'failed calling webhook "validator.trainjob"', "the controller behind it"),
        (500, "conversion webhook for v1beta1, Kind=Workload failed", "the controller behind it"),
        (504, "etcdserver: request timed out", "the API server, or what it stands on"),
        (500, "etcdserver: request is too large", "trying again does not help"),
        (413, "Request entity too large: limit is 3145728", "trying again does not help"),
        (500, "etcdserver: mvcc: database space exceeded", "etcd is full"),
        (403, "forbidden: exceeded quota: railhead-objects", "`railhead cancel` jobs that have"),
    ],
)
def test_an_answer_of_the_server_has_a_remedy(
    api: Api, run: Any, job_file: Path, status: int, words: str, remedy: str
) -> None:
    api.refusals[("POST", world.JOBS)] = (status, words)
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert words in err
    assert f"fix: {remedy}" in err


def test_files_of_a_killed_launch_are_replaced(api: Api, run: Any, job_file: Path) -> None:
    labels = {"railhead.dev/job": "demo"}
    api.put(FILES.rsplit("/", 1)[0], {"metadata": {"name": "demo-files", "labels": labels}})
    assert run("launch", job_file)[0] == 0
    assert api.objects[FILES]["data"]


def test_uncreatable_files_replace_nothing(api: Api, cluster: Cluster, job_file: Path) -> None:
    folder, labels = FILES.rsplit("/", 1)[0], {"railhead.dev/job": "demo"}
    api.put(folder, {"metadata": {"name": "demo-files", "labels": labels}})
    api.refusals[("POST", folder)] = (403, "configmaps is forbidden")
    with pytest.raises(ApiError, match="forbidden"):
        submit.submit(cluster, make_plan(*read_job(job_file), CONTRACT))
    assert FILES in api.objects


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--nodes", "3"],
            "nodes: 3 is more than runtime torch can have; allowed: at most 2 (pool gpu has",
        ),
    ],
)
def test_more_than_the_cluster_has(
    api: Api, run: Any, job_file: Path, arguments: list[str], says: str
) -> None:
    code, _, err = run("launch", job_file, *arguments)
    assert code == ExitCode.REFUSED
    assert says in err
    assert "nothing was created" in err
    assert created(api) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/api/v1/namespaces/training", "namespace training is not there"),
        (
            "/apis/kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training",
            "queue training/training is not there",
        ),
        (
            "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training",
            "ClusterQueue training is not there",
        ),
        (
            "/api/v1/namespaces/training/persistentvolumeclaims/checkpoints",
            "checkpoint claim training/checkpoints is not there",
        ),
    ],
)
def test_objects_of_the_contract_must_exist(
    api: Api, run: Any, job_file: Path, path: str, says: str
) -> None:
    del api.objects[path]
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert says in err
    assert created(api) == []


def test_several_reasons_are_all_given(api: Api, run: Any, job_file: Path) -> None:
    del api.objects["/api/v1/namespaces/training/persistentvolumeclaims/checkpoints"]
    _, _, err = run("launch", job_file, "--nodes", "3")
    assert "2 reasons not to launch" in err or "3 reasons not to launch" in err
    assert "checkpoint claim" in err
    assert "nodes: 3" in err


def test_a_job_that_its_queue_could_never_hold(api: Api, run: Any, job_file: Path) -> None:
    queue = api.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"]
    queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "8"
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "2 nodes need 16 nvidia.com/gpu of 8 that ClusterQueue training has in all of" in err
    queue["spec"]["cohortName"] = "lenders"
    assert run("launch", job_file, "--dry-run")[0] == 0
    del queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    err = run("launch", job_file)[2]
    assert "2 nodes need 16 nvidia.com/gpu of none that ClusterQueue training has in all of" in err


def test_a_missing_runtime_or_contract(api: Api, run: Any, job_file: Path) -> None:
    del api.objects["/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch"]
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "ClusterTrainingRuntime torch is not there" in err
    del api.objects["/api/v1/namespaces/railhead-system/configmaps/railhead-contract"]
    code, _, err = run("launch", job_file)
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "railhead-system/railhead-contract is not in the cluster" in err


def test_check_that_could_not_run_is_reported(api: Api, run: Any, job_file: Path) -> None:
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"
    api.refusals[("GET", path)] = (403, "forbidden")
    code, _, err = run("launch", job_file)
    assert code == 0
    assert "note: not checked: ClusterQueue training may not be read" in err


def test_notes_on_a_job_are_printed(run: Any, job_file: Path) -> None:
    code, _, err = run("launch", job_file, "--dry-run", "--set", "gpus_per_node=2")
    assert code == 0
    assert "\nnote: 2 of a machine's 8 GPUs a node: several of this job's nodes may share" in err


def test_queue_that_is_visible_proves_its_namespace(api: Api, run: Any, job_file: Path) -> None:
    api.refusals[("GET", "/api/v1/namespaces/training")] = (403, "forbidden")
    code, _, err = run("launch", job_file)
    assert code == 0
    assert "not checked: namespace" not in err


def test_a_taken_name(api: Api, run: Any, job_file: Path) -> None:
    owner = world.job(api, "demo")
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "a job called 'demo' exists already (not finished)" in err
    assert "`railhead cancel demo`" in err
    owner["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert "(complete)" in run("launch", job_file)[2]
    assert run("launch", job_file, "--name", "other")[0] == 0


def test_someone_elses_objects_are_not_touched(api: Api, run: Any, job_file: Path) -> None:
    api.put(FILES.rsplit("/", 1)[0], {"metadata": {"name": "demo-files"}, "data": {"a": "b"}})
    code, _, err = run("launch", job_file)
    assert code == ExitCode.REFUSED
    assert "ConfigMap 'demo-files' in namespace training is someone else's" in err
    assert api.objects[FILES]["data"] == {"a": "b"}


def test_bad_input_exits_3_and_asks_nobody(api: Api, run: Any, job_file: Path) -> None:
    job_file.write_text("name: X\n")
    code, _, err = run("launch", job_file)
    assert code == ExitCode.BAD_INPUT
    assert "3 mistakes" in err
    assert api.asked == []


def once_seen(api: Api, *steps: Callable[[], object]) -> None:
    """Take each step when the job, as it was before it, has been looked at."""

    def looks() -> int:
        return sum(asked[:2] == ("GET", f"{world.JOBS}/demo") for asked in list(api.asked))

    def take() -> None:
        for step in steps:
            before, deadline = looks(), time.monotonic() + 30
            # A command looks for the job, and again, before it watches; a second look of the watch
            # begins when the first is over.
            while looks() < before + 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            step()

    threading.Thread(target=take, daemon=True).start()


def play(api: Api, *, failed: bool = False) -> None:
    """Admit every job once it was seen in its queue, end it once it was seen running."""

    def on_create(path: str, body: dict[str, Any]) -> None:
        if path.startswith(world.JOBS):
            body["spec"]["suspend"] = True
            once_seen(
                api,
                lambda: world.admit(api, body),
                lambda: world.end(api, body, failed=failed),
            )

    api.on_create = on_create


def test_follow_prints_every_line_and_exits_0(api: Api, run: Any, job_file: Path) -> None:
    play(api)
    code, out, err = run("launch", job_file, "--follow")
    assert code == 0
    assert sorted(out.splitlines()) == [
        f"[node-{node}] [default{local}]:node {node} second {second}"
        for node in (0, 1)
        for second, local in ((5, 0), (6, 1))
    ]
    phases = [line.split("s  ")[1].split(":")[0] for line in err.splitlines() if "s  " in line]
    assert phases[0] == "queued"
    assert phases[-2:] == ["running", "completed"]


def test_a_log_that_could_not_be_followed_is_noted(api: Api, run: Any, job_file: Path) -> None:
    play(api)
    api.refusals[("GET", f"{world.PODS}/demo-node-0-1-abcde/log")] = (403, "no logs")
    code, out, err = run("launch", job_file, "--follow")
    assert (code, out.count("[node-0]"), out.count("[node-1]")) == (0, 2, 0)
    assert "note: part of a log could not be read: no logs" in err


def test_wait_fails_with_reason_and_last_lines(api: Api, run: Any, job_file: Path) -> None:
    play(api, failed=True)
    code, out, err = run("launch", job_file, "--wait", "--json")
    assert code == ExitCode.FAILED
    assert json.loads(out)["phase"] == "failed"
    assert "demo failed: jobset failed due to one or more job failures" in err
    assert "`railhead logs demo` shows what it printed" in err
    assert "node-1 (demo-node-0-1-abcde on lab-node-1) exited 1 (Error)" in err
    assert "[node-1] [default1]:node 1 second 6" in err
    assert "20" in [params.get("tailLines") for _, path, params in api.asked if "/log" in path]


def test_launch_ends_once_the_time_of_the_job_is_over(
    api: Api, run: Any, job_file: Path, clock: Clock
) -> None:
    def over() -> None:
        owner = api.objects[f"{world.JOBS}/demo"]
        world.admit(api, owner)
        world.run_out(api, owner)
        world.remove_pods(api, owner)

    clock.then[0.2] = over
    code, out, err = run("launch", job_file, "--wait", "--timeout", "60", "--json")
    assert (code, json.loads(out)["phase"]) == (ExitCode.FAILED, "suspended")
    assert "demo was suspended: Kueue has deactivated it" in err


def test_timeout_leaves_the_job(api: Api, run: Any, job_file: Path, clock: Clock) -> None:
    code, _, err = run("launch", job_file, "--wait", "--timeout", "1")
    assert code == ExitCode.TIMED_OUT
    assert "it goes on" in err
    assert f"{world.JOBS}/demo" in api.objects


def test_job_deleted_while_waiting_is_not_a_success(api: Api, run: Any, job_file: Path) -> None:
    def on_create(path: str, body: dict[str, Any]) -> None:
        if path.startswith(world.JOBS):
            threading.Timer(0.3, api.remove, (path,)).start()

    api.on_create = on_create
    code, _, err = run("launch", job_file, "--wait")
    assert code == ExitCode.FAILED
    assert "the job was deleted before it ended\n  fix: launch it again if that was not you" in err


def test_an_interrupt_says_that_the_job_goes_on(
    run: Any, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "watch", interrupted)
    code, _, err = run("launch", job_file, "--wait")
    assert (code, "the job goes on; `railhead cancel demo` ends it" in err) == (130, True)


def test_last_lines_that_cannot_be_read_are_noted(api: Api, run: Any, job_file: Path) -> None:
    play(api, failed=True)
    for index in (0, 1):
        api.refusals[("GET", f"{world.PODS}/demo-node-0-{index}-abcde/log")] = (403, "no logs")
    err = run("launch", job_file, "--wait")[2]
    assert "note: its last log lines could not be read: " in err
    assert "demo failed: " in err


@pytest.mark.parametrize("command", ["status", "top"])
def test_a_watch_asks_again_until_the_end(api: Api, run: Any, command: str, clock: Clock) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    clock.then[0.0] = lambda: world.end(api, owner)
    out = run(command, "demo", "--watch")[1]
    assert (out.count("running "), out.count("completed ")) == (1, 1)
    assert clock.slept == [2.0 if command == "status" else 5.0]


def test_a_watch_of_all_jobs_is_ended_by_who_asked(api: Api, run: Any, clock: Clock) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    owner = world.job(api, "demo")
    world.admit(api, owner)
    world.end(api, owner)
    clock.then[4.0] = interrupt
    code, out, _ = run("status", "--watch")
    assert (code, out.count("completed ")) == (130, 2)


def test_overrides_are_reported(api: Api, run: Any, job_file: Path) -> None:
    given = ("--set", "timeout=90m", "--set", "env.EPOCHS=7", "--nodes", "1")
    code, out, _ = run("launch", job_file, "--explain", "--json", *given)
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)["values"]}
    assert rows["timeout"]["from"] == "--set"
    assert rows["env EPOCHS"]["from"] == "--set"
    assert rows["nodes"]["from"] == "--nodes"


# -- another kind of job ------------------------------------------------------------------------

JOBSETS_SERVED = "/apis/jobset.x-k8s.io/v1alpha2"


def test_another_kind_is_printed_where_the_cluster_serves_it(
    api: Api, run: Any, job_file: Path
) -> None:
    asked = ("launch", job_file, "--api", "jobset", "--json", "--set", "restarts=2")
    code, _, err = run(*asked)
    assert code == ExitCode.MISSING_PREREQUISITE
    assert "this cluster does not serve JobSet of jobset.x-k8s.io/v1alpha2" in err
    api.objects[JOBSETS_SERVED] = {"resources": [{"name": "others"}, {"name": "jobsets"}]}
    code, out, _ = run(*asked)
    assert code == 0
    files, job = json.loads(out)
    assert (files["kind"], job["kind"]) == ("ConfigMap", "JobSet")
    assert job["spec"]["failurePolicy"] == {"maxRestarts": 2, "restartStrategy": "BlockingRecreate"}
    api.objects[JOBSETS_SERVED] = {"resources": [{"name": "others"}]}
    assert run(*asked)[0] == ExitCode.MISSING_PREREQUISITE


def test_kind_with_two_definitions_is_reported(api: Api, cluster: Cluster) -> None:
    served = {"resources": [{"name": "mpijobs"}]}
    api.objects["/apis/kubeflow.org/v1"] = served
    with pytest.raises(PrerequisiteError, match=r"kubeflow\.org is the training operator's v1: "):
        apis()["mpijob"].require(cluster)
    api.objects["/apis/kubeflow.org/v2beta1"] = served
    apis()["mpijob"].require(cluster)


def test_a_kind_that_there_is_not_is_refused(run: Any, job_file: Path) -> None:
    code, _, err = run("launch", job_file, "--api", "jobst")
    assert code == ExitCode.BAD_INPUT
    assert "--api: 'jobst' is no kind of job that launch writes; did you mean 'jobset'?" in err


# -- status -------------------------------------------------------------------------------------


def test_status_of_a_waiting_job_says_what_it_waits_for(api: Api, run: Any) -> None:
    world.workload(api, world.job(api, "big"), message="16 more needed")
    code, out, _ = run("status", "big")
    assert code == 0
    assert (
        "waiting in queue training: needs 2 x 8 nvidia.com/gpu, queue training has 4 of 16 free "
        "(Kueue: 16 more needed)" in out
    )


def test_status_json_of_a_running_job(api: Api, run: Any) -> None:
    world.admit(api, world.job(api, "demo"))
    data = json.loads(run("status", "demo", "--json")[1])
    assert (data["phase"], data["charged"], data["ranks"]) == ("running", 2, 4)
    assert [(p["index"], p["machine"]) for p in data["pods"]] == [
        (0, "lab-node-0"),
        (1, "lab-node-1"),
    ]


def test_status_lists_all(api: Api, run: Any) -> None:
    world.job(api, "waiting")
    owner = world.job(api, "broken")
    world.admit(api, owner)
    world.end(api, owner, failed=True)
    code, out, _ = run("status")
    assert code == 0
    assert "waiting" in out
    assert "failed" in out
    assert "exited 1 (Error)" in out
    assert [j["name"] for j in json.loads(run("status", "--json")[1])] == ["waiting", "broken"]


def test_status_says_why_a_pod_does_not_start(api: Api, run: Any) -> None:
    owner = world.job(api, "demo")
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    world.pod(api, owner, 0, state=waiting, phase="Pending")
    data = json.loads(run("status", "demo", "--json")[1])
    assert data["phase"] == "starting"
    assert data["detail"] == "0 of 2 pods running; node-0: ImagePullBackOff: no such image"


def test_status_says_what_the_kubelet_complains_of(api: Api, run: Any) -> None:
    """A container that is being made says nothing itself; the events do."""
    owner = world.job(api, "demo", nodes=1)
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    made = world.pod(api, owner, 0, state=waiting, phase="Pending")
    for uid, message in ((made["metadata"]["uid"], "no rail0"), ("other", "not mine")):
        api.put(
            "/api/v1/namespaces/training/events",
            {
                "metadata": {"name": f"event-{uid}"},
                "type": "Warning",
                "reason": "FailedCreatePodSandBox",
                "message": message,
                "involvedObject": {"uid": uid},
            },
        )
    data = json.loads(run("status", "demo", "--json")[1])
    assert data["pods"][0]["reason"] == "FailedCreatePodSandBox: no rail0"
    # The same in the list of all jobs.
    assert "node-0: FailedCreatePodSandBox: no rail0" in run("status")[1]


def test_status_says_that_nobody_has_complained_yet(api: Api, run: Any) -> None:
    """A claim's server does not answer the mount, and its node says so only minutes later."""
    owner = world.job(api, "demo", nodes=1)
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    made = world.pod(api, owner, 0, state=waiting, phase="Pending")
    assert (
        "node-0: ContainerCreating (its machine has complained of nothing yet; of a mount "
        in (run("status", "demo")[1])
    )
    for at, reason in (("04", "FailedMount"), ("03", "FailedScheduling")):
        api.put(
            "/api/v1/namespaces/training/events",
            {
                "metadata": {"name": reason},
                "type": "Warning",
                "reason": reason,
                "message": "MountVolume.SetUp failed for volume: timed out",
                "lastTimestamp": f"2026-01-02T03:{at}:00Z",
                "involvedObject": {"uid": made["metadata"]["uid"]},
            },
        )
    for command in (("status",), ("status", "demo"), ("describe", "demo")):
        assert "FailedMount: MountVolume.SetUp failed for volume: timed out" in run(*command)[1]


def test_no_jobs(run: Any) -> None:
    assert run("status")[1] == "no jobs\n"


@pytest.mark.parametrize("command", ["status", "logs", "cancel"])
def test_an_unknown_name(api: Api, run: Any, command: str) -> None:
    world.job(api, "torch-ddp")
    code, _, err = run(command, "torch-dpd")
    assert code == ExitCode.NOT_FOUND
    assert "no job is called 'torch-dpd'" in err
    assert "did you mean 'torch-ddp'?; there are: torch-ddp" in err


# -- logs ---------------------------------------------------------------------------------------


def test_logs_of_one_rank_and_one_node(api: Api, run: Any) -> None:
    world.admit(api, world.job(api, "demo"))
    assert len(run("logs", "demo")[1].splitlines()) == 4
    assert run("logs", "demo", "--rank", "3")[1] == "[node-1] [default1]:node 1 second 6\n"
    assert run("logs", "demo", "--node", "0")[1].count("[node-0]") == 2
    code, _, err = run("logs", "demo", "--rank", "4")
    assert code == ExitCode.BAD_INPUT
    assert "ranks 0 to 3" in err
    assert run("logs", "demo", "--rank", "0", "--node", "0")[0] == ExitCode.BAD_INPUT


def test_logs_are_objects_for_machines(api: Api, run: Any) -> None:
    """Each with its time; the rest of what is said goes to standard error."""
    owner = world.job(api, "demo")
    world.admit(api, owner)
    lines = [
        json.loads(text) for text in run("logs", "demo", "--json", "--node", "1")[1].splitlines()
    ]
    assert [line["text"] for line in lines] == [
        "[default0]:node 1 second 5",
        "[default1]:node 1 second 6",
    ]
    assert {line["node"] for line in lines} == {1}
    assert lines[0]["at"] < lines[1]["at"]
    world.end(api, owner)
    followed = run("logs", "demo", "--json", "--follow", "--node", "1")[1].splitlines()
    assert [json.loads(text) for text in followed] == lines


def test_logs_follow_starts_in_the_queue_and_ends_with_the_job(
    api: Api, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(console.ConsoleProgress, "close", lambda _: closed.append("closed"))
    owner = world.job(api, "demo")
    once_seen(api, lambda: world.admit(api, owner), lambda: world.end(api, owner))
    code, out, err = run("logs", "demo", "--follow")
    assert code == 0
    assert len(out.splitlines()) == 4
    assert "queued" in err
    # A terminal's live line does not stay.
    assert closed


def test_logs_of_a_job_that_is_deleted_end(api: Api, run: Any) -> None:
    world.admit(api, world.job(api, "demo"))

    def delete() -> None:
        api.open_logs.clear()
        api.remove(f"{world.JOBS}/demo")

    once_seen(api, delete)
    err = run("logs", "demo", "--follow")[2]
    assert "demo was deleted" in err


def test_a_line_is_printed_once_though_the_stream_breaks(api: Api, run: Any) -> None:
    """The stream ends while the container lives; the reconnect repeats the last second."""
    owner = world.job(api, "demo", nodes=1)
    world.admit(api, owner)
    name = "demo-node-0-0-abcde"
    api.open_logs.clear()
    later = "2026-01-02T03:04:06.500000000Z later in the same second"
    threading.Timer(0.4, api.logs[name].append, (later,)).start()
    threading.Timer(0.8, world.end, (api, owner)).start()
    out = run("logs", "demo", "--follow")[1].splitlines()
    assert out == [
        "[node-0] [default0]:node 0 second 5",
        "[node-0] [default1]:node 0 second 6",
        "[node-0] later in the same second",
    ]


def test_unreadable_log_is_reported(api: Api, run: Any) -> None:
    owner = world.job(api, "demo", nodes=1)
    world.admit(api, owner)
    path = f"{world.PODS}/demo-node-0-0-abcde/log"
    api.refusals[("GET", path)] = (403, "pods/log is forbidden")
    assert run("logs", "demo")[0] == ExitCode.REFUSED
    threading.Timer(1.0, world.end, (api, owner)).start()
    code, out, err = run("logs", "demo", "--follow")
    assert (code, out) == (0, "")
    assert "note: part of a log could not be read: pods/log is forbidden" in err


def test_logs_of_a_queued_job_say_so(api: Api, run: Any) -> None:
    world.job(api, "demo")
    code, out, err = run("logs", "demo")
    assert (code, out) == (0, "")
    assert "demo has no pods: queued waiting in queue" in err


# -- cancel -------------------------------------------------------------------------------------


def test_cancel_takes_everything_and_says_so(api: Api, run: Any, job_file: Path) -> None:
    run("launch", job_file)
    world.admit(api, api.objects[f"{world.JOBS}/demo"])
    code, out, _ = run("cancel", "demo")
    assert code == 0
    assert "demo cancelled (it was running); its 2 pods are gone" in out
    assert [k for k in api.objects if "/demo" in k] == []


def test_several_jobs_are_cancelled_and_restarted_at_once(
    api: Api, run: Any, job_file: Path
) -> None:
    for name in ("a", "b"):
        assert run("launch", job_file, "--name", name)[0] == 0
    code, _, err = run("restart", "a", "b")
    assert code == 0
    assert err.count(" again") == 2
    assert run("restart", "a", "b", "--follow")[0] == ExitCode.BAD_INPUT
    # A wrong name ends none.
    assert run("cancel", "a", "c")[0] == ExitCode.NOT_FOUND
    assert f"{world.JOBS}/a" in api.objects
    code, out, _ = run("cancel", "a", "b", "--json")
    assert code == 0
    assert [row["name"] for row in json.loads(out)] == ["a", "b"]


def test_cancel_of_a_queued_job(api: Api, run: Any) -> None:
    world.workload(api, world.job(api, "demo"))
    data = json.loads(run("cancel", "demo", "--json")[1])
    assert (data["was"], data["pods"]) == ("queued", 0)


def test_cancel_waits_for_the_pods_and_says_what_is_left(api: Api, run: Any, clock: Clock) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    files = {"metadata": {"name": "demo-files", "labels": {"railhead.dev/job": "demo"}}}
    api.put(FILES.rpartition("/")[0], files)
    api.reluctant |= {f"{world.JOBS}/demo", FILES}
    code, _, err = run("cancel", "demo", "--timeout", "1")
    assert code == ExitCode.TIMED_OUT
    assert (
        "still there after 1 s: TrainJob demo, pod demo-node-0-0-abcde, pod demo-node-0-1-abcde, "
        "JobSet demo, ConfigMap demo-files\n  fix: run `railhead cancel demo` again, or look at "
        "what holds it: `kubectl -n training describe trainjob,jobset,pod`" in err
    )
    # Said again where it is something else.
    assert err.count("waiting for TrainJob demo, pod demo-node-0-0-abcde, ") == 1
    assert json.loads(run("status", "demo", "--json")[1])["phase"] == "cancelling"


def test_a_cancel_does_not_wait_for_the_next_job_of_the_name(
    api: Api, run: Any, clock: Clock
) -> None:
    job = f"{world.JOBS}/demo"
    world.job(api, "demo")
    api.reluctant.add(job)

    def submit_another() -> None:
        api.remove(job)
        world.job(api, "demo")

    clock.then[0.0] = submit_another
    assert run("cancel", "demo")[0] == 0
    assert job in api.objects


def test_cancel_says_how_long_it_took(api: Api, run: Any, clock: Clock) -> None:
    job, job_set = f"{world.JOBS}/demo", f"{world.JOBSETS}/demo"
    world.admit(api, world.job(api, "demo", nodes=1))
    api.reluctant.add(job)
    clock.then = {0.05: lambda: api.remove(job_set), 0.14: lambda: api.remove(job)}
    code, out, err = run("cancel", "demo", "--json")
    assert (code, json.loads(out)["seconds"]) == (0, 0.2)
    assert err.splitlines()[1:] == [
        "waiting for TrainJob demo, pod demo-node-0-0-abcde, JobSet demo",
        "waiting for TrainJob demo, pod demo-node-0-0-abcde",
    ]


# -- the root -----------------------------------------------------------------------------------


def test_version_and_usage(capsys: Captured) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("railhead ")
    assert cli.run(["launhc"]) == ExitCode.USAGE
    assert cli.run(["launch"]) == ExitCode.USAGE
    assert cli.run(["launch", "--help"]) == 0


@pytest.mark.parametrize(("variable", "ranks"), [("8", 16), ("4", 8), (None, 16)])
def test_a_job_that_does_not_say_how_many_processes(
    api: Api, run: Any, variable: str | None, ranks: int
) -> None:
    """Trainer says it in the pods that it asks for; before those are there it is one a GPU."""
    owner = world.job(api, "sdk")
    del api.objects[f"{world.JOBS}/sdk"]["spec"]["trainer"]["numProcPerNode"]
    world.workload(api, owner)
    if variable is not None:
        container = {"name": "node", "env": [{"name": "PET_NPROC_PER_NODE", "value": variable}]}
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        replicated = [{"name": "node", "template": template}]
        api.put(
            world.JOBSETS, {"metadata": {"name": "sdk"}, "spec": {"replicatedJobs": replicated}}
        )
    code, out, _ = run("status", "sdk", "--json")
    assert code == 0
    assert json.loads(out)["ranks"] == ranks


# -- the start of a command -----------------------------------------------------------------------


def test_one_command_is_made_ready_and_is_the_same(capsys: Captured) -> None:
    """`--help` prints the same whether or not the other commands were made ready."""
    names = [c.name or c.callback.__name__ for c in cli.app.registered_commands if c.callback]
    assert {"launch", "status", "list", "port-forward"} <= set(names)
    for name in ("launch", "list"):
        cli.run([name, "--help"])
        alone = capsys.readouterr().out
        running.run(cli.app, [name, "--help"], name="railhead")
        assert capsys.readouterr().out == alone
        assert f"railhead {name} [OPTIONS]" in alone
    assert cli.run(["--version"]) == 0
    assert cli.run(["lunch"]) != 0
    assert "Did you mean 'launch'" in capsys.readouterr().err
