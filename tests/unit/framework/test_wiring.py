"""What each framework's documentation says that a launcher must set, for every rank, in every API.

The table is written from the documents; what launch renders is completed as the API server, the
controllers and the kubelet do, and compared with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError
from railhead.config import parse
from railhead.contract import ClusterContract
from railhead.framework import FRAMEWORKS
from railhead.launch import render
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.resolve.cluster import resolve
from tests.components.recording import lab_cluster


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variable that a launcher must set.

    Args:
        value: of rank ``r``, which is process ``l`` of node ``n``, of ``N`` nodes with ``p``
            processes each; ``hosts`` are the nodes' names.
    """

    variable: str
    meaning: str
    value: str
    source: str


_TORCHRUN = "pytorch v2.15, docs/source/elastic/run.rst, Environment Variables"
_ENV = "pytorch v2.15, docs/source/distributed.md, Environment variable initialization"
_TORCH = (
    Row(variable="LOCAL_RANK", meaning="rank in the node", value="l", source=_TORCHRUN),
    Row(variable="RANK", meaning="rank in the world", value="r", source=_ENV),
    Row(variable="LOCAL_WORLD_SIZE", meaning="of the node", value="p", source=_TORCHRUN),
    Row(variable="WORLD_SIZE", meaning="all ranks", value="N * p", source=_ENV),
    Row(variable="MASTER_ADDR", meaning="host of rank 0", value="hosts[0]", source=_ENV),
    Row(variable="MASTER_PORT", meaning="free port there", value="29500", source=_ENV),
)
_ONE_EACH = "one process a pod: p is 1"
_JAX = "jax 0.10.2, docs/multi_process.md, and Trainer v2.3.0, plugins/jax/jax.go"
_PADDLE = "Paddle 3.3.1, python/paddle/distributed/launch/context/args_envs.py"
_OPEN_MPI = "Open MPI 4.1, mpirun(1), Exported Environment Variables"
_RAY = "Ray 2.60.0, doc/source/cluster/vms/user-guides/launching-clusters/on-premises.md"

#: Framework -> what a launcher must set.
TABLE: dict[str, tuple[Row, ...]] = {
    "torch": _TORCH,
    "fsdp": _TORCH,
    "accelerate": _TORCH,
    "deepspeed": _TORCH,
    "megatron": _TORCH,
    "raw": _TORCH,
    "jax": (
        Row(
            variable="JAX_COORDINATOR_ADDRESS",
            meaning="host and port of process 0",
            value="hosts[0] + ':29500'",
            source="jax 0.10.2, jax/_src/distributed.py, State.initialize",
        ),
        Row(variable="JAX_NUM_PROCESSES", meaning="num_processes", value="N", source=_JAX),
        Row(variable="JAX_PROCESS_ID", meaning="process_id, from 0", value="n", source=_JAX),
    ),
    "tensorflow": (
        Row(
            variable="TF_CONFIG",
            meaning="every worker's address, and which one this is",
            value="{'cluster': {'worker': [h + ':2222' for h in hosts]},"
            " 'task': {'type': 'worker', 'index': n}}",
            source="TensorFlow 2.21, tensorflow/python/distribute/cluster_resolver/"
            "tfconfig_cluster_resolver.py",
        ),
    ),
    "paddle": (
        Row(
            variable="PADDLE_MASTER",
            meaning="--master",
            value="hosts[0] + ':36543'",
            source=_PADDLE,
        ),
        Row(variable="PADDLE_NNODES", meaning="--nnodes", value="N", source=_PADDLE),
        Row(
            variable="PADDLE_NPROC_PER_NODE", meaning="--nproc_per_node", value="p", source=_PADDLE
        ),
        Row(variable="PADDLE_RANK", meaning="--rank, the node's", value="n", source=_PADDLE),
        Row(variable="PADDLE_TRAINER_ID", meaning="rank", value="r", source=_PADDLE),
        Row(variable="PADDLE_TRAINERS_NUM", meaning="world", value="N * p", source=_PADDLE),
    ),
    "ray": (
        Row(
            variable="RAY_ADDRESS",
            meaning="where the head is",
            value="hosts[0] + ':6379'",
            source=_RAY,
        ),
    ),
    "mpi": (
        Row(variable="OMPI_COMM_WORLD_RANK", meaning="rank", value="r", source=_OPEN_MPI),
        Row(variable="OMPI_COMM_WORLD_SIZE", meaning="world", value="N * p", source=_OPEN_MPI),
        Row(variable="OMPI_COMM_WORLD_LOCAL_RANK", meaning="in node", value="l", source=_OPEN_MPI),
    ),
}
TABLE["horovod"] = TABLE["mpi"]


