"""Gangs that Volcano admits, on a lab that runs its own scheduler, controllers and webhooks.

The stack is the lab's with `queueing: {scheduler: volcano}`, and two teams: one that is promised
nothing and borrows, and one that may not have more than its share.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from railhead.accept.record import Row, Watcher, of_pod
from railhead.base.errors import ExitCode
from railhead.kube import client as kube
from railhead.kube import volcano
from railhead.kube.client import Cluster
from railhead.kube.jobs import JOBSET_LABEL
from railhead.lab.artifacts import volcano as built
from tests.lab.conftest import STACK, Run, railhead, succeed
from tests.lab.jobs import NAMESPACE, QUEUE, Jobs, sleep, submitting, unique, wait
from tests.lab.test_restarts import kill_rank, restarts, said, train

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.volcano]

BOUNDED = "vision"
GPUS = "nvidia.com/gpu"
# Enough for a run to be harmed in the middle.
EPOCHS = 40
OURS = ("--queue", QUEUE, "--set", f"env.EPOCHS={EPOCHS}")


def changed(cluster: dict[str, Any]) -> dict[str, Any]:
    """Return the lab's stack with Volcano, without what Volcano has no word for."""
    left_out = ("default_queue", "namespaces", "queues")
    (claim,) = cluster["checkpoints"]
    teams = [
        {"name": QUEUE, "namespaces": [NAMESPACE], "shares": [{"pool": "gpu", "nodes": 0}]},
        {
            "name": BOUNDED,
            "namespaces": [BOUNDED],
            "shares": [{"pool": "gpu", "nodes": 1, "borrow": 0}],
        },
    ]
    return {name: value for name, value in cluster.items() if name not in left_out} | {
        "versions": "lab-volcano",
        "queueing": {"scheduler": "volcano"},
        "teams": [team | {"researchers": [f"railhead:{team['name']}"]} for team in teams],
        "checkpoints": [claim, claim | {"namespace": BOUNDED}],
        "runtimes": [row for row in cluster["runtimes"] if row["framework"] == "torch"],
    }


@dataclass(frozen=True, kw_only=True)
class Stack:
    """The stack, to be brought up again and taken away."""

    pulumi: Run
    file: Path

    def run(self, *words: str) -> str:
        words = (*words, "--stack", STACK, "--yes", "--config-file", str(self.file))
        return succeed(self.pulumi(*words, timeout=900)).stdout


