"""Tests of the plan of a job and a contract: defaults, refusals, all resources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railhead.base.errors import InputError, PrerequisiteError
from railhead.base.names import LOGS
from railhead.contract import ClusterContract, Switch
from railhead.framework.torch import FRAMEWORK as TORCH
from railhead.launch.job import Payload, parse_job
from railhead.launch.plan import Plan, complete_resources, make_plan
from tests.unit.launch.conftest import CONTRACT, JOB


def plan(
    text: str = JOB,
    contract: ClusterContract = CONTRACT,
    sets: tuple[str, ...] = (),
) -> Plan:
    job = parse_job(text, where="job", sets=sets)
    return make_plan(job, (Payload(name="train.py", data=b"x"),), contract)


def test_everything_is_decided() -> None:
    made = plan()
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


def test_where_what_a_job_prints_is_kept_is_its_own_choice() -> None:
    logs = ("kept", "pods")
    texts = [json.loads(plan(sets=(f"logs={log}",)).keeping[-1]) for log in logs]
    assert [item["folder"] for item in texts] == ["/checkpoints/.railhead/logs/training/demo", ""]
    # The claim is looked at all the same.
    assert texts[0]["mounts"] == texts[1]["mounts"] != []
    assert plan(sets=("logs=bare",)).keeping == ()


@pytest.mark.parametrize("chosen", ["pods", "bare"])
def test_stack_chooses_for_jobs_that_say_nothing(chosen: str) -> None:
    (runtime, *_) = CONTRACT.runtimes
    trainer = runtime.trainer | {"env": [{"name": LOGS, "value": chosen}]}
    pod = runtime.pod | {"spec": runtime.pod["spec"] | {"containers": [trainer]}}
    update = {"runtimes": (runtime.model_copy(update={"pod": pod}),)}
    contract = CONTRACT.model_copy(update=update)
    assert plan(contract=contract).keeping == plan(sets=(f"logs={chosen}",)).keeping
    assert plan(contract=contract).logs_claim == ""
    kept = plan(contract=contract, sets=("logs=kept",))
    assert (kept.keeping, kept.logs_claim) == (plan().keeping, plan().logs_claim)


def test_stack_without_programs_keeps_no_logs_and_says_it() -> None:
    """An earlier stack's ConfigMap has no program to start."""
    older = CONTRACT.runtimes[0].model_copy(update={"programs": ""})
    made = plan(contract=CONTRACT.model_copy(update={"runtimes": (older,)}))
    assert (made.keeping, made.logs_claim, len(made.notes)) == ((), "", 1)
    assert "logs last as long as the pods" in made.notes[0]


def test_a_job_that_takes_what_its_runtime_gives_resizes_nothing() -> None:
    assert not plan().resized
    assert plan(sets=("gpus_per_node=2",)).resized


def test_resources_are_complete_since_trainer_replaces_them() -> None:
    made = plan(sets=("gpus_per_node=2",))
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
    assert not plan(sets=("gpus_per_node=2", "nodes=1", "processes_per_node=2")).notes


@pytest.mark.parametrize(
    ("image", "noted"),
    [("team/train:main", True), ("team/train", True), ("team/train:v7", False)],
)
def test_image_whose_tag_moves_is_noted(image: str, noted: bool) -> None:
    """A node that has it keeps it, so that ranks of one gang may run different code."""
    notes = plan(sets=(f"image={image}",)).notes
    assert [note.partition(" is not the same")[0] for note in notes] == (
        [f"image: {image}"] if noted else []
    )


@pytest.mark.parametrize(
    ("gpus", "stand_in", "limit"),
    [(8, False, "64Gi"), (2, False, "16384Mi"), (1, False, "12Gi"), (1, True, "64Gi")],
)
def test_memory_limit_goes_with_the_gpus(gpus: int, stand_in: bool, limit: str) -> None:
    runtime = CONTRACT.runtimes[0].model_copy(deep=True)
    blocks = runtime.trainer["resources"]
    blocks["requests"]["memory"], blocks["limits"] = "12Gi", {"memory": "64Gi"}
    share = next(share for share in runtime.shares if share.gpus == gpus)
    made = complete_resources(runtime, share, stand_in=stand_in)
    assert made["limits"]["memory"] == limit


def test_defaults_come_from_the_runtime() -> None:
    made = plan("name: a\nnodes: 2\ncommand: [torchrun, x.py]\n")
    assert (made.runtime, made.gpus_per_node, made.processes_per_node) == ("torch", 8, 8)
    assert made.world_size == 16


