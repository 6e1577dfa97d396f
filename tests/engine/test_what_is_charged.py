"""Every kind of job is charged whole: the real Kueue, as a stack configures it, reads each one.

Kueue's own process and webhooks judge objects of the operators' own definitions, under the stack's
queues and guards; nothing runs the pods, which a queue charges before there are any. What is
expected is written by hand: pods, and what each of them takes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.names import KUEUE_API, QUEUE_LABEL, TRAINER_API
from railhead.base.quantity import parse
from railhead.components.controllers.kueue import FRAMEWORKS, POD_FRAMEWORKS
from railhead.config import parse as parse_config
from railhead.launch import render
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.resolve.cluster import resolve
from railhead.resolve.retention import cron_jobs
from tests import crds
from tests.api_server import Server
from tests.components.recording import Recording, fake_lab, run_program, stack_cluster
from tests.components.test_api_server import manifests
from tests.engine.controlplane import PROGRAMS, ControlPlane, locate
from tests.kueue_manager import eventually, kueue
from tests.sdk import submit

pytestmark = pytest.mark.controlplane

WHERE = "training"
GPU, RDMA = "nvidia.com/gpu", "rdma/rdma_shared_device_a"
NODES = 8
Body = dict[str, Any]


def cluster() -> Body:
    """Return the lab's stack on eight nodes, with a runtime for each kind of job.

    Its queues also admit pods, which must not change what any other kind is charged.
    """
    body = stack_cluster("lab") | {"pod_groups": True}
    body["pools"][0]["nodes"] = NODES
    first = body["runtimes"][0]
    body["runtimes"] = [
        first | {"name": name, "framework": name}
        for name in ("torch", "jax", "mpi", "tensorflow", "paddle", "raw")
    ]
    return body


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(cluster(), cache)


@pytest.fixture(scope="module")
def server(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with queued(recording, tmp_path_factory.mktemp("charged"), NODES) as server:
        yield server


@contextmanager
def queued(recording: Recording, folder: Path, nodes: int) -> Iterator[Server]:
    """Yield a server with a stack's objects, ready nodes and the real Kueue.

    The server has its own control plane, since Kueue's webhooks would disturb other tests.
    """
    results = {name: locate(name) for name in PROGRAMS}
    if missing := [name for name, path in results.items() if path is None]:
        pytest.skip(f"no {', '.join(missing)}: run `railhead lab build`")
    plane = ControlPlane(
        folder / "plane",
        {name: path for name, path in results.items() if path is not None},
        without=("node-lifecycle-controller",),
    )
    try:
        plane.start()
        server = Server(plane)
        (release,) = (
            r.inputs
            for r in recording.of_type("kubernetes:helm.sh/v3:Release")
            if r.inputs["name"] == "kueue"
        )
        text = release["values"]["managerConfig"]["controllerManagerConfigYaml"]
        nad = crds.operators("k8s.cni.cncf.io")
        with kueue(server, folder / "kueue", yaml.safe_load(text), nad):
            for body in manifests(recording):
                server.apply(body)
            server.policies_settled()
            for number in range(nodes):
                add_node(server, number)
            yield server
    finally:
        plane.stop()


def add_node(server: Server, number: int) -> None:
    """Add a node of the pool whose status says that it is ready and has its devices."""
    name = f"node-{number}"
    labels = {
        "kubernetes.io/hostname": name,
        "topology.railhead.dev/block": "b0",
        "topology.railhead.dev/rack": f"r{number // 4}",
        "railhead.dev/pool": "gpu",
        "railhead.dev/fabric": "ready",
    }
    server.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    room = {"cpu": "2", "memory": "4Gi", "pods": "110", GPU: "8", RDMA: "63"}
    ready = {"type": "Ready", "status": "True", "reason": "Test"}
    # Admission taints a new node as not ready, and what would take the taint away does not run.
    for path, change in (
        ("/status", {"status": {"allocatable": room, "conditions": [ready]}}),
        ("", {"spec": {"taints": None}}),
    ):
        server.client.request(
            "PATCH",
            f"/api/v1/nodes/{name}{path}",
            body=change,
            content_type="application/merge-patch+json",
        )


def plan(framework: str, nodes: int, more: str = "") -> Plan:
    text = f"name: j\nnodes: {nodes}\nframework: {framework}\ncommand: [train.py]\n{more}"
    contract = resolve(parse_config(cluster(), where="test")).contract
    return make_plan(parse_job(text, where="job"), (), contract)


def template(*, devices: bool = True) -> Body:
    """Return a pod as the runtimes have it, for kinds that `launch` does not make."""
    if not devices:
        few = {"requests": {"cpu": "100m", "memory": "256Mi"}}
        spec = {"containers": [{"name": "head", "image": "x", "resources": few}]}
        return {"metadata": {}, "spec": spec}
    pod = copy.deepcopy(plan("raw", 2).template)
    pod["spec"]["containers"][0]["command"] = ["true"]
    return pod


def custom(version: str, kind: str, spec: Body) -> Body:
    labels = {QUEUE_LABEL: WHERE}
    metadata = {"name": "j", "namespace": WHERE, "labels": labels}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def launched(api: str, framework: str, nodes: int, more: str = "") -> Callable[[], list[Body]]:
    return lambda: apis()[api].objects(plan(framework, nodes, more))


def train_job(nodes: int) -> Callable[[], list[Body]]:
    return lambda: [render.train_job(plan("torch", nodes))]


def ray_cluster() -> Body:
    workers = {"groupName": "gpus", "replicas": 2, "minReplicas": 2, "maxReplicas": 2}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template(devices=False)},
        "workerGroupSpecs": [workers | {"rayStartParams": {}, "template": template()}],
    }


def clearing() -> list[Body]:
    """Return the nightly job that removes a claim's old checkpoints, as its CronJob has it."""
    raw = cluster()
    raw["checkpoints"][0]["retention"] = {"days": 30, "keep": 3}
    (spec,) = cron_jobs(parse_config(raw, where="test"), WHERE).values()
    metadata = {"name": "j", "namespace": WHERE, **spec["jobTemplate"]["metadata"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    return [job | {"spec": spec["jobTemplate"]["spec"]}]


def two_jobs() -> list[Body]:
    """Return a JobSet of two replicated jobs, one of them twice."""

    def job(name: str, replicas: int, pods: int) -> Body:
        spec = {"parallelism": pods, "completions": pods, "template": template()}
        return {"name": name, "replicas": replicas, "template": {"spec": spec}}

    spec = {"replicatedJobs": [job("leader", 1, 1), job("worker", 2, 3)]}
    return [custom("jobset.x-k8s.io/v1alpha2", "JobSet", spec)]


def xgboost() -> list[Body]:
    roles: dict[str, Body] = {
        "Master": {"replicas": 1, "template": template()},
        "Worker": {"replicas": 2, "template": template()},
    }
    for role in roles.values():
        role["template"]["spec"]["containers"][0]["name"] = "xgboost"
    return [custom("kubeflow.org/v1", "XGBoostJob", {"xgbReplicaSpecs": roles})]


@dataclass(frozen=True, kw_only=True)
class Charge:
    """Charge of a job: its pod sets, their pods with devices, and its other resources."""

    make: Callable[[], list[Body]]
    sets: Mapping[str, int]
    whole: int
    cpu: str = "0"
    memory: str = "0"


KINDS: dict[str, Charge] = {
    "TrainJob of 1": Charge(make=train_job(1), sets={"node": 1}, whole=1),
    "TrainJob of 5": Charge(make=train_job(5), sets={"node": 5}, whole=5),
    "JobSet": Charge(make=launched("jobset", "torch", 3), sets={"node": 3}, whole=3),
    "JobSet of roles": Charge(
        make=launched("jobset", "torch", 2, "roles: {servers: {nodes: 3, command: [serve.py]}}\n"),
        sets={"node": 2, "servers": 3},
        whole=5,
    ),
    "JobSet of several": Charge(make=two_jobs, sets={"leader": 1, "worker": 6}, whole=7),
    "Job": Charge(make=launched("indexed-job", "torch", 4), sets={"main": 4}, whole=4),
    "Job of a claim's retention": Charge(
        make=clearing, sets={"main": 1}, whole=0, cpu="100m", memory="128Mi"
    ),
    "MPIJob": Charge(make=launched("mpijob", "mpi", 3), sets={"launcher": 1, "worker": 2}, whole=3),
    "PyTorchJob": Charge(
        make=launched("pytorchjob", "torch", 3), sets={"master": 1, "worker": 2}, whole=3
    ),
    "TFJob": Charge(make=launched("tfjob", "tensorflow", 3), sets={"worker": 3}, whole=3),
    "JAXJob": Charge(make=launched("jaxjob", "jax", 3), sets={"worker": 3}, whole=3),
    "PaddleJob": Charge(make=launched("paddlejob", "paddle", 3), sets={"worker": 3}, whole=3),
    "XGBoostJob": Charge(make=xgboost, sets={"master": 1, "worker": 2}, whole=3),
    "RayJob": Charge(
        make=launched("rayjob", "ray", 3),
        sets={"head": 1, "worker": 2, "submitter": 1},
        whole=3,
        cpu="500m",
        memory="200Mi",
    ),
    "RayCluster": Charge(
        make=lambda: [custom("ray.io/v1", "RayCluster", ray_cluster())],
        sets={"head": 1, "gpus": 2},
        whole=2,
        cpu="100m",
        memory="256Mi",
    ),
}


GROUP = "kueue.x-k8s.io/pod-group-name"
#: Labels and annotations of pods, of LeaderWorkerSet v0.7.0 (api/leaderworkerset/v1).
LWS = "leaderworkerset.sigs.k8s.io"


def pod(name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Body:
    made = {"apiVersion": "v1", "kind": "Pod", **template()}
    had = made["metadata"]
    made["metadata"] = {
        "name": name,
        "namespace": WHERE,
        "labels": {**had.get("labels", {}), **labels},
        "annotations": {**had.get("annotations", {}), **annotations},
    }
    return made


def pod_group(size: int) -> list[Body]:
    labels = {QUEUE_LABEL: WHERE, GROUP: "j"}
    count = {"kueue.x-k8s.io/pod-group-total-count": str(size)}
    return [pod(f"j-{number}", labels, count) for number in range(size)]


def leader_worker_set(replicas: int, size: int) -> Body:
    """Groups of ``size`` pods, of which the first has a template of its own."""
    templates = {"size": size, "leaderTemplate": template(), "workerTemplate": template()}
    # What its own webhook fills in, which is not here.
    update = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1}}
    spec = {"replicas": replicas, "leaderWorkerTemplate": templates, "rolloutStrategy": update}
    return custom("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)


def members(stored: Body, group: int) -> list[Body]:
    """Return the pods of a group, as the set's controller and webhook make them of what is stored.

    Read in pkg/controllers (the two StatefulSets' templates) and pkg/webhooks/pod_webhook.go of
    LeaderWorkerSet v0.7.0.
    """
    spec, leader = stored["spec"]["leaderWorkerTemplate"], f"j-{group}"
    results = []
    for index in range(spec["size"]):
        role = spec["workerTemplate" if index else "leaderTemplate"]
        labels = {f"{LWS}/name": "j", f"{LWS}/group-index": str(group)}
        annotations = {f"{LWS}/size": str(spec["size"])}
        if index:
            annotations[f"{LWS}/leader-name"] = leader
        had = role["metadata"]
        made = pod(
            f"{leader}-{index}" if index else leader,
            had.get("labels", {}) | labels | {f"{LWS}/worker-index": str(index)},
            had.get("annotations", {}) | annotations,
        )
        results.append(made)
    return results


def workloads(server: Server) -> list[Body]:
    path = f"/apis/{KUEUE_API}/namespaces/{WHERE}/workloads"
    result: list[Body] = server.client.request("GET", path).body["items"]
    return result


def usage(server: Server) -> dict[str, Decimal]:
    """Resource -> what the cluster queue says is in use, of all its flavors."""
    path = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"
    status = server.client.request("GET", path).body.get("status", {})
    results: dict[str, Decimal] = {}
    for flavor in status.get("flavorsUsage", []):
        for resource in flavor["resources"]:
            total = parse(resource["total"])
            results[resource["name"]] = results.get(resource["name"], Decimal(0)) + total
    return results


def all_admitted(server: Server) -> list[Body]:
    return [
        workload
        for workload in workloads(server)
        for condition in workload.get("status", {}).get("conditions", [])
        if condition["type"] == "Admitted" and condition["status"] == "True"
    ]


def admitted(server: Server) -> Body:
    """Return the one workload that is admitted, or nothing."""
    return next(iter(all_admitted(server)), {})


def counts(workload: Body) -> list[int]:
    return sorted(s.get("count", 1) for s in workload["spec"]["podSets"])


def gates(server: Server, name: str, namespace: str = WHERE) -> list[str]:
    """Return the scheduling gates that a pod still has."""
    result = server.client.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}").body
    return [gate["name"] for gate in result["spec"].get("schedulingGates", [])]


def whole(pods: int) -> dict[str, Decimal]:
    """Return the resources of so many of the runtime's pods."""
    return {
        GPU: Decimal(8 * pods),
        RDMA: Decimal(pods),
        "cpu": pods * parse("200m"),
        "memory": pods * parse("512Mi"),
    }


@pytest.fixture
def empty(server: Server) -> Iterator[Server]:
    """A queue that is charged nothing, before and after."""
    assert not workloads(server)
    made = dict(server.applied)
    yield server
    mine = [body for path, body in server.applied.items() if path not in made]
    server.delete(mine)
    # Not left to the garbage collector, which looks for new kinds twice a minute.
    server.run("delete", "workloads.kueue.x-k8s.io", "--all", "-n", WHERE, "--wait=false")
    server.eventually_gone(mine, seconds=120)
    for path in set(server.applied) - set(made):
        del server.applied[path]
    eventually(lambda: not workloads(server) and not any(usage(server).values()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_is_charged_whole(empty: Server, kind: str) -> None:
    charge = KINDS[kind]
    for body in charge.make():
        empty.apply(body)
    workload = eventually(lambda: admitted(empty))
    assert {s["name"]: s.get("count", 1) for s in workload["spec"]["podSets"]} == charge.sets
    assigned = workload["status"]["admission"]["podSetAssignments"]
    assert {a["name"]: a["count"] for a in assigned} == charge.sets
    expected = whole(charge.whole)
    expected["cpu"] += parse(charge.cpu)
    expected["memory"] += parse(charge.memory)
    eventually(lambda: usage(empty) == expected)
    assert len(workloads(empty)) == 1, "the job is charged once"


#: What the documentation of the SDK calls its first example, as a file: it sends a function's text.
_SDK = """
from kubeflow.trainer import CustomTrainer, TrainerClient

def train():
    import torch.distributed as dist
    dist.init_process_group("gloo")

client = TrainerClient()
print(*(runtime.name for runtime in client.list_runtimes()), sep=",")
print(client.train(runtime=client.get_runtime("torch"), trainer=CustomTrainer(func=train{more})))
"""


@pytest.mark.parametrize(("more", "nodes"), [("", 1), (", num_nodes=3", 3)])
def test_kubeflow_sdk_jobs_are_charged_whole(
    empty: Server, tmp_path: Path, more: str, nodes: int
) -> None:
    """The queue is the namespace's, the size the runtime's, unless it says one."""
    text = _SDK.replace("{more}", more)
    where = empty.plane.kubeconfig
    made = submit(text, kubeconfig=where, namespace=WHERE, folder=tmp_path)
    listed, name = made[-2:]
    assert {"torch", "jax"} <= set(listed.split(","))
    metadata = {"name": name, "namespace": WHERE}
    body = {"apiVersion": TRAINER_API, "kind": "TrainJob", "metadata": metadata}
    empty.applied[empty.path(body)] = body
    workload = eventually(lambda: admitted(empty))
    assert {s["name"]: s.get("count", 1) for s in workload["spec"]["podSets"]} == {"node": nodes}
    assert workload["spec"]["queueName"] == "default"
    eventually(lambda: usage(empty).get(GPU) == 8 * nodes)


def test_a_pod_group_is_charged_whole(empty: Server) -> None:
    group = pod_group(3)
    for body in group[:2]:
        empty.apply(body)
        assert "kueue.x-k8s.io/admission" in gates(empty, body["metadata"]["name"])
    assert not workloads(empty), "nothing is charged for a part of a group"
    empty.apply(group[2])
    workload = eventually(lambda: admitted(empty))
    assert counts(workload) == [3]
    eventually(lambda: usage(empty) == whole(3))
    eventually(lambda: not any(gates(empty, body["metadata"]["name"]) for body in group))
    assert len(workloads(empty)) == 1


def test_a_pod_alone_is_charged(empty: Server) -> None:
    """A StatefulSet or a Deployment makes such a pod where its template names a queue."""
    empty.apply(pod("j", {QUEUE_LABEL: WHERE}, {}))
    assert counts(eventually(lambda: admitted(empty))) == [1]
    eventually(lambda: usage(empty) == whole(1))


def test_each_group_of_a_leader_worker_set_is_charged_whole(empty: Server) -> None:
    asked = leader_worker_set(replicas=2, size=3)
    empty.apply(asked)
    stored = empty.client.request("GET", empty.path(asked)).body
    eventually(lambda: len(all_admitted(empty)) == 2)
    assert [counts(workload) for workload in workloads(empty)] == [[1, 2], [1, 2]]
    eventually(lambda: usage(empty) == whole(6))
    pods = [body for group in range(2) for body in members(stored, group)]
    for body in pods:
        empty.apply(body)
    eventually(lambda: not any(gates(empty, body["metadata"]["name"]) for body in pods))
    assert len(workloads(empty)) == 2, "its pods are charged once"
    assert usage(empty) == whole(6)


def test_no_kind_is_enabled_that_is_not_tried() -> None:
    tried = {body["kind"].lower() for charge in KINDS.values() for body in charge.make()}
    tried |= {body["kind"].lower() for body in (*pod_group(1), leader_worker_set(1, 1))}
    assert {name.rpartition("/")[2] for name in (*FRAMEWORKS, *POD_FRAMEWORKS)} <= tried


def test_pod_without_a_queue_is_refused(server: Server) -> None:
    """A namespace with one queue gives it to every pod; here the label names none that is there."""
    alone = pod("alone", {QUEUE_LABEL: "nowhere"}, {})
    assert "names the queue nowhere, which namespace training has not" in server.verdict(alone)
    lws = leader_worker_set(1, 2)
    lws["metadata"]["labels"][QUEUE_LABEL] = "nowhere"
    assert "names the queue nowhere" in server.verdict(lws)


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_pods_of_other_namespaces_are_left_alone(server: Server, namespace: str) -> None:
    spec = {"containers": [{"name": "c", "image": "x"}], "serviceAccountName": "default"}
    metadata = {"name": "elsewhere", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    eventually(lambda: server.verdict(body) == "")
    server.apply(body)
    try:
        assert gates(server, "elsewhere", namespace) == []
    finally:
        server.delete([body])
