"""Tables with sources: what frameworks need of a launcher, and what controllers set themselves.

The tests complete a job, as rendered or as an API server stores it, in the way of its controller
and the kubelet, and compare what every rank finds with the framework's table. The tables are
written from documents and controllers' sources, apart from the code that renders.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import yaml

from railhead.config import parse
from railhead.contract import ClusterContract
from railhead.framework import FRAMEWORKS
from railhead.launch import render
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.programs.keep import POD, RUN
from railhead.resolve.cluster import resolve
from tests.components.recording import lab_cluster

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One variable, or one file, that a process must find.

    Args:
        variable: its name, or a file's path.
        meaning: in words.
        value: of rank ``r``, which is process ``l`` of node ``n``, of ``N`` nodes with ``p``
            processes each; ``hosts`` are the nodes' names, ``job`` and ``namespace`` the job's,
            ``port`` the one that its first container names.
        source: where it is demanded, with the version.
        nodes: the nodes that have it.
    """

    variable: str
    meaning: str
    value: str
    source: str
    nodes: str = "True"


_TORCHRUN = (
    "docs.pytorch.org/docs/stable/elastic/run.html, Environment Variables; torch 2.15, "
    "docs/source/elastic/run.rst"
)
_ENV = (
    "docs.pytorch.org/docs/stable/distributed.html, Environment variable initialization; torch "
    "2.15, docs/source/distributed.md"
)
_DEEPSPEED = "DeepSpeed 0.19.8, deepspeed/comm/comm.py, init_distributed, and docs/_tutorials/"
_ACCELERATE = "accelerate 1.15.0, src/accelerate/state.py, PartialState"


def _torch(also: str = "") -> tuple[Row, ...]:
    """Return the rows that ``env://`` reads; ``also`` is the source of a framework on top."""
    more = f"; {also}" if also else ""
    return (
        Row(variable="LOCAL_RANK", meaning="rank in the node", value="l", source=_TORCHRUN + more),
        Row(variable="RANK", meaning="rank in the world", value="r", source=_ENV + more),
        Row(variable="LOCAL_WORLD_SIZE", meaning="of the node", value="p", source=_TORCHRUN + more),
        Row(variable="WORLD_SIZE", meaning="all ranks", value="N * p", source=_ENV + more),
        Row(
            variable="MASTER_ADDR",
            meaning="host of rank 0",
            value="hosts[0]",
            source=_ENV + more,
        ),
        Row(
            variable="MASTER_PORT",
            meaning="free port there",
            value="29500",
            source=_ENV + more,
        ),
    )


_JAX = "docs.jax.dev/en/latest/multi_process.html; jax 0.10.2, docs/multi_process.md"
_PADDLE = (
    "paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/launch_en.html; Paddle "
    "3.3.1, python/paddle/distributed/launch/context/args_envs.py"
)
_MPIRUN = "open-mpi.org/doc/v4.1/man1/mpirun.1.php"
_RAY = (
    "docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html; Ray "
    "2.60.0, doc/source/cluster/vms/user-guides/launching-clusters/on-premises.md"
)
_HOSTFILE = "/etc/mpi/hostfile"
_FIRST = "n == 0"


def _mpi(also: str = "") -> tuple[Row, ...]:
    """Processes that mpirun starts, from the first node, on the hosts of its file."""
    more = f"; {also}" if also else ""
    exported = f"{_MPIRUN}, Exported Environment Variables{more}"
    return (
        Row(variable="OMPI_COMM_WORLD_RANK", meaning="rank", value="r", source=exported),
        Row(variable="OMPI_COMM_WORLD_SIZE", meaning="world", value="N * p", source=exported),
        Row(variable="OMPI_COMM_WORLD_LOCAL_RANK", meaning="in node", value="l", source=exported),
        Row(
            variable="OMPI_MCA_orte_default_hostfile",
            meaning="--default-hostfile, by its MCA parameter",
            value=repr(_HOSTFILE),
            nodes=_FIRST,
            source=f"{_MPIRUN}, MCA, and orte_hosts(7){more}",
        ),
        Row(
            variable=_HOSTFILE,
            meaning="every host, with as many slots as it has processes",
            value="''.join(f'{h} slots={p}\\n' for h in hosts)",
            nodes=_FIRST,
            source=f"{_MPIRUN}, Specifying Host Nodes{more}",
        ),
    )


