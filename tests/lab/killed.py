"""A framework's example that loses a pod in the middle, beside an unbroken run of it."""

from __future__ import annotations

import time
from pathlib import Path

from railhead.base.names import TRAINER_CONTAINER
from railhead.kube import client as kube
from tests.lab.conftest import PATIENCE
from tests.lab.jobs import NAMESPACE, Jobs, records, unique, wait

KILLED_AFTER = 4
#: Epochs whose checkpoint may be not known yet. Ray Train's controller asks its workers once in two
#: seconds for what they report, and only then writes down which checkpoint is the newest.
LATE = {"ray": 3}


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


def kill_after(jobs: Jobs, name: str, epoch: int) -> dict[int, str]:
    """Kill the second pod as soon as the first has told of an epoch; the losses until then."""

    def started() -> bool:
        nodes = jobs.state(name).nodes
        return len(nodes) == 2 and all(n.started for n in nodes)

    wait(started, 120, f"{name} to start")
    first, second = sorted(pod["metadata"]["name"] for pod in jobs.pods(name))
    seen: dict[int, str] = {}
    with jobs.cluster.log_lines(
        NAMESPACE, first, container=TRAINER_CONTAINER, follow=True, quiet_seconds=300 * PATIENCE
    ) as lines:
        for line in lines:
            reported = records([f"[node-0] {line.partition(' ')[2]}"], "epoch=")
            seen |= {int(r["epoch"]): r["loss"] for r in reported}
            if epoch in seen:
                break
    at_once = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    jobs.cluster.request("DELETE", kube.core(NAMESPACE, "pods", second), body=at_once)
    return seen


def killed_in_the_middle(jobs: Jobs, repo: Path, example: str, epochs: int, *more: str) -> None:
    """Start two runs and kill a pod of one: their losses must be the same."""
    asked = ("--set", f"env.EPOCHS={epochs}", "--set", "gpus_per_node=4", *more)
    whole, name = (start(jobs, repo, example, *asked) for _ in range(2))
    before = kill_after(jobs, name, KILLED_AFTER)
    begin = time.monotonic()
    wait(lambda: resumed(jobs, name) != set(), 240, f"{name} to take up again")
    print(f"{example}: back after {time.monotonic() - begin:.1f} s")
    jobs.phase(whole, "completed", 240)
    unbroken = losses(jobs, whole)
    assert sorted(unbroken) == list(range(1, epochs + 1)), jobs.run("describe", whole).stdout
    assert float(unbroken[epochs]) < float(unbroken[1])
    jobs.phase(name, "completed", 240)
    (epoch,) = resumed(jobs, name)
    after = losses(jobs, name)
    assert epoch >= max(before) - LATE.get(example, 1)
    assert sorted(after) == list(range(epoch + 1, epochs + 1))
    assert before.items() | after.items() <= unbroken.items()
    again = jobs.cluster.get(kube.jobset(NAMESPACE, name))["status"]["restarts"]
    assert again == 1, jobs.attempts(name)
    assert jobs.cluster.get(kube.jobset(NAMESPACE, whole))["status"].get("restarts", 0) == 0
    jobs.clear(whole, name)