@pytest.mark.parametrize(
    ("framework", "of_runtime", "gpus", "processes"),
    [("torch", 4, 8, 4), ("torch", 4, 2, 2), ("raw", 1, 8, 1), ("raw", 1, 2, 1)],
)
def test_a_resized_pod_has_a_process_a_gpu_unless_one_has_all(
    framework: str, of_runtime: int, gpus: int, processes: int
) -> None:
    changed = {"framework": framework, "processes_per_node": of_runtime, "reserved": {}, "told": ()}
    runtime = CONTRACT.runtimes[0].model_copy(update=changed)
    contract = CONTRACT.model_copy(update={"runtimes": (runtime,)})
    made = plan(f"name: a\nnodes: 2\ncommand: [x]\ngpus_per_node: {gpus}\n", contract)
    assert (made.processes_per_node, made.resized) == (processes, gpus != 8)


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
def test_requests_beyond_the_cluster_are_refused(sets: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(sets=sets)
    assert says in caught.value.problem


def test_unknown_runtime_hides_only_what_depends_on_it() -> None:
    sets = ("runtime=torhc", "queue=trainign", "env.NCCL_SOCKET_IFNAME=eth0")
    with pytest.raises(InputError) as caught:
        plan(sets=sets)
    lines = caught.value.problem.splitlines()
    assert lines[0] == "2 mistakes"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["runtime", "queue"]


def test_all_mistakes_of_a_plan_come_at_once() -> None:
    sets = ("queue=trainign", "gpus_per_node=9", "env.NCCL_SOCKET_IFNAME=eth0", "env.RANK=3")
    with pytest.raises(InputError) as caught:
        plan(sets=sets)
    lines = caught.value.problem.splitlines()
    assert lines[0] == "3 mistakes"
    assert [line.split(":")[0].strip() for line in lines[1:]] == ["queue", "gpus_per_node", "env"]
    assert lines[3].strip() == (
        "env: NCCL_SOCKET_IFNAME: set by the cluster's fabric (NCCL_SOCKET_IFNAME=net1); "
        "RANK: set by torchrun, not by a job"
    )


def test_nccl_may_be_asked_to_say_more() -> None:
    assert plan(sets=("env.NCCL_DEBUG=INFO",)).env["NCCL_DEBUG"] == "INFO"


def test_gpus_are_as_many_as_the_runtime_has_pods_of() -> None:
    with pytest.raises(InputError) as caught:
        plan(sets=("gpus_per_node=9",))
    assert caught.value.problem == (
        "gpus_per_node: 9 is not allowed with runtime 'torch'; allowed: 1, 2, 3, 4, 5, 6, 7, 8"
    )


def test_no_job_is_without_gpus() -> None:
    """The guards let no TrainJob ask for resources without its runtime's devices."""
    with pytest.raises(InputError, match=r"gpus_per_node: 0 is not allowed; .* from 1 to 512"):
        plan(sets=("gpus_per_node=0",))


def test_contract_without_needs_of_pods_is_refused() -> None:
    path = Path(__file__).parents[1] / "contract" / "examples" / "v2-lab.json"
    contract = ClusterContract.from_json(path.read_text(), where="v2")
    with pytest.raises(PrerequisiteError, match="an older Railhead wrote it"):
        plan(contract=contract)


def test_first_runtime_is_default_but_one_framework_is_ambiguous() -> None:
    other = CONTRACT.runtimes[0].model_copy(update={"name": "jax"})
    contract = CONTRACT.model_copy(update={"runtimes": (*CONTRACT.runtimes, other)})
    assert plan("name: a\nnodes: 1\ncommand: [x]\n", contract).runtime == "torch"
    with pytest.raises(InputError, match="has several of framework 'torch': torch, jax"):
        plan("name: a\nnodes: 1\nframework: torch\ncommand: [x]\n", contract)


def test_queue_that_charges_a_fixed_size_allows_no_other() -> None:
    charged = CONTRACT.runtimes[0].model_copy(update={"only_nodes": 2})
    contract = CONTRACT.model_copy(update={"runtimes": (charged,)})
    assert plan(contract=contract).nodes == 2
    with pytest.raises(InputError, match=r"nodes: 1 is not allowed with runtime 'torch'; .*: 2"):
        plan(sets=("nodes=1",), contract=contract)


SWITCHED = CONTRACT.model_copy(
    update={
        "fabric": CONTRACT.fabric.model_copy(
            update={
                "switches": {
                    "NCCL_NET": Switch(reason="`Socket` is TCP", allowed=("IB",)),
                    "NCCL_IB_DISABLE": Switch(reason="a debugging switch"),
                    "NCCL_SOCKET_IFNAME": Switch(reason="which interfaces", allowed=("net1",)),
                }
            }
        )
    }
)


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        (("env.NCCL_NET=Socket",), "env: NCCL_NET=Socket: `Socket` is TCP"),
        (("env.NCCL_IB_DISABLE=1",), "env: NCCL_IB_DISABLE=1: a debugging switch"),
    ],
)
def test_a_job_does_not_leave_its_fabric_in_silence(sets: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(contract=SWITCHED, sets=sets)
    assert says in caught.value.problem
    assert "`fabric: none`" in caught.value.remedy
    assert plan(contract=SWITCHED, sets=(*sets, "fabric=none")).pod_labels == {
        "railhead.dev/fabric": "none"
    }


def test_settings_of_the_fabric_are_accepted() -> None:
    assert plan(contract=SWITCHED, sets=("env.NCCL_NET=IB",)).env["NCCL_NET"] == "IB"


def test_the_command_says_no_more_than_the_environment_may() -> None:
    text = "name: a\nnodes: 1\ncommand: [sh, -c, 'export NCCL_IB_DISABLE=1; python3 x.py']\n"
    with pytest.raises(InputError) as caught:
        plan(text, SWITCHED)
    assert "command: sets NCCL_IB_DISABLE" in caught.value.problem
    assert plan(text + "fabric: none\n", SWITCHED).command[0] == "sh"


def test_job_without_fabric_uses_tcp_by_default() -> None:
    free = plan(contract=SWITCHED, sets=("fabric=none", "env.NCCL_SOCKET_IFNAME=eth0"))
    assert (free.env["NCCL_NET"], free.env["NCCL_SOCKET_IFNAME"]) == ("Socket", "eth0")
    own = plan(contract=SWITCHED, sets=("fabric=none", "env.NCCL_NET=FastSocket"))
    assert own.env["NCCL_NET"] == "FastSocket"
    with pytest.raises(InputError):
        plan(contract=SWITCHED, sets=("fabric=none", "env.PET_NNODES=1"))


LAUNCHED = CONTRACT.model_copy(
    update={
        "runtimes": tuple(
            runtime.model_copy(
                update={
                    "launcher": TORCH.launcher,
                    "launches": TORCH.launches,
                    "alone": TORCH.alone,
                }
            )
            for runtime in CONTRACT.runtimes
        )
    }
)


def commanded(*words: str, nodes: int = 2, more: str = "") -> Plan:
    return plan(f"name: a\nnodes: {nodes}\ncommand: {json.dumps(words)}\n{more}", LAUNCHED)


@pytest.mark.parametrize(
    "words",
    [
        ("torchrun", "x.py"),
        ("/opt/conda/bin/torchrun", "--nnodes=2", "x.py"),
        ("python3", "-m", "torch.distributed.run", "x.py"),
        ("bash", "-c", "cd /x && exec torchrun --nnodes=$PET_NNODES x.py"),
        ("sh", "-c", "torchrun --nnodes 12 x.py"),
    ],
)
def test_a_launcher_makes_one_world(words: tuple[str, ...]) -> None:
    assert commanded(*words).world_size == 16


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("python3", "x.py"), "'python3' starts no launcher that is known (torchrun)"),
        (("python3", "torchrun_me.py"), "starts no launcher"),
        (("sh", "-c", "python x.py"), "starts no launcher"),
        (("torchrun", "--standalone", "x.py"), "has '--standalone'"),
        (("torchrun", "--nnodes=1", "x.py"), "has '--nnodes=1'"),
        (("torchrun", "--nnodes", "1:4", "x.py"), "has '--nnodes 1:4'"),
        (("sh", "-c", "PET_NNODES=1 torchrun x.py"), "has 'PET_NNODES='"),
    ],
)
def test_two_worlds_of_one_are_refused(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(InputError) as caught:
        commanded(*words)
    assert says in caught.value.problem
    assert "`launcher: own`" in caught.value.remedy
    assert commanded(*words, nodes=1).nodes == 1
    assert commanded(*words, more="launcher: own\n").labels == {"railhead.dev/launcher": "own"}
    alone = commanded(*words, more="launcher: none\n")
    assert alone.labels == {"railhead.dev/launcher": "own"}
    assert alone.env["RAILHEAD_LAUNCHER"] == "none"


def test_a_jobs_python_path_keeps_the_runtimes_behind_it() -> None:
    (runtime, *_) = LAUNCHED.runtimes
    trainer = runtime.trainer | {"env": [{"name": "PYTHONPATH", "value": "/runtime"}]}
    pod = {"spec": {"containers": [trainer]}}
    with_path = LAUNCHED.model_copy(update={"runtimes": (runtime.model_copy(update={"pod": pod}),)})
    text = "name: a\nnodes: 2\ncommand: [torchrun, x.py]\nenv: {PYTHONPATH: /mine}\n"
    assert plan(text, with_path).env["PYTHONPATH"] == "/mine:/runtime"
    assert plan(text, LAUNCHED).env["PYTHONPATH"] == "/mine"
