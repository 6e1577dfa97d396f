"""A gang whose place is taken, or whose rail is unplugged, comes back from its last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.accept import discover
from railhead.accept.checks.restart import train
from railhead.accept.site import Site
from railhead.accept.training import losses, unbroken
from railhead.gate.state import LABEL
from railhead.kube.client import Cluster, choose_target
from railhead.kube.nodes import NODES
from railhead.lab.cluster import Lab
from tests.lab.conftest import LAB, Run, succeed
from tests.lab.harming import EVERY, KILLED, Waiting, kill_rank, same, waiting
from tests.lab.jobs import CLUSTER_QUEUE, Jobs, sleep, unique, wait

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]


@pytest.fixture(scope="module")
def jobs(
    lab_env: dict[str, str], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    made = Jobs(env=lab_env, cluster=cluster, directory=tmp_path_factory.mktemp("jobs"))
    yield made
    made.clear()
    cluster.close()


@pytest.fixture(scope="module")
def site(jobs: Jobs) -> Site:
    facts = discover.facts(jobs.cluster, quick=True)
    folder = jobs.directory
    return Site(facts=facts, cluster=jobs.cluster, folder=folder, say=print, timeout=900)


@pytest.fixture(scope="module")
def curve(site: Site) -> dict[int, str]:
    """The losses of a run that nobody touches; those of more steps are the same."""
    return losses(unbroken(train(site, ())).attempts)


def _evicted(jobs: Jobs, job: Waiting) -> str:
    conditions = jobs.workload(job.run.name)["status"].get("conditions", [])
    return next((str(one["reason"]) for one in conditions if one["type"] == "Evicted"), "")


def shown(what: str, seconds: float) -> None:
    """A row of the table in docs/teams.md."""
    print(f"| {what} | {KILLED - EVERY} | {seconds:.0f} s | 2 |")


@pytest.fixture
def preempting(kubectl: Run) -> Iterator[None]:
    """The queue as a team's is by default; the lab's has no team, and stops nobody."""
    change = '{{"spec": {{"preemption": {{"withinClusterQueue": "{}"}}}}}}'
    words = ("patch", "clusterqueue", CLUSTER_QUEUE, "--type=merge", "-p")
    succeed(kubectl(*words, change.format("LowerPriority")))
    yield
    succeed(kubectl(*words, change.format("Never")))


@pytest.mark.usefixtures("preempting")
def test_it_comes_back_once_the_gang_that_took_its_place_has_ended(
    jobs: Jobs, site: Site, curve: dict[int, str]
) -> None:
    with waiting(site, "preempted") as job:
        name = unique("first")
        jobs.launch(name, nodes=2, priority="production", command=sleep(20))
        wait(lambda: _evicted(jobs, job) == "Preempted", 60, "it to be preempted")
        jobs.phase(name, "completed", 120)
        jobs.clear(name)
        seconds = job.back()
        same(job.ended(), curve)
        # What Kueue stops and starts again is no restart of JobSet's.
        assert job.restarts() == 0
    shown("a gang of a higher priority came, for 20 s", seconds)


def test_it_comes_back_once_the_rail_of_its_node_is_plugged_in_again(
    jobs: Jobs, site: Site, curve: dict[int, str]
) -> None:
    """A node whose gate has failed gets no pod of the new gang, and the gang no half of its place.

    Nothing of the lab's training goes over the rail, so a rank is killed, as NCCL would end it.
    """
    node = Lab(LAB).node_init(1)
    path = f"{NODES}/{LAB}-node-1"
    with waiting(site, "unplugged") as job:
        node.run(["ip", "link", "set", "rail0", "down"])
        try:
            wait(lambda: _gate(jobs, path) == "failed", 60, "the gate to see it")
            before = {pod["metadata"]["uid"] for pod in jobs.pods(job.run.name)}
            kill_rank(job.run.name)
            wait(lambda: _made_anew(jobs, job, before), 120, "the gang to be made anew")
            placed = {pod["spec"].get("nodeName", "") for pod in jobs.pods(job.run.name)}
            assert f"{LAB}-node-1" not in placed
        finally:
            node.run(["ip", "link", "set", "rail0", "up"])
        seconds = job.back()
        same(job.ended(), curve)
        assert job.restarts() == 1
    shown("the rail of a node was unplugged, and plugged in again", seconds)


def _gate(jobs: Jobs, path: str) -> str:
    return str(jobs.cluster.get(path)["metadata"]["labels"].get(LABEL, ""))


def _made_anew(jobs: Jobs, job: Waiting, before: set[str]) -> bool:
    now = {pod["metadata"]["uid"] for pod in jobs.pods(job.run.name)}
    return len(now) == 2 and not now & before
