"""Jobs of several roles: what each role's pods get, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml

from railhead.base.errors import InputError, RefusedError
from railhead.contract import ClusterContract
from railhead.kube.client import Cluster
from railhead.launch import dev, explain, render
from railhead.launch.apis import apis
from railhead.launch.job import job_of, parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api
from tests.unit.launch.world import JOBSETS

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
    for name, world in (("node", "4"), ("servers", "8"), ("re-ward", "1")):
        _, _, env = gang[name]
        assert env["RAILHEAD_ROLE"] == name
        assert env["RAILHEAD_WORLD_SIZE"] == world, name
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


def test_roles_from_python() -> None:
    values = yaml.safe_load(JOB)
    job, _ = job_of(values, folder=Path(), where="library")
    assert job == parse_job(JOB, where="job")


def test_kinds_without_roles() -> None:
    for kind, api in apis().items():
        if kind != "jobset":
            with pytest.raises(InputError, match="roles: servers, re-ward: only a JobSet"):
                api.objects(made())
    with pytest.raises(InputError, match="add --api jobset"):
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
