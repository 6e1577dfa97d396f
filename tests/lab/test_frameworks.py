"""Each framework's example, on two nodes, from its description alone; and killed in the middle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from tests.lab.jobs import NAMESPACE, Jobs, records, unique, wait

pytestmark = pytest.mark.lab

# Enough that each still runs when it is killed after its second.
EPOCHS = {"fsdp": 12, "jax": 60}


@pytest.fixture(scope="module")
def jobs(
    lab_env: dict[str, str], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    made = Jobs(env=lab_env, cluster=cluster, directory=tmp_path_factory.mktemp("jobs"))
    yield made
    made.clear()
    cluster.close()


def start(jobs: Jobs, repo: Path, example: str, *more: str) -> str:
    name = unique(example)
    jobs.made.append(name)
    path = str(repo / f"examples/{example}.yaml")
    done = jobs.run("launch", path, "--name", name, *more)
    assert done.returncode == 0, done.stderr
    return name


def losses(jobs: Jobs, name: str) -> dict[int, str]:
    lines = jobs.run("logs", name, "--tail", "500").stdout.splitlines()
    return {int(r["epoch"]): r["loss"] for r in records(lines, "epoch=")}


def resumed(jobs: Jobs, name: str) -> set[int]:
    lines = jobs.run("logs", name, "--tail", "500").stdout.splitlines()
    return {int(r["epoch"]) for r in records(lines, "resumed ")}


@pytest.mark.parametrize("example", EPOCHS)
def test_killed_in_the_middle_its_losses_are_an_unbroken_runs(
    jobs: Jobs, repo: Path, example: str
) -> None:
    epochs = EPOCHS[example]
    asked = ("--set", f"env.EPOCHS={epochs}")
    whole = start(jobs, repo, example, *asked)
    jobs.phase(whole, "completed", 240)
    unbroken = losses(jobs, whole)
    assert sorted(unbroken) == list(range(1, epochs + 1)), jobs.run("describe", whole).stdout
    assert float(unbroken[epochs]) < float(unbroken[1])
    jobs.clear(whole)

    name = start(jobs, repo, example, *asked)
    wait(lambda: 2 in losses(jobs, name), 180, f"{name}'s second epoch")
    before = losses(jobs, name)
    pods = sorted(pod["metadata"]["name"] for pod in jobs.pods(name))
    begin = time.monotonic()
    done = jobs.kubectl("delete", "pod", "-n", NAMESPACE, pods[1], "--grace-period=0", "--force")
    assert done.returncode == 0, done.stderr
    wait(lambda: resumed(jobs, name) != set(), 180, f"{name} to take up again")
    print(f"{example}: back after {time.monotonic() - begin:.1f} s")
    jobs.phase(name, "completed", 240)
    (epoch,) = resumed(jobs, name)
    after = losses(jobs, name)
    assert epoch >= max(before) - 1
    assert sorted(after) == list(range(epoch + 1, epochs + 1))
    assert before.items() | after.items() <= unbroken.items()
    assert jobs.cluster.get(kube.jobset(NAMESPACE, name))["status"]["restarts"] == 1
    jobs.clear(name)


def test_every_rank_of_mpi_knows_the_sum(jobs: Jobs, repo: Path) -> None:
    name = start(jobs, repo, "mpi")
    jobs.phase(name, "completed", 180)
    said = records(jobs.run("logs", name, "--tail", "500").stdout.splitlines(), "rank=")
    assert sorted(int(r["rank"]) for r in said) == [0, 1, 2, 3]
    assert {(r["world_size"], r["sum"]) for r in said} == {("4", "10")}
    assert len({r["host"] for r in said}) == 2
    jobs.clear(name)
