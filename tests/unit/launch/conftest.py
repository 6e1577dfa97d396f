"""A cluster of the lab's shape, as launch sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead import contract as contracts
from railhead.contract import (
    Checkpoint,
    ClusterContract,
    Fabric,
    Mount,
    Network,
    NodePool,
    Queue,
    Runtime,
    Share,
)
from railhead.framework import FRAMEWORKS
from railhead.kube.client import Cluster, choose_target
from railhead.launch import after, console, submit
from railhead.launch import cli as launch
from railhead.launch.logs import reader, stream
from tests.unit.launch.fake_api import Api, serve

_DEVICES = {"nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "1"}
#: What launch makes and prints, as a reviewer read it last.
GOLDEN = Path(__file__).parent / "golden"
CONTRACT = ClusterContract(
    cluster="lab",
    platform="lab",
    standing=True,
    stand_in=True,
    placement_field="podTemplateOverrides",
    fabric=Fabric(
        kind="roce",
        mode="rdma-shared",
        networks=(Network(name="rail-0", namespace="training", rail=0, interface="net1"),),
        environment={"NCCL_SOCKET_IFNAME": "net1", "NCCL_DEBUG": "WARN"},
        line_rate_gbps=0,
        nics_per_node=1,
    ),
    node_pools=(
        NodePool(
            name="gpu",
            instance_type="lab.8gpu",
            nodes=2,
            gpus_per_node=8,
            capacity={"cpu": "2", "nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "63"},
            node_selector={"railhead.dev/pool": "gpu"},
        ),
    ),
    queues=(
        Queue(
            name="training",
            namespace="training",
            cluster_queue="training",
            flavors=("gpu",),
            pools=("gpu",),
        ),
    ),
    runtimes=(
        Runtime(
            name="torch",
            framework="torch",
            image="railhead.local/torch-cpu:lab",
            container="node",
            gpus_per_node=8,
            pool="gpu",
            shares=tuple(
                Share(
                    gpus=gpus,
                    requests={"nvidia.com/gpu": str(gpus), "rdma/rdma_shared_device_a": "1"},
                )
                for gpus in range(1, 9)
            ),
            checkpoint=Mount(claim="checkpoints", path="/checkpoints"),
            processes_per_node=8,
            max_nodes=2,
            topology_level="kubernetes.io/hostname",
            launcher=FRAMEWORKS["torch"].launcher,
            pod={
                "metadata": {},
                "spec": {
                    "containers": [
                        {
                            "name": "node",
                            "env": [
                                {"name": "NCCL_SOCKET_IFNAME", "value": "net1"},
                                {"name": "NCCL_DEBUG", "value": "WARN"},
                                {"name": "PET_NNODES", "value": "0"},
                            ],
                            "resources": {
                                "requests": {"cpu": "200m", "memory": "512Mi"} | _DEVICES,
                                "limits": _DEVICES,
                            },
                        }
                    ]
                },
            },
            reserved={"NCCL_SOCKET_IFNAME": "the cluster's fabric"} | FRAMEWORKS["torch"].reserved,
            process_prefix=FRAMEWORKS["torch"].process_prefix,
            programs="/etc/railhead/nccl",
        ),
    ),
    checkpoints=(
        Checkpoint(
            claim="checkpoints", namespace="training", mount_path="/checkpoints", size="10Gi"
        ),
    ),
    namespaces=("training",),
    topology_levels=("kubernetes.io/hostname",),
    versions={"combination": "lab", "trainer": "2.1.0"},
)

JOB = """\
name: demo
runtime: torch
nodes: 2
gpus_per_node: 8
processes_per_node: 2
command: [torchrun, /workspace/train.py]
files: [train.py]
env:
  EPOCHS: 10
"""


@pytest.fixture(autouse=True)
def without_pauses(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The cluster of these tests answers at once, so nothing has to wait for it.

    What is followed is kept for the test alone.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr(stream, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(submit, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(submit, "LEFT_SECONDS", 0.05)
    # Nothing here runs a pod that reads a claim.
    monkeypatch.setattr(reader, "START_SECONDS", 0.0)


class Clock:
    """Time that passes while someone sleeps; what is to happen ``then`` happens meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.then: dict[float, Callable[[], object]] = {}

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        for moment in [item for item in self.then if item <= self.now]:
            self.then.pop(moment)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time by which the commands wait, watch and say how long it took."""
    clock = Clock()
    for module in (after, console, launch, submit):
        monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def contract() -> ClusterContract:
    return CONTRACT


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("say('hello')\n")
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    return path


@pytest.fixture
def api() -> Iterator[Api]:
    """A cluster whose stack is deployed and idle."""
    with serve() as api:
        publish(api, CONTRACT)
        yield api


def node(contract: ClusterContract, pool: NodePool, name: str) -> dict[str, Any]:
    """Return a node that has all that the contract promises of its pool."""
    labels = dict.fromkeys(contract.topology_levels, "a") | pool.node_selector
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": dict(pool.capacity),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def publish(api: Api, contract: ClusterContract) -> None:
    """Put a contract and what it promises into the cluster."""
    for namespace in contract.namespaces:
        api.put("/api/v1/namespaces", {"metadata": {"name": namespace}})
    api.put(
        f"/api/v1/namespaces/{contracts.NAMESPACE}/configmaps",
        {
            "metadata": {"name": contracts.CONFIG_MAP},
            "data": {contracts.KEY: contract.to_json()},
        },
    )
    for pool in contract.node_pools:
        for index in range(pool.nodes):
            api.put("/api/v1/nodes", node(contract, pool, f"{pool.name}-{index}"))
    for runtime in contract.runtimes:
        api.put(
            "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes",
            {"metadata": {"name": runtime.name}},
        )
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    api.put(
        f"{kueue}/namespaces/training/localqueues",
        {"metadata": {"name": "training"}, "spec": {"clusterQueue": "training"}},
    )
    api.put(
        f"{kueue}/clusterqueues",
        {
            "metadata": {"name": "training"},
            "spec": {
                "resourceGroups": [
                    {
                        "flavors": [
                            {
                                "name": "gpu",
                                "resources": [
                                    {"name": "nvidia.com/gpu", "nominalQuota": "16"},
                                    {"name": "rdma/rdma_shared_device_a", "nominalQuota": "126"},
                                ],
                            }
                        ]
                    }
                ]
            },
            "status": {
                "flavorsReservation": [
                    {"name": "gpu", "resources": [{"name": "nvidia.com/gpu", "total": "12"}]}
                ]
            },
        },
    )
    api.put(
        "/api/v1/namespaces/training/persistentvolumeclaims", {"metadata": {"name": "checkpoints"}}
    )


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Path:
    return api.kubeconfig(tmp_path)


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[Cluster]:
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    yield cluster
    cluster.close()


@pytest.fixture
def run(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line against the fake cluster; returns exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        words = [str(a) for a in arguments] + ["--kubeconfig", str(kubeconfig)]
        code = cli.run(words)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call
