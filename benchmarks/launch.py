"""Time from a command to its job: `railhead launch`, `kubectl apply`, the Kubeflow SDK.

    .venv/bin/python benchmarks/launch.py --runs 10 --sdk PYTHON

One API server of its own (etcd, API server and the pinned definitions; no webhook, no controller),
asked by each in turn, so that a busy moment of the machine meets them all. Wall-clock and processor
seconds of whole processes, interpreter included; the latter say more where others use the machine.
`kubectl apply` gets the very objects that `railhead launch --dry-run` prints; the SDK creates a
TrainJob of the same runtime, image, nodes and environment. PYTHON is an interpreter in whose
environment `kubeflow` is installed; without it, it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from railhead import contract as contracts
from railhead.catalog.versions import COMBINATIONS
from railhead.contract import ClusterContract
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from tests import crds
from tests.engine.controlplane import PROGRAMS, ControlPlane, locate

REPO = Path(__file__).resolve().parents[1]
NAMESPACE = "training"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CLIENT = """
import sys
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from kubeflow.trainer.options import Labels, Name
client = TrainerClient(KubernetesBackendConfig(namespace=sys.argv[2], config_file=sys.argv[1]))
client.train(
    runtime="torch",
    trainer=CustomTrainerContainer(image=sys.argv[4], num_nodes=2, env={"EPOCHS": "10"}),
    options=[Name(sys.argv[3]), Labels({"kueue.x-k8s.io/queue-name": "training"})],
)
"""


def _contract() -> ClusterContract:
    from tests.unit.launch.conftest import CONTRACT

    return CONTRACT


def publish(cluster: Cluster, contract: ClusterContract) -> None:
    """Create the objects of a deployed stack that launch and the SDK read."""
    for name in (NAMESPACE, contracts.NAMESPACE):
        cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    cluster.create(
        kube.core(contracts.NAMESPACE, "configmaps"),
        {
            "metadata": {"name": contracts.CONFIG_MAP},
            "data": {contracts.KEY: contract.to_json()},
        },
    )
    for pool in contract.node_pools:
        for index in range(pool.nodes):
            _node(cluster, contract, pool.name, f"{pool.name}-{index}")
    _queue(cluster)
    for runtime in contract.runtimes:
        container = {"name": runtime.container, "image": runtime.image}
        template: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [container]}}}}
        labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
        template["metadata"] = {"labels": labels}
        job = {"name": runtime.replicated_job, "template": template}
        cluster.create(
            kube.training_runtime(""),
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "ClusterTrainingRuntime",
                "metadata": {
                    "name": runtime.name,
                    "labels": {"trainer.kubeflow.org/framework": runtime.framework},
                },
                "spec": {
                    "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
                    "template": {"spec": {"replicatedJobs": [job]}},
                },
            },
        )
    claim = contract.checkpoints[0].claim
    cluster.create(
        kube.core(NAMESPACE, "persistentvolumeclaims"),
        {
            "metadata": {"name": claim},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )


def _node(cluster: Cluster, contract: ClusterContract, pool: str, name: str) -> None:
    from tests.unit.launch.conftest import node

    result = next(item for item in contract.node_pools if item.name == pool)
    body = node(contract, result, name) | {"apiVersion": "v1", "kind": "Node"}
    cluster.create("/api/v1/nodes", body)
    status = body["status"] | {"capacity": body["status"]["allocatable"]}
    cluster.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    # What the API server's admission puts on every new node; its controller is not here.
    cluster.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})


def _queue(cluster: Cluster) -> None:
    def made(kind: str, **fields: Any) -> dict[str, Any]:
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind} | fields

    flavor = {
        "name": "gpu",
        "resources": [
            {"name": name, "nominalQuota": amount}
            for name, amount in (("nvidia.com/gpu", "16"), ("rdma/rdma_shared_device_a", "126"))
        ],
    }
    covered = [resource["name"] for resource in flavor["resources"]]  # type: ignore[index]
    group = {"coveredResources": covered, "flavors": [flavor]}
    cluster.create(f"{KUEUE}/resourceflavors", made("ResourceFlavor", metadata={"name": "gpu"}))
    queue = {"namespaceSelector": {}, "resourceGroups": [group]}
    cluster.create(
        f"{KUEUE}/clusterqueues", made("ClusterQueue", metadata={"name": NAMESPACE}, spec=queue)
    )
    cluster.create(
        kube.kueue(NAMESPACE, "localqueues"),
        made("LocalQueue", metadata={"name": NAMESPACE}, spec={"clusterQueue": NAMESPACE}),
    )


def definitions() -> list[dict[str, Any]]:
    """Return the pinned definitions of the kinds that a launch meets."""
    proven = COMBINATIONS["proven"]
    results = [body for row in (proven.kueue, proven.trainer) for body in crds.of(row)]
    for body in results:
        # No webhook is here that would convert.
        body["spec"].pop("conversion", None)
    return results


Taken = tuple[float, float]


def seconds(arguments: list[str], env: dict[str, str]) -> Taken:
    """Wall-clock and processor seconds of one process; what it said is shown if it fails."""
    with tempfile.TemporaryFile() as text:
        begin = time.perf_counter()
        process = subprocess.Popen(arguments, env=env, cwd=REPO, stdout=text, stderr=text)
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            text.seek(0)
            raise SystemExit(f"{arguments[:4]} ended with {status}: {text.read().decode()}")
    return taken, usage.ru_utime + usage.ru_stime


class Contest:
    """The three, each able to create one job of a given name."""

    def __init__(self, folder: Path, kubeconfig: Path, sdk: str | None) -> None:
        self.folder = folder
        self.kubeconfig = str(kubeconfig)
        self.sdk = sdk
        self.kubectl = str(locate("kubectl"))
        # What pip installs is compiled, once; a checkout's own .venv is made without.
        self.env = os.environ | {
            "PYTHONPATH": str(REPO),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.job = folder / "job.yaml"
        self.job.write_text(
            "name: x\nruntime: torch\nnodes: 2\ngpus_per_node: 8\nprocesses_per_node: 2\n"
            "command: [torchrun, /workspace/train.py]\nfiles: [train.py]\nenv:\n  EPOCHS: 10\n"
        )
        (folder / "train.py").write_text("print('hello')\n" * 100)

    def _launch(self, name: str, *more: str) -> list[str]:
        where = ["--kubeconfig", self.kubeconfig]
        command = [sys.executable, "-m", "railhead", "launch", str(self.job), "--name", name]
        return [*command, *where, *more]

    def names(self) -> list[str]:
        """Names of the commands that take turns."""
        return ["nothing", "kubectl apply", "railhead launch", *(["kubeflow SDK"] * bool(self.sdk))]

    def turn(self, who: str, name: str) -> Taken:
        """Seconds that one takes to create a job called ``name``."""
        if who == "nothing":
            return seconds([sys.executable, "-c", "pass"], self.env)
        if who == "railhead launch":
            return seconds(self._launch(name), self.env)
        if who == "kubeflow SDK":
            image = "railhead.local/torch-cpu:lab"
            script = self.folder / "client.py"
            script.write_text(CLIENT)
            words = [str(self.sdk), str(script), self.kubeconfig, NAMESPACE, name, image]
            return seconds(words, self.env | {"PYTHONPATH": ""})
        printed = subprocess.run(
            self._launch(name, "--dry-run"),
            env=self.env,
            cwd=REPO,
            capture_output=True,
            text=True,
            check=True,
        )
        objects = self.folder / "objects.yaml"
        objects.write_text(printed.stdout)
        where = ["--kubeconfig", self.kubeconfig]
        return seconds([self.kubectl, *where, "apply", "-f", str(objects)], self.env)


def contest(cluster: Cluster, rivals: Contest, runs: int) -> dict[str, list[Taken]]:
    """Return every one in turn, ``runs`` times; what was made is removed at once."""
    taken: dict[str, list[Taken]] = {who: [] for who in rivals.names()}
    for number in range(-1, runs):
        for who, values in taken.items():
            name = f"job-{number + 1}-{who.split()[0]}"
            value = rivals.turn(who, name)
            if who != "nothing":
                if cluster.find(kube.trainjobs(NAMESPACE, name)) is None:
                    raise SystemExit(f"{who} made no job")
                cluster.delete(kube.trainjobs(NAMESPACE, name))
                cluster.delete(kube.core(NAMESPACE, "configmaps", f"{name}-files"))
            # The first of each warms the disk's cache and the server's.
            if number >= 0:
                values.append(value)
    return taken


def main() -> None:
    """Start a server, measure, print a line each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--sdk", metavar="PYTHON", help="an interpreter that imports kubeflow")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    binaries = {name: result for name in PROGRAMS if (result := locate(name)) is not None}
    if set(PROGRAMS) - binaries.keys() or locate("kubectl") is None:
        raise SystemExit("its programs are not built: `railhead lab build`")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        plane = ControlPlane(folder=folder / "plane", binaries=binaries)
        plane.start()
        try:
            cluster = Cluster(choose_target(kubeconfig=plane.kubeconfig))
            prepare(cluster, plane)
            taken = contest(cluster, Contest(folder, plane.kubeconfig, options.sdk), options.runs)
        finally:
            plane.stop()
    if options.json:
        print(json.dumps(taken))
        return
    for place, what in enumerate(("wall clock", "processor")):
        base = statistics.median(item[place] for item in taken["kubectl apply"])
        for who, values in taken.items():
            each = [value[place] for value in values]
            middle = statistics.median(each)
            print(
                f"{what:10}  {who:16} median {middle:.3f} s  fastest {min(each):.3f} s  slowest "
                f"{max(each):.3f} s  beside kubectl {middle - base:+.3f} s"
            )


def prepare(cluster: Cluster, plane: ControlPlane) -> None:
    """Definitions, and the objects of a stack."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for body in definitions():
        cluster.create(path, body)
    deadline = time.monotonic() + 60
    while True:
        served = [
            {c["type"]: c["status"] for c in (item.get("status") or {}).get("conditions") or []}
            for item in cluster.list(path)
        ]
        if all(item.get("Established") == "True" for item in served):
            break
        if time.monotonic() > deadline:
            raise SystemExit("the definitions are not served")
        time.sleep(0.2)
    # Its node controller would find that no kubelet reports.
    plane.processes.pop().kill()
    for _ in range(50):
        try:
            cluster.list(kube.trainjobs(NAMESPACE))
            break
        except kube.ApiError:
            time.sleep(0.2)
    publish(cluster, _contract())


if __name__ == "__main__":
    main()
