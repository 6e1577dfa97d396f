"""Helpers of the lab's launch tests: the command line as a subprocess, raw jobs, waiting."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.kube.client import Cluster, choose_target
from tests.lab.conftest import PATIENCE

NAMESPACE = "training"
QUEUE = "training"
RUNTIME = "torch"
IMAGE = "railhead.local/torch-cpu:lab"
CLUSTER_QUEUE = "training"
# A process 1 ignores SIGTERM unless it says otherwise, and would take the whole grace period.
SLEEP = [
    "python3",
    "-c",
    "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); time.sleep({})",
]
_numbers = itertools.count(1)
_session = f"{int(time.time()) % 46656:x}"


def unique(stem: str) -> str:
    """Return a name that no job of this or an earlier session has."""
    return f"{stem}-{_session}-{next(_numbers)}"


def sleep(seconds: int) -> list[str]:
    """Return a command that does nothing for a while and ends at once when told to."""
    return [*SLEEP[:2], SLEEP[2].format(seconds)]


#: What `railhead logs`, and then torchrun or Ray, say before a process' own words.
_WHOSE = re.compile(r"^\[node-\d+\] (\[[a-z]+\d+\]:|\(\w+ pid=\d+(, ip=[\d.]+)?\) )?")


def records(lines: list[str], kind: str) -> list[dict[str, str]]:
    """Return the `key=value` records of a log, those that begin with ``kind``."""
    results = []
    for line in lines:
        text = _WHOSE.sub("", line)
        if text.startswith(kind):
            results.append(dict(re.findall(r"(\w+)=(\S+)", text)))
    return results


@dataclass
class Jobs:
    """Runs commands against the lab and takes away what they made."""

    env: dict[str, str]
    cluster: Cluster
    directory: Path
    made: list[str] = field(default_factory=list)

    def run(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Return one `railhead` command line; never a traceback, whatever its exit status."""
        done = subprocess.run(
            [sys.executable, "-m", "railhead", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Return the same in the background."""
        return subprocess.Popen(
            [sys.executable, "-m", "railhead", *arguments],
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def job_file(self, name: str, **fields: Any) -> str:
        """Write a job file of small sleeping nodes; ``fields`` override."""
        job: dict[str, Any] = {
            "name": name,
            "runtime": RUNTIME,
            "nodes": 2,
            "processes_per_node": 1,
            "command": sleep(60),
        }
        job |= fields
        if job["command"][0] != "torchrun":
            # Each node does its small work alone.
            job.setdefault("launcher", "own")
        path = self.directory / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job))
        self.made.append(name)
        return str(path)

    def launch(self, name: str, *arguments: str, **fields: Any) -> None:
        """Launch such a job; fails the test where it is refused."""
        done = self.run("launch", self.job_file(name, **fields), *arguments)
        assert done.returncode == 0, done.stderr

    def raw(self, name: str, **trainer: Any) -> dict[str, Any]:
        """Return a TrainJob as someone without Railhead writes it."""
        self.made.append(name)
        body: dict[str, Any] = {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainJob",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": {
                    "kueue.x-k8s.io/queue-name": QUEUE,
                    "railhead.dev/launcher": "own",
                },
            },
            "spec": {"runtimeRef": {"name": RUNTIME}},
        }
        words = trainer.pop("command", sleep(60))
        if trainer:
            body["spec"]["trainer"] = {"command": words[:1], "args": words[1:], **trainer}
        return body

    def kubectl(self, *arguments: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        """Return one kubectl command line, with an object on its standard input."""
        return subprocess.run(
            ["kubectl", *arguments],
            env=self.env,
            input=None if stdin is None else json.dumps(stdin),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def status(self, name: str) -> dict[str, Any]:
        """`railhead status NAME --json`."""
        done = self.run("status", name, "--json")
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def state(self, name: str) -> jobs.JobState:
        """Return the job's state, read in this process."""
        result = self.cluster.get(kube.trainjobs(NAMESPACE, name))
        return jobs.read_state(self.cluster, result)

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Return the job's pods, as the API server has them."""
        return self.cluster.list(
            kube.core(NAMESPACE, "pods"), selector=f"{jobs.JOBSET_LABEL}={name}"
        )

    def workload(self, name: str) -> dict[str, Any]:
        """Kueue's Workload of a job, once there is one."""
        uid = self.cluster.get(kube.trainjobs(NAMESPACE, name))["metadata"]["uid"]
        selector = f"{jobs.UID_LABEL}={uid}"
        path = kube.kueue(NAMESPACE, "workloads")
        wait(lambda: bool(self.cluster.list(path, selector=selector)), 30, f"{name}'s Workload")
        return self.cluster.list(path, selector=selector)[0]

    def exists(self, name: str) -> bool:
        """Is there such a TrainJob?"""
        return self.cluster.find(kube.trainjobs(NAMESPACE, name)) is not None

    def phase(self, name: str, phase: str, seconds: float = 60) -> None:
        """Wait until the job is there and in a phase."""
        wait(
            lambda: self.exists(name) and self.state(name).phase.value == phase,
            seconds,
            f"{name} {phase}",
        )

    def started(self, name: str) -> None:
        """Wait until one of the job's processes has started, however soon it ends."""
        wait(
            lambda: self.exists(name) and any(n.started for n in self.state(name).nodes),
            60,
            f"{name} to start",
        )

    def attempts(self, name: str) -> str:
        """Return the description of a job, and the logs of its past attempts."""
        return self.run("describe", name).stdout + self.run("logs", name, "--previous").stdout

    def clear(self, *names: str) -> None:
        """Take away the named jobs, or all that were made here."""
        for name in names or tuple(self.made):
            if self.cluster.delete(kube.trainjobs(NAMESPACE, name), propagation="Foreground"):
                wait(partial(self._gone, name), 60, f"{name} and its pods to go")

    def _gone(self, name: str) -> bool:
        job = self.cluster.find(kube.trainjobs(NAMESPACE, name))
        return job is None and not self.pods(name)


def wait(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.3) -> float:
    """Wait for a condition, PATIENCE times ``seconds`` at most; returns how long it took."""
    seconds *= PATIENCE
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(every)
    return time.monotonic() - begin


def researcher(kubeconfig: Path, directory: Path) -> Path:
    """Write the administrator's kubeconfig, impersonating one of the stack's researchers."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] |= {"as": "ada", "as-groups": ["railhead:researchers", "system:authenticated"]}
    path = directory / "researcher"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "w") as file:
        yaml.safe_dump(config, file)
    return path


@contextmanager
def submitting(env: dict[str, str], kubeconfig: Path, folder: Path) -> Iterator[Jobs]:
    """Jobs of a lab, which are taken away at the end."""
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    made = Jobs(env=env, cluster=cluster, directory=folder)
    yield made
    made.clear()
    cluster.close()
