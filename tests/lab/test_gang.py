"""Kueue charges the whole gang, for any node count and submitter; a gang is whole or waits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.kube import client as kube
from railhead.kube.queues import quota
from tests.lab.jobs import CLUSTER_QUEUE, NAMESPACE, Jobs, sleep, submitting, unique, wait
from tests.marks import few

pytestmark = pytest.mark.lab

GPUS = 8


@pytest.fixture
def jobs(lab_env: dict[str, str], kubeconfig: Path, tmp_path: Path) -> Iterator[Jobs]:
    with submitting(lab_env, kubeconfig, tmp_path) as jobs:
        wait(lambda: reserved(jobs, "nvidia.com/gpu") == 0, 60, "an empty queue")
        yield jobs


def reserved(jobs: Jobs, resource: str) -> int:
    """Return how much of a resource the ClusterQueue has reserved."""
    queue = jobs.cluster.get(kube.kueue("", "clusterqueues", CLUSTER_QUEUE))
    return int(quota(queue)[resource][1])


def counts(workload: dict[str, Any]) -> list[int]:
    """Pods that each pod set of a Workload is charged for."""
    return [int(s["count"]) for s in workload["spec"]["podSets"]]


def submit(jobs: Jobs, tool: str, name: str, nodes: int) -> None:
    """Submit a sleeping gang of whole machines with one of the tools that people use."""
    if tool == "launch":
        jobs.launch(name, nodes=nodes)
        return
    body = jobs.raw(name, numNodes=nodes, numProcPerNode=1)
    if tool == "kubectl":
        done = jobs.kubectl("apply", "-f", "-", stdin=body)
        assert done.returncode == 0, done.stderr
    else:
        jobs.cluster.create(kube.trainjobs(NAMESPACE), body)


@pytest.mark.parametrize("tool", ["launch", "kubectl", "api"])
def test_a_gang_that_fits_is_charged_whole_and_runs_whole(jobs: Jobs, tool: str) -> None:
    nodes = 1 if tool == "api" else 2
    name = unique("fits")
    submit(jobs, tool, name, nodes)
    assert counts(jobs.workload(name)) == [nodes]
    jobs.phase(name, "running")
    assert len(jobs.pods(name)) == nodes
    assert reserved(jobs, "nvidia.com/gpu") == nodes * GPUS
    assert reserved(jobs, "rdma/rdma_shared_device_a") == nodes
    assert jobs.state(name).charged == nodes
    assert len({pod["spec"]["nodeName"] for pod in jobs.pods(name)}) == nodes


@pytest.mark.parametrize("nodes", few([3, 4, 7], ["3"]))
def test_gang_that_does_not_fit_waits_whole(jobs: Jobs, nodes: int) -> None:
    """Kueue would admit it and place half of it if it charged by the runtime's template."""
    name = unique("toolarge")
    submit(jobs, "kubectl", name, nodes)
    assert counts(jobs.workload(name)) == [nodes]
    end = time.monotonic() + 6
    while time.monotonic() < end:
        assert jobs.pods(name) == []
        time.sleep(0.5)
    assert jobs.state(name).phase.value == "queued"
    assert reserved(jobs, "nvidia.com/gpu") == 0


def test_unsuspending_by_hand_gets_a_waiting_gang_no_pod(jobs: Jobs) -> None:
    """Kueue takes a moment to suspend it again; in that moment no pod of it may be made."""
    name = unique("byhand")
    submit(jobs, "kubectl", name, 4)
    assert counts(jobs.workload(name)) == [4]
    for _ in range(3):
        change = {"spec": {"suspend": False}}
        done = jobs.kubectl(
            "-n", NAMESPACE, "patch", "trainjob", name, "--type=merge", "-p", json.dumps(change)
        )
        assert done.returncode == 0, done.stderr
        end = time.monotonic() + 2
        while time.monotonic() < end:
            assert jobs.pods(name) == []
    jobs.phase(name, "queued")


@pytest.mark.parametrize("nodes", few([1, 4], ["4"]))
def test_a_gangs_size_is_fixed_once_it_is_charged(jobs: Jobs, nodes: int) -> None:
    name = unique("resized")
    submit(jobs, "kubectl", name, 2)
    assert counts(jobs.workload(name)) == [2]
    change = {"spec": {"trainer": {"numNodes": nodes}}}
    done = jobs.kubectl(
        "-n", NAMESPACE, "patch", "trainjob", name, "--type=merge", "-p", json.dumps(change)
    )
    assert done.returncode != 0
    assert "spec.trainer.numNodes" in done.stderr
    assert "submit another" in done.stderr
    jobs.phase(name, "running")
    assert counts(jobs.workload(name)) == [2]
    assert len(jobs.pods(name)) == 2


def test_launch_refuses_a_job_that_would_wait_forever(jobs: Jobs) -> None:
    name = unique("toolarge")
    done = jobs.run("launch", jobs.job_file(name, nodes=4))
    assert done.returncode == ExitCode.REFUSED
    assert "nodes: 4 is more than runtime torch can have; allowed: at most 2" in done.stderr


