"""Jobs of several roles: what each role's pods get, and what is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from railhead.base.errors import ExitCode, InputError, NotFoundError, RefusedError
from railhead.base.retries import HOPELESS
from railhead.contract import ClusterContract, Made
from railhead.kube.client import Cluster
from railhead.launch import Run, dev, explain, render
from railhead.launch.apis import apis
from railhead.launch.job import job_of, parse_job
from railhead.launch.patches import avoiding
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.conftest import Clock as Seconds
from tests.unit.launch.fake_api import Api
from tests.unit.launch.world import JOBSETS, PODS

JOB = """
name: grpo
nodes: 1
gpus_per_node: 4
command: [torchrun, train.py]
env: {LR: "1e-6", SEED: "0"}
restarts: 3
roles:
  servers:
    nodes: 2
    image: vllm:1
    command: [vllm, serve]
    launcher: none
    env: {SEED: "1"}
  re-ward:
    nodes: 1
    gpus_per_node: 2
    processes_per_node: 1
    command: [torchrun, reward.py]
"""


def made(
    name: str = "grpo",
    job: Mapping[str, Any] = MappingProxyType({}),
    contract: ClusterContract = CONTRACT,
    **servers: Any,
) -> Plan:
    """Return the plan of the job under this name, with itself and its servers so changed."""
    values = yaml.safe_load(JOB) | {"name": name} | dict(job)
    values["roles"]["servers"] |= servers
    return make_plan(parse_job(yaml.safe_dump(values, sort_keys=False), where="job"), (), contract)


def pods(plan: Plan) -> dict[str, tuple[int, dict[str, Any], dict[str, Any]]]:
    """Return each role's number of pods, their container and its variables."""
    (jobset,) = apis()["jobset"].objects(plan)
    results = {}
    for job in jobset["spec"]["replicatedJobs"]:
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        env = {row["name"]: row.get("value") for row in container["env"]}
        results[job["name"]] = job["template"]["spec"]["completions"], container, env
    return results


def test_sizes_of_roles() -> None:
    gang = pods(made())
    assert {name: count for name, (count, _, _) in gang.items()} == {
        "node": 1,
        "servers": 2,
        "re-ward": 1,
    }
    gpus = {
        name: pod["resources"]["limits"]["nvidia.com/gpu"] for name, (_, pod, _) in gang.items()
    }
    assert gpus == {"node": "4", "servers": "4", "re-ward": "2"}, "the job's where a role has none"
    images = {name: pod.get("image") for name, (_, pod, _) in gang.items()}
    assert images == {"node": None, "servers": "vllm:1", "re-ward": None}
    assert gang["servers"][1]["command"] + gang["servers"][1]["args"] == ["vllm", "serve"]


def test_worlds_of_roles() -> None:
    gang = pods(made())
    for name, size in (("node", "4"), ("servers", "8"), ("re-ward", "1")):
        _, _, env = gang[name]
        assert env["RAILHEAD_ROLE"] == name
        assert env["RAILHEAD_WORLD_SIZE"] == size, name
        assert env["PET_MASTER_ADDR"] == f"grpo-{name}-0-0.grpo"
        assert env["RAILHEAD_HOSTS_NODE"] == "grpo-node-0-0.grpo"
        assert env["RAILHEAD_HOSTS_SERVERS"] == "grpo-servers-0-0.grpo,grpo-servers-0-1.grpo"
        assert env["RAILHEAD_HOSTS_RE_WARD"] == "grpo-re-ward-0-0.grpo"
        assert env["LR"] == "1e-6"
        assert env["SEED"] == ("1" if name == "servers" else "0")
    assert gang["servers"][2]["RAILHEAD_LAUNCHER"] == "none"
    assert "RAILHEAD_LAUNCHER" not in gang["node"][2]


class Clock(datetime):
    """A clock that is a second further each time."""

    seconds = itertools.count()

    @classmethod
    def now(cls, tz: Any = None) -> Clock:
        return cls(2026, 1, 1, 0, 0, next(cls.seconds), tzinfo=tz)


def test_fresh_directory_of_all_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("railhead.launch.plan.datetime", Clock)
    gang = pods(made(job={"checkpoint": {"resume": "never"}}))
    (directory,) = {env["CHECKPOINT_DIR"] for _, _, env in gang.values()}
    assert directory.startswith("/checkpoints/grpo/20260101-0000")