def contract(framework: str, gpus: int = 8, field: str = "podTemplateOverrides") -> ClusterContract:
    raw = lab_cluster()
    raw["runtimes"] = [
        raw["runtimes"][0] | {"name": "own", "framework": framework, "gpus_per_node": gpus}
    ]
    raw["pools"][0]["nodes"] = 8
    found = resolve(parse(raw, where="test")).contract
    return found.model_copy(update={"placement_field": field})


def plan(framework: str, nodes: int, processes: int | None = None, gpus: int = 8) -> Plan:
    text = f"name: run\nnodes: {nodes}\nframework: {framework}\ncommand: [train.py, '--lr', $(X)]\n"
    if processes is not None:
        text += f"processes_per_node: {processes}\n"
    return make_plan(parse_job(text, where="job"), (), contract(framework, gpus))


def pods(api: str, made: Plan) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Each of a job's pods: its host name, its spec, and what its controller says in variables.

    Written from the controllers' sources, apart from the code that renders.
    """
    nodes, name = made.nodes, made.name
    if api == "trainjob":
        trainer = render.train_job(made)["spec"]["trainer"]
        spec = json.loads(json.dumps(made.template["spec"]))
        (container,) = spec["containers"]
        by_name = {e["name"]: e for e in container["env"]}
        container |= {"command": trainer["command"], "args": trainer.get("args", [])}
        # Trainer v2.1.0, pkg/runtime/framework/plugins: its own, then the job's, in place by name.
        policy: dict[str, str] = {}
        if made.framework and made.framework.label == "torch":
            policy = {
                "PET_NNODES": str(trainer["numNodes"]),
                "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
                "PET_NODE_RANK": "",
                "PET_MASTER_ADDR": f"{name}-node-0-0.{name}",
                "PET_MASTER_PORT": "29500",
            }
        for said in ([{"name": k, "value": v} for k, v in policy.items()], trainer["env"]):
            by_name |= {e["name"]: e for e in said}
        container["env"] = list(by_name.values())
        job = made.replicated_job
        for i in range(nodes):
            more = {"PET_NODE_RANK": str(i)} if policy else {}
            yield f"{name}-{job}-0-{i}.{name}", label(spec, "batch", i), more
        return
    *_, body = apis()[api].objects(made)
    spec = body["spec"]
    for i in range(nodes):
        more = {}
        if api == "jobset":
            job = spec["replicatedJobs"][0]["template"]["spec"]
            assert job["parallelism"] == job["completions"] == nodes
            host, one = f"{name}-node-0-{i}.{name}", label(job["template"]["spec"], "batch", i)
        elif api == "indexed-job":
            assert spec["parallelism"] == spec["completions"] == nodes
            assert spec["template"]["spec"]["subdomain"] == name
            host, one = f"{name}-{i}.{name}", label(spec["template"]["spec"], "batch", i)
        elif api == "volcano":
            (task,) = spec["tasks"]
            assert task["replicas"] == spec["minAvailable"] == nodes
            host = f"{name}-node-{i}.{name}"
            one = label(task["template"]["spec"], "volcano", i)
        elif api == "mpijob":
            roles = spec["mpiReplicaSpecs"]
            assert roles["Worker"]["replicas"] + roles["Launcher"]["replicas"] == nodes
            assert spec["runLauncherAsWorker"]
            which = "Worker" if i else "Launcher"
            host = f"{name}-worker-{i - 1}" if i else f"{name}-launcher"
            host += f".{name}.{made.namespace}.svc"
            one = roles[which]["template"]["spec"]
        else:
            (field,) = (f for f in spec if f.endswith("ReplicaSpecs"))
            roles = spec[field]
            assert sum(role["replicas"] for role in roles.values()) == nodes
            first = next(iter(roles))
            which, number = (first, i) if i < roles[first]["replicas"] else ("Worker", i - 1)
            host = f"{name}-{which.lower()}-{number}"
            one = label(roles[which]["template"]["spec"], "operator", number)
            if api == "pytorchjob":
                # pkg/controller.v1/pytorch/envvar.go and master.go
                more = {
                    "PET_NNODES": str(nodes),
                    "PET_NPROC_PER_NODE": spec["nprocPerNode"],
                    "PET_NODE_RANK": str(number + (which == "Worker")),
                    "PET_MASTER_ADDR": f"{name}-master-0",
                    "PET_MASTER_PORT": str(port(one, "pytorchjob-port")),
                }
            elif api == "tfjob":
                # pkg/controller.v1/tensorflow/tensorflow.go
                workers = [
                    f"{name}-worker-{w}.{made.namespace}.svc:{port(one, 'tfjob-port')}"
                    for w in range(nodes)
                ]
                task = {"type": "worker", "index": number}
                more["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
                host = f"{name}-worker-{number}.{made.namespace}.svc"
            elif api == "paddlejob":
                # pkg/controller.v1/paddlepaddle/envvar.go; worker 0 has its own address there
                more = {
                    "PADDLE_JOB_ID": name,
                    "PADDLE_NNODES": str(nodes),
                    "PADDLE_MASTER": f"{name}-worker-0:{port(one, 'master')}",
                }
        yield host, one, more


def port(spec: dict[str, Any], name: str) -> int:
    ports = (p for c in spec["containers"] for p in c["ports"] if p["name"] == name)
    return int(next(ports)["containerPort"])


def label(spec: dict[str, Any], whose: str, index: int) -> dict[str, Any]:
    """The pod's spec with the variables that the kubelet reads from the pod's labels."""
    names = {
        "batch": "batch.kubernetes.io/job-completion-index",
        "volcano": "volcano.sh/task-index",
        "operator": "training.kubeflow.org/replica-index",
    }
    spec = json.loads(json.dumps(spec))
    for container in spec["containers"]:
        for entry in container.get("env") or []:
            if source := entry.pop("valueFrom", None):
                path = source["fieldRef"]["fieldPath"]
                assert path == f"metadata.labels['{names[whose]}']"
                entry["value"] = str(index)
    return spec


def expanded(entries: list[dict[str, str]], more: dict[str, str]) -> dict[str, str]:
    """The kubelet's: in order, ``$(NAME)`` of what came before, ``$$`` for ``$``; the last wins."""
    found: dict[str, str] = {}

    def put(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else found.get(match[1], match[0])

    for entry in [*entries, *({"name": k, "value": v} for k, v in more.items())]:
        found[entry["name"]] = re.sub(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)", put, entry["value"])
    return found


def kinds(framework: str) -> list[str]:
    row = FRAMEWORKS[framework]
    generic = [] if row.fewest_nodes > 1 else [n for n, a in apis().items() if not a.own]
    return ["trainjob", *generic, *row.kinds]


EVERY = [(framework, api) for framework in FRAMEWORKS for api in kinds(framework)]


def test_every_framework_is_in_the_table() -> None:
    assert set(TABLE) == set(FRAMEWORKS)
    assert {api for _, api in EVERY} == {"trainjob", *apis()}


@pytest.mark.parametrize(("framework", "api"), EVERY)
@pytest.mark.parametrize("nodes", [2, 3])
def test_every_rank_has_what_the_documentation_asks(framework: str, api: str, nodes: int) -> None:
    row = FRAMEWORKS[framework]
    processes = 1 if row.one_process else 4
    made = plan(framework, nodes, processes)
    found = list(pods(api, made))
    hosts = [host for host, _, _ in found]
    if framework in ("mpi", "horovod") and api == "trainjob":
        hosts = [made.name] * nodes
    gang = made.gang(tuple(hosts))
    for n, (_, spec, more) in enumerate(found):
        (container,) = spec["containers"]
        variables = expanded(container["env"], more)
        for local in range(processes):
            environment = variables | row.process(gang, n, local)
            scope = {
                "r": n * processes + local,
                "l": local,
                "n": n,
                "N": nodes,
                "p": processes,
                "hosts": hosts,
            }
            for wanted in TABLE[framework]:
                expected = eval(wanted.value, {}, scope)
                got: Any = environment[wanted.variable]
                if isinstance(expected, dict):
                    got = json.loads(got)
                else:
                    expected = str(expected)
                assert got == expected, (framework, api, n, local, wanted)


@pytest.mark.parametrize("framework", ["mpi", "horovod"])
def test_mpirun_takes_along_what_its_processes_need(framework: str) -> None:
    """A process started over ssh has none of its container's variables."""
    made = plan(framework, 2, 4)
    for entries in (
        render.train_job(made)["spec"]["trainer"]["env"],
        next(pods("mpijob", made))[1]["containers"][0]["env"],
    ):
        along = {e["name"]: e.get("value") for e in entries}["OMPI_MCA_mca_base_env_list"]
        names = set(str(along).split(";"))
        assert {"NCCL_SOCKET_IFNAME", "CHECKPOINT_DIR", "RAILHEAD_WORLD_SIZE"} <= names
    assert made.command[:3] == ("mpirun", "-np", "8")


@given(
    case=st.sampled_from(EVERY),
    nodes=st.integers(2, 6),
    gpus=st.integers(1, 8),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_the_pods_are_the_same_in_every_api(case: tuple[str, str], nodes: int, gpus: int) -> None:
    """World, resources, image, words, networks and the fabric's variables, whatever the kind."""
    framework, api = case
    made = plan(framework, nodes, gpus=gpus)
    seen = list(pods(api, made))
    assert len(seen) == nodes
    assert len({host for host, _, _ in seen}) == nodes
    fabric = contract(framework, gpus).fabric.environment
    for _, spec, more in seen:
        (container,) = spec["containers"]
        variables = expanded(container["env"], more)
        assert fabric.items() <= variables.items()
        assert variables["RAILHEAD_WORLD_SIZE"] == str(made.world_size)
        assert container["resources"] == made.resources
        assert spec["nodeSelector"] == made.template["spec"]["nodeSelector"]
        assert spec["tolerations"] == made.template["spec"]["tolerations"]
        (own,) = made.template["spec"]["containers"]
        assert container["volumeMounts"] == own["volumeMounts"]
        if "sshd" not in container["command"][0]:
            words = [*container["command"], *container.get("args", [])]
            assert [w.replace("$$(", "$(") for w in words] == list(made.command)
    if api != "trainjob":
        *_, body = apis()[api].objects(made)
        assert body["metadata"]["name"] == made.name
        assert body["metadata"]["namespace"] == made.namespace
        assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == made.queue
        annotations = made.template["metadata"]["annotations"]
        assert json.dumps(annotations, sort_keys=True)[1:-1] in json.dumps(body, sort_keys=True)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_kind_of_job_that_does_not_run_a_framework_says_what_it_runs(framework: str) -> None:
    made = plan(framework, 2)
    for name in set(apis()) - set(kinds(framework)):
        with pytest.raises(InputError, match=f"--api: {name} does not run framework"):
            apis()[name].objects(made)


def test_a_frameworks_job_chooses_its_runtime() -> None:
    found = contract("jax")
    other = found.runtimes[0].model_copy(update={"name": "other", "framework": "torch"})
    both = found.model_copy(update={"runtimes": (found.runtimes[0], other)})
    text = "name: a\nnodes: 1\nframework: {}\ncommand: [x]\n"
    for word, runtime in (("jax", "own"), ("torch", "other"), ("torchrun", "other")):
        assert make_plan(parse_job(text.format(word), where="job"), (), both).runtime == runtime
    with pytest.raises(InputError, match=r"framework: 'jaxx' has no runtime .* mean 'jax'"):
        make_plan(parse_job(text.format("jaxx"), where="job"), (), both)
    named = text.format("jax") + "runtime: other\n"
    with pytest.raises(InputError, match="runtime 'other' is of 'torch', not of 'jax'"):
        make_plan(parse_job(named, where="job"), (), both)


def test_what_a_framework_does_not_run_on_is_refused() -> None:
    with pytest.raises(InputError, match="nodes: 1 is too few"):
        plan("mpi", 1)
    with pytest.raises(InputError, match="processes_per_node: 4 is not allowed with jax"):
        plan("jax", 2, 4)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--tensor-model-parallel-size, '8'", None),
        ("--tensor-model-parallel-size=4, --pipeline-model-parallel-size=4", None),
        ("--tensor-model-parallel-size, '16'", "more than the 8 GPUs of a node"),
        ("--pipeline-model-parallel-size=3", "does not divide the world of 16"),
        ("--context-parallel-size=5", "does not divide the world of 16"),
        ("--expert-model-parallel-size=7", "expert tensor x expert x pipeline is 7"),
        ("--tensor-model-parallel-size=3, --pipeline-model-parallel-size=1", "is 3"),
        ("--tensor-model-parallel-size, many", "is 'many', a whole number"),
        ("--tensor-model-parallel-size", "is '', a whole number"),
    ],
)
def test_megatrons_sizes_are_held_against_the_world(words: str, problem: str | None) -> None:
    text = f"name: a\nnodes: 2\nframework: megatron\ncommand: [pretrain.py, {words}]\n"
    if problem is None:
        made = make_plan(parse_job(text, where="job"), (), contract("megatron"))
        assert made.command[:2] == ("torchrun", "pretrain.py")
        return
    with pytest.raises(InputError, match=re.escape(problem)):
        make_plan(parse_job(text, where="job"), (), contract("megatron"))


def test_deepspeeds_own_launcher_is_told_of_ssh() -> None:
    text = "name: a\nnodes: 2\nframework: deepspeed\ncommand: [deepspeed, train.py]\n"
    with pytest.raises(InputError, match="starts no launcher that is known"):
        make_plan(parse_job(text, where="job"), (), contract("deepspeed"))
    text += "launcher: own\n"
    with pytest.raises(InputError, match="starts the other nodes' processes over ssh"):
        make_plan(parse_job(text, where="job"), (), contract("deepspeed"))
