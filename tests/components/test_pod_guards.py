"""The guards on pods, judged by a real API server: bad pods from every side, and good ones."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from railhead import config
from railhead.fabric.mode import GKE_INTERFACES, NETWORKS_ANNOTATION
from railhead.resolve.guards import Guard
from railhead.resolve.pod_guards import (
    FabricDemand,
    MountedPath,
    demand,
    network_pattern,
    pod_policies,
)
from railhead.resolve.runtimes import runtimes
from tests.api_server import Server
from tests.components import fabrics
from tests.components.fabrics import Case, in_two
from tests.engine.controlplane import ControlPlane

GPU = "nvidia.com/gpu"
RDMA = "rdma/rdma_shared_device_a"
ROCE = FabricDemand(
    title="roce in mode rdma-shared",
    gpus=(GPU,),
    devices=(RDMA,),
    attachment="multus",
    networks=("rail-0", "rail-1"),
    annotations={NETWORKS_ANNOTATION: '[{"name":"rail-0"},{"name":"rail-1"}]'},
    capabilities=("IPC_LOCK",),
    runtimes=("torch",),
)
EFA = FabricDemand(
    title="efa in mode efa",
    gpus=(GPU,),
    devices=("vpc.amazonaws.com/efa",),
    attachment="none",
    runtimes=("torch",),
)
TCPXO = FabricDemand(
    title="tcpxo in mode tcpxo",
    gpus=(GPU,),
    devices=(),
    attachment="gke",
    networks=("vpc1", "vpc2"),
    annotations={GKE_INTERFACES: '[{"interfaceName":"eth1","network":"vpc1"}]'},
    capabilities=("NET_ADMIN",),
    host_network="the daemon binds the node's own interfaces",
    host_paths=(
        MountedPath(path="/home/kubernetes/bin/nvidia/lib64", container=None, read_only=True),
        MountedPath(path="/sys", container="tcpxo-daemon", read_only=False),
    ),
    runtimes=("torch",),
)
DRANET = FabricDemand(
    title="roce in mode dranet",
    gpus=(GPU,),
    devices=(),
    attachment="claim",
    networks=("railhead-nics",),
    runtimes=("torch",),
)
NONE = FabricDemand(
    title="ethernet in mode none", gpus=(GPU,), devices=(), attachment="none", runtimes=("torch",)
)
CASES = {"roce": ROCE, "efa": EFA, "tcpxo": TCPXO, "dranet": DRANET, "none": NONE}

JOINED = {NETWORKS_ANNOTATION: ROCE.annotations[NETWORKS_ANNOTATION]}
BY: dict[str, dict[str, str]] = {
    "JobSet": {"jobset.sigs.k8s.io/jobset-name": "j"},
    "Indexed Job": {"batch.kubernetes.io/job-completion-index": "0", "job-name": "j"},
    "PyTorchJob": {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": "worker",
    },
    "MPIJob": {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/job-role": "worker"},
    "pod group": {"kueue.x-k8s.io/pod-group-name": "j"},
}

Pod = dict[str, Any]


def pod(
    case: str = "roce",
    *,
    labels: Mapping[str, str] = BY["JobSet"],
    annotations: Mapping[str, str] | None = None,
    limits: Mapping[str, int | str] | None = None,
    spec: Mapping[str, Any] | None = None,
    **container: Any,
) -> Pod:
    """Return a pod of a gang with 8 GPUs; ``container`` are more fields of its one container."""
    wanted = {GPU: 8} if limits is None else dict(limits)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": f"guards-{case}",
            "labels": dict(labels),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "containers": [
                {"name": "node", "image": "x", "resources": {"limits": wanted}, **container}
            ],
            **(spec or {}),
        },
    }


def wired(case: str = "roce", **more: Any) -> Pod:
    """Return a pod that has its fabric."""
    limits: dict[str, int | str] = {GPU: 8}
    limits.update(dict.fromkeys(CASES[case].devices, 1))
    annotations = dict(CASES[case].annotations)
    if case == "tcpxo":
        networks = [{"interfaceName": f"eth{i}", "network": f"vpc{i}"} for i in (1, 2)]
        annotations = {GKE_INTERFACES: json.dumps(networks, indent=1)}
    body = pod(case, limits=limits, annotations=annotations, **more)
    if case == "dranet":
        body["spec"]["resourceClaims"] = [
            {"name": "nics", "resourceClaimTemplateName": "railhead-nics"}
        ]
        body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "nics"}]
    return body


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def changed(body: Pod, change: Callable[[Pod], object]) -> Pod:
    body = copy.deepcopy(body)
    change(body)
    return body


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        for case, fabric in CASES.items():
            install(server, case, fabric)
        for name in ("guards-outside",):
            server.apply(namespace(name, {}))
        for case in CASES:
            # Only a guard that is in force refuses this one.
            probe = pod(case, labels={}, spec={"hostPID": True})
            server.eventually_refuses(probe)
            if case != "none":
                server.eventually_refuses(pod(case))
        server.eventually_refuses(job(parallelism=2))
        eventually(lambda: server.verdict(pod("outside")) == "")
        eventually(lambda: server.verdict(wired()) == "")
        yield server


def eventually(condition: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def namespace(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def install(server: Server, case: str, fabric: FabricDemand) -> None:
    """Apply the policies of one fabric to a namespace of its own."""
    server.apply(namespace(f"guards-{case}", {"case": case}))
    for name, made in pod_policies(fabric).items():
        spec = copy.deepcopy(made)
        selector = spec["matchConstraints"]["namespaceSelector"]
        assert selector == {"matchLabels": {"railhead.dev/training": "true"}}
        spec["matchConstraints"]["namespaceSelector"] = {"matchLabels": {"case": case}}
        server.guard(f"{name}-{case}", Guard(policy=spec))


def job(*, case: str = "roce", template: Pod | None = None, **spec: Any) -> dict[str, Any]:
    template = copy.deepcopy(template or pod(case, labels={}))
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": f"guards-{case}"},
        "spec": {
            "template": {
                "metadata": {
                    k: v for k, v in template["metadata"].items() if k in ("labels", "annotations")
                },
                "spec": template["spec"],
            },
            **spec,
        },
    }


pytestmark = pytest.mark.controlplane


def test_the_policies_are_well_typed(server: Server) -> None:
    listed = json.loads(server.run("get", "validatingadmissionpolicies", "-o", "json").stdout)
    mine = {f"{name}-{case}" for case, fabric in CASES.items() for name in pod_policies(fabric)}
    policies = [item for item in listed["items"] if item["metadata"]["name"] in mine]
    assert len(policies) == len(mine)
    for policy in policies:
        warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
        assert not warnings, json.dumps(warnings, indent=1)


def test_a_fabric_that_asks_nothing_guards_only_the_node() -> None:
    assert list(pod_policies(NONE)) == ["railhead-node-reach"]


# A pod of several nodes without its fabric.

UNWIRED: dict[str, tuple[Pod, str]] = {
    **{f"made by {kind}": (pod(labels=labels), RDMA) for kind, labels in BY.items()},
    "the networks alone": (pod(annotations=JOINED), f"{RDMA}: 1"),
    "the device alone": (pod(limits={GPU: 8, RDMA: 1}), "set the annotation k8s.v1.cni.cncf.io"),
    "zero devices": (pod(limits={GPU: 8, RDMA: 0}, annotations=JOINED), f"{RDMA}: 1"),
    "one rail of two": (
        pod(limits={GPU: 8, RDMA: 1}, annotations={NETWORKS_ANNOTATION: "rail-0"}),
        "set the annotation",
    ),
    "a rail of a longer name": (
        pod(limits={GPU: 8, RDMA: 1}, annotations={NETWORKS_ANNOTATION: "rail-0,rail-10"}),
        "set the annotation",
    ),
    "an interface that is called like a rail": (
        pod(
            limits={GPU: 8, RDMA: 1},
            annotations={
                NETWORKS_ANNOTATION: '[{"name":"x","interface":"rail-0"},{"name":"rail-1"}]'
            },
        ),
        "set the annotation",
    ),
    "one GPU": (pod(limits={GPU: 1}), RDMA),
    "the device in another container": (
        changed(
            pod(annotations=JOINED),
            lambda p: p["spec"]["containers"].append(
                {"name": "side", "image": "x", "resources": {"limits": {RDMA: 1}}}
            ),
        ),
        f"{RDMA}: 1",
    ),
    "torchrun's variable": (
        pod(labels={}, limits={GPU: 8}, env=env(PET_NNODES="2")),
        f"{RDMA}: 1",
    ),
    "torchrun's variable without GPUs": (
        pod(labels={}, limits={}, env=env(PET_NNODES="2")),
        f"{RDMA}: 1",
    ),
    "an elastic range": (pod(labels={}, env=env(PET_NNODES="1:4")), f"{RDMA}: 1"),
    "torchrun's argument": (
        pod(labels={}, command=["torchrun", "--nnodes=2", "train.py"]),
        f"{RDMA}: 1",
    ),
    "torchrun's argument in two": (
        pod(labels={}, command=["torchrun"], args=["--nnodes", "16", "train.py"]),
        f"{RDMA}: 1",
    ),
    "torchrun in a shell": (
        pod(labels={}, command=["sh", "-c", "cd /x\nexec torchrun --nnodes 4 t.py"]),
        f"{RDMA}: 1",
    ),
    "a claim of single nodes that torchrun contradicts": (
        pod(
            labels={"railhead.dev/single-node": "true"} | BY["JobSet"],
            env=env(PET_NNODES="2"),
        ),
        f"{RDMA}: 1",
    ),
    "a part of a GPU": (pod(limits={"nvidia.com/mig-3g.40gb": 1}), f"{RDMA}: 1"),
    "a GPU by a claim": (
        changed(
            pod(
                limits={},
                annotations=JOINED,
                spec={"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "gpu"}]},
            ),
            lambda p: p["spec"]["containers"][0]["resources"].update(claims=[{"name": "g"}]),
        ),
        f"{RDMA}: 1",
    ),
    "Ray": (pod(labels={"ray.io/cluster": "r"}), f"{RDMA}: 1"),
    "LeaderWorkerSet": (
        pod(labels={"leaderworkerset.sigs.k8s.io/name": "l"}),
        "pods of a LeaderWorkerSet, a StatefulSet, a Deployment or Volcano's Job have no way in",
    ),
    "StatefulSet": (
        pod(labels={"apps.kubernetes.io/pod-index": "0"}),
        "pods of a LeaderWorkerSet, a StatefulSet, a Deployment or Volcano's Job have no way in",
    ),
    "Volcano": (
        pod(labels={"volcano.sh/job-name": "v"}),
        "pods of a LeaderWorkerSet, a StatefulSet, a Deployment or Volcano's Job have no way in",
    ),
    "EFA": (pod("efa"), "vpc.amazonaws.com/efa: 1"),
    "GKE networks": (pod("tcpxo"), "set the annotation networking.gke.io/interfaces"),
    "one GKE network of two": (
        pod("tcpxo", annotations={GKE_INTERFACES: '[{"network": "vpc1"}]'}),
        "set the annotation networking.gke.io/interfaces",
    ),
    "a claim": (pod("dranet"), "spec.resourceClaims with a resourceClaimTemplateName"),
    "a claim that no container uses": (
        pod(
            "dranet",
            spec={"resourceClaims": [{"name": "n", "resourceClaimTemplateName": "railhead-nics"}]},
        ),
        "name the claim in the container's resources.claims",
    ),
    "a claim of something else": (
        changed(
            wired("dranet"),
            lambda p: p["spec"]["resourceClaims"][0].update(resourceClaimTemplateName="gpus"),
        ),
        "spec.resourceClaims",
    ),
}


def test_without_its_fabric_a_pod_does_not_start(server: Server) -> None:
    always = (
        "railhead-fabric-pod",
        "would fall back to TCP",
        "a TrainJob with a runtime of the stack (torch)",
        "railhead.dev/single-node=true",
    )
    for case, (body, words) in UNWIRED.items():
        verdict = server.verdict(body)
        for text in (*always, words):
            assert text in verdict, (case, verdict)


WIRED: dict[str, Pod] = {
    **{f"made by {kind}": wired(labels=labels) for kind, labels in BY.items()},
    **{f"on {case}": wired(case) for case in CASES},
    "networks in Multus' short form": pod(
        limits={GPU: 8, RDMA: 1},
        annotations={NETWORKS_ANNOTATION: "training/rail-0@net1, rail-1"},
    ),
    "networks in spaced JSON, with more beside them": pod(
        limits={GPU: "4", RDMA: "2"},
        annotations={
            NETWORKS_ANNOTATION: json.dumps(
                [{"name": "storage"}, {"name": "rail-1"}, {"namespace": "t", "name": "rail-0"}],
                indent=2,
            )
        },
    ),
    "a sidecar without GPUs": changed(
        wired(), lambda p: p["spec"]["containers"].append({"name": "side", "image": "x"})
    ),
    "torchrun of several nodes": wired(labels={}, env=env(PET_NNODES="16")),
    "single nodes, said": pod(labels=BY["Indexed Job"] | {"railhead.dev/single-node": "true"}),
    "single nodes, by torchrun": pod(env=env(PET_NNODES="1")),
    "a launcher without GPUs": pod(labels=BY["MPIJob"], limits={}),
    "one pod with GPUs": pod(labels={"job-name": "j"}),
    "torchrun of one node": pod(labels={}, command=["torchrun", "--nnodes=1", "t.py"]),
    "another namespace": pod("outside"),
    "four hundred variables in each of ten containers": changed(
        wired(),
        lambda p: p["spec"].update(
            containers=[
                p["spec"]["containers"][0]
                | {"name": f"c{i}", "env": env(**{f"V{n}": "x" * 50 for n in range(400)})}
                for i in range(10)
            ]
        ),
    ),
    "a long script": wired(labels={}, command=["sh", "-c", "echo x; " * 8000]),
}


def test_a_good_pod_passes(server: Server) -> None:
    for case, body in WIRED.items():
        assert server.verdict(body) == "", case


def test_fabric_cannot_be_removed_from_a_gated_pod(server: Server) -> None:
    body = wired(spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})
    body["metadata"]["name"] = "gated"
    assert server.run("create", "-f", "-", stdin=body).returncode == 0

    def patch(change: Any, kind: str = "merge") -> str:
        arguments = ("-n", "guards-roce", f"--type={kind}", "-p", json.dumps(change))
        return server.run("patch", "pod", "gated", *arguments).stderr

    refused = patch({"metadata": {"annotations": {NETWORKS_ANNOTATION: None}}})
    assert "set the annotation" in refused
    # What Kueue and other controllers write.
    assert patch({"metadata": {"labels": {"kueue.x-k8s.io/podset": "node"}}}) == ""
    assert patch({"metadata": {"finalizers": ["example.com/f"]}}) == ""
    assert patch({"metadata": {"finalizers": None}}) == ""
    gone = [{"op": "remove", "path": "/spec/schedulingGates"}]
    assert patch(gone, kind="json") == ""
    assert server.run("delete", "pod", "gated", "-n", "guards-roce", "--now").returncode == 0


def test_pods_from_before_the_guard_are_still_written_to(server: Server) -> None:
    body = pod()
    body["metadata"] |= {"name": "older", "namespace": "guards-later"}
    body["spec"] |= {"hostPID": True}
    server.apply(namespace("guards-later", {}))
    eventually(lambda: server.verdict(body) == "")
    assert server.run("create", "-f", "-", stdin=body).returncode == 0
    server.run("label", "namespace", "guards-later", "case=roce")
    fresh = changed(body, lambda p: p["metadata"].update(name="fresh"))
    server.eventually_refuses(fresh)
    for change in ({"finalizers": ["example.com/f"]}, {"finalizers": None}):
        result = server.run(
            "patch", "pod", "older", "-n", "guards-later", "--type=merge",
            "-p", json.dumps({"metadata": change}),
        )  # fmt: skip
        assert result.stderr == ""
    assert debug(server, "older", "guards-later", "general") == ""
    assert server.run("delete", "pod", "older", "-n", "guards-later", "--now").returncode == 0


# Jobs whose pods do not show that they are several.


def test_a_parallel_job_without_its_fabric_is_refused(server: Server) -> None:
    for parallelism in (2, 64):
        verdict = server.verdict(job(parallelism=parallelism, completions=parallelism))
        assert "railhead-parallel-job" in verdict
        assert "a Job of several nodes without the fabric" in verdict
    template = wired(labels={})
    assert server.verdict(job(parallelism=2, template=template)) == ""
    assert server.verdict(job(parallelism=1)) == ""
    assert server.verdict(job()) == ""
    sweep = pod(labels={"railhead.dev/single-node": "true"})
    assert server.verdict(job(parallelism=9, template=sweep)) == ""
    assert server.verdict(job(parallelism=9, template=pod(labels={}, limits={}))) == ""
    assert server.verdict(job(case="outside", parallelism=2)) == ""
    assert server.verdict(job(case="none", parallelism=2)) == ""


def test_a_job_may_not_widen_without_its_fabric(server: Server) -> None:
    body = job(parallelism=1, completions=4, suspend=True)
    assert server.run("create", "-f", "-", stdin=body).returncode == 0

    def patch(change: Any) -> str:
        arguments = ("-n", "guards-roce", "--type=merge", "-p", json.dumps({"spec": change}))
        return server.run("patch", "job", "j", *arguments).stderr

    assert "railhead-parallel-job" in patch({"parallelism": 2})
    assert patch({"parallelism": 0}) == ""
    assert patch({"suspend": False}) == ""
    assert server.run("delete", "job", "j", "-n", "guards-roce").returncode == 0


def test_pods_of_an_indexed_job_are_refused_at_creation(
    server: Server,
) -> None:
    # One pod at a time: the rule on Jobs lets it through, the one on pods does not.
    body = job(completionMode="Indexed", completions=2, parallelism=1)
    assert server.run("create", "-f", "-", stdin=body).returncode == 0

    def events() -> str:
        listed = server.run(
            "get", "events", "-n", "guards-roce", "-o", "jsonpath={.items[*].message}"
        )
        return listed.stdout

    eventually(lambda: "would fall back to TCP" in events())
    assert server.run("get", "pods", "-n", "guards-roce", "-l", "job-name=j").stdout == ""
    assert server.run("delete", "job", "j", "-n", "guards-roce").returncode == 0


# Reaching into the node.


def contains(**security: Any) -> Callable[[Pod], object]:
    return lambda p: p["spec"]["containers"][0].update(securityContext=security)


def volume(path: str, *mounts: tuple[str, bool], kind: str = "containers") -> dict[str, Any]:
    """Return a hostPath volume and containers that mount it; each a name and whether read only."""
    return {
        "volumes": [{"name": "h", "hostPath": {"path": path}}],
        kind: [
            {
                "name": name,
                "image": "x",
                "volumeMounts": [
                    {"name": "h", "mountPath": "/h"} | ({"readOnly": True} if only else {})
                ],
            }
            for name, only in mounts
        ],
    }


REACHING: dict[str, tuple[Pod, str]] = {
    "privileged": (changed(wired(), contains(privileged=True)), "securityContext.privileged"),
    "a privileged init container": (
        wired(
            spec={
                "initContainers": [
                    {"name": "i", "image": "x", "securityContext": {"privileged": True}}
                ]
            }
        ),
        "securityContext.privileged",
    ),
    "a privileged sidecar": (
        changed(
            wired(),
            lambda p: p["spec"]["containers"].append(
                {"name": "s", "image": "x", "securityContext": {"privileged": True}}
            ),
        ),
        "securityContext.privileged",
    ),
    "hostNetwork": (wired(spec={"hostNetwork": True}), "set the annotation k8s.v1.cni.cncf.io"),
    "hostPID": (wired(spec={"hostPID": True}), "shareProcessNamespace"),
    "hostIPC": (wired(spec={"hostIPC": True}), "emptyDir with medium Memory at /dev/shm"),
    "hostPath": (
        wired(spec={"volumes": [{"name": "h", "hostPath": {"path": "/dev/infiniband"}}]}),
        "use a PersistentVolumeClaim",
    ),
    "every capability": (
        changed(wired(), contains(capabilities={"add": ["ALL"]})),
        "for this fabric (roce in mode rdma-shared): IPC_LOCK",
    ),
    "SYS_ADMIN beside a good one": (
        changed(wired(), contains(capabilities={"add": ["IPC_LOCK", "SYS_ADMIN"]})),
        "securityContext.capabilities.add",
    ),
    "IPC_LOCK where the fabric needs none": (
        changed(wired("efa"), contains(capabilities={"add": ["IPC_LOCK"]})),
        "for this fabric (efa in mode efa): none",
    ),
    "a bare pod": (pod(labels={}, limits={}, spec={"hostNetwork": True}), "spec.hostNetwork"),
    "hostNetwork on EFA": (wired("efa", spec={"hostNetwork": True}), "request the fabric's"),
    "no fabric": (pod("none", spec={"hostNetwork": True}), "spec.hostNetwork"),
    "a directory that another fabric may have": (
        pod(labels={}, limits={}, spec=volume("/sys", ("tcpxo-daemon", False))),
        "hostPath",
    ),
    "the daemon's directory in the trainer": (
        pod("tcpxo", labels={}, limits={}, spec=volume("/sys", ("node", False))),
        "hostPath",
    ),
    "the daemon's directory in an init container": (
        pod(
            "tcpxo",
            labels={},
            limits={},
            spec=volume("/sys", ("start", True), kind="initContainers"),
        ),
        "hostPath",
    ),
    "a read-only directory to write to": (
        pod(
            "tcpxo",
            labels={},
            limits={},
            spec=volume("/home/kubernetes/bin/nvidia/lib64", ("node", False)),
        ),
        "hostPath",
    ),
    "below an allowed directory": (
        pod(
            "tcpxo",
            labels={},
            limits={},
            spec=volume("/sys/kernel/debug", ("tcpxo-daemon", False)),
        ),
        "hostPath",
    ),
}


def test_reaching_into_the_node_is_refused(server: Server) -> None:
    for case, (body, words) in REACHING.items():
        verdict = server.verdict(body)
        assert "railhead-node-reach" in verdict, (case, verdict)
        assert words in verdict, (case, verdict)


HARMLESS: dict[str, Pod] = {
    "the fabric's capability": changed(wired(), contains(capabilities={"add": ["IPC_LOCK"]})),
    "dropping all": changed(wired(), contains(capabilities={"drop": ["ALL"]}, privileged=False)),
    "a debugger's": changed(wired(), contains(capabilities={"add": ["SYS_PTRACE"]})),
    "said to be off": wired(spec={"hostNetwork": False, "hostPID": False, "hostIPC": False}),
    "other volumes": wired(
        spec={
            "volumes": [
                {"name": "e", "emptyDir": {"medium": "Memory"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
            ]
        }
    ),
    "a mode that needs hostNetwork": wired("tcpxo", spec={"hostNetwork": True}),
    "the mode's directories": pod(
        "tcpxo",
        labels={},
        limits={},
        spec=volume("/home/kubernetes/bin/nvidia/lib64", ("node", True), ("tcpxo-daemon", True)),
    ),
    "the daemon's directory": pod(
        "tcpxo", labels={}, limits={}, spec=volume("/sys", ("tcpxo-daemon", False))
    ),
    "another namespace": pod("outside", spec={"hostNetwork": True, "hostPID": True}),
}


def test_what_stays_in_the_pod_passes(server: Server) -> None:
    for case, body in HARMLESS.items():
        assert server.verdict(body) == "", case


def debug(server: Server, name: str, namespace: str, profile: str, *more: str) -> str:
    """`kubectl debug`: empty when the container was added, else why not."""
    result = server.run(
        "debug", name, "-n", namespace, "--image=x", f"--profile={profile}", *more, "--", "sh"
    )
    return "" if result.returncode == 0 else result.stderr


def test_a_debug_container_may_not_reach_into_the_node_either(server: Server) -> None:
    body = changed(wired(), lambda p: p["metadata"].update(name="watched"))
    assert server.run("create", "-f", "-", stdin=body).returncode == 0
    try:
        assert debug(server, "watched", "guards-roce", "general") == ""
        assert debug(server, "watched", "guards-roce", "restricted") == ""
        refused = debug(server, "watched", "guards-roce", "sysadmin")
        assert "securityContext.privileged" in refused
        assert "securityContext.capabilities.add" in debug(
            server, "watched", "guards-roce", "netadmin"
        )
    finally:
        server.run("delete", "pod", "watched", "-n", "guards-roce", "--now")


def test_a_debug_container_may_not_take_the_daemons_directory(server: Server) -> None:
    body = pod("tcpxo", labels={}, limits={}, spec=volume("/sys", ("tcpxo-daemon", False)))
    body["metadata"]["name"] = "daemon"
    assert server.run("create", "-f", "-", stdin=body).returncode == 0
    try:
        path = "/api/v1/namespaces/guards-tcpxo/pods/daemon"
        now = json.loads(server.run("get", "--raw", path).stdout)
        container = {
            "name": "look",
            "image": "x",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent",
        }
        for mounts, words in (
            ([{"name": "h", "mountPath": "/h"}], "hostPath"),
            ([], ""),
        ):
            body = copy.deepcopy(now)
            body["spec"]["ephemeralContainers"] = [container | {"volumeMounts": mounts}]
            result = server.run(
                "replace", "--raw", f"{path}/ephemeralcontainers", "-f", "-", stdin=body
            )
            assert (result.returncode == 0) == (not words), result.stderr
            assert words in result.stderr
    finally:
        server.run("delete", "pod", "daemon", "-n", "guards-tcpxo", "--now")


def test_every_message_is_short_enough_to_be_shown() -> None:
    for fabric in CASES.values():
        for spec in pod_policies(fabric).values():
            for rule in spec["validations"]:
                assert len(rule["message"]) < 1024, rule["message"]


def test_a_pattern_takes_names_as_they_are() -> None:
    assert "rail\\-0" in network_pattern("rail-0", "multus")


# The stack's own pods, of every mode, under the guards of their own stack.


@pytest.mark.parametrize("cases", in_two())
def test_the_stacks_own_pods_pass(server: Server, cases: list[Case]) -> None:
    made = {case.id: pod_of_stack(server, case) for case in cases}
    # In force, and still the good one passes.
    server.policies_settled()
    for case, (fabric, body) in made.items():
        hosted = changed(body, lambda p: p["spec"].update(hostPID=True))
        assert "railhead-node-reach" in server.verdict(hosted), case
        if fabric.devices or fabric.networks:
            spoilt = changed(body, lambda p, fabric=fabric: spoil(p, fabric))  # type: ignore[misc]
            assert "would fall back to TCP" in server.verdict(spoilt), case
        assert server.verdict(body) == "", case


def pod_of_stack(server: Server, case: Case) -> tuple[FabricDemand, Pod]:
    """Install a stack's guards; return what its fabric asks for and a pod of its runtime."""
    cluster = config.parse(fabrics.cluster(case), where="test")
    own = f"own-{case.id}".lower()
    fabric = demand(cluster)
    install(server, own, fabric)
    template = runtimes(cluster)[0].pod
    metadata = {"name": "p", "namespace": f"guards-{own}", "labels": BY["JobSet"]}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"] | metadata,
        "spec": template["spec"],
    }
    return fabric, body


def spoil(body: Pod, fabric: FabricDemand) -> None:
    """Take the fabric out of a pod."""
    for container in body["spec"]["containers"]:
        for device in fabric.devices:
            container["resources"]["limits"].pop(device, None)
            container["resources"]["requests"].pop(device, None)
        container["resources"].pop("claims", None)
    body["spec"].pop("resourceClaims", None)
    for key in (NETWORKS_ANNOTATION, GKE_INTERFACES):
        body["metadata"]["annotations"].pop(key, None)