def test_restarts_without_a_number() -> None:
    (runtime,) = CONTRACT.runtimes
    contract = CONTRACT.model_copy(
        update={"runtimes": (runtime.model_copy(update={"restarts": 9}),)}
    )
    for restarts, wanted in ((None, 9), (0, 0), (2, 2)):
        assert made(job={"restarts": restarts}, contract=contract).restarts == wanted


def test_notes_of_roles() -> None:
    (note,) = made(gpus_per_node=2).notes
    assert note.startswith("roles.servers: 2 of a machine's 8 GPUs a node")


def test_explained_roles() -> None:
    job = parse_job(JOB, where="job")
    rows = {row.name: row for row in explain.derived(job, made(), CONTRACT)}
    assert rows["role servers"].value == (
        "2 nodes of 4 GPUs with 4 processes, runtime torch: vllm serve"
    )
    assert rows["env RAILHEAD_HOSTS_SERVERS"].why == "by which the roles meet"


def test_shell_in_the_jobs_own_pods(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("[torchrun, train.py]", "[torchrun, /train.py]"))
    values = dev.Options().values(file, ())
    assert "roles" not in values
    assert values["gpus_per_node"] == 4


def test_end_of_a_gang() -> None:
    (jobset,) = apis()["jobset"].objects(made())
    assert jobset["spec"]["successPolicy"] == {
        "operator": "All",
        "targetReplicatedJobs": ["node"],
    }
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 3
    # As a runtime's gangs: drains are not counted, and what no restart mends is not tried again.
    policy = jobset["spec"]["failurePolicy"]
    assert [rule["action"] for rule in policy["rules"]] == [
        "RestartJobSetAndIgnoreMaxRestarts",
        "FailJobSet",
    ]
    for role in jobset["spec"]["replicatedJobs"]:
        job = role["template"]["spec"]
        (container,) = job["template"]["spec"]["containers"]
        disrupted, hopeless = job["podFailurePolicy"]["rules"]
        assert disrupted["onPodConditions"][0]["type"] == "DisruptionTarget"
        assert hopeless["onExitCodes"]["containerName"] == container["name"]
        assert hopeless["onExitCodes"]["values"] == list(HOPELESS)


def test_exit_codes_that_end_a_role_are_its_runtimes() -> None:
    (runtime,) = CONTRACT.runtimes
    own = runtime.model_copy(update={"never_on": (137, 2)})
    plan = made(contract=CONTRACT.model_copy(update={"runtimes": (own,)}))
    servers, reward = plan.roles
    roles = (replace(servers, never_on=()), replace(reward, never_on=(3,)))
    (jobset,) = apis()["jobset"].objects(replace(plan, roles=roles))
    _, hopeless = jobset["spec"]["failurePolicy"]["rules"]
    assert "(2|3|137)" in hopeless["onJobFailureMessagePatterns"][0]
    codes = [
        [rule["onExitCodes"]["values"] for rule in policy["rules"] if "onExitCodes" in rule]
        for role in jobset["spec"]["replicatedJobs"]
        for policy in (role["template"]["spec"]["podFailurePolicy"],)
    ]
    assert codes == [[[2, 137]], [], [[3]]]


def test_only_a_job_whose_end_ends_all_goes_by_itself() -> None:
    contract = CONTRACT.model_copy(update={"made": Made(finished_days=2)})
    (jobset,) = apis()["jobset"].objects(made(contract=contract))
    specs = [role["template"]["spec"] for role in jobset["spec"]["replicatedJobs"]]
    assert [spec.get("ttlSecondsAfterFinished") for spec in specs] == [172800, None, None]


def test_roles_from_python() -> None:
    values = yaml.safe_load(JOB)
    job, _ = job_of(values, folder=Path(), where="library")
    assert job == parse_job(JOB, where="job")


def test_kinds_without_roles() -> None:
    for kind, api in apis().items():
        if kind != "jobset":
            with pytest.raises(InputError, match="roles: servers, re-ward: only a JobSet"):
                api.objects(made())
    with pytest.raises(InputError, match="only a JobSet"):
        render.train_job(made())


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a pool's nodes": ({"gpus_per_node": 9}, "roles.servers: gpus_per_node: 9 is not allowed"),
    "a runtime": ({"runtime": "jax"}, "roles.servers: runtime: 'jax' is not in cluster 'lab'"),
    "a wired variable": ({"env": {"MASTER_ADDR": "x"}}, "roles.servers: env: MASTER_ADDR: set by"),
    "more names than Linux takes": (
        {"name": "x" * 40, "nodes": 1500},
        "roles: RAILHEAD_HOSTS_SERVERS would have 14",
    ),
    "a name": ({"name": "x" * 43}, "roles.servers: too long beside the job's name"),
}


