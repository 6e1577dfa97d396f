"""Upgrade to the next combination of versions and back, with a running and a waiting job.

The path is that of docs/upgrading.md: definitions that Helm leaves, then `pulumi up`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from railhead.accept.record import Record
from railhead.base.errors import RailheadError
from railhead.catalog.versions import LAB as USUAL
from railhead.catalog.versions import LAB_TRAINER, LAB_UPGRADED, Combination, Controller
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from railhead.lab.artifacts.upgraded import UPGRADES
from tests.lab.conftest import Run, succeed
from tests.lab.jobs import CLUSTER_QUEUE, NAMESPACE, Jobs, unique, wait
from tests.lab.test_restarts import kill_rank, restarts, said, train
from tests.lab.versions import Versions, load

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.upgrade]

JOBSETS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"


@dataclass(frozen=True, kw_only=True)
class Ground(Versions):
    """The lab, whose stack goes from some versions to others."""

    jobs: Jobs

    @property
    def entry(self) -> dict[str, Any]:
        """Return the entry of ``removals`` that allows jobs to be lost."""
        name = self.stack["config"]["railhead:cluster"]["name"]
        return {"kind": "cluster", "name": name, "loses": ["jobs"]}

    def hold(self, policy: str | None) -> None:
        """Set the ``stopPolicy`` of the cluster queue."""
        patch = json.dumps({"spec": {"stopPolicy": policy}})
        words = ("clusterqueue", CLUSTER_QUEUE, "--type", "merge", "-p", patch)
        succeed(self.kubectl("patch", *words))

    def images(self) -> set[str]:
        """Return the images of the controllers' Deployments."""
        results = set()
        for row in USUAL.controllers:
            path = f"/apis/apps/v1/namespaces/{row.namespace}/deployments"
            for item in self.jobs.cluster.list(path):
                template = item["spec"]["template"]["spec"]
                results |= {container["image"] for container in template["containers"]}
        return results

    def strategies(self) -> list[str]:
        """Return the restart strategies of the cluster's JobSet CRD; the newer one has more."""
        (version,) = self.jobs.cluster.get(JOBSETS)["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        result: list[str] = spec["failurePolicy"]["properties"]["restartStrategy"]["enum"]
        return result

    def gone_to(self, combination: Combination, definitions: Sequence[Controller]) -> str:
        """Go there, asking all the while whether a job would be taken; what came of it."""
        over = threading.Event()
        refused: list[tuple[float, str]] = []
        body = self.jobs.raw(unique("asked"), numNodes=2)
        begin = time.monotonic()

        def ask() -> None:
            while not over.wait(0.5):
                try:
                    self.jobs.cluster.create(kube.trainjobs(NAMESPACE), body, dry_run=True)
                except RailheadError as error:
                    refused.append((time.monotonic() - begin, str(error)))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            self.define(definitions)
            succeed(self.up(combination))
        finally:
            over.set()
            asking.join()
        seconds = time.monotonic() - begin
        first, last = (refused[0][0], refused[-1][0]) if refused else (0.0, 0.0)
        why = sorted({text[:120] for _, text in refused})
        return (
            f"{seconds:.0f} s; submissions refused {len(refused)} times, for {last - first:.1f} s "
            f"{why}"
        )


@pytest.fixture
def ground(
    lab_env: dict[str, str],
    kubeconfig: Path,
    pulumi: Run,
    kubectl: Run,
    repo: Path,
    tmp_path: Path,
) -> Iterator[Ground]:
    load(*UPGRADES.values())
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    jobs = Jobs(env=lab_env, cluster=cluster, directory=tmp_path)
    yield Ground(jobs=jobs, pulumi=pulumi, kubectl=kubectl, repo=repo, folder=tmp_path)
    jobs.clear()
    cluster.close()


def images(combination: Combination) -> set[str]:
    return {f"{row.image}:{row.tag}" for row in combination.controllers}


def uids(jobs: Jobs, name: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in jobs.pods(name)}


def newest_epoch(jobs: Jobs, name: str) -> int:
    """Return the last epoch of the attempt that runs; 0 before its first."""
    return max(said(jobs, name).losses, default=0)


def goes_on(jobs: Jobs, name: str, epoch: int) -> bool:
    """Return whether it is past an epoch."""
    return newest_epoch(jobs, name) > epoch


def one_that_runs_and_one_that_waits(jobs: Jobs, repo: Path) -> tuple[str, str]:
    """Names of a gang that trains, on half of the quota, and of one that needs all of it."""
    long = train(jobs, repo, "long", "--set", "env.EPOCHS=100000", "--set", "gpus_per_node=4")
    waiting = unique("waiting")
    jobs.launch(waiting, gpus_per_node=8, command=["true"])
    jobs.phase(waiting, "queued")
    return long, waiting


def has_no_pods(jobs: Jobs, name: str) -> bool:
    return not jobs.pods(name)


def took_up(jobs: Jobs, name: str, epoch: int) -> None:
    """Wait until a gang goes on from a checkpoint that is not older than an epoch."""
    wait(lambda: (said(jobs, name).resumed or 0) >= epoch, 90, f"{name} to take up epoch {epoch}")


def test_jobs_survive_an_upgrade_and_its_rollback(ground: Ground, repo: Path) -> None:
    jobs = ground.jobs
    fresh: list[str] = []
    with Record(jobs.cluster, NAMESPACE, lambda gang: gang in jobs.made) as record:
        long, waiting = one_that_runs_and_one_that_waits(jobs, repo)
        pods, quota = uids(jobs, long), jobs.workload(long)["metadata"]["uid"]
        place = jobs.workload(waiting)["metadata"]["uid"]

        for combination, definitions in ((LAB_UPGRADED, [LAB_UPGRADED.jobset]), (USUAL, [])):
            epoch, was = newest_epoch(jobs, long), restarts(jobs, long)
            print(f"to {combination.name}: {ground.gone_to(combination, definitions)}")
            assert images(combination) <= ground.images()
            # The newer definitions stay when the controllers are put back.
            assert "InPlaceRestart" in ground.strategies()
            wait(partial(goes_on, jobs, long, epoch), 60, "the next epoch")
            # Neither was lost, stopped or made a second time.
            assert (uids(jobs, long), restarts(jobs, long)) == (pods, was)
            assert jobs.workload(long)["metadata"]["uid"] == quota
            assert jobs.state(waiting).phase.value == "queued"
            assert jobs.workload(waiting)["metadata"]["uid"] == place
            # The controllers that run now take a job.
            fresh.append(unique("fresh"))
            jobs.launch(fresh[-1], gpus_per_node=4, command=["true"])
            jobs.phase(fresh[-1], "completed", 120)
            if combination is LAB_UPGRADED:
                # They bring back one that began under the others, too.
                kill_rank(jobs, long)
                wait(lambda: restarts(jobs, long) == 1, 90, "it to be recreated")
                took_up(jobs, long, epoch)
                wait(partial(goes_on, jobs, long, 0), 60, "its next epoch")
                pods = uids(jobs, long)

        succeed(jobs.run("cancel", long))
        jobs.phase(waiting, "completed", 120)
        rows, gap = record.rows(), record.gap
    assert gap == ""
    seen: dict[str, set[str]] = {}
    for row in rows:
        # Some pods of a recreated gang may be deleted before they start.
        if row.kind == "pod" and row.phase not in ("", "Pending"):
            seen.setdefault(row.gang, set()).add(row.uid)
    # Two pods an attempt: two attempts of the one that was harmed, one of every other.
    expected = {long: 4, **dict.fromkeys((waiting, *fresh), 2)}
    assert {name: len(item) for name, item in seen.items()} == expected


def test_broken_upgrade_fails_early_and_is_rolled_back(ground: Ground, repo: Path) -> None:
    """Trainer's image cannot be pulled, after Kueue and JobSet were upgraded."""
    jobs = ground.jobs
    long, waiting = one_that_runs_and_one_that_waits(jobs, repo)
    pods, epoch = uids(jobs, long), newest_epoch(jobs, long)

    ground.define([LAB_UPGRADED.jobset])
    begin = time.monotonic()
    broken = ground.up(LAB_UPGRADED, registry_mirrors={"ghcr.io": "registry.invalid"})
    seconds = time.monotonic() - begin
    print(f"given up after {seconds:.0f} s")
    reported = broken.stdout + broken.stderr
    assert broken.returncode != 0
    # Helm alone would have waited for ten minutes.
    assert "given up after" in reported, reported
    assert "registry.invalid/kubeflow/trainer" in reported, reported
    assert "put the stack's file back as it was" in reported, reported
    assert {f"{row.image}:{row.tag}" for row in LAB_UPGRADED.controllers[:2]} <= ground.images()
    goes_on_as_it_was(ground, long, pods, epoch)
    assert jobs.state(waiting).phase.value == "queued"

    begin = time.monotonic()
    succeed(ground.up(USUAL))
    print(f"put back after {time.monotonic() - begin:.0f} s")
    assert ground.images() == images(USUAL)
    goes_on_as_it_was(ground, long, pods, newest_epoch(jobs, long))
    succeed(jobs.run("cancel", long))
    jobs.phase(waiting, "completed", 120)


def goes_on_as_it_was(ground: Ground, long: str, pods: set[str], epoch: int) -> None:
    """Assert that a gang trains on in the same pods, and that controllers accept another."""
    jobs = ground.jobs
    wait(partial(goes_on, jobs, long, epoch), 60, "the next epoch")
    assert (uids(jobs, long), restarts(jobs, long)) == (pods, 0)
    fresh = unique("fresh")
    jobs.launch(fresh, gpus_per_node=4, command=["true"])
    jobs.phase(fresh, "completed", 120)


def test_trainer_upgrade_with_jobs_is_rolled_back(ground: Ground, repo: Path) -> None:
    """Trainer's next version patches pods by another field: jobs are submitted again with it.

    They are left in on the way there, which no page advises, and drained on the way back.
    """
    jobs = ground.jobs
    kept = unique("kept")
    jobs.launch(kept, gpus_per_node=4, command=["true"])
    jobs.phase(kept, "completed", 120)
    jobset, pods = jobset_uid(jobs, kept), uids(jobs, kept)

    there = (LAB_TRAINER, [LAB_TRAINER.jobset, LAB_TRAINER.trainer], False)
    for combination, definitions, drained in (there, (USUAL, [USUAL.trainer], True)):
        long, waiting = one_that_runs_and_one_that_waits(jobs, repo)
        epoch = newest_epoch(jobs, long)
        refused = ground.up(combination)
        assert refused.returncode != 0
        assert f"patches pods by {combination.placement_field} instead of" in refused.stdout
        # What is refused changed nothing.
        wait(partial(goes_on, jobs, long, epoch), 60, "the next epoch")

        begin = time.monotonic()
        if drained:
            ground.hold("HoldAndDrain")
            wait(partial(has_no_pods, jobs, long), 60, "the gang to be stopped")
        ground.define(definitions)
        succeed(ground.up(combination, removals=[ground.entry]))
        if not drained:
            wait(partial(has_no_pods, jobs, long), 60, "the gang to be stopped")
            # This one holds the quota of all nodes and never starts.
            assert jobs.state(waiting).phase.value == "admitted"
            assert not jobs.pods(waiting)
        for name in (long, waiting):
            succeed(jobs.run("restart", name))
        ground.hold(None)
        took_up(jobs, long, epoch)
        print(f"to {combination.name}: {time.monotonic() - begin:.0f} s until it trains again")

        assert images(combination) <= ground.images()
        is_placed_and_comes_back(jobs, long, combination.placement_field)
        jobs.phase(waiting, "completed", 120)
        # What has ended stays as it was.
        assert jobs.state(kept).phase.value == "completed"
        assert (jobset_uid(jobs, kept), uids(jobs, kept)) == (jobset, pods)


def is_placed_and_comes_back(jobs: Jobs, gang: str, field: str) -> None:
    """Assert that a gang is placed by today's field, and resumes from its checkpoint."""
    assert len(trainjob(jobs, gang)[field]) == 2
    selectors = [pod["spec"]["nodeSelector"] for pod in jobs.pods(gang)]
    assert len(selectors) == 2
    assert all("kubernetes.io/hostname" in selector for selector in selectors)
    epoch = newest_epoch(jobs, gang)
    kill_rank(jobs, gang)
    wait(lambda: restarts(jobs, gang) == 1, 90, "it to be recreated")
    took_up(jobs, gang, epoch)
    succeed(jobs.run("cancel", gang))


def trainjob(jobs: Jobs, name: str) -> dict[str, Any]:
    """Return the spec of a TrainJob."""
    result: dict[str, Any] = jobs.cluster.get(kube.trainjobs(NAMESPACE, name))["spec"]
    return result


def jobset_uid(jobs: Jobs, name: str) -> str:
    return str(jobs.cluster.get(kube.jobset(NAMESPACE, name))["metadata"]["uid"])
