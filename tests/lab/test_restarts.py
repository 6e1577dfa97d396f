"""A run that dies comes back by itself, from its last checkpoint; one that cannot does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode
from railhead.kube import client as kube
from tests.lab.jobs import NAMESPACE, Jobs, records, unique, wait

pytestmark = [pytest.mark.lab, pytest.mark.acceptance]

EPOCHS = 12
# The rank is found by what torchrun set for it; a shell in the pod has nothing else to go by.
KILL_RANK_1 = (
    "for p in /proc/[0-9]*; do "
    "tr '\\0' '\\n' < $p/environ 2>/dev/null | grep -qx RANK=1 && kill -9 ${p#/proc/}; done; true"
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """Log of an attempt or a whole run: epoch -> loss, and the epoch that it resumed from."""

    losses: dict[int, str]
    resumed: int | None


def said(jobs: Jobs, name: str) -> Run:
    lines = jobs.run("logs", name, "--tail", "500").stdout.splitlines()
    losses = {int(r["epoch"]): r["loss"] for r in records(lines, "epoch=")}
    epochs = {int(r["epoch"]) for r in records(lines, "resumed ")}
    return Run(losses=losses, resumed=epochs.pop() if epochs else None)


def train(jobs: Jobs, repo: Path, stem: str, *words: str) -> str:
    """Start the example; returns its name once its first checkpoints are written."""
    name = unique(stem)
    jobs.made.append(name)
    path = str(repo / "examples/torch-ddp.yaml")
    done = jobs.run("launch", path, "--name", name, "--set", f"env.EPOCHS={EPOCHS}", *words)
    assert done.returncode == 0, done.stderr
    wait(lambda: max(said(jobs, name).losses, default=0) >= 3, 90, f"{name}'s third epoch")
    return name


def restarts(jobs: Jobs, name: str) -> int:
    return int(jobs.cluster.get(kube.jobset(NAMESPACE, name)).get("status", {}).get("restarts", 0))


def pods(jobs: Jobs, name: str) -> list[dict[str, Any]]:
    return sorted(jobs.pods(name), key=lambda pod: str(pod["metadata"]["name"]))


@pytest.fixture(scope="module")
def unbroken(jobs: Jobs, repo: Path) -> dict[int, str]:
    """The losses of a run that nobody touches."""
    name = train(jobs, repo, "unbroken")
    jobs.phase(name, "completed", 120)
    losses = said(jobs, name).losses
    jobs.clear(name)
    assert sorted(losses) == list(range(1, EPOCHS + 1))
    return losses


def kill_rank(jobs: Jobs, name: str) -> None:
    pod = pods(jobs, name)[0]["metadata"]["name"]
    done = jobs.kubectl("exec", "-n", NAMESPACE, pod, "-c", "node", "--", "sh", "-c", KILL_RANK_1)
    assert done.returncode == 0, done.stderr


def delete_pod(jobs: Jobs, name: str) -> None:
    pod = pods(jobs, name)[1]["metadata"]["name"]
    done = jobs.kubectl("delete", "pod", "-n", NAMESPACE, pod, "--wait=false")
    assert done.returncode == 0, done.stderr


def evict_pod(jobs: Jobs, name: str) -> None:
    pod = pods(jobs, name)[1]["metadata"]["name"]
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    done = jobs.kubectl("create", "--raw", path, "-f", "-", stdin=body)
    assert done.returncode == 0, done.stderr


# The acceptance kills a rank, a launcher and more, and compares every loss (test_promises.py).
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("harm", "counted"),
    [
        pytest.param(kill_rank, 1, id="a rank is killed"),
        pytest.param(delete_pod, 1, id="a pod is deleted"),
        pytest.param(evict_pod, 0, id="a pod is evicted"),
    ],
)
def test_job_resumes_from_its_checkpoint_on_the_same_quota(
    jobs: Jobs,
    repo: Path,
    unbroken: dict[int, str],
    harm: Callable[[Jobs, str], None],
    counted: int,
) -> None:
    name = train(jobs, repo, "harmed")
    before = said(jobs, name).losses
    admitted = jobs.workload(name)["status"]["admission"]
    begin = time.monotonic()
    harm(jobs, name)
    wait(lambda: restarts(jobs, name) == 1, 90, f"{name} to be recreated")
    wait(lambda: said(jobs, name).resumed is not None, 90, f"{name} to take up again")
    seconds = time.monotonic() - begin
    jobs.phase(name, "completed", 120)
    after = said(jobs, name)
    assert after.resumed is not None
    # Nothing that was in a checkpoint is done again, and every loss is the unbroken run's, but for
    # how its last digit is rounded: gradients are added in another order (docs/recovering.md).
    assert after.resumed >= max(before)
    assert sorted(after.losses) == list(range(after.resumed + 1, EPOCHS + 1))
    assert before.items() <= unbroken.items()
    for epoch, loss in after.losses.items():
        assert float(loss) == pytest.approx(float(unbroken[epoch]), abs=1.1e-4, rel=0), epoch
    status = jobs.cluster.get(kube.jobset(NAMESPACE, name))["status"]
    made_anew = status["restarts"], status.get("restartsCountTowardsMax", 0)
    assert made_anew == (1, counted), jobs.attempts(name)
    workload = jobs.workload(name)["status"]
    assert workload["admission"] == admitted
    assert not [c for c in workload["conditions"] if c["type"] == "Evicted"]
    assert jobs.status(name)["restarts"] == 1
    lost = max(before) - after.resumed
    print(f"{harm.__name__}: back after {seconds:.1f} s, {max(lost, 0)} epochs lost")
    jobs.clear(name)


def test_missing_program_is_not_retried(jobs: Jobs) -> None:
    name = unique("hopeless")
    done = jobs.run("launch", jobs.job_file(name, command=["sh", "-c", "exit 64"]), "--wait")
    assert done.returncode == ExitCode.FAILED
    assert "exited 64" in done.stderr
    assert restarts(jobs, name) == 0
    jobs.clear(name)


def test_bad_input_under_torchrun_is_not_retried(jobs: Jobs) -> None:
    name = unique("input")
    # The others die of it, on the other node too, and their pod says nothing of the reason.
    script = "import os, sys, time\nif os.environ['RANK'] == '3':\n    sys.exit(64)\n"
    # On a busy machine one that dies at once takes rank 3 with it before that has begun.
    script += "time.sleep(5)\nsys.exit(1)\n"
    (jobs.directory / "input.py").write_text(script)
    path = jobs.job_file(
        name,
        command=["torchrun", "/workspace/input.py"],
        files=["input.py"],
        processes_per_node=2,
    )
    done = jobs.run("launch", path, "--wait")
    assert done.returncode == ExitCode.FAILED
    assert "exited 64" in done.stderr
    assert restarts(jobs, name) == 0
    jobs.clear(name)


def test_failing_job_ends_after_the_allowed_restarts(jobs: Jobs) -> None:
    name = unique("stubborn")
    path = jobs.job_file(name, nodes=1, command=["sh", "-c", "echo no; exit 1"])
    done = jobs.run("launch", path, "--wait")
    assert done.returncode == ExitCode.FAILED
    assert restarts(jobs, name) == 3
    assert "no" in done.stderr
    jobs.clear(name)