def test_refused_roles() -> None:
    for case, (change, text) in REFUSED.items():
        with pytest.raises(InputError) as caught:
            made(**change)
        assert caught.value.problem.startswith(text), case
    assert made(name="x" * 42).name == "x" * 42


def test_fewer_nodes_with_roles() -> None:
    elastic = made(job={"nodes": 2, "min_nodes": 1}, nodes=1)
    with pytest.raises(InputError, match="min_nodes: 1 is not allowed with --api jobset"):
        apis()["jobset"].objects(elastic)


STAMP = "2026-01-02T03:04:05.000000001Z"


@pytest.fixture
def roles_file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("say('hello')\n")
    path = tmp_path / "job.yaml"
    path.write_text(
        JOB.replace(
            "command: [torchrun, train.py]", "command: [torchrun, train.py]\nfiles: [train.py]", 1
        )
    )
    return path


def put_pod(api: Api, role: str, index: int, state: Mapping[str, Any], phase: str) -> None:
    """Put a pod as JobSet and the Job controller name and label it, with a log."""
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "grpo",
        "jobset.sigs.k8s.io/replicatedjob-name": role,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    name = f"grpo-{role}-0-{index}-abcde"
    owners = [{"uid": api.objects[f"{JOBSETS}/grpo"]["metadata"]["uid"]}]
    statuses = [{"name": "node", "restartCount": 0, "state": dict(state)}]
    api.put(
        PODS,
        {
            "metadata": {"name": name, "labels": labels, "ownerReferences": owners},
            "spec": {"nodeName": f"lab-{role}-{index}"},
            "status": {"phase": phase, "containerStatuses": statuses},
        },
    )
    api.logs[name] = [f"{STAMP} {role} {index} here"]


@pytest.fixture
def gang(api: Api, run: Any, roles_file: Path) -> dict[str, Any]:
    """A job of three roles that launch submitted and Kueue admitted; one server still starts."""
    assert run("launch", roles_file)[0] == 0
    jobset: dict[str, Any] = api.objects[f"{JOBSETS}/grpo"]
    jobset["spec"]["suspend"] = False
    jobset["status"] = {"restarts": 1}
    for role, index in (("node", 0), ("servers", 0), ("re-ward", 0)):
        put_pod(api, role, index, {"running": {}}, "Running")
    put_pod(api, "servers", 1, {"waiting": {"reason": "ImagePullBackOff"}}, "Pending")
    return jobset


def end(api: Api, gang: dict[str, Any], condition: str) -> None:
    """End a job as JobSet does: it deletes what still runs, so that no log is waited for."""
    gang["status"] = {"conditions": [{"type": condition, "status": "True", "message": "it is"}]}
    for path in [path for path in api.objects if path.startswith(f"{PODS}/grpo-")]:
        api.remove(path)


def test_job_of_roles_is_submitted(api: Api, run: Any, roles_file: Path) -> None:
    code, _, err = run("launch", roles_file)
    assert (code, "created JobSet training/grpo" in err) == (0, True)
    jobset = api.objects[f"{JOBSETS}/grpo"]
    (owner,) = api.objects["/api/v1/namespaces/training/configmaps/grpo-files"]["metadata"][
        "ownerReferences"
    ]
    assert (owner["kind"], owner["uid"]) == ("JobSet", jobset["metadata"]["uid"])
    assert not [path for path in api.objects if path.startswith(world.JOBS)]
    code, out, _ = run("launch", roles_file, "--name", "other", "--dry-run")
    kinds = [item["kind"] for item in yaml.safe_load_all(out)]
    assert (code, kinds) == (0, ["ConfigMap", "JobSet"])
    code, _, err = run("launch", roles_file)
    assert code == ExitCode.REFUSED
    assert "a job called 'grpo' exists already (not finished)" in err
    assert "`railhead cancel grpo`" in err


