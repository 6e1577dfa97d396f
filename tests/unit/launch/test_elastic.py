"""Runs that go on with fewer nodes: which can, what is sent, what each pod gets."""

from __future__ import annotations

import pytest

from railhead.base.errors import InputError, RefusedError
from railhead.framework import FRAMEWORKS
from railhead.kube.client import Cluster
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight
from tests.unit.launch.conftest import CONTRACT
from tests.wiring import contract

TEXT = "name: run\nnodes: 4\nmin_nodes: 2\nprocesses_per_node: 2\ncommand: [train.py]\n"


def planned(text: str = TEXT, framework: str = "torch") -> Plan:
    return make_plan(parse_job(text, where="job"), (), contract(framework))


def test_a_pytorchjob_of_workers_alone() -> None:
    (job,) = apis()["pytorchjob"].objects(planned(TEXT + "restarts: 5\n"))
    spec = job["spec"]
    assert spec["elasticPolicy"] == {
        "minReplicas": 2,
        "maxReplicas": 4,
        "rdzvBackend": "c10d",
        "maxRestarts": 5,
    }
    assert spec["nprocPerNode"] == "2"
    assert spec["runPolicy"] == {"backoffLimit": 20, "cleanPodPolicy": "Running"}
    (role,) = spec["pytorchReplicaSpecs"]
    workers = spec["pytorchReplicaSpecs"][role]
    assert (role, workers["replicas"], workers["restartPolicy"]) == ("Worker", 4, "OnFailure")
    (container,) = workers["template"]["spec"]["containers"]
    # Neither the runtime's word that nobody wired the pod, nor an address of a fixed world.
    reported = {item["name"] for item in container["env"]}
    assert not reported & {*FRAMEWORKS["torch"].rendezvous, "RAILHEAD_WORLD_SIZE"}
    assert "RAILHEAD_NODES" in reported


def test_it_starts_again_as_often_as_its_runtime() -> None:
    (runtime,) = contract("torch").runtimes
    (job,) = apis()["pytorchjob"].objects(planned())
    assert job["spec"]["elasticPolicy"]["maxRestarts"] == runtime.restarts
    assert runtime.restarts
    (job,) = apis()["pytorchjob"].objects(planned(TEXT + "restarts: 0\n"))
    assert job["spec"]["elasticPolicy"]["maxRestarts"] == 0
    assert job["spec"]["runPolicy"]["backoffLimit"] == 0


@pytest.mark.parametrize("api", sorted(apis().keys() - {"pytorchjob"}))
def test_every_other_kind_refuses_it(api: str) -> None:
    with pytest.raises(InputError, match=f"min_nodes: 2 is not allowed with --api {api}"):
        apis()[api].objects(planned())


def test_a_trainjob_refuses_it(cluster: Cluster) -> None:
    made = make_plan(parse_job(TEXT, where="job"), (), CONTRACT)
    with pytest.raises(RefusedError, match="min_nodes: 2 is not possible with a TrainJob"):
        preflight(cluster, made, CONTRACT)


@pytest.mark.parametrize(
    ("text", "framework", "said"),
    [
        (TEXT.replace("min_nodes: 2", "min_nodes: 4"), "torch", "4 is not allowed with nodes: 4"),
        (TEXT + "verify: true\n", "torch", "verify: contradicts `min_nodes`"),
        (TEXT, "jax", "of framework 'jax', whose gangs have one size; .* torch"),
    ],
)
def test_impossible_elastic_jobs_are_refused(text: str, framework: str, said: str) -> None:
    text = text.replace("processes_per_node: 2\n", "") if framework == "jax" else text
    with pytest.raises(InputError, match=said):
        planned(text, framework)


@pytest.mark.parametrize("framework", ["fsdp", "accelerate", "deepspeed", "megatron"])
def test_jobs_of_torchrun_can_be_elastic(framework: str) -> None:
    (job,) = apis()["pytorchjob"].objects(planned(framework=framework))
    assert job["spec"]["elasticPolicy"]["minReplicas"] == 2
