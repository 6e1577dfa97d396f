"""Jobs that would leave their fabric, or wait for ever, judged by a real API server as they come.

The older operators' kinds are served by definitions that take anything: what is asked here is
where each kind has its pods, which the operators' releases say.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from railhead import config
from railhead.base.names import FABRIC_LABEL, QUEUE_LABEL, SINGLE_NODE_LABEL
from railhead.catalog.switches import SWITCHES
from railhead.fabric.mode import NETWORKS_ANNOTATION
from railhead.resolve.guards import Guard, network
from railhead.resolve.job_guards import Chosen, queued_policy, template_policy, variables_policy
from railhead.resolve.pod_guards import demand
from railhead.resolve.runtimes import runtimes
from tests.api_server import Server, lab_definitions
from tests.components import fabrics
from tests.components.fabrics import Case, in_two
from tests.components.test_pod_guards import GPU, JOINED, RDMA, ROCE, env, eventually, namespace
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

WHERE = "guarded-jobs"
CHOSEN = Chosen(
    values={"NCCL_NET": ("IB",), "NCCL_SOCKET_IFNAME": ("=net1", "=net2")},
    devices=(GPU, RDMA),
    prefixes=("nvidia.com/",),
)
POLICIES = {
    "variables": variables_policy(CHOSEN),
    "template": template_policy(ROCE, CHOSEN),
    "queued": queued_policy({WHERE: ("training", "spare")}),
}
WIRED = {GPU: 8, RDMA: 1}
FIXED = env(NCCL_NET="IB", NCCL_SOCKET_IFNAME="=net2")

Body = dict[str, Any]


def template(
    *,
    limits: dict[str, int] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    spec: Body | None = None,
    **container: Any,
) -> Body:
    """Return a pod template that has its fabric, unless an argument says otherwise."""
    return {
        "metadata": {
            "annotations": JOINED if annotations is None else annotations,
            "labels": labels or {},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "node",
                    "image": "x",
                    "resources": {"limits": WIRED if limits is None else limits},
                    **container,
                }
            ],
            **(spec or {}),
        },
    }


def body(version: str, kind: str, spec: Body, **metadata: Any) -> Body:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "j", "namespace": WHERE, "labels": {QUEUE_LABEL: "training"}}
        | metadata,
        "spec": spec,
    }


def jobset(pod: Body, **metadata: Any) -> Body:
    job = {"parallelism": 2, "completions": 2, "template": pod}
    replicated = [{"name": "workers", "replicas": 1, "template": {"spec": job}}]
    return body("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": replicated}, **metadata)


def indexed(pod: Body, **metadata: Any) -> Body:
    spec = {"completionMode": "Indexed", "completions": 1, "parallelism": 1, "template": pod}
    return body("batch/v1", "Job", spec, **metadata)


def replicas(version: str, kind: str, field: str) -> Callable[..., Body]:
    def make(pod: Body, **metadata: Any) -> Body:
        quiet = template(limits={}, annotations={})
        workers = {"Master": {"template": quiet}, "Worker": {"replicas": 2, "template": pod}}
        return body(version, kind, {field: workers}, **metadata)

    return make


def ray(kind: str) -> Callable[..., Body]:
    def make(pod: Body, **metadata: Any) -> Body:
        head = {"template": template(limits={}, annotations={})}
        cluster = {"headGroupSpec": head, "workerGroupSpecs": [{"template": pod}]}
        spec = {"rayClusterSpec": cluster} if kind == "RayJob" else cluster
        return body("ray.io/v1", kind, spec, **metadata)

    return make


def leader_worker_set(pod: Body, **metadata: Any) -> Body:
    templates = {"leaderTemplate": template(limits={}, annotations={}), "workerTemplate": pod}
    spec = {"leaderWorkerTemplate": templates}
    return body("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec, **metadata)


KINDS: dict[str, Callable[..., Body]] = {
    "JobSet": jobset,
    "Indexed Job": indexed,
    "MPIJob": replicas("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs"),
    "PyTorchJob": replicas("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs"),
    "TFJob": replicas("kubeflow.org/v1", "TFJob", "tfReplicaSpecs"),
    "JAXJob": replicas("kubeflow.org/v1", "JAXJob", "jaxReplicaSpecs"),
    "PaddleJob": replicas("kubeflow.org/v1", "PaddleJob", "paddleReplicaSpecs"),
    "XGBoostJob": replicas("kubeflow.org/v1", "XGBoostJob", "xgbReplicaSpecs"),
    "RayCluster": ray("RayCluster"),
    "RayJob": ray("RayJob"),
    "LeaderWorkerSet": leader_worker_set,
}


def definition(served: str, kind: str) -> Body:
    group, version = served.split("/")
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                }
            ],
        },
    }


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        others = [make(template()) for make in KINDS.values()]
        made = [
            definition(other["apiVersion"], other["kind"])
            for other in others
            if other["kind"] not in ("JobSet", "Job")
        ]
        server.define([*lab_definitions(), *made])
        server.apply(namespace("unguarded-jobs", {}))
        install(server, WHERE, POLICIES)
        server.eventually_refuses(jobset(template(env=env(NCCL_NET="Socket"))))
        server.eventually_refuses(jobset(template(), labels={}))
        server.eventually_refuses(pod(template(env=env(NCCL_NET="Socket"))))
        for make in KINDS.values():
            eventually(lambda make=make: server.verdict(make(template())) == "")  # type: ignore[misc]
        yield server


def pod(one: Body) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": WHERE} | one["metadata"],
        "spec": one["spec"],
    }


def test_the_policies_are_well_typed(server: Server) -> None:
    for name in POLICIES:
        result = server.run("get", "validatingadmissionpolicy", f"{name}-{WHERE}", "-o", "json")
        checked = json.loads(result.stdout).get("status", {}).get("typeChecking", {})
        assert not checked.get("expressionWarnings"), checked


BAD: dict[str, tuple[Body, str]] = {
    "TCP": (template(env=env(NCCL_NET="Socket")), "chooses another network than the fabric's"),
    "half of the rails": (template(env=env(NCCL_IB_HCA="=mlx5_0")), "chooses another network"),
    "a variable from elsewhere": (
        template(
            env=[
                {
                    "name": "NCCL_NET",
                    "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}},
                }
            ]
        ),
        "the fabric sets NCCL_NET=IB, NCCL_SOCKET_IFNAME==net1|=net2",
    ),
    "TCP in an init container": (
        template(spec={"initContainers": [{"name": "i", "image": "x", "env": env(UCX_TLS="tcp")}]}),
        "chooses another network",
    ),
    "TCP in the command": (
        template(command=["sh", "-c", "export NCCL_IB_DISABLE=1; exec ./train"]),
        "command or args set a variable",
    ),
    "what the fabric sets taken away": (
        template(command=["env", "-u", "NCCL_NET", "./train"]),
        "take one away that the fabric sets (NCCL_NET=IB",
    ),
    "every variable taken away": (
        template(command=["sh", "-c", "exec env -i PATH=$PATH ./train"]),
        "command or args set a variable",
    ),
    "a file of variables of one's own": (
        template(
            spec={"volumes": [{"name": "v", "emptyDir": {}}]},
            volumeMounts=[{"name": "v", "mountPath": "/root/.nccl.conf"}],
        ),
        "mounts a file of NCCL's variables",
    ),
    "another file in the place of the fabric's variables": (
        template(
            spec={"volumes": [{"name": "v", "emptyDir": {}}]},
            volumeMounts=[{"name": "v", "mountPath": "/etc/nccl.conf"}],
        ),
        "leave /etc/nccl.conf to the stack's runtimes",
    ),
    "variables that nobody sees": (
        template(envFrom=[{"configMapRef": {"name": "c"}}]),
        "set in env, which wins over it, what the fabric sets (NCCL_NET=IB",
    ),
    "some of them seen": (
        template(envFrom=[{"secretRef": {"name": "c"}}], env=env(NCCL_NET="IB")),
        "what a container's envFrom brings cannot be seen",
    ),
    "GPUs without RDMA": (template(limits={GPU: 8}), "add to resources.limits of each"),
    "RDMA without the networks": (
        template(annotations={}),
        "set the annotation k8s.v1.cni.cncf.io/networks",
    ),
    "GPUs of an init container": (
        template(
            limits={},
            annotations={},
            spec={
                "initContainers": [
                    {"name": "i", "image": "x", "resources": {"limits": {GPU: 8}}},
                ]
            },
        ),
        "add to resources.limits of each",
    ),
    "no networks": (template(annotations={NETWORKS_ANNOTATION: "[]"}), "set the annotation"),
    "a privileged container": (
        template(securityContext={"privileged": True}),
        "a privileged container has the whole node",
    ),
    "the node's file system": (
        template(spec={"volumes": [{"name": "h", "hostPath": {"path": "/etc"}}]}),
        "a hostPath volume mounts the node's file system",
    ),
    "the node's processes": (template(spec={"hostPID": True}), "spec.hostPID"),
    "the node's network": (template(spec={"hostNetwork": True}), "spec.hostNetwork"),
    "a capability": (
        template(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "reaches beyond its pod",
    ),
}

GOOD: dict[str, Body] = {
    "wired": template(),
    "what the fabric sets": template(env=FIXED),
    "one's own variables": template(env=env(NCCL_DEBUG="INFO", NCCL_NET_GDR_LEVEL="SYS")),
    "variables from elsewhere below the fabric's": template(
        env=FIXED, envFrom=[{"configMapRef": {"name": "c"}}]
    ),
    "variables from elsewhere without devices": template(
        limits={}, annotations={}, envFrom=[{"configMapRef": {"name": "c"}}]
    ),
    "TCP, in words": template(labels={FABRIC_LABEL: "none"}, env=env(NCCL_NET="Socket")),
    "no fabric, in words": template(limits={GPU: 8}, annotations={}, labels={FABRIC_LABEL: "none"}),
    "each pod alone, in words": template(
        limits={GPU: 8}, annotations={}, labels={SINGLE_NODE_LABEL: "true"}
    ),
    "CPUs alone": template(limits={}, annotations={}),
    "a variable of one's own taken away": template(command=["env", "-u", "NCCL_DEBUG", "./train"]),
    "a name that only ends so": template(command=["sh", "-c", "MY_NCCL_NET=1 ./train"]),
}


# Every rule is asked of a JobSet; of the other kinds, where each has its pods.
OF_EACH_KIND = ("TCP", "TCP in an init container", "RDMA without the networks")


def test_a_job_is_refused_for_what_its_pods_would_be(server: Server) -> None:
    rows = [("JobSet", case) for case in BAD] + [(k, case) for k in KINDS for case in OF_EACH_KIND]
    for kind, case in rows:
        bad, words = BAD[case]
        verdict = server.verdict(KINDS[kind](bad))
        assert f"template-{WHERE}" in verdict, (kind, case, verdict)
        assert words in verdict, (kind, case, verdict)


def test_a_job_whose_pods_are_taken_is_taken(server: Server) -> None:
    rows = [("JobSet", case) for case in GOOD] + [(k, "no fabric, in words") for k in KINDS]
    for kind, case in rows:
        assert server.verdict(KINDS[kind](GOOD[case])) == "", (kind, case)


def test_a_ray_job_gives_its_workers_no_other_network(server: Server) -> None:
    for environment in (
        {"entrypoint": "NCCL_NET=Socket python x.py"},
        {"runtimeEnvYAML": "env_vars:\n  NCCL_NET: Socket\n"},
        {"runtimeEnvYAML": '{"env_vars": {"FI_PROVIDER": "tcp"}}'},
    ):
        job = ray("RayJob")(template())
        job["spec"] |= environment
        assert "spec.entrypoint or spec.runtimeEnvYAML sets" in server.verdict(job), environment
    good = ray("RayJob")(template())
    good["spec"] |= {"entrypoint": "python x.py", "runtimeEnvYAML": "env_vars:\n  A: NCCL_NET\n"}
    assert server.verdict(good) == ""


def test_pod_of_a_refused_job_is_refused(server: Server) -> None:
    for case in (case for case in BAD if "TCP" in case or "variable" in case):
        bad, words = BAD[case]
        verdict = server.verdict(pod(bad))
        assert f"variables-{WHERE}" in verdict, (case, verdict)
        assert words in verdict, (case, verdict)


def test_every_variable_of_the_list(server: Server) -> None:
    for name in SWITCHES:
        chosen = server.verdict(pod(template(env=env(**{name: "x"}))))
        assert "chooses another network" in chosen, name
        worded = template(command=["sh", "-c", f"{name}=x ./train"])
        assert "command or args" in server.verdict(pod(worded)), name


def test_one_pod_of_a_job_needs_no_fabric(server: Server) -> None:
    plain = body("batch/v1", "Job", {"template": template(limits={GPU: 1}, annotations={})})
    assert server.verdict(plain) == ""


NO_QUEUE = "the job has no queue, and would stay suspended for ever"
WRONG_QUEUE = (
    f"names the queue defualt, which namespace {WHERE} has not, so the job would wait for ever: "
    "name one of: training, spare"
)


def test_a_job_without_a_queue_says_so(server: Server) -> None:
    rows: list[tuple[str, dict[str, str], str]] = [
        ("JobSet", {QUEUE_LABEL: ""}, NO_QUEUE),
        ("JobSet", {QUEUE_LABEL: "defualt"}, WRONG_QUEUE),
        *((kind, {}, NO_QUEUE) for kind in KINDS if kind != "LeaderWorkerSet"),
    ]
    for kind, labels, words in rows:
        verdict = server.verdict(KINDS[kind](template(), labels=labels))
        assert f"queued-{WHERE}" in verdict, (kind, labels, verdict)
        assert words in verdict, (kind, labels, verdict)
        assert server.verdict(KINDS[kind](template(), labels={QUEUE_LABEL: "spare"})) == "", kind


def test_what_a_job_made_is_charged_with_it(server: Server) -> None:
    def owned(kind: str) -> Body:
        owner = {"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        return indexed(template(), labels={}, ownerReferences=[owner])

    assert server.verdict(owned("JobSet")) == ""
    assert "has no queue" in server.verdict(owned("CronJob")), "Kueue suspends it all the same"


def test_jobs_in_other_namespaces_are_ignored(server: Server) -> None:
    free = jobset(template(env=env(NCCL_NET="Socket")), labels={})
    free["metadata"]["namespace"] = "unguarded-jobs"
    assert server.verdict(free) == ""


def test_existing_job_may_still_be_updated(server: Server) -> None:
    """Controllers suspend an existing job, place it and remove its finalizers."""
    bad = indexed(template(env=env(NCCL_NET="Socket")), name="old")
    bad["spec"]["suspend"] = True
    kept = next(
        body
        for body in server.applied.values()
        if body["kind"].endswith("Binding") and body["metadata"]["name"] == f"template-{WHERE}"
    )
    server.run("delete", "validatingadmissionpolicybinding", f"template-{WHERE}")
    try:
        eventually(lambda: server.verdict(bad) == "")
        server.apply(bad)
    finally:
        server.apply(kept)
    server.eventually_refuses(indexed(template(env=env(NCCL_NET="Socket")), name="new"))

    def patch(change: Body) -> str:
        return server.run(
            "patch", "job", "old", "-n", WHERE, "--type=merge", "-p", json.dumps(change)
        ).stderr

    assert patch({"metadata": {"annotations": {"a": "b"}}}) == ""
    assert patch({"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}) == ""
    assert patch({"spec": {"suspend": False}}) == ""


def test_a_good_job_is_not_made_a_bad_one(server: Server) -> None:
    good = indexed(template(), name="good")
    good["spec"]["suspend"] = True
    server.apply(good)
    change = {"spec": {"template": {"metadata": {"annotations": {NETWORKS_ANNOTATION: "[]"}}}}}
    refused = server.run(
        "patch", "job", "good", "-n", WHERE, "--type=merge", "-p", json.dumps(change)
    )
    assert "set the annotation" in refused.stderr


# What Trainer makes of the stack's own runtimes, in every mode, under the guards of their stack.


def install(server: Server, where: str, policies: Mapping[str, Body]) -> None:
    server.apply(namespace(where, {"case": where}))
    for name, policy in policies.items():
        spec = copy.deepcopy(policy)
        spec["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"case": where}}
        server.guard(f"{name}-{where}", Guard(policy=spec))


@pytest.mark.parametrize("cases", in_two())
def test_what_trainer_makes_of_the_stacks_runtimes_passes(
    server: Server, cases: list[Case]
) -> None:
    made = {case.id: runtimes_of(server, case) for case in cases}
    # In force, and still the good one passes; so do its Job and its pods.
    server.policies_settled()
    for case, (trained, good) in made.items():
        where = good["metadata"]["namespace"]
        bad = copy.deepcopy(good)
        (job,) = bad["spec"]["replicatedJobs"]
        inner = job["template"]["spec"]["template"]["spec"]
        node(inner)["env"] += env(TP_SOCKET_IFNAME="lo")
        assert "chooses another network" in server.verdict(bad), case
        assert server.verdict(good) == "", case
        assert server.verdict(indexed(trained, namespace=where)) == "", case
        alone = {"apiVersion": "v1", "kind": "Pod", "spec": trained["spec"]}
        metadata = trained["metadata"] | {"name": "p", "namespace": where}
        assert server.verdict(alone | {"metadata": metadata}) == "", case


def node(pod: Body) -> Body:
    """Return the trainer's container."""
    return next(c for c in pod["containers"] if c["name"] == "node")


def runtimes_of(server: Server, case: Case) -> tuple[Body, Body]:
    """Install a stack's guards; return the pods and the JobSet that Trainer makes in it."""
    cluster = config.parse(fabrics.cluster(case), where="test")
    made = runtimes(cluster)
    where = f"made-{case.id}".lower()
    fabric, text = demand(cluster), network(cluster, made)
    install(
        server,
        where,
        {"variables": variables_policy(text), "template": template_policy(fabric, text)},
    )
    # Trainer fills in the rendezvous and the command, and leaves the rest.
    spec = copy.deepcopy(dict(made[0].spec["template"]["spec"]))
    (job,) = spec["replicatedJobs"]
    trained = job["template"]["spec"]["template"]
    container = node(trained["spec"])
    container["env"] = [e for e in container["env"] if e["name"] != "PET_NNODES"]
    container["env"] += env(PET_NNODES="2", PET_MASTER_ADDR="j-node-0-0.j")
    container["command"] = ["torchrun", "x.py"]
    return trained, body("jobset.x-k8s.io/v1alpha2", "JobSet", spec, namespace=where)
