"""Jobs of `launch --api`, run by the training operator and the MPI operator.

No stack installs the operators: the tests apply the manifests of their releases to a lab whose
Kueue, guards, queues and runtimes are the stack's.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.kube import client as kube
from railhead.lab.artifacts.images import BUSYBOX_IMAGE
from railhead.lab.artifacts.operators import OPERATORS
from tests.lab.conftest import Run, railhead, succeed
from tests.lab.jobs import NAMESPACE, QUEUE, Jobs, records, unique, wait

pytestmark = [pytest.mark.lab, pytest.mark.operators]

Object = dict[str, Any]
#: Without MPIJob, whose definition is the MPI operator's.
SCHEMES = ("pytorchjob", "tfjob", "paddlejob", "jaxjob", "xgboostjob")
INIT = "/etc/railhead"
#: A worker's pod begins when it finds the master's name: by a program that the lab's images have.
#: Debian's busybox asks for the name below every search domain, and all must be there.
WAITING = {
    "name": "init-pytorch",
    "image": BUSYBOX_IMAGE,
    "command": [
        "sh",
        "-c",
        f"until nslookup {{{{.MasterAddr}}}}.{NAMESPACE}.svc.cluster.local.; do sleep 1; done",
    ],
    "resources": {"limits": {"cpu": "100m", "memory": "20Mi"}},
}
CLASH = {
    "$patch": "delete",
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "mpijobs.kubeflow.org"},
}


def overlay(folder: Path) -> Path:
    """Write the training operator's overlay, without the clashing kind, with the lab's image."""
    operator = OPERATORS["training-operator"]
    shutil.copytree(operator.sources(), folder / "manifests")
    subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True)
    words = [f"--enable-scheme={scheme}" for scheme in SCHEMES]
    words.append(f"--pytorch-init-container-template-file={INIT}/pod.yaml")
    (folder / "pod.yaml").write_text(yaml.safe_dump([WAITING]))
    pod = "/spec/template/spec"
    mount = {"name": "init", "mountPath": INIT}
    changes = [
        {"op": "add", "path": f"{pod}/containers/0/args", "value": words},
        {"op": "add", "path": f"{pod}/containers/0/volumeMounts/-", "value": mount},
        {
            "op": "add",
            "path": f"{pod}/volumes/-",
            "value": {"name": "init", "configMap": {"name": "init"}},
        },
    ]
    repository, _, tag = operator.image.rpartition(":")
    reported = {
        "resources": ["manifests/overlays/standalone"],
        "images": [{"name": repository, "newTag": tag}],
        "patches": [
            {"patch": yaml.safe_dump(CLASH)},
            {"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(changes)},
        ],
        "configMapGenerator": [{"name": "init", "namespace": "kubeflow", "files": ["pod.yaml"]}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(reported))
    return folder


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Jobs of other kinds, sent as a researcher would and read with kubectl."""

    jobs: Jobs
    kubectl: Run
    repo: Path

    def send(self, api: str, example: str, *more: str) -> str:
        name = unique(api)
        path = str(self.repo / f"examples/{example}.yaml")
        done = self.jobs.run("launch", path, "--name", name, "--api", api, *more)
        assert done.returncode == 0, done.stderr
        succeed(self.kubectl("create", "-f", "-", stdin=done.stdout))
        return name

    def get(self, api: str, name: str) -> Object:
        result: Object = yaml.safe_load(
            succeed(self.kubectl("get", api, name, "-n", NAMESPACE, "-o", "yaml")).stdout
        )
        return result

    def condition(self, api: str, name: str) -> str:
        """Return the last of its conditions that holds."""
        rows = self.get(api, name).get("status", {}).get("conditions") or []
        return next((row["type"] for row in reversed(rows) if row["status"] == "True"), "")

    def ends(self, api: str, name: str, seconds: float = 180) -> None:
        wait(
            lambda: self.condition(api, name) in ("Succeeded", "Failed"), seconds, f"{name} to end"
        )
        assert self.condition(api, name) == "Succeeded", self.told(name)

    def pods(self, name: str) -> list[Object]:
        """Return the pods of the job, sorted by name."""
        selector = f"training.kubeflow.org/job-name={name}"
        result = self.jobs.cluster.list(kube.core(NAMESPACE, "pods"), selector=selector)
        return sorted(result, key=lambda pod: str(pod["metadata"]["name"]))

    def lines(self, pod: str) -> list[str]:
        """Return what a pod printed, including its previous container."""
        words = ("logs", pod, "-n", NAMESPACE)
        text = self.kubectl(*words, "--previous").stdout + self.kubectl(*words).stdout
        return [f"[node-0] {line}" for line in text.splitlines()]

    def told(self, name: str) -> str:
        shown = self.kubectl("get", "pods", "-n", NAMESPACE, "-o", "wide").stdout
        logs = ["\n".join(self.lines(pod["metadata"]["name"])[-20:]) for pod in self.pods(name)]
        return "\n".join([shown, *logs])

    def charged(self, api: str, name: str) -> Object:
        """Kueue's Workload of it."""
        uid = self.get(api, name)["metadata"]["uid"]
        (workload,) = self.jobs.cluster.list(
            kube.kueue(NAMESPACE, "workloads"), selector=f"kueue.x-k8s.io/job-uid={uid}"
        )
        return workload


