"""A gang whose place a gang of a higher priority takes comes back, from its last checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from railhead.accept import discover
from railhead.accept.checks.restart import train
from railhead.accept.site import Testbed
from railhead.accept.training import losses, unbroken
from tests.lab.conftest import Run, succeed
from tests.lab.harming import Waiting, same, waiting
from tests.lab.jobs import CLUSTER_QUEUE, Jobs, sleep, unique, wait

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]


@pytest.fixture(scope="module")
def site(jobs: Jobs) -> Testbed:
    facts = discover.facts(jobs.cluster, quick=True)
    folder = jobs.directory
    return Testbed(facts=facts, cluster=jobs.cluster, folder=folder, say=print, timeout=900)


@pytest.fixture(scope="module")
def curve(site: Testbed) -> dict[int, str]:
    """The losses of a run that nobody touches; those of more steps are the same."""
    return losses(unbroken(train(site, ())).attempts)


def _evicted(jobs: Jobs, job: Waiting) -> str:
    conditions = jobs.workload(job.run.name)["status"].get("conditions", [])
    return next(
        (str(condition["reason"]) for condition in conditions if condition["type"] == "Evicted"), ""
    )


@pytest.fixture
def preempting(kubectl: Run) -> Iterator[None]:
    """The queue as a team's is by default; the lab's has no team, and stops nobody."""
    change = '{{"spec": {{"preemption": {{"withinClusterQueue": "{}"}}}}}}'
    words = ("patch", "clusterqueue", CLUSTER_QUEUE, "--type=merge", "-p")
    succeed(kubectl(*words, change.format("LowerPriority")))
    yield
    succeed(kubectl(*words, change.format("Never")))


@pytest.mark.usefixtures("preempting")
def test_job_resumes_once_its_preemptor_ends(
    jobs: Jobs, site: Testbed, curve: dict[int, str]
) -> None:
    with waiting(site, "preempted") as job:
        name = unique("first")
        jobs.launch(name, nodes=2, priority="production", command=sleep(20))
        wait(lambda: _evicted(jobs, job) == "Preempted", 60, "it to be preempted")
        jobs.phase(name, "completed", 120)
        jobs.clear(name)
        seconds = job.back()
        lost = same(job.ended(), curve)
        # What Kueue stops and starts again is no restart of JobSet's.
        assert job.restarts() == 0
    load = os.getloadavg()[0]
    what = "a gang of a higher priority came, for 20 s"
    print(f"| {what} | {lost} | {seconds:.0f} s, load {load:.0f} | 2 |")
