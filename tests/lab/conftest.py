"""A real lab for the tests, named apart from a user's, with the stack `lab` deployed on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from railhead.base import paths
from railhead.kube.client import Cluster, choose_target
from railhead.lab.cli import environment

if TYPE_CHECKING:
    from tests.lab.jobs import Jobs
    from tests.lab.promises import Lab

LAB = os.environ.get("RAILHEAD_TEST_LAB", "test")
STACK = "lab"

Run = Callable[..., subprocess.CompletedProcess[str]]

# A shell starts what runs in its background with interrupts ignored, and so would be what we start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def railhead(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does; what it prints is in the result."""
    return subprocess.run(
        [sys.executable, "-m", "railhead", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def succeed(result: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Return the result, whose exit status must be 0; shows its output where it is not."""
    assert result.returncode == 0, f"{result.args}\n{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="session")
def running_lab() -> Iterator[str]:
    """The name of a running lab of two real nodes; taken down at the end of the session."""
    if os.geteuid() != 0:
        pytest.skip("a lab needs root")
    keep = bool(os.environ.get("RAILHEAD_KEEP_TEST_LAB"))
    if not keep:
        # One that a killed run has left holds that run's jobs.
        succeed(railhead("lab", "down", "--name", LAB))
    # The stack uses one rail; the fabric's tests use both.
    succeed(railhead("lab", "up", "--name", LAB, "--rails", "2"))
    yield LAB
    if not keep:
        succeed(railhead("lab", "down", "--name", LAB))


@pytest.fixture(scope="session")
def kubeconfig(running_lab: str) -> Path:
    """The lab's administrator's kubeconfig."""
    return paths.lab_kubeconfig(running_lab)


@pytest.fixture(scope="session")
def bare_env(running_lab: str) -> dict[str, str]:
    """Environment for subprocesses in which pulumi, kubectl and helm mean the lab."""
    return {**os.environ, **environment(running_lab)}


@pytest.fixture(scope="session")
def pulumi(bare_env: dict[str, str], repo: Path) -> Run:
    """Run pulumi in the checkout; returns its result whatever its exit status."""

    def run(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=repo,
            env=bare_env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def stack(pulumi: Run) -> str:
    """The stack `lab`, deployed."""
    succeed(pulumi("stack", "select", "--create", STACK))
    succeed(pulumi("up", "--stack", STACK, "--yes"))
    return STACK


@pytest.fixture(scope="module")
def jobs(
    lab_env: dict[str, str], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Jobs]:
    """A module's; one that wants none left of the test before has a fixture of its own."""
    from tests.lab.jobs import submitting

    with submitting(lab_env, kubeconfig, tmp_path_factory.mktemp("jobs")) as jobs:
        yield jobs


@pytest.fixture(scope="session")
def lab_env(bare_env: dict[str, str], stack: str) -> dict[str, str]:
    """The environment of a lab whose stack is up."""
    return bare_env


@pytest.fixture(scope="module")
def lab(
    lab_env: dict[str, str], kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """`railhead accept` against the lab."""
    # It takes its patience from here.
    from tests.lab.promises import Lab

    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    yield Lab(env=lab_env, cluster=cluster, folder=tmp_path_factory.mktemp("accept"))
    cluster.close()


@pytest.fixture(scope="session")
def kubectl(bare_env: dict[str, str]) -> Run:
    """Run kubectl; returns its result whatever its exit status."""

    def run(
        *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["kubectl", *arguments],
            env=bare_env,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def apply(kubectl: Run) -> Callable[[Sequence[dict[str, Any]]], None]:
    """Apply objects; fails the test when the API server refuses one."""

    def run(objects: Sequence[dict[str, Any]]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        succeed(kubectl("apply", "--server-side", "-f", "-", stdin=text))

    return run


# Limits are for a machine that does nothing else; what is right but late is no failure of ours.
PATIENCE = 3


def eventually(condition: Callable[[], bool], *, timeout: float, what: str) -> None:
    """Wait for a condition of the cluster, on a busy machine for PATIENCE times ``timeout``."""
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {what}"
        time.sleep(0.3)