#: Framework -> what a launcher must set.
TABLE: Mapping[str, tuple[Row, ...]] = {
    "torch": _torch(),
    "fsdp": _torch("torch 2.15, torch/distributed/fsdp/_fully_shard/_fully_shard.py, `mesh`"),
    "accelerate": _torch(_ACCELERATE),
    "deepspeed": _torch(_DEEPSPEED),
    "megatron": _torch("Megatron core 0.16.1, megatron/training/initialize.py"),
    "raw": _torch(),
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
            source="tensorflow.org/api_docs/python/tf/distribute/cluster_resolver/"
            "TFConfigClusterResolver; TensorFlow 2.21, tensorflow/python/distribute/"
            "cluster_resolver/tfconfig_cluster_resolver.py",
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
            meaning="where the head is, for `ray.init()`",
            value="hosts[0] + ':6379'",
            source=f"{_RAY}, and python/ray/_private/worker.py",
        ),
        Row(variable="RAY_HEAD", meaning="--address", value="hosts[0] + ':6379'", source=_RAY),
        Row(variable="RAY_PORT", meaning="--port of the head", value="6379", source=_RAY),
        Row(variable="RAILHEAD_NODE_RANK", meaning="--head, on 0", value="n", source=_RAY),
    ),
    "mpi": _mpi(),
    "horovod": _mpi("horovod.readthedocs.io/en/stable/mpi_include.html; Horovod 0.28.1"),
}


def asked_by(framework: str) -> tuple[Row, ...]:
    """Return what a framework's documents ask of a launcher."""
    assert framework in TABLE, f"TABLE in tests/wiring.py lacks {framework!r}"
    return TABLE[framework]


_TRAINER = "Kubeflow Trainer v2.1.0, pkg/runtime/framework/plugins/"
_OPERATOR = "training-operator v1.9.3, pkg/controller.v1/"
_MPI_OPERATOR = "MPI operator v0.7.0, pkg/controller/mpi_job_controller.go"
_KUBERAY = "KubeRay v1.5.1, ray-operator/controllers/ray/common/"
_BATCH = "Kubernetes v1.35.8, pkg/controller/job/indexed_job_utils.go, addCompletionIndexEnv"
_VOLCANO = "Volcano v1.15.1, pkg/controllers/job/plugins/svc/svc.go, OnPodCreate"


def _said(source: str, nodes: str = "True", **values: str) -> tuple[Row, ...]:
    return tuple(
        Row(variable=name, meaning="", value=value, source=source, nodes=nodes)
        for name, value in values.items()
    )


_OMPI = {
    "OMPI_MCA_orte_keep_fqdn_hostnames": "'true'",
    "OMPI_MCA_orte_default_hostfile": repr(_HOSTFILE),
    "OMPI_MCA_plm_rsh_args": "'-o ConnectionAttempts=10'",
    "OMPI_MCA_orte_set_default_slots": "p",
    _HOSTFILE: "''.join(f'{h} slots={p}\\n' for h in hosts)",
}
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}