def test_state_of_each_role(run: Any, gang: Any) -> None:
    code, out, _ = run("status", "grpo")
    assert code == 0
    assert "3 of 4 pods running: node 1 of 1, servers 1 of 2, re-ward 1 of 1" in out
    assert "servers-1: ImagePullBackOff" in out
    rows = [line.split() for line in out.splitlines()]
    assert ["grpo", "starting", "4", "13", "14", "training", "1"] in [row[:7] for row in rows]
    ranks = {
        row[0]: row[1] for row in rows if row and row[0] in ("node-0", "servers-1", "re-ward-0")
    }
    assert ranks == {"node-0": "0-3", "servers-1": "4-7", "re-ward-0": "0"}
    reported = json.loads(run("status", "grpo", "--json")[1])
    assert [role["name"] for role in reported["roles"]] == ["node", "servers", "re-ward"]
    assert (reported["gpus"], reported["ranks"], reported["pods"][2]["name"]) == (
        14,
        13,
        "servers-1",
    )
    assert "1x4+2x4+1x2" in run("list")[1]
    assert "role:        servers, 2 nodes x 4 GPUs, 4 processes each" in run("describe", "grpo")[1]
    assert "servers-0:   grpo-servers-0-0-abcde on lab-servers-0" in run("describe", "grpo")[1]


def test_claims_trouble_names_a_roles_node(api: Api, run: Any, gang: Any) -> None:
    put_pod(api, "servers", 1, {"running": {}}, "Running")
    trouble = "claim c at /data does not answer since 2026-01-02T03:00:00Z: whatever uses it waits"
    api.logs["grpo-servers-0-1-abcde"] = [f"{STAMP} railhead: {trouble}"]
    assert f"servers-1: {trouble}" in run("status", "grpo")[1]


def test_job_changed_by_hand_is_listed(api: Api, run: Any, gang: Any) -> None:
    node, servers, reward = gang["spec"]["replicatedJobs"]
    (container,) = servers["template"]["spec"]["template"]["spec"]["containers"]
    for row in container["env"]:
        if row["name"] == "RAILHEAD_PROCESSES_PER_NODE":
            del row["value"]
            row["valueFrom"] = {"configMapKeyRef": {"name": "sizes", "key": "processes"}}
    reward["template"]["spec"]["template"]["spec"]["containers"] = []
    servers["replicas"] = 2
    api.remove(f"{PODS}/grpo-servers-0-1-abcde")
    put_pod(api, "servers", 1, {"running": {}}, "Running")
    labels = api.objects[f"{PODS}/grpo-servers-0-1-abcde"]["metadata"]["labels"]
    labels["jobset.sigs.k8s.io/job-index"] = "1"
    labels["jobset.sigs.k8s.io/replicatedjob-replicas"] = "2"
    assert "1x4+4x4+1x0" in run("list")[1]
    code, out, _ = run("status")
    assert (
        code,
        ["grpo", "starting", "6", "21", "20"] in [r.split()[:5] for r in out.splitlines()],
    ) == (
        0,
        True,
    )
    pods = json.loads(run("status", "grpo", "--json")[1])["pods"]
    assert [(pod["name"], pod["index"]) for pod in pods] == [
        ("node-0", 0),
        ("servers-0", 1),
        ("servers-3", 4),
        ("re-ward-0", 5),
    ]
    node["template"]["spec"]["template"]["spec"]["containers"] = []
    assert run("describe", "grpo")[0] == 0


def test_waiting_job_of_roles(api: Api, run: Any, roles_file: Path) -> None:
    run("launch", roles_file)
    jobset = api.objects[f"{JOBSETS}/grpo"]
    jobset["spec"]["suspend"] = True
    waiting = world.workload(
        api,
        {"metadata": jobset["metadata"], "spec": {"trainer": {"numNodes": 4}}},
        message="insufficient unused quota",
    )
    waiting["spec"]["queueName"] = "training"
    out = run("status", "grpo")[1]
    assert "needs 1 x 4 + 2 x 4 + 1 x 2 nvidia.com/gpu, queue training has 4 of 16 free" in out
    assert "place: 0 jobs ahead of it" in out


def test_logs_of_roles(run: Any, gang: Any) -> None:
    def lines(*options: str) -> list[str]:
        code, out, _ = run("logs", "grpo", *options)
        assert code == 0
        return list(out.splitlines())

    assert lines() == [
        "[node-0] node 0 here",
        "[servers-0] servers 0 here",
        "[re-ward-0] re-ward 0 here",
    ]
    assert lines("--role", "servers") == ["[servers-0] servers 0 here"]
    assert lines("--role", "servers", "--node", "1") == []
    assert lines("--node", "0") == ["[node-0] node 0 here"]
    assert json.loads(lines("--role", "re-ward", "--json")[0])["name"] == "re-ward-0"
    for options, says in {
        ("--role", "server"): "did you mean 'servers'?",
        ("--role", "servers", "--node", "2"): "role servers of grpo has nodes 0 to 1",
        ("--rank", "0"): "each role of grpo has ranks of its own",
    }.items():
        code, _, err = run("logs", "grpo", *options)
        assert (code, says in err) == (ExitCode.BAD_INPUT, True), options


