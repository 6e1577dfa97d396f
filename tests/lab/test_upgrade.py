"""From one combination of versions to the next and back, with a job that trains and one that waits.

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

    def hold(self, policy: str | None) -> None:
        """Set the ``stopPolicy`` of the cluster queue."""
        patch = json.dumps({"spec": {"stopPolicy": policy}})
        words = ("clusterqueue", CLUSTER_QUEUE, "--type", "merge", "-p", patch)
        succeed(self.kubectl("patch", *words))

    def images(self) -> set[str]:
        """What the controllers' Deployments run."""
        found = set()
        for row in USUAL.controllers:
            path = f"/apis/apps/v1/namespaces/{row.namespace}/deployments"
            for one in self.jobs.cluster.list(path):
                template = one["spec"]["template"]["spec"]
                found |= {container["image"] for container in template["containers"]}
        return found

    def strategies(self) -> list[str]:
        """How a JobSet may restart, as its definition in the cluster has it; the newer has more."""
        (version,) = self.jobs.cluster.get(JOBSETS)["spec"]["versions"]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        found: list[str] = spec["failurePolicy"]["properties"]["restartStrategy"]["enum"]
        return found

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
    """The last epoch of the attempt that runs; 0 before its first."""
    return max(said(jobs, name).losses, default=0)


def goes_on(jobs: Jobs, name: str, epoch: int) -> bool:
    """Whether it is past an epoch."""
    return newest_epoch(jobs, name) > epoch


def test_jobs_go_on_while_their_controllers_are_upgraded_and_put_back(
    ground: Ground, repo: Path
) -> None:
    jobs = ground.jobs
    fresh: list[str] = []
    with Record(jobs.cluster, NAMESPACE, lambda gang: gang in jobs.made) as record:
        long = train(
            jobs, repo, "upgraded", "--set", "env.EPOCHS=100000", "--set", "gpus_per_node=4"
        )
        waiting = unique("waiting")
        jobs.launch(waiting, gpus_per_node=8, command=["true"])
        jobs.phase(waiting, "queued")
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
                wait(lambda: restarts(jobs, long) == 1, 90, "it to be made anew")
                wait(lambda: said(jobs, long).resumed is not None, 90, "it to take up again")
                assert (said(jobs, long).resumed or 0) >= epoch
                wait(partial(goes_on, jobs, long, 0), 60, "its next epoch")
                pods = uids(jobs, long)

        succeed(jobs.run("cancel", long))
        jobs.phase(waiting, "completed", 120)
        rows, gap = record.rows(), record.gap
    assert gap == ""
    seen: dict[str, set[str]] = {}
    for row in rows:
        if row.kind == "pod":
            seen.setdefault(row.gang, set()).add(row.uid)
    # Two pods an attempt: two attempts of the one that was harmed, one of every other.
    expected = {long: 4, **dict.fromkeys((waiting, *fresh), 2)}
    assert {name: len(found) for name, found in seen.items()} == expected


def test_trainer_is_upgraded_between_jobs_and_put_back(ground: Ground, repo: Path) -> None:
    """Its next version places pods by another field: `up` says that jobs must have ended."""
    jobs = ground.jobs
    cluster = ground.stack["config"]["railhead:cluster"]["name"]
    kept = unique("kept")
    jobs.launch(kept, gpus_per_node=4, command=["true"])
    jobs.phase(kept, "completed", 120)
    jobset, pods = jobset_uid(jobs, kept), uids(jobs, kept)

    there = (LAB_TRAINER, [LAB_TRAINER.jobset, LAB_TRAINER.trainer])
    for combination, definitions in (there, (USUAL, [USUAL.trainer])):
        refused = ground.up(combination)
        assert refused.returncode != 0
        assert f"patches pods by {combination.placement_field} instead of" in refused.stdout
        ground.hold("Hold")
        begin = time.monotonic()
        ground.define(definitions)
        entry = {"kind": "cluster", "name": cluster, "loses": ["jobs"]}
        succeed(ground.up(combination, removals=[entry]))
        print(f"to {combination.name}: {time.monotonic() - begin:.0f} s")
        ground.hold(None)
        assert images(combination) <= ground.images()
        # What has ended stays as it was.
        assert jobs.state(kept).phase.value == "completed"
        assert (jobset_uid(jobs, kept), uids(jobs, kept)) == (jobset, pods)
        is_placed_and_comes_back(jobs, repo, combination.placement_field)


def is_placed_and_comes_back(jobs: Jobs, repo: Path, field: str) -> None:
    """A gang is placed by the field that is there now, and goes on from its checkpoint."""
    gang = train(jobs, repo, "placed", "--set", "env.EPOCHS=100000")
    spec = jobs.cluster.get(kube.trainjobs(NAMESPACE, gang))["spec"]
    assert len(spec[field]) == 2
    placed = [pod["spec"]["nodeSelector"] for pod in jobs.pods(gang)]
    assert len(placed) == 2
    assert all("kubernetes.io/hostname" in selector for selector in placed)
    epoch = newest_epoch(jobs, gang)
    kill_rank(jobs, gang)
    wait(lambda: restarts(jobs, gang) == 1, 90, "it to be made anew")
    wait(lambda: said(jobs, gang).resumed is not None, 90, "it to take up again")
    assert (said(jobs, gang).resumed or 0) >= epoch
    succeed(jobs.run("cancel", gang))
    wait(lambda: not jobs.pods(gang), 60, "its pods to go")


def jobset_uid(jobs: Jobs, name: str) -> str:
    return str(jobs.cluster.get(kube.jobset(NAMESPACE, name))["metadata"]["uid"])