#: Kind of job -> what its controller puts into the container that trains; of a TrainJob, by the
#: label of the framework that its policy is of.
CONTROLLERS: Mapping[str, tuple[Row, ...]] = {
    "trainjob": _said(_BATCH, JOB_COMPLETION_INDEX="n"),
    "trainjob torch": _said(
        f"{_TRAINER}torch/torch.go, EnforceMLPolicy",
        PET_NNODES="N",
        PET_NPROC_PER_NODE="p",
        PET_NODE_RANK="n",
        PET_MASTER_ADDR="hosts[0]",
        PET_MASTER_PORT="29500",
    ),
    "trainjob mpi": _said(f"{_TRAINER}mpi/mpi.go", _FIRST, **_OMPI),
    "jobset": _said(_BATCH, JOB_COMPLETION_INDEX="n"),
    "indexed-job": _said(_BATCH, JOB_COMPLETION_INDEX="n"),
    "volcano": _said(_VOLCANO, VC_NODE_HOSTS="','.join(hosts)", VC_NODE_NUM="N"),
    "pytorchjob": (
        *_said(
            f"{_OPERATOR}pytorch/envvar.go, setPodEnv",
            **_UNBUFFERED,
            WORLD_SIZE="N * p",
            RANK="n",
            PET_NODE_RANK="n",
            PET_NPROC_PER_NODE="p",
            PET_NNODES="N",
        ),
        *_said(
            f"{_OPERATOR}pytorch/master.go, Generate",
            MASTER_PORT="port['pytorchjob-port']",
            PET_MASTER_PORT="port['pytorchjob-port']",
            MASTER_ADDR="hosts[0]",
            PET_MASTER_ADDR="hosts[0]",
        ),
    ),
    "tfjob": _said(
        f"{_OPERATOR}tensorflow/tensorflow.go, genTFConfigJSONStr; none in a job of one, "
        "tfjob_controller.go, isDistributed",
        "N > 1",
        TF_CONFIG="json.dumps({'cluster': {'worker': [f'{h}:{port[\"tfjob-port\"]}' for h in hosts]"
        "}, 'task': {'type': 'worker', 'index': n}, 'environment': 'cloud'})",
    ),
    "jaxjob": _said(
        f"{_OPERATOR}jax/envvar.go, setPodEnv",
        **_UNBUFFERED,
        COORDINATOR_PORT="port['jaxjob-port']",
        COORDINATOR_ADDRESS="hosts[0]",
        NUM_PROCESSES="N",
        PROCESS_ID="n",
    ),
    "paddlejob": (
        *_said(
            f"{_OPERATOR}paddlepaddle/envvar.go, setPodEnv, without a master",
            **_UNBUFFERED,
            PADDLE_JOB_ID="job",
            PADDLE_NNODES="N",
        ),
        # The first pod has its own address there: its name's, here.
        *_said(f"{_OPERATOR}paddlepaddle/envvar.go", _FIRST, POD_IP_DUMMY="hosts[0]"),
        *_said(
            f"{_OPERATOR}paddlepaddle/envvar.go",
            _FIRST,
            PADDLE_MASTER="f'$(POD_IP_DUMMY):{port[\"master\"]}'",
        ),
        *_said(
            f"{_OPERATOR}paddlepaddle/envvar.go",
            "n > 0",
            PADDLE_MASTER="f'{hosts[0]}:{port[\"master\"]}'",
        ),
    ),
    "rayjob": (
        *_said(
            f"{_KUBERAY}pod.go, setContainerEnvVars and generateRayStartCommand",
            _FIRST,
            RAY_ADDRESS="'127.0.0.1:6379'",
            RAY_PORT="6379",
            KUBERAY_GEN_RAY_START_CMD="'ray start --head  --block  --dashboard-host=0.0.0.0 '",
        ),
        *_said(
            f"{_KUBERAY}pod.go, setContainerEnvVars and setMissingRayStartParams",
            "n > 0",
            FQ_RAY_IP="hosts[0]",
            RAY_ADDRESS="hosts[0] + ':6379'",
            RAY_PORT="6379",
            KUBERAY_GEN_RAY_START_CMD="f'ray start --address={hosts[0]}:6379  --block '",
        ),
    ),
    "mpijob": (
        *_said(_MPI_OPERATOR, _FIRST, **_OMPI, K_MPI_JOB_ROLE="'launcher'"),
        *_said(_MPI_OPERATOR, "n > 0", K_MPI_JOB_ROLE="'worker'"),
    ),
}