@pytest.mark.parametrize("failed", [False, True])
def test_end_of_a_job_of_roles(api: Api, run: Any, gang: Any, clock: Seconds, failed: bool) -> None:
    clock.then[0.2] = lambda: end(api, gang, "Failed" if failed else "Completed")
    code, _, err = run("wait", "grpo")
    assert code == (ExitCode.FAILED if failed else 0)
    assert ("grpo failed: it is" in err) is failed


def test_failed_server_is_named(run: Any, api: Api, gang: Any) -> None:
    put_pod(api, "servers", 1, {"terminated": {"exitCode": 1, "reason": "Error"}}, "Failed")
    api.logs["grpo-servers-0-1-abcde"] = [f"{STAMP} RuntimeError: no weights"]
    gang["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": "it is"}]}
    out = run("status", "grpo")[1]
    assert "servers-1 (grpo-servers-0-1-abcde on lab-servers-1) exited 1" in out
    assert "a process of servers-1 (lab-servers-1): RuntimeError: no weights" in out


def test_cancelled_job_of_roles(api: Api, run: Any, gang: Any) -> None:
    code, out, _ = run("cancel", "gr*")
    assert (code, "grpo cancelled (it was starting); its 4 pods are gone" in out) == (0, True)
    assert not [path for path in api.objects if "grpo" in path]


def test_restart_of_roles_elsewhere(api: Api, run: Any, gang: Any) -> None:
    before = gang["metadata"]["uid"]
    code, _, err = run("restart", "grpo", "--avoid", "lab-servers-1")
    assert (code, "created JobSet training/grpo again" in err) == (0, True)
    jobset = api.objects[f"{JOBSETS}/grpo"]
    assert jobset["metadata"]["uid"] != before
    for replicated in jobset["spec"]["replicatedJobs"]:
        pod = replicated["template"]["spec"]["template"]["spec"]
        assert pod["affinity"] == avoiding(["lab-servers-1"])
    assert "suspend" not in jobset["spec"]
    assert "/api/v1/namespaces/training/configmaps/grpo-files" in api.objects


def test_job_after_a_job_of_roles(api: Api, run: Any, gang: Any, job_file: Path) -> None:
    end(api, gang, "Completed")
    assert run("launch", job_file, "--after", "grpo")[0] == 0
    assert f"{world.JOBS}/demo" in api.objects


def test_roles_of_a_run_from_python(gang: Any, cluster: Cluster) -> None:
    run = Run(cluster, "grpo")
    assert [role.name for role in run.state().roles] == ["node", "servers", "re-ward"]
    assert [str(line) for line in run.logs(role="servers")] == ["[servers-0] servers 0 here"]
    run.cancel()
    with pytest.raises(NotFoundError):
        run.state()


def test_role_of_a_job_whose_pods_are_alike(api: Api, run: Any) -> None:
    world.admit(api, world.job(api, "demo"))
    out = run("logs", "demo", "--role", "node", "--rank", "3")[1]
    assert out.splitlines() == ["[node-1] [default1]:node 1 second 6"]
    code, _, err = run("logs", "demo", "--role", "servers")
    assert (code, "demo has no such role; there are: node" in err) == (ExitCode.BAD_INPUT, True)


def test_other_job_sets_are_no_jobs(api: Api, run: Any) -> None:
    api.put(JOBSETS, {"metadata": {"name": "reader"}})
    owner = {"kind": "TrainJob", "uid": "x"}
    labels = {"railhead.dev/job": "x"}
    api.put(JOBSETS, {"metadata": {"name": "x", "labels": labels, "ownerReferences": [owner]}})
    assert "no jobs" in run("status")[1]
    assert run("cancel", "reader")[0] == ExitCode.NOT_FOUND
    assert run("cancel", "x")[0] == ExitCode.NOT_FOUND