@pytest.fixture(scope="module")
def kinds(
    jobs: Jobs, kubectl: Run, repo: Path, running_lab: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kinds]:
    for name in ("training-operator", "mpi-operator"):
        archive = str(OPERATORS[name].archive())
        succeed(railhead("lab", "load-image", archive, "--name", running_lab))
    manifests = OPERATORS["mpi-operator"].sources() / "mpi-operator.yaml"
    folder = overlay(tmp_path_factory.mktemp("operator"))
    for where in (("-k", str(folder)), ("-f", str(manifests))):
        succeed(kubectl("apply", "--server-side", *where))
    for namespace, name in (("kubeflow", "training-operator"), ("mpi-operator", "mpi-operator")):
        words = ("-n", namespace, f"deployment/{name}", "--timeout=300s")
        succeed(kubectl("rollout", "status", *words, timeout=320))
    result = Kinds(jobs=jobs, kubectl=kubectl, repo=repo)
    yield result
    every = ",".join(("mpijobs", *(f"{scheme}s" for scheme in SCHEMES)))
    succeed(kubectl("delete", every, "--all", "-n", NAMESPACE, "--wait=true"))


@pytest.mark.parametrize(
    ("api", "example"), [("pytorchjob", "torch-ddp"), ("jaxjob", "jax"), ("mpijob", "mpi")]
)
def test_an_example_runs_to_its_end_and_is_charged_whole(
    kinds: Kinds, api: str, example: str
) -> None:
    name = kinds.send(api, example)
    kinds.ends(api, name)
    workload = kinds.charged(api, name)
    assert workload["spec"]["queueName"] == QUEUE
    usage = workload["status"]["admission"]["podSetAssignments"]
    assert sum(int(row["resourceUsage"]["nvidia.com/gpu"]) for row in usage) == 16


def test_elastic_run_loses_and_regains_a_node(kinds: Kinds) -> None:
    more = ("--set", "min_nodes=1", "--set", "env.EPOCHS=400", "--set", "gpus_per_node=4")
    name = kinds.send("pytorchjob", "fsdp", *more)
    first = f"{name}-worker-0"

    def worlds() -> list[str]:
        """World sizes, in the order in which the first process built them."""
        result = records(kinds.lines(first), "rank=")
        return [row["world_size"] for row in result if row["rank"] == "0"]

    def epochs() -> list[int]:
        return [int(row["epoch"]) for row in records(kinds.lines(first), "epoch=")]

    wait(lambda: epochs() != [], 180, f"{name} to train")
    assert worlds() == ["4"], kinds.told(name)
    _, second = kinds.pods(name)
    node = second["spec"]["nodeName"]
    succeed(kinds.kubectl("cordon", node))
    try:
        begin, before = time.monotonic(), max(epochs())
        path = kube.core(NAMESPACE, "pods", second["metadata"]["name"])
        kinds.jobs.cluster.request("DELETE", path, body={"gracePeriodSeconds": 0})
        wait(lambda: worlds()[-1:] == ["2"], 180, f"{name} to go on with one node")
        print(f"elastic: one node of two went on after {time.monotonic() - begin:.1f} s")
        alone = len(epochs())
        wait(lambda: len(epochs()) > alone + 2, 60, f"{name} to train alone")
    finally:
        succeed(kinds.kubectl("uncordon", node))
    begin = time.monotonic()
    wait(lambda: worlds()[-1] == "4", 180, f"{name} to take the other in")
    print(f"elastic: two nodes again after {time.monotonic() - begin:.1f} s")
    kinds.ends("pytorchjob", name, 300)
    done = epochs()
    resumed = {int(row["epoch"]) for row in records(kinds.lines(first), "resumed ")}
    assert len(resumed) == 2, kinds.told(name)
    assert min(resumed) >= before - 1
    # Every epoch was made, and none but the one that was broken off twice.
    assert sorted(set(done)) == list(range(1, 401))
    assert len(done) <= 402