#: Label by which a pod knows its number, by who makes it.
_INDEX = {
    "trainjob": "batch.kubernetes.io/job-completion-index",
    "jobset": "batch.kubernetes.io/job-completion-index",
    "indexed-job": "batch.kubernetes.io/job-completion-index",
    "volcano": "volcano.sh/task-index",
}
_OPERATORS_INDEX = "training.kubeflow.org/replica-index"


@functools.cache
def contract(framework: str, gpus: int = 8, field: str = "podTemplateOverrides") -> ClusterContract:
    """Return the contract of the lab's stack on eight nodes, with one runtime."""
    raw = lab_cluster()
    raw["runtimes"] = [
        raw["runtimes"][0] | {"name": "own", "framework": framework, "gpus_per_node": gpus}
    ]
    raw["pools"][0]["nodes"] = 8
    raw["datasets"] = [
        {"name": "words", "namespace": "training", "claim": "words-1", "mount_path": "/data/words"}
    ]
    result = resolve(parse(raw, where="test")).contract
    return result.model_copy(update={"placement_field": field})


def plan(
    framework: str,
    nodes: int,
    processes: int | None = None,
    gpus: int = 8,
    name: str = "run",
    more: Mapping[str, Any] | None = None,
) -> Plan:
    """Return a job of it; ``more`` are other fields of its file."""
    text = f"name: {name}\nnodes: {nodes}\nframework: {framework}\n"
    text += "" if "command" in (more or {}) else "command: [train.py, '--lr', $(X)]\n"
    if processes is not None:
        text += f"processes_per_node: {processes}\n"
    text += yaml.safe_dump(dict(more)) if more else ""
    return make_plan(parse_job(text, where="job"), (), contract(framework, gpus))


def kinds(framework: str) -> list[str]:
    """Return the kinds of job that run a framework."""
    row = FRAMEWORKS[framework]
    generic = [] if row.fewest_nodes > 1 else [n for n, a in apis().items() if not a.own]
    return ["trainjob", *generic, *row.kinds]


#: Every legal pair of framework and kind of job.
EVERY = [(framework, api) for framework in FRAMEWORKS for api in kinds(framework)]