def test_second_gang_waits_whole_until_the_first_ends(jobs: Jobs) -> None:
    first, second = unique("first"), unique("second")
    submit(jobs, "kubectl", first, 2)
    jobs.phase(first, "running")
    submit(jobs, "launch", second, 2)
    seen: set[int] = set()

    def look(until: str) -> bool:
        seen.add(len([p for p in jobs.pods(second) if p["spec"].get("nodeName")]))
        return jobs.state(second).phase.value == until

    end = time.monotonic() + 6
    while time.monotonic() < end:
        assert look("queued")
        assert jobs.pods(second) == []
    assert seen == {0}
    assert jobs.state(first).phase.value == "running"
    assert reserved(jobs, "nvidia.com/gpu") == 2 * GPUS
    # Others may have spoken as well.
    reason = next(r for r in jobs.status(second)["reasons"] if r["source"] == "Kueue")
    (meaning,) = reason["meanings"]
    assert meaning["text"].startswith(f"{2 * GPUS} nvidia.com/gpu must become free in flavor ")
    assert jobs.run("cancel", first).returncode == 0
    wait(lambda: look("running"), 60, f"{second} to run after {first}")
    assert len(jobs.pods(second)) == 2


def test_two_that_fit_beside_each_other_both_run(jobs: Jobs) -> None:
    names = [unique("half"), unique("half")]
    for name in names:
        submit(jobs, "kubectl", name, 1)
    for name in names:
        jobs.phase(name, "running")
    machines = [jobs.pods(name)[0]["spec"]["nodeName"] for name in names]
    assert len(set(machines)) == 2
    third = unique("third")
    submit(jobs, "kubectl", third, 1)
    assert counts(jobs.workload(third)) == [1]
    time.sleep(3)
    assert jobs.pods(third) == []


def test_the_queue_turns_by_itself_when_the_first_ends(jobs: Jobs) -> None:
    first, second = unique("short"), unique("next")
    jobs.launch(first, command=sleep(5))
    jobs.launch(second, command=sleep(1))
    jobs.phase(first, "completed", 90)
    jobs.phase(second, "completed", 90)
    finished = [jobs.state(name).phase.value for name in (first, second)]
    assert finished == ["completed", "completed"]


# -- guards -------------------------------------------------------------------------------------


def test_a_job_without_a_queue_gets_its_namespaces(jobs: Jobs) -> None:
    body = jobs.raw(unique("noqueue"), numNodes=2, numProcPerNode=1)
    del body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    done = jobs.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", stdin=body)
    assert done.returncode == 0, done.stderr
    labels = json.loads(done.stdout)["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "default"


def test_a_job_without_a_trainer_is_refused_with_what_to_set(jobs: Jobs) -> None:
    """Trainer would wire no rendezvous: each pod a world of its own, and a plausible result."""
    done = jobs.kubectl("apply", "-f", "-", stdin=jobs.raw(unique("alone")))
    assert done.returncode != 0
    assert "spec.trainer is missing" in done.stderr


def test_a_rendezvous_set_by_hand_is_refused(jobs: Jobs) -> None:
    body = jobs.raw(
        unique("byhand"),
        numNodes=2,
        numProcPerNode=1,
        env=[{"name": "PET_NNODES", "value": "1"}],
    )
    done = jobs.kubectl("apply", "-f", "-", stdin=body)
    assert done.returncode != 0
    assert "PET_NNODES" in done.stderr


# -- a wrong world size -------------------------------------------------------------------------


def test_a_wrong_world_size_fails_at_once(jobs: Jobs, repo: Path) -> None:
    """One process a node is started where two were asked for: refused in seconds, not timed out."""
    name = unique("wrongworld")
    jobs.made.append(name)
    source = repo / "examples/torch_ddp/train.py"
    (jobs.directory / "train.py").write_bytes(source.read_bytes())
    path = jobs.job_file(
        name,
        processes_per_node=2,
        command=["torchrun", "--nproc_per_node=1", "/workspace/train.py"],
        files=["train.py"],
    )
    follower = jobs.start("launch", path, "--follow")
    jobs.started(name)
    begin = time.monotonic()
    # Before a process of the script's starts, and once: a rendezvous that waits for who never comes
    # would take 15 minutes, and bad input is not tried again.
    out, err = follower.communicate(timeout=300)
    assert time.monotonic() - begin < 180
    assert follower.returncode == ExitCode.FAILED
    assert "error: 2 nodes with 1 processes each make a world of 2, the job asked for 4" in out
    assert "error: world size is" not in out
    assert f"{name} failed: " in err
    assert jobs.status(name)["restarts"] == 0


def test_a_world_of_another_size_than_asked_fails_at_once(jobs: Jobs, repo: Path) -> None:
    """The same from the other side: the cluster built a smaller world than the job asked for."""
    name = unique("wrongworld")
    body = jobs.raw(
        name,
        numNodes=2,
        numProcPerNode=1,
        command=["torchrun", "/workspace/train.py"],
        env=[{"name": "RAILHEAD_WORLD_SIZE", "value": "4"}],
    )
    body["spec"]["podTemplateOverrides"] = [
        {
            "targetJobs": [{"name": "node"}],
            "spec": {
                "volumes": [{"name": "files", "configMap": {"name": name}}],
                "containers": [
                    {
                        "name": "node",
                        "volumeMounts": [{"name": "files", "mountPath": "/workspace"}],
                    }
                ],
            },
        }
    ]
    path = kube.core(NAMESPACE, "configmaps")
    text = (repo / "examples/torch_ddp/train.py").read_text()
    jobs.cluster.create(path, {"metadata": {"name": name}, "data": {"train.py": text}})
    try:
        assert jobs.kubectl("apply", "-f", "-", stdin=body).returncode == 0
        jobs.started(name)
        wait(lambda: jobs.state(name).phase.value == "failed", 60, "the job to fail")
        done = jobs.run("logs", name)
        assert "make a world of 2, the job asked for 4" in done.stdout
    finally:
        jobs.cluster.delete(f"{path}/{name}")
