"""From job and contract to a plan: defaults, refusals, and the complete set of resources."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.base.errors import InputError, PrerequisiteError
from railhead.contract import ClusterContract, Share
from railhead.launch.job import Payload, parse_job
from railhead.launch.plan import Plan, complete_resources, make_plan, placement_field
from tests.unit.launch.conftest import CONTRACT, JOB


def plan(
    runtime_object: dict[str, Any],
    text: str = JOB,
    contract: ClusterContract = CONTRACT,
    sets: tuple[str, ...] = (),
) -> Plan:
    job = parse_job(text, where="job", sets=sets)
    return make_plan(job, (Payload(name="train.py", data=b"x"),), contract, runtime_object)


def test_everything_is_decided(runtime_object: dict[str, Any]) -> None:
    made = plan(runtime_object)
    assert (made.namespace, made.queue, made.cluster_queue) == ("training",) * 3
    assert made.world_size == 4
    assert made.env == {
        "RAILHEAD_JOB": "demo",
        "RAILHEAD_NODES": "2",
        "RAILHEAD_PROCESSES_PER_NODE": "2",
        "RAILHEAD_WORLD_SIZE": "4",
        "CHECKPOINT_DIR": "/checkpoints/demo",
        "EPOCHS": "10",
    }
    assert made.notes == ()


def test_a_job_that_takes_what_its_runtime_gives_resizes_nothing(
    runtime_object: dict[str, Any],
) -> None:
    assert not plan(runtime_object).resized
    assert plan(runtime_object, sets=("gpus_per_node=2",)).resized


def test_resources_are_complete_because_trainer_replaces_the_runtimes(
    runtime_object: dict[str, Any],
) -> None:
    made = plan(runtime_object, sets=("gpus_per_node=2",))
    assert made.resources == {
        "requests": {
            "cpu": "200m",
            "memory": "512Mi",
            "nvidia.com/gpu": "2",
            "rdma/rdma_shared_device_a": "1",
        },
        "limits": {"nvidia.com/gpu": "2", "rdma/rdma_shared_device_a": "1"},
    }
    assert "several of this job's nodes may share one machine" in made.notes[0]


def test_fabric_devices_come_along_even_where_the_runtime_forgot_them() -> None:
    assert complete_resources({}, Share(gpus=1, requests={"rdma/a": "2"})) == {
        "requests": {"rdma/a": "2"},
        "limits": {"rdma/a": "2"},
    }


def test_defaults_come_from_the_runtime(runtime_object: dict[str, Any]) -> None:
    made = plan(runtime_object, "name: a\nnodes: 2\ncommand: [torchrun, x.py]\n")
    assert (made.runtime, made.gpus_per_node, made.processes_per_node) == ("torch", 8, 8)
    assert made.world_size == 16


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (
            ("runtime=torhc",),
            "'torhc' is not in cluster 'lab'; there are: torch; did you mean 'torch'",
        ),
        (("queue=trainign",), "there are: training; did you mean 'training'"),
        (("env.NCCL_SOCKET_IFNAME=eth0",), "set by the cluster's fabric (NCCL_SOCKET_IFNAME=net1)"),
    ],
)
def test_what_the_cluster_does_not_have(
    runtime_object: dict[str, Any], sets: tuple[str, ...], says: str
) -> None:
    with pytest.raises(InputError) as caught:
        plan(runtime_object, sets=sets)
    assert says in caught.value.problem


def test_a_mistake_in_the_runtime_leaves_nothing_else_unsaid_but_what_it_decides(
    runtime_object: dict[str, Any],
) -> None:
    sets = ("runtime=torhc", "queue=trainign", "env.NCCL_SOCKET_IFNAME=eth0")
    with pytest.raises(InputError) as caught:
        plan(runtime_object, sets=sets)
    lines = caught.value.problem.splitlines()
    assert lines[0] == "2 mistakes"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["runtime", "queue"]


def test_all_of_it_is_said_at_once(runtime_object: dict[str, Any]) -> None:
    sets = ("queue=trainign", "gpus_per_node=9", "env.NCCL_SOCKET_IFNAME=eth0", "env.RANK=3")
    with pytest.raises(InputError) as caught:
        plan(runtime_object, sets=sets)
    lines = caught.value.problem.splitlines()
    assert lines[0] == "3 mistakes"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["queue", "gpus_per_node", "env"]
    assert lines[3].strip() == (
        "env: NCCL_SOCKET_IFNAME: set by the cluster's fabric (NCCL_SOCKET_IFNAME=net1); "
        "RANK: set by torchrun, not by a job"
    )


def test_nccl_may_be_asked_to_say_more(runtime_object: dict[str, Any]) -> None:
    assert plan(runtime_object, sets=("env.NCCL_DEBUG=INFO",)).env["NCCL_DEBUG"] == "INFO"


@pytest.mark.parametrize("gpus", [0, 9])
def test_gpus_are_as_many_as_the_runtime_has_pods_of(
    runtime_object: dict[str, Any], gpus: int
) -> None:
    """Not nought either: no pod takes a place in a training namespace without its devices."""
    with pytest.raises(InputError) as caught:
        plan(runtime_object, sets=(f"gpus_per_node={gpus}",))
    assert caught.value.problem == (
        f"gpus_per_node: {gpus} is not allowed with runtime 'torch'; allowed: "
        "1, 2, 3, 4, 5, 6, 7, 8"
    )


def test_a_contract_that_does_not_say_what_pods_need_is_not_guessed_at(
    runtime_object: dict[str, Any],
) -> None:
    old = CONTRACT.runtimes[0].model_copy(update={"pool": None, "shares": (), "checkpoint": None})
    contract = CONTRACT.model_copy(update={"runtimes": (old,)})
    with pytest.raises(PrerequisiteError, match="an older Railhead wrote it"):
        plan(runtime_object, contract=contract)


def test_several_runtimes_need_a_name(runtime_object: dict[str, Any]) -> None:
    other = CONTRACT.runtimes[0].model_copy(update={"name": "jax"})
    contract = CONTRACT.model_copy(update={"runtimes": (*CONTRACT.runtimes, other)})
    with pytest.raises(InputError, match="has several: torch, jax"):
        plan(runtime_object, "name: a\nnodes: 1\ncommand: [x]\n", contract)


def test_a_lone_word_would_get_the_runtimes_arguments(runtime_object: dict[str, Any]) -> None:
    job = runtime_object["spec"]["template"]["spec"]["replicatedJobs"][0]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["args"] = ["--x"]
    with pytest.raises(InputError, match="would be given the runtime's own arguments"):
        plan(runtime_object, "name: a\nnodes: 1\ncommand: [x]\n")


def test_a_runtime_without_its_container(runtime_object: dict[str, Any]) -> None:
    runtime_object["spec"] = {}
    with pytest.raises(PrerequisiteError, match="has no container 'node'"):
        plan(runtime_object)


@pytest.mark.parametrize(
    ("versions", "field"),
    [
        ({"combination": "lab"}, "podTemplateOverrides"),
        ({"combination": "production"}, "runtimePatches"),
        ({"trainer": "2.1.0"}, "podTemplateOverrides"),
        ({"trainer": "v2.0.1"}, "podTemplateOverrides"),
        ({"trainer": "2.2.0"}, "runtimePatches"),
        ({"trainer": "2.10.0"}, "runtimePatches"),
        ({"combination": "my-own", "trainer": "3.0"}, "runtimePatches"),
    ],
)
def test_placement_field(versions: dict[str, str], field: str) -> None:
    assert placement_field(versions) == field


def test_an_unknown_trainer_is_not_guessed() -> None:
    with pytest.raises(PrerequisiteError, match="does not say which Trainer"):
        placement_field({})