@pytest.fixture(scope="module")
def made(
    running_lab: str, pulumi: Run, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Stack:
    for archive in built.ensure(Console(stderr=True)):
        succeed(railhead("lab", "load-image", str(archive), "--name", running_lab))
    settings = yaml.safe_load((repo / "stacks" / "Pulumi.lab.yaml").read_text())
    settings["config"]["railhead:cluster"] = changed(settings["config"]["railhead:cluster"])
    file = tmp_path_factory.mktemp("stack") / "Pulumi.lab.yaml"
    file.write_text(yaml.safe_dump(settings))
    succeed(pulumi("stack", "select", "--create", STACK))
    result = Stack(pulumi=pulumi, file=file)
    begin = time.monotonic()
    result.run("up")
    print(f"the stack with Volcano is up in {time.monotonic() - begin:.0f} s")
    return result


@pytest.fixture(scope="module")
def jobs(
    made: Stack,
    bare_env: dict[str, str],
    kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Jobs]:
    with submitting(bare_env, kubeconfig, tmp_path_factory.mktemp("jobs")) as jobs:
        yield jobs


@dataclass
class Pods:
    """Every change of gangs' pods, in the API server's order."""

    rows: list[Row] = field(default_factory=list)
    begin: float = field(default_factory=time.monotonic)

    def note(self, event: str, pod: dict[str, Any]) -> None:
        if gang := (pod["metadata"].get("labels") or {}).get(JOBSET_LABEL):
            self.rows.append(of_pod(event, pod, round(time.monotonic() - self.begin, 1), gang))

    def placed(self) -> list[tuple[float, dict[str, int]]]:
        """Return for each change: seconds, and gang -> number of its bound, unfinished pods."""
        bound: dict[str, set[str]] = {}
        results = []
        for row in sorted(self.rows, key=lambda row: row.rv):
            mine = bound.setdefault(row.gang, set())
            if row.node and row.event != "DELETED" and row.phase not in ("Succeeded", "Failed"):
                mine.add(row.uid)
            else:
                mine.discard(row.uid)
            results.append((row.t, {gang: len(pods) for gang, pods in bound.items() if pods}))
        return results


@contextmanager
def recorded(cluster: Cluster, namespace: str = NAMESPACE) -> Iterator[Pods]:
    pods = Pods()
    watcher = Watcher(cluster, kube.core(namespace, "pods"), pods.note)
    watcher.start()
    yield pods
    watcher.stopped = True
    assert watcher.failed is None


def group(jobs: Jobs, name: str, namespace: str = NAMESPACE) -> dict[str, Any] | None:
    return jobs.cluster.find(f"{volcano.groups_path(namespace)}/{name}")


def phase(jobs: Jobs, name: str) -> str:
    """Return the phase of a job in any namespace."""
    return str(jobs.status(name)["phase"])


def used(jobs: Jobs, queue: str) -> int:
    """GPUs that Volcano charges to a Queue."""
    status = jobs.cluster.get(volcano.queue_path(queue)).get("status") or {}
    return int((status.get("allocated") or {}).get(GPUS, 0))


def cancelled(jobs: Jobs, name: str, namespace: str = NAMESPACE) -> None:
    """Cancel a job; nothing of it may be left when the command ends."""
    done = jobs.run("cancel", name)
    assert done.returncode == 0, done.stderr
    assert jobs.run("status", name).returncode == ExitCode.NOT_FOUND
    assert group(jobs, name, namespace) is None
    selector = f"{JOBSET_LABEL}={name}"
    assert jobs.cluster.list(kube.core(namespace, "pods"), selector=selector) == []


@pytest.fixture(scope="module")
def unbroken(jobs: Jobs, repo: Path) -> dict[int, str]:
    """The losses of the example, which nobody touches."""
    begin = time.monotonic()
    name = train(jobs, repo, "unbroken", *OURS)
    made = group(jobs, name)
    assert made is not None
    assert (made["spec"]["minMember"], made["spec"]["queue"]) == (2, QUEUE)
    assert made["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"
    assert made["status"]["phase"] == "Running"
    assert f"queue: {QUEUE}" in " ".join(jobs.run("describe", name).stdout.split())
    jobs.phase(name, "completed", 120)
    wait(lambda: len(said(jobs, name).losses) == EPOCHS, 30, "all of its log")
    losses = said(jobs, name).losses
    print(f"the example trained to its end in {time.monotonic() - begin:.0f} s")
    cancelled(jobs, name)
    return losses


def test_the_example_trains_to_its_end(unbroken: dict[int, str]) -> None:
    assert sorted(unbroken) == list(range(1, EPOCHS + 1))


def test_a_second_up_changes_nothing(made: Stack) -> None:
    made.run("up", "--expect-no-changes")


def test_one_of_two_gangs_waits_whole(jobs: Jobs) -> None:
    names = [unique("gang") for _ in range(2)]
    with recorded(jobs.cluster) as pods:
        files = [jobs.job_file(name, queue=QUEUE, command=sleep(15)) for name in names]
        for started in [jobs.start("launch", file) for file in files]:
            _, errors = started.communicate(timeout=240)
            assert started.returncode == 0, errors
        wait(lambda: "running" in [phase(jobs, name) for name in names], 60, "one to run")
        (waiting,) = (name for name in names if phase(jobs, name) != "running")
        assert phase(jobs, waiting) == "queued"
        wait(lambda: "Volcano: " in jobs.status(waiting)["detail"], 30, "its reason")
        detail = jobs.status(waiting)["detail"]
        print(detail)
        needs = f"waiting in queue {QUEUE}: needs 2 x 8 {GPUS}, queue {QUEUE} has 16 (Volcano: "
        assert detail.startswith(needs)
        for name in names:
            jobs.phase(name, "completed", 120)
        placed = pods.placed()
    # Both nodes are one gang's: half of each would be seen as two gangs at once.
    assert all(len(gangs) <= 1 for _, gangs in placed), placed
    for name in names:
        whole = [t for t, gangs in placed if gangs.get(name) == 2]
        some = [t for t, gangs in placed if gangs.get(name) == 1]
        print(f"{name}: first pod bound at {min(some + whole)} s, both at {min(whole)} s")
    jobs.clear(*names)


def test_a_gang_that_waits_is_cancelled_without_a_trace(jobs: Jobs) -> None:
    first, second = unique("holds"), unique("waits")
    jobs.launch(first, queue=QUEUE)
    jobs.phase(first, "running")
    jobs.launch(second, queue=QUEUE)
    wait(lambda: group(jobs, second) is not None, 60, "its PodGroup")
    jobs.phase(second, "queued")
    cancelled(jobs, second)
    assert phase(jobs, first) == "running"
    cancelled(jobs, first)
    wait(lambda: used(jobs, QUEUE) == 0, 60, "its queue to be empty")


def test_gang_resumes_from_its_checkpoint_after_a_kill(
    jobs: Jobs, repo: Path, unbroken: dict[int, str]
) -> None:
    name = train(jobs, repo, "harmed", *OURS)
    before = said(jobs, name).losses
    whole = group(jobs, name)
    begin = time.monotonic()
    kill_rank(jobs, name)
    wait(lambda: restarts(jobs, name) == 1, 90, "it to be recreated")
    wait(lambda: said(jobs, name).resumed is not None, 90, "it to take up again")
    print(f"back after {time.monotonic() - begin:.0f} s")
    jobs.phase(name, "completed", 120)
    after = said(jobs, name)
    assert after.resumed is not None
    assert after.resumed >= max(before)
    assert before.items() | after.losses.items() <= unbroken.items()
    # The same gang: it gave nothing back meanwhile.
    kept = group(jobs, name)
    assert whole
    assert kept
    assert kept["metadata"]["uid"] == whole["metadata"]["uid"]
    cancelled(jobs, name)


def test_a_team_without_borrowing_has_its_share_and_no_more(jobs: Jobs) -> None:
    """A node is free all the time, and nobody else wants it."""
    first, second = unique("share"), unique("beyond")
    with recorded(jobs.cluster, BOUNDED) as pods:
        jobs.launch(first, queue=BOUNDED, nodes=1, command=sleep(20))
        wait(lambda: phase(jobs, first) == "running", 60, "the first to run")
        jobs.launch(second, queue=BOUNDED, nodes=1, command=sleep(1))
        wait(lambda: "Volcano: " in jobs.status(second)["detail"], 30, "its reason")
        detail = jobs.status(second)["detail"]
        print(detail)
        assert f"queue {BOUNDED} has 8 of 8 at most" in detail
        wait(lambda: phase(jobs, second) == "completed", 120, "the second to have run")
        assert all(sum(gangs.values()) <= 1 for _, gangs in pods.placed())
    too_large = jobs.run("launch", jobs.job_file(unique("large"), queue=BOUNDED))
    assert too_large.returncode != 0
    assert f"Queue {BOUNDED} may have at the most" in too_large.stderr
    for name in (first, second):
        cancelled(jobs, name, BOUNDED)


def test_reclaimed_gang_stops_whole_and_resumes_later(
    jobs: Jobs, repo: Path, unbroken: dict[int, str]
) -> None:
    name, owner = train(jobs, repo, "borrows", *OURS), unique("owner")
    before = said(jobs, name).losses
    with recorded(jobs.cluster) as pods:
        begin = time.monotonic()
        jobs.launch(owner, queue=BOUNDED, nodes=1, command=sleep(20))
        wait(lambda: phase(jobs, owner) == "running", 120, "the owner to run")
        print(f"its share is back after {time.monotonic() - begin:.0f} s")
        wait(lambda: jobs.status(name)["phase"] == "queued", 60, "the borrower to wait")
        print(jobs.status(name)["detail"])
        wait(lambda: phase(jobs, owner) == "completed", 120, "the owner to end")
        begin = time.monotonic()
        wait(lambda: said(jobs, name).resumed is not None, 120, "it to take up again")
        print(f"the borrower trains again {time.monotonic() - begin:.0f} s after that")
        jobs.phase(name, "completed", 120)
    print(pods.placed())
    after = said(jobs, name)
    assert after.resumed is not None
    assert after.resumed >= max(before)
    assert before.items() | after.losses.items() <= unbroken.items()
    cancelled(jobs, name)
    cancelled(jobs, owner, BOUNDED)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def pod_group(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "asked", "namespace": "default"},
        "spec": {"minMember": 2} | spec,
    }


TIERS = {"highestTierAllowed": 1, "highestTierName": "rack"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (queue("q", deserved={GPUS: "8"}, capability={GPUS: "4"}), "must be <= capability"),
        (
            queue("q", deserved={GPUS: "4"}, guarantee={"resource": {GPUS: "8"}}),
            "must be >= guarantee",
        ),
        (pod_group(queue="nowhere"), "unable to find queue"),
        (pod_group(networkTopology=TIERS), "must not specify 'highestTierAllowed'"),
    ],
    ids=["beyond its capability", "guarantee", "no queue", "tiers"],
)
def test_volcanos_own_webhooks_refuse(jobs: Jobs, body: dict[str, Any], words: str) -> None:
    done = jobs.kubectl("create", "--dry-run=server", "-f", "-", stdin=body)
    assert done.returncode != 0
    assert "volcano.sh" in done.stderr
    assert words in done.stderr


def test_destroy_removes_every_queue(jobs: Jobs, made: Stack) -> None:
    wait(partial(_no_gang, jobs), 60, "every PodGroup to go")
    made.run("destroy")
    left = jobs.kubectl("get", "queues.scheduling.volcano.sh", "-o", "name").stdout.split()
    # Definitions stay with Helm's charts, and so do the two queues that Volcano makes for itself.
    assert {name.rpartition("/")[2] for name in left} <= {"default", "root"}


def _no_gang(jobs: Jobs) -> bool:
    return all(not jobs.cluster.list(volcano.groups_path(item)) for item in (NAMESPACE, BOUNDED))
