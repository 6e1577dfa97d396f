"""Controllers stop while jobs run, one after another: nothing is lost, nothing is done twice.

While each is away a rank is killed, and a user submits another job.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from railhead.accept import discover
from railhead.accept.checks.restart import train
from railhead.accept.site import Testbed
from railhead.accept.training import losses, unbroken
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from railhead.kube.jobs import UID_LABEL
from tests.lab.conftest import LAB, Run, railhead, succeed
from tests.lab.contests import lab_status
from tests.lab.harming import kill_rank, same, waiting
from tests.lab.jobs import NAMESPACE, Jobs, unique, wait

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]

DEPLOYMENTS = {
    "kueue": ("kueue-system", "kueue-controller-manager"),
    "jobset": ("jobset-system", "jobset-controller"),
    "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager"),
}


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The lab, as a check of acceptance has it and as a user's command line does."""

    site: Testbed
    jobs: Jobs
    kubectl: Run

    def scaled(self, name: str, replicas: int) -> None:
        """Scale a controller and wait until that many of its pods answer, or none is left."""
        namespace, deployment = DEPLOYMENTS[name]
        words_ = ("-n", namespace, f"deployment/{deployment}")
        succeed(self.kubectl("scale", *words_, f"--replicas={replicas}"))
        if replicas:
            succeed(self.kubectl("rollout", "status", *words_, "--timeout=300s", timeout=320))
        else:
            wait(partial(self._away, namespace), 120, f"{name} to be away")

    def _away(self, namespace: str) -> bool:
        return not self.site.cluster.list(kube.core(namespace, "pods"))


def stop_api_server() -> None:
    """Kill it as a machine that runs out of memory does."""
    (pid,) = (c["pid"] for c in lab_status(LAB)["components"] if c["role"] == "kube-apiserver")
    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def ground(
    lab_env: dict[str, str],
    kubeconfig: Path,
    kubectl: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ground]:
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    folder = tmp_path_factory.mktemp("stopped")
    facts = discover.facts(cluster, quick=True)
    site = Testbed(facts=facts, cluster=cluster, folder=folder, say=print, timeout=900)
    jobs = Jobs(env=lab_env, cluster=cluster, directory=folder)
    yield Ground(site=site, jobs=jobs, kubectl=kubectl)
    jobs.clear()
    cluster.close()


@pytest.fixture(scope="module")
def curve(ground: Ground) -> dict[int, str]:
    """The losses of a run that nobody touches; those of more steps are the same."""
    return losses(unbroken(train(ground.site, ())).attempts)


def has_failed(jobs: Jobs, name: str) -> bool:
    return any(pod["status"].get("phase") == "Failed" for pod in jobs.pods(name))


@pytest.mark.parametrize("name", [*DEPLOYMENTS, "kube-apiserver"])
def test_rank_dies_and_job_arrives_without_the_controller(
    ground: Ground, curve: dict[int, str], name: str
) -> None:
    site, jobs = ground.site, ground.jobs
    with waiting(site, "stopped") as job:
        run, begin = job.run, job.begin
        if name in DEPLOYMENTS:
            ground.scaled(name, 0)
            kill_rank(run.name)
            wait(lambda: has_failed(jobs, run.name), 60, "its pod to end")
        else:
            stop_api_server()
            kill_rank(run.name)
        late = unique("late")
        submitted = jobs.run(
            "launch", jobs.job_file(late, command=["true"], priority=site.facts.priority)
        )
        if name in DEPLOYMENTS:
            ground.scaled(name, 1)
        else:
            succeed(railhead("lab", "up", "--name", LAB))
        away = time.monotonic() - begin
        back = job.back()
        result, restarts = job.ended(), job.restarts()
        uid = site.cluster.get(kube.trainjobs(NAMESPACE, run.name))["metadata"]["uid"]
        path = kube.kueue(NAMESPACE, "workloads")
        workloads = site.cluster.list(path, selector=f"{UID_LABEL}={uid}")
        last = {pod["metadata"]["uid"] for pod in jobs.pods(run.name)}
        rows, gap = job.record.rows(), job.record.gap
    assert (restarts, len(workloads)) == (1, 1)
    # Each attempt has one pod on each node, and no other. A watch does not outlive an API server,
    # so no one gets the changes from just before its end.
    assert gap == "" or name not in DEPLOYMENTS
    seen = {row.uid for row in rows if row.kind == "pod"}
    assert (len(last), len(seen | last)) == (2, 4)
    lost = same(result, curve)
    # The submission was refused and left nothing; or the job runs, once.
    if submitted.returncode:
        assert not jobs.exists(late)
    else:
        jobs.phase(late, "completed", 120)
        assert len(jobs.pods(late)) == 2
    jobs.clear(late)
    reported = "refused" if submitted.returncode else "taken"
    print(
        f"{name} away for {away:.0f} s: {lost} steps lost, back {back:.0f} s after the "
        f"kill, 2 attempts; a job that came meanwhile was {reported}; load {os.getloadavg()[0]:.0f}"
    )
