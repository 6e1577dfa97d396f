"""A gang comes back when a node's disk has been full, and when its rail has been unplugged.

The node is one more than the stack's, with a disk of its own, and is gone afterwards. The gang's
other place is on the stack's first node.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.gate.state import FAILED, LABEL
from railhead.kube import client as kube
from railhead.kube.conditions import holds
from railhead.kube.jobs import JOBSET_LABEL
from railhead.kube.nodes import NODES
from railhead.lab.cluster import Lab
from tests.lab.conftest import LAB, Run, succeed
from tests.lab.harming import EVERY, KILLED, STEPS, Waiting, same, training, waiting
from tests.lab.jobs import NAMESPACE, wait
from tests.lab.losing import Ground, one_more_node

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.harms]

DISK_MIB = 128
FILL = "/var/lib/kubelet/a-large-file"
# It trains on while it is harmed, slowly enough to be harmed before its end.
ON = ["--steps", str(STEPS), "--every", str(EVERY), "--pace", "3"]


@pytest.fixture(scope="module")
def ground(
    lab_env: dict[str, str],
    kubeconfig: Path,
    kubectl: Run,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ground]:
    folder = tmp_path_factory.mktemp("harmed")
    with one_more_node(kubeconfig, kubectl, folder, "--disk", str(DISK_MIB)) as result:
        yield result


@pytest.fixture(scope="module")
def curve(ground: Ground) -> dict[int, str]:
    return ground.curve()


@pytest.fixture(autouse=True)
def on_it(ground: Ground) -> Iterator[None]:
    """Gangs have no other places than the two."""
    succeed(ground.kubectl("cordon", ground.spare))
    yield
    ground.kubectl("uncordon", ground.spare)
    plug(ground, "up")


def node(ground: Ground) -> dict[str, Any]:
    """Return the node as the API server has it."""
    return ground.site.cluster.get(f"{NODES}/{ground.lost}")


def number(ground: Ground) -> int:
    """Return the node's own, in the lab."""
    return int(ground.lost.rpartition("-")[2])


def inside(ground: Ground, *words: str) -> str:
    """Run a command on the node."""
    return Lab(LAB).node_init(number(ground)).run(words)


def plug(ground: Ground, state: str) -> None:
    """Plug its rail in or out, ``up`` or ``down``: at the switch's end, as a cable is."""
    Lab(LAB).init.run(["ip", "link", "set", f"n{number(ground)}r0", state])


def carried(ground: Ground) -> int:
    """Bytes that its rail has carried to it."""
    return int(inside(ground, "cat", "/sys/class/net/rail0/statistics/rx_bytes"))


def pods(ground: Ground, job: Waiting) -> list[dict[str, Any]]:
    """Return the job's, on whatever node they are or are to be."""
    selector = f"{JOBSET_LABEL}={job.run.name}"
    return ground.site.cluster.list(kube.core(NAMESPACE, "pods"), selector=selector)


def waits_for_it(ground: Ground, job: Waiting) -> bool:
    """Return whether the gang was recreated, and a pod of it has no node."""
    pending = [pod for pod in pods(ground, job) if not pod["spec"].get("nodeName")]
    return job.restarts() == 1 and bool(pending)


def told(what: str, after: str, lost: int, seconds: float) -> None:
    load = os.getloadavg()[0]
    print(f"| {what} | {after} | {lost} | {seconds:.0f} s, load {load:.0f} | 2 |")


def test_job_resumes_once_the_full_disk_is_emptied(ground: Ground, curve: dict[int, str]) -> None:
    with waiting(ground.site, "full") as job:
        assert ground.lost in {pod["spec"]["nodeName"] for pod in pods(ground, job)}
        inside(ground, "fallocate", "-l", f"{DISK_MIB - 16}M", FILL)
        wait(lambda: holds(node(ground), "DiskPressure"), 60, "the kubelet to see a full disk")
        wait(lambda: waits_for_it(ground, job), 120, "the gang to wait for the node")
        inside(ground, "rm", FILL)
        seconds = job.back(900)
        lost = same(job.ended(), curve)
        told("a node's disk was full", "it was emptied", lost, seconds)


def test_job_resumes_once_its_rail_is_plugged_in(ground: Ground, curve: dict[int, str]) -> None:
    before = carried(ground)
    with training(ground.site, "unplugged", ON, f"step n={KILLED}") as job:
        assert carried(ground) - before > 10_000, "it does not train over the rail"
        plug(ground, "down")
        wait(lambda: node(ground)["metadata"]["labels"].get(LABEL) == FAILED, 60, "the gate")
        wait(lambda: waits_for_it(ground, job), 120, "the gang to wait for the node")
        plug(ground, "up")
        seconds = job.back(300)
        lost = same(job.ended(), curve)
        told("a node's rail was unplugged", "it was plugged in again", lost, seconds)