def objects(api: str, made: Plan) -> list[Object]:
    """Return the objects that launch writes for a plan; the job is the last."""
    return [render.train_job(made)] if api == "trainjob" else apis()[api].objects(made)


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod of a job, as its controller makes it.

    Attributes:
        host: its DNS name.
        spec: with what the controller says.
        template: as the job has it.
        labels: by the controller.
        files: path -> content, of those that the controller brings.
    """

    host: str
    spec: Object
    template: Object
    labels: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def container(self) -> Object:
        """The one that trains."""
        result: Object
        (result,) = self.spec["containers"]
        return result

    def variables(self) -> dict[str, str]:
        """Expand as the kubelet: ``$(NAME)`` of earlier ones, ``$$`` for ``$``; the last wins."""
        results: dict[str, str] = {}

        def put(match: re.Match[str]) -> str:
            return "$" if match[0] == "$$" else results.get(match[1], match[0])

        for entry in self.container["env"]:
            # For what keeps the logs, which takes them away from its command.
            if entry["name"] in (POD, RUN):
                continue
            value = entry.get("value")
            source = entry.get("valueFrom") or {}
            if secret := source.get("secretKeyRef"):
                results[entry["name"]] = f"{secret['name']}/{secret['key']}"
                continue
            if source:
                path = source["fieldRef"]["fieldPath"]
                value = self.labels[path.removeprefix("metadata.labels['").removesuffix("']")]
            results[entry["name"]] = re.sub(r"\$\$|\$\(([A-Za-z0-9_.-]+)\)", put, value or "")
        return results


def _patched(template: Object, job: str, spec: Object) -> None:
    """Merge a TrainJob's patches into its pods as Trainer does: strategically.

    v2.1.0, pkg/runtime/core/trainingruntime.go, mergePodTemplateOverrides.
    """
    own, pod = template.setdefault("metadata", {}), template["spec"]
    (container,) = pod["containers"]
    for podtemplateoverride in spec.get("podTemplateOverrides", ()):
        assert {"name": job} in podtemplateoverride["targetJobs"]
        metadata, patch = (
            podtemplateoverride.get("metadata", {}),
            podtemplateoverride.get("spec", {}),
        )
        own["labels"] = own.get("labels", {}) | metadata.get("labels", {})
        if "annotations" in metadata:
            kept = {} if "$patch" in metadata["annotations"] else own.get("annotations", {})
            texts = {k: v for k, v in metadata["annotations"].items() if k != "$patch"}
            own["annotations"] = kept | texts
        # By the merge keys of both lists in the API (core/v1): the name, and the path.
        volumes = (*pod.get("volumes", ()), *patch.get("volumes", ()))
        pod["volumes"] = list({v["name"]: v for v in volumes}.values())
        for other in patch.get("containers", ()):
            assert other["name"] == container["name"]
            mounts = (*container.get("volumeMounts", ()), *other["volumeMounts"])
            container["volumeMounts"] = list({m["mountPath"]: m for m in mounts}.values())


def _templates(api: str, made: Plan, job: Object) -> Iterator[tuple[str, Object, str | None]]:
    """(host, pod template, label with its number) of each pod, in the order of their numbers."""
    name, nodes, spec = made.name, made.nodes, job["spec"]
    if api == "trainjob":
        trainer = spec["trainer"]
        template = copy.deepcopy(dict(made.template))
        (container,) = template["spec"]["containers"]
        # Trainer v2.1.0, pkg/runtime: in place by name, the job's over the runtime's.
        by_name = {e["name"]: e for e in container["env"]} | {e["name"]: e for e in trainer["env"]}
        container |= {"command": trainer["command"], "args": trainer.get("args", [])}
        container["env"] = list(by_name.values())
        _patched(template, made.replicated_job, spec)
        for i in range(trainer["numNodes"]):
            first = made.replicated_job if i == 0 else "node"
            number = i - 1 if i and made.replicated_job != "node" else i
            yield f"{name}-{first}-0-{number}.{name}", template, _INDEX[api]
    elif api in ("jobset", "indexed-job"):
        inner = spec["replicatedJobs"][0]["template"]["spec"] if api == "jobset" else spec
        assert inner["parallelism"] == inner["completions"] == nodes
        assert inner["completionMode"] == "Indexed"
        before = f"{name}-node-0" if api == "jobset" else name
        for i in range(nodes):
            yield f"{before}-{i}.{name}", inner["template"], _INDEX[api]
        if api == "indexed-job":
            assert inner["template"]["spec"]["subdomain"] == name
    elif api == "volcano":
        (task,) = spec["tasks"]
        assert task["replicas"] == spec["minAvailable"] == nodes
        for i in range(nodes):
            yield f"{name}-{task['name']}-{i}.{name}", task["template"], _INDEX[api]
    elif api == "rayjob":
        # utils/util.go: GenerateRayClusterName, GenerateHeadServiceName, GenerateFQDNServiceName.
        cluster, raised = f"{name}-x7k2p", spec["rayClusterSpec"]
        head = f"{cluster}-head-svc.{made.namespace}.svc.cluster.local"
        yield head, raised["headGroupSpec"]["template"], None
        for group in raised.get("workerGroupSpecs", ()):
            assert group["replicas"] == group["minReplicas"] == group["maxReplicas"]
            for i in range(group["replicas"]):
                yield f"{cluster}-{group['groupName']}-worker-{i}", group["template"], None
    elif api == "mpijob":
        roles = spec["mpiReplicaSpecs"]
        assert spec["runLauncherAsWorker"]
        after = f"{name}.{made.namespace}.svc"
        for role in ("Launcher", "Worker"):
            for i in range(roles[role]["replicas"]):
                host = f"{name}-worker-{i}" if role == "Worker" else f"{name}-launcher"
                yield f"{host}.{after}", roles[role]["template"], None
    else:
        (replicas,) = (f for f in spec if f.endswith("ReplicaSpecs"))
        after = f".{made.namespace}.svc" if api == "tfjob" else ""
        for role in ("Master", "Worker"):
            for i in range(spec[replicas].get(role, {}).get("replicas", 0)):
                host = f"{name}-{role.lower()}-{i}{after}"
                yield host, spec[replicas][role]["template"], _OPERATORS_INDEX


@functools.cache
def _code(text: str) -> CodeType:
    return compile(text, "a row of the tables", "eval")


def pods(api: str, made: Plan, bodies: Sequence[Object]) -> list[Pod]:
    """Return each of a job's pods, whose objects are ``bodies``, the job the last of them."""
    job = bodies[-1]
    results = list(_templates(api, made, job))
    assert len(results) == made.nodes
    framework = made.framework
    assert framework is not None
    rows = list(CONTROLLERS[api])
    if api == "trainjob":
        policy = "torch" if framework.label == "torch" else "mpi" if framework.servers else ""
        rows += CONTROLLERS.get(f"trainjob {policy}", ())
    counted = _processes(api, made, job["spec"])
    numbers: dict[str | None, int] = {}
    hosts = [host for host, _, _ in results]
    result = []
    for n, (host, template, label) in enumerate(results):
        (container,) = template["spec"]["containers"]
        container = {**container, "env": [*container["env"]]}
        spec = {**template["spec"], "containers": [container]}
        own = label if label != _OPERATORS_INDEX else host.rpartition("-")[0]
        number = numbers.get(own, 0)
        numbers[own] = number + 1
        scope = {
            "n": n,
            "N": len(results),
            "p": counted,
            "hosts": hosts,
            "job": job["metadata"]["name"],
            "namespace": job["metadata"]["namespace"],
            "port": {p["name"]: p["containerPort"] for p in container.get("ports", [])},
            "json": json,
        }
        files = {}
        by_name = {e["name"]: e for e in container["env"]} if api == "trainjob" else None
        for row in rows:
            if not eval(_code(row.nodes), {}, scope):
                continue
            value = str(eval(_code(row.value), scope))
            if row.variable.startswith("/"):
                files[row.variable] = value
            elif by_name is not None:
                by_name[row.variable] = {"name": row.variable, "value": value}
            else:
                container["env"].append({"name": row.variable, "value": value})
        if by_name is not None:
            container["env"] = list(by_name.values())
        labels = {} if label is None else {label: str(number)}
        result.append(Pod(host=host, spec=spec, template=template, labels=labels, files=files))
    return result