def test_mistakes_in_a_role() -> None:
    with pytest.raises(InputError) as caught:
        parse_job(JOB.replace("    nodes: 2\n", "    nodes: two\n    queue: x\n"), where="job")
    assert "line 10: roles.servers.nodes: 'two' is not allowed; allowed: a whole number" in str(
        caught.value
    )
    assert "line 11: roles.servers.queue: no such field; fields: nodes, command" in str(
        caught.value
    )


def test_quota_of_all_roles(api: Api, cluster: Cluster) -> None:
    preflight(cluster, made(), CONTRACT, api="jobset")
    (sent,) = [query for method, path, query in api.asked if (method, path) == ("POST", JOBSETS)]
    assert sent["dryRun"] == "All", "admission is asked about what would be applied"
    with pytest.raises(RefusedError, match=r"4 nodes need 22 nvidia.com/gpu of 16") as caught:
        preflight(cluster, made(gpus_per_node=8), CONTRACT, api="jobset")
    assert "nodes: 3 is more" not in caught.value.problem
    with pytest.raises(RefusedError, match="nodes: 3 is more than runtime torch can have"):
        preflight(cluster, made(nodes=3, gpus_per_node=1), CONTRACT, api="jobset")


def test_machines_of_all_roles(api: Api, cluster: Cluster) -> None:
    """Three pods of five GPUs and one of one are 16 GPUs, which two machines of eight have."""
    roles = yaml.safe_load(JOB)["roles"]
    for role, gpus in (("servers", 5), ("re-ward", 1)):
        roles[role]["gpus_per_node"] = gpus
    plan = made(job={"gpus_per_node": 5, "roles": roles})
    text = "roles: node, servers, re-ward need 3 machines together, and pool gpu has 2 nodes of 8"
    with pytest.raises(RefusedError, match=text) as caught:
        preflight(cluster, plan, CONTRACT, api="jobset")
    assert "reasons" not in caught.value.problem
    # 14 GPUs of pods that share machines fit, unless one machine is not there.
    preflight(cluster, made(nodes=2), CONTRACT, api="jobset")
    api.remove("/api/v1/nodes/gpu-1")
    with pytest.raises(RefusedError, match="2 nodes are needed and 1 of pool gpu are as"):
        preflight(cluster, made(nodes=1, gpus_per_node=8), CONTRACT, api="jobset")


def test_nodes_are_listed_once(api: Api, cluster: Cluster) -> None:
    preflight(cluster, made(job={"topology": "hostname"}, nodes=1), CONTRACT, api="jobset")
    assert [path for _, path, _ in api.asked].count("/api/v1/nodes") == 1


def test_quota_of_a_second_pool(api: Api, cluster: Cluster) -> None:
    (pool,), (queue,), (runtime,) = CONTRACT.node_pools, CONTRACT.queues, CONTRACT.runtimes
    other = {"name": "other"}
    both = {"flavors": ("gpu", "other"), "pools": ("gpu", "other")}
    contract = CONTRACT.model_copy(
        update={
            "standing": False,
            "node_pools": (pool, pool.model_copy(update=other)),
            "queues": (queue.model_copy(update=both),),
            "runtimes": (runtime, runtime.model_copy(update=other | {"pool": "other"})),
        }
    )
    publish(api, contract)
    (group,) = api.objects["/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"]["spec"][
        "resourceGroups"
    ]
    group["flavors"].append(group["flavors"][0] | other)
    roles = yaml.safe_load(JOB)["roles"]
    for role in roles.values():
        role |= {"runtime": "other", "gpus_per_node": 8}
    plan = made(job={"roles": roles}, contract=contract)
    with pytest.raises(RefusedError, match=r"3 nodes need 24 nvidia.com/gpu of 16") as caught:
        preflight(cluster, plan, contract, api="jobset")
    assert caught.value.problem.count("nvidia.com/gpu of 16") == 1


def test_claim_of_one_node(api: Api, cluster: Cluster) -> None:
    claims = "/api/v1/namespaces/training/persistentvolumeclaims"
    for name in ("checkpoints", "scratch"):
        api.put(claims, {"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}})
    plan = made(job={"mounts": {"/scratch": "scratch"}}, nodes=1)
    with pytest.raises(RefusedError) as caught:
        preflight(cluster, plan, CONTRACT, api="jobset")
    assert "training/scratch is for one node (ReadWriteOnce), the job has 3" in caught.value.problem
    assert "training/checkpoints is ReadWriteOnce" in caught.value.problem