def _processes(api: str, made: Plan, spec: Object) -> Any:
    """Return the processes of a pod as the job's object states them."""
    if api == "trainjob":
        return spec["trainer"].get("numProcPerNode", made.processes_per_node)
    return spec.get({"pytorchjob": "nprocPerNode", "mpijob": "slotsPerWorker"}.get(api, ""), 0)


def _torchrun(found: Sequence[Pod], node: int, local: int) -> dict[str, str]:
    """torch 2.15, torch/distributed/run.py (arguments, each else from ``PET_`` and its name)."""
    text = found[node].variables()
    each = int(text["PET_NPROC_PER_NODE"])
    return {
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(each),
        "RANK": str(int(text["PET_NODE_RANK"]) * each + local),
        "WORLD_SIZE": str(int(text["PET_NNODES"]) * each),
        "MASTER_ADDR": text["PET_MASTER_ADDR"],
        "MASTER_PORT": text["PET_MASTER_PORT"],
    }


def _paddle(found: Sequence[Pod], node: int, local: int) -> dict[str, str]:
    """Paddle 3.3.1, distributed/launch/controllers/collective.py, _build_pod_with_master."""
    text = found[node].variables()
    each = int(text["PADDLE_NPROC_PER_NODE"])
    return {
        "PADDLE_TRAINER_ID": str(int(text["PADDLE_RANK"]) * each + local),
        "PADDLE_TRAINERS_NUM": str(int(text["PADDLE_NNODES"]) * each),
    }


def _mpirun(found: Sequence[Pod], node: int, local: int) -> dict[str, str]:
    """mpirun(1) of 4.1: by slot, from the first host of the file on; -np says how many."""
    first = found[0]
    file = first.files[first.variables()["OMPI_MCA_orte_default_hostfile"]]
    slots = {host: int(count) for host, count in re.findall(r"(\S+) slots=(\d+)\n", file)}
    hosts = list(slots)
    words = [*first.container["command"], *first.container.get("args", [])]
    before = sum(slots[host] for host in hosts[: hosts.index(found[node].host)])
    return {
        "OMPI_COMM_WORLD_RANK": str(before + local),
        "OMPI_COMM_WORLD_SIZE": words[words.index("-np") + 1],
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
    }


def _ray_start(found: Sequence[Pod], node: int, local: int) -> dict[str, str]:
    """Return what KubeRay's own ``ray start`` says in place of variables; none in other pods."""
    del local
    environment = found[node].variables()
    words = environment.get("KUBERAY_GEN_RAY_START_CMD", "").split()
    if not words:
        return {}
    if "--head" in words:
        assert environment["RAY_ADDRESS"] == "127.0.0.1:6379"
        address = f"{found[0].host}:6379"
        return {"RAILHEAD_NODE_RANK": "0", "RAY_HEAD": address, "RAY_ADDRESS": address}
    (address,) = (word.partition("=")[2] for word in words if word.startswith("--address="))
    return {"RAILHEAD_NODE_RANK": str(node), "RAY_HEAD": address}


#: Launcher -> the variables that it sets for process ``local`` of a node, from its own; a variable
#: that it needs and does not find is a KeyError. Others start no processes.
LAUNCHERS: Mapping[str, Callable[[Sequence[Pod], int, int], dict[str, str]]] = {
    "torchrun": _torchrun,
    "paddle.distributed.launch": _paddle,
    "mpirun": _mpirun,
    "ray start": _ray_start,
}


def _of_json(text: str | None, keys: Iterable[str]) -> Any:
    """Return these keys of a JSON object; other text is returned as it is."""
    try:
        held = json.loads(text or "{}")
    except ValueError:
        return text
    return {key: held.get(key) for key in keys}


def differences(framework: str, api: str, made: Plan, bodies: Sequence[Object]) -> list[str]:
    """Return what a rank does not find as its framework requires it, in words."""
    return unmet(framework, made, pods(api, made, bodies))


def unmet(framework: str, made: Plan, result: Sequence[Pod]) -> list[str]:
    """Return the same of pods that are there, in the order of their numbers."""
    row = FRAMEWORKS[framework]
    hosts = [pod.host for pod in result]
    wrong = []
    launcher = LAUNCHERS.get(row.launcher)
    for n, pod in enumerate(result):
        for local in range(made.processes_per_node):
            environment = pod.variables() | dict(pod.files)
            if launcher is not None:
                try:
                    environment |= launcher(result, n, local)
                except (KeyError, ValueError) as error:
                    wrong.append(f"{row.launcher} on node {n} is not told {error}")
                    continue
            scope = {
                "r": n * made.processes_per_node + local,
                "l": local,
                "n": n,
                "N": made.nodes,
                "p": made.processes_per_node,
                "hosts": hosts,
            }
            for wanted in asked_by(framework):
                if not eval(_code(wanted.nodes), {}, scope):
                    continue
                expected = eval(_code(wanted.value), scope)
                got: Any = environment.get(wanted.variable)
                if isinstance(expected, dict):
                    got = _of_json(got, expected)
                else:
                    expected = str(expected)
                if got != expected:
                    wrong.append(
                        f"rank {scope['r']} on node {n}: {wanted.variable} is {got!r}, not "
                        f"{expected!r} ({wanted.source})"
                    )
    return wrong
