"""Objects of the stack on a real API server: their schemas, and the guards' verdicts.

The controllers do not run here, so their webhooks are left out; the lab's tests have them.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from railhead import config
from railhead.base.names import SINGLE_NODE_LABEL
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.resolve.retention import cron_jobs
from tests import crds
from tests.api_server import Server, lab_definitions
from tests.components.recording import (
    Recording,
    fake_lab,
    lab_cluster,
    run_program,
    stack_cluster,
)
from tests.engine.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

QUEUE = "kueue.x-k8s.io/queue-name"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
FABRIC_NONE = {"labels": {"railhead.dev/fabric": "none"}}


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        server.define([*lab_definitions(), *crds.operators("k8s.cni.cncf.io")])
        yield server


def integers(value: Any) -> Any:
    """Return whole floats as integers: the engine's protocol has floats only."""
    if isinstance(value, dict):
        return {key: integers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [integers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def manifests(recording: Recording) -> list[dict[str, Any]]:
    """Return the objects that the stack applies, dependencies first; no Release, no Patch."""
    ordered = sorted(recording.resources, key=lambda urn: len(recording.before(urn)))
    resources = [recording.resources[urn] for urn in ordered]
    return [
        integers(dict(r.inputs))
        for r in resources
        if r.custom and "kind" in r.inputs and not r.type.endswith("Patch")
    ]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    cache = tmp_path_factory.mktemp("cache")
    fake_lab(cache)
    return run_program(lab_cluster(), cache)


@pytest.fixture(scope="module")
def applied(server: Server, recording: Recording) -> Server:
    bodies = manifests(recording)
    assert len(bodies) > 15
    for body in bodies:
        server.apply(body)
    server.eventually_refuses(without(train_job(), "metadata", "labels"))
    server.eventually_refuses(gpu_pod())
    return server


def train_job(**trainer: Any) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {
            "name": "mine",
            "namespace": "training",
            "labels": {QUEUE: "training"},
        },
        "spec": {
            "runtimeRef": {"name": "torch"},
            "trainer": {"numNodes": 2, "numProcPerNode": 2, "command": ["torchrun", "x.py"]}
            | trainer,
        },
    }


def without(body: dict[str, Any], *path: str) -> dict[str, Any]:
    body = copy.deepcopy(body)
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return body


def gpu_pod(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare", "namespace": "training"} | metadata,
        "spec": {
            "containers": [
                {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
            ]
        },
    }


def test_the_server_takes_every_object_and_knows_every_field(applied: Server) -> None:
    listed = applied.run("get", "clustertrainingruntime", "torch", "-o", "json")
    spec = json.loads(listed.stdout)["spec"]
    (job,) = spec["template"]["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {
        "memory": "3Gi",
        "nvidia.com/gpu": "8",
        "rdma/rdma_shared_device_a": "1",
    }


def test_applying_again_changes_nothing(applied: Server, recording: Recording) -> None:
    for body in manifests(recording):
        name = f"{body['kind']}/{body['metadata']['name']}"
        result = applied.run("diff", "--server-side", "-f", "-", stdin=body)
        assert result.returncode == 0, f"{name}\n{result.stdout}{result.stderr}"


def test_the_policies_are_well_typed(applied: Server, recording: Recording) -> None:
    listed = applied.run("get", "validatingadmissionpolicies", "-o", "json")
    mine = {r.inputs["metadata"]["name"] for r in recording.kind("ValidatingAdmissionPolicy")}
    policies = [
        item for item in json.loads(listed.stdout)["items"] if item["metadata"]["name"] in mine
    ]
    assert len(policies) == len(mine) >= 6
    for policy in policies:
        warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
        assert not warnings, json.dumps(warnings, indent=1)


def env(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def overridden(
    metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **trainer: Any
) -> dict[str, Any]:
    """Return a TrainJob that patches its pods."""
    body = train_job(**trainer)
    patch: dict[str, Any] = {"targetJobs": [{"name": "node"}]}
    patch |= {"metadata": metadata} if metadata else {}
    patch |= {"spec": spec} if spec else {}
    body["spec"]["podTemplateOverrides"] = [patch]
    return body


def queued(queue: str, labels: dict[str, str] | None = None, **trainer: Any) -> dict[str, Any]:
    body = train_job(**trainer)
    body["metadata"]["labels"] = {QUEUE: queue} | (labels or {})
    return body


def own_launcher(**trainer: Any) -> dict[str, Any]:
    return queued("training", {"railhead.dev/launcher": "own"}, **trainer)


# kubeflow 0.5.0, trainer/constants: the shape in which the SDK sends a function.
SDK = """read -r -d '' SCRIPT << EOM

def f():
    print(1)
f()

EOM
printf "%s" \"$SCRIPT\" > \"f.py\"
torchrun "f.py\""""

GOOD: dict[str, dict[str, Any]] = {
    "as `railhead launch` writes it": train_job(),
    "without numProcPerNode: the runtime says it": without(
        train_job(), "spec", "trainer", "numProcPerNode"
    ),
    "any node count": train_job(numNodes=4),
    "one's own variables": train_job(env=[{"name": "NCCL_DEBUG", "value": "INFO"}]),
    "all resources listed": train_job(
        resourcesPerNode={
            "limits": {"nvidia.com/gpu": 4, "rdma/rdma_shared_device_a": "1"},
            "requests": {"cpu": "1", "memory": "1Gi"},
        }
    ),
    "no resources listed": train_job(resourcesPerNode={}),
    "what the fabric sets anyhow": train_job(env=env(NCCL_NET="IB", GLOO_SOCKET_IFNAME="net1")),
    "another network, in words": overridden(
        FABRIC_NONE, env=env(NCCL_NET="Socket", NCCL_SOCKET_IFNAME="eth0", NCCL_IB_DISABLE="1")
    ),
    "another network in the command, in words": overridden(
        FABRIC_NONE, command=["sh", "-c", "NCCL_NET=Socket torchrun x.py"]
    ),
    "no networks, in words": overridden(FABRIC_NONE | {"annotations": {NETWORKS: "[]"}}),
    "files, as `railhead launch` mounts them": overridden(
        spec={
            "volumes": [{"name": "f", "configMap": {"name": "mine-files"}}],
            "containers": [{"name": "node", "volumeMounts": [{"name": "f", "mountPath": "/w"}]}],
        }
    ),
    "networks as the runtime has them": overridden(
        {"annotations": {NETWORKS: '[{"name": "rail-0", "interface": "net1"}]'}}
    ),
    "torchrun by python": train_job(command=["python3", "-m", "torch.distributed.run", "x.py"]),
    "torchrun in arguments": train_job(command=["bash", "-c"], args=["cd /w; torchrun x.py"]),
    "accelerate over several lines": train_job(
        command=["bash", "-c", "accelerate launch \\\n --machine-rank $PET_NODE_RANK x.py"]
    ),
    "as the SDK writes a function": train_job(command=["bash", "-c", SDK]),
    "a launcher of one's own, in words": own_launcher(command=["./train.sh"]),
    "the image's own command, in words": own_launcher(command=[]),
    "as many nodes as the runtime says": without(
        train_job(command=["python3", "x.py"]), "spec", "trainer", "numNodes"
    ),
    "one node without a launcher": train_job(numNodes=1, command=["python3", "x.py"]),
}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": (without(train_job(), "metadata", "labels"), "set the label kueue.x-k8s.io"),
    "an empty queue": (
        train_job() | {"metadata": train_job()["metadata"] | {"labels": {"a": "b"}}},
        "set the label kueue.x-k8s.io/queue-name to one of: training",
    ),
    "another namespace": (
        train_job() | {"metadata": train_job()["metadata"] | {"namespace": "default"}},
        "submit the TrainJob in one of the training namespaces: training",
    ),
    "no trainer": (without(train_job(), "spec", "trainer"), "spec.trainer is missing"),
    "no nodes": (train_job(numNodes=0), "spec.trainer is missing"),
    "a world of its own": (
        train_job(env=[{"name": "PET_NNODES", "value": "1"}]),
        "sets the rendezvous by hand",
    ),
    "GPUs without the fabric": (
        train_job(
            resourcesPerNode={
                "limits": {"nvidia.com/gpu": 8},
                "requests": {"cpu": "1", "memory": "1Gi"},
            }
        ),
        "rdma/rdma_shared_device_a",
    ),
    "no devices": (
        train_job(resourcesPerNode={"requests": {"cpu": "1", "memory": "1Gi"}}),
        "replaces the runtime's resources",
    ),
    "zero devices": (
        train_job(
            resourcesPerNode={
                "limits": {"nvidia.com/gpu": 8, "rdma/rdma_shared_device_a": 0},
                "requests": {"cpu": "1", "memory": "1Gi"},
            }
        ),
        "replaces the runtime's resources",
    ),
    "nothing that is charged beside devices": (
        train_job(
            resourcesPerNode={"limits": {"nvidia.com/gpu": 8, "rdma/rdma_shared_device_a": 1}}
        ),
        "as requests cpu, memory",
    ),
    "CPUs alone": (
        train_job(resourcesPerNode={"requests": {"cpu": "1", "memory": "1Gi"}}),
        "asks for no GPUs: the runtimes of this stack place pods on machines with GPUs",
    ),
    "one node without the fabric's device": (
        train_job(
            numNodes=1,
            resourcesPerNode={
                "limits": {"nvidia.com/gpu": 8},
                "requests": {"cpu": "1", "memory": "1Gi"},
            },
        ),
        "leaves out the fabric's device: NCCL is held to the fabric, also on one node",
    ),
    "a queue that is not there": (
        queued("defualt"),
        "names the queue defualt, which namespace training has not, so the TrainJob would wait "
        "for ever: name one of: training",
    ),
    "an empty queue's name": (queued(""), "the TrainJob has no queue"),
    "TCP": (train_job(env=env(NCCL_NET="Socket")), "spec.trainer.env sets NCCL_NET, by which"),
    "TCP over the pods' network": (
        train_job(env=env(NCCL_NET="Socket", GLOO_SOCKET_IFNAME="eth0", EPOCHS="3")),
        "spec.trainer.env sets NCCL_NET, GLOO_SOCKET_IFNAME, by which the job would leave",
    ),
    "a variable from a secret": (
        train_job(
            env=[{"name": "NCCL_IB_DISABLE", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]
        ),
        "sets NCCL_IB_DISABLE",
    ),
    "TCP by the label of the TrainJob alone": (
        queued("training", {"railhead.dev/fabric": "none"}, env=env(NCCL_NET="Socket")),
        "label its pods railhead.dev/fabric=none in spec.podTemplateOverrides[].metadata.labels",
    ),
    "TCP in the command": (
        train_job(command=["env", "NCCL_NET=Socket", "torchrun", "x.py"]),
        "spec.trainer.command or args set one of NCCL_NET",
    ),
    "a plain process on each of two nodes": (
        train_job(command=["python3", "x.py"]),
        "starts no torchrun, or one that makes a world of one node: each of the 2 nodes would",
    ),
    "a world a node": (
        train_job(command=["torchrun"], args=["--standalone", "x.py"]),
        "makes a world of one node",
    ),
    "a world a node by its size": (
        train_job(command=["torchrun", "--nnodes=1", "x.py"]),
        "makes a world of one node",
    ),
    "the image's own command": (
        train_job(command=[]),
        "is missing, and what the image starts cannot be seen",
    ),
}

# The same in a patch of the pods: policy railhead-train-job-pods.
BAD_PODS: dict[str, tuple[dict[str, Any], str]] = {
    "no networks": (overridden({"annotations": {NETWORKS: "[]"}}), "takes its pods off"),
    "another network's name": (
        overridden({"annotations": {NETWORKS: "rail-01"}}),
        "set the annotation k8s.v1.cni.cncf.io/networks",
    ),
    "a variable": (
        overridden(spec={"containers": [{"name": "node", "env": env(NCCL_SOCKET_IFNAME="eth0")}]}),
        "a container's env chooses another network than the fabric's",
    ),
    "a variable of an init container": (
        overridden(spec={"initContainers": [{"name": "i", "env": env(FI_PROVIDER="tcp")}]}),
        "a container's env chooses another network",
    ),
    "the node's file system": (
        overridden(spec={"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}),
        "a hostPath volume mounts the node's file system",
    ),
}


def test_a_good_job_passes(applied: Server) -> None:
    for case, body in GOOD.items():
        assert applied.verdict(body) == "", case


def test_what_kueue_patches_passes_from_kueue_alone(applied: Server) -> None:
    body = overridden(
        {"labels": {"kueue.x-k8s.io/podset": "node"}},
        spec={"nodeSelector": {"a": "b"}, "schedulingGates": [{"name": "g"}]},
    )
    kueue = applied.controller("kueue-system", "kueue-controller-manager")
    assert applied.verdict(body, kueue) == ""
    assert "which Kueue alone says" in applied.verdict(body)


def test_a_bad_job_is_refused_with_the_remedy(applied: Server) -> None:
    for case, (body, words) in BAD.items():
        verdict = applied.verdict(body)
        assert "railhead-train-job" in verdict, (case, verdict)
        assert words in verdict, (case, verdict)


def test_pods_are_not_patched_off_their_network(applied: Server) -> None:
    for case, (body, words) in BAD_PODS.items():
        verdict = applied.verdict(body)
        assert "railhead-train-job-pods" in verdict, (case, verdict)
        assert words in verdict, (case, verdict)


def test_a_bare_pod_with_devices_is_refused(applied: Server) -> None:
    assert "submit a TrainJob, a JobSet, a Job" in applied.verdict(gpu_pod())
    labelled = gpu_pod(labels={"kueue.x-k8s.io/podset": "node"})
    assert "no queue was charged" in applied.verdict(labelled), "a label alone is not admission"


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_pods_that_kueue_leaves_alone_here_get_no_devices(applied: Server, kind: str) -> None:
    """A stack has no `pod_groups` unless it says so: they would be charged to nobody."""
    labels = {"kueue.x-k8s.io/queue-name": "training", "kueue.x-k8s.io/pod-group-name": "group"}
    # Of two guards that refuse a pod the API server names any one.
    labels[SINGLE_NODE_LABEL] = "true"
    body = gpu_pod(labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})
    assert "no queue was charged for this pod's devices" in applied.verdict(body)
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "s", "uid": "u", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    assert "pods of a LeaderWorkerSet, a StatefulSet" in applied.verdict(body)


def test_a_pod_that_kueue_admitted_passes(applied: Server) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    admitted = gpu_pod(labels={"kueue.x-k8s.io/podset": "node"}, ownerReferences=[owner])
    jobs = applied.controller("kube-system", "job-controller")
    assert applied.verdict(admitted, jobs) == ""
    assert "no queue was charged" in applied.verdict(admitted), "anyone can write an owner"


def test_guards_ignore_other_namespaces_and_pods_without_gpus(applied: Server) -> None:
    plain = gpu_pod()
    plain["spec"]["containers"][0].pop("resources")
    assert applied.verdict(plain) == ""
    assert applied.verdict(plain | {"metadata": {"name": "p", "namespace": "default"}}) == ""
    assert applied.verdict(gpu_pod(namespace="kube-system")) == ""


def test_gpu_pod_outside_training_namespaces_is_refused(applied: Server) -> None:
    body = gpu_pod(namespace="default")
    verdict = applied.eventually_refuses(body)
    assert "railhead-uncharged-pod" in verdict
    assert "no queue is charged for GPUs in namespace default" in verdict
    assert "in one of: training" in verdict
    applied.run("label", "namespace", "default", "railhead.dev/uncharged=true")
    try:
        deadline = time.monotonic() + 30
        while applied.verdict(body):
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        applied.run("label", "namespace", "default", "railhead.dev/uncharged-")


@pytest.mark.parametrize(
    "resources",
    [
        {"limits": {"nvidia.com/mig-3g.40gb": "1"}},
        {"limits": {"nvidia.com/gpu.shared": "1"}},
        {"claims": [{"name": "gpu"}]},
    ],
    ids=["a part of a GPU", "a shared GPU", "a claim"],
)
def test_no_device_slips_by_under_another_name(applied: Server, resources: dict[str, Any]) -> None:
    body = gpu_pod()
    body["spec"]["containers"][0]["resources"] = resources
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    verdict = applied.verdict(body)
    assert "no queue was charged" in verdict
    assert "a RayJob or a RayCluster" in verdict
    assert "Volcano's Job have no way in" in verdict


@pytest.mark.parametrize("delete", [False, True])
def test_what_clears_a_claim_may_run(applied: Server, delete: bool) -> None:
    """The CronJob, the Job that its controller makes of it, and the Job's pod."""
    raw = stack_cluster("lab")
    raw["checkpoints"][0]["retention"] = {"days": 30, "keep": 3, "delete": delete}
    (spec,) = cron_jobs(config.parse(raw, where="test"), "training").values()
    body = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec}
    body["metadata"] = {"name": "r", "namespace": "training"}
    assert applied.verdict(body) == ""
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "r", "uid": "u"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec["jobTemplate"]["spec"]}
    job["metadata"] = {
        "name": "r-1",
        "namespace": "training",
        "ownerReferences": [owner | {"controller": True}],
        **spec["jobTemplate"]["metadata"],
    }
    crons = applied.controller("kube-system", "cronjob-controller")
    assert applied.verdict(job, crons) == ""
    pod = {"apiVersion": "v1", "kind": "Pod", **spec["jobTemplate"]["spec"]["template"]}
    pod["metadata"] = {"name": "p", "namespace": "training"}
    assert applied.verdict(pod, applied.controller("kube-system", "job-controller")) == ""
    (container,) = pod["spec"]["containers"]
    assert ("--delete" in container["args"]) == delete
    assert "$(" not in container["command"][-1], "Kubernetes would expand it"


def test_init_containers_count(applied: Server) -> None:
    body = gpu_pod()
    container = body["spec"]["containers"][0]
    body["spec"] = {
        "initContainers": [container | {"name": "i"}],
        "containers": [{"name": "c", "image": "x"}],
    }
    assert "no queue was charged" in applied.verdict(body)


def test_controllers_may_update_a_job_older_than_the_guards(
    applied: Server, recording: Recording
) -> None:
    binding = "railhead-train-job"
    old = without(train_job(), "spec", "trainer")
    body = next(
        b
        for b in manifests(recording)
        if b["kind"] == "ValidatingAdmissionPolicyBinding" and b["metadata"]["name"] == binding
    )
    applied.run("delete", "validatingadmissionpolicybinding", binding)
    try:
        deadline = time.monotonic() + 30
        while applied.verdict(old):
            assert time.monotonic() < deadline
            time.sleep(0.2)
        assert applied.run("create", "-f", "-", stdin=old).returncode == 0
    finally:
        applied.apply(body)
    try:
        _may_be_updated(applied)
    finally:
        # Its namespace's owner of jobs would stay with it (policy railhead-jobs-ended).
        finalized(applied, [])
        applied.delete([old])


def finalized(server: Server, finalizers: list[str], by: KubeClient | None = None) -> None:
    (by or server.client).request(
        "PATCH",
        server.path(train_job()),
        body={"metadata": {"finalizers": finalizers}},
        content_type="application/merge-patch+json",
    )


def _may_be_updated(applied: Server) -> None:
    # Under a name of its own: one that is taken is refused whether the guard is back or not.
    unlabelled = without(train_job(), "metadata", "labels")
    unlabelled["metadata"] = {**unlabelled["metadata"], "name": "probe"}
    assert "set the label" in applied.eventually_refuses(unlabelled)

    def patch(change: dict[str, Any]) -> str:
        result = applied.run(
            "patch", "trainjob", "mine", "-n", "training", "--type=merge", "-p", json.dumps(change)
        )
        return result.stderr

    assert "metadata.finalizers keeps" in patch({"metadata": {"finalizers": ["example.com/f"]}})
    finalized(applied, ["example.com/f"], applied.controller("kueue-system", "kueue"))
    assert patch({"spec": {"suspend": True}}) == "", "what a controller added may stay"
    assert patch({"metadata": {"finalizers": []}}) == ""
    assert "spec.trainer is missing" in patch({"spec": {"trainer": {"numNodes": 0}}})
    assert "starts cannot be seen" in patch({"spec": {"trainer": {"numNodes": 2}}})
    assert patch({"spec": {"trainer": {"numNodes": 2, "command": ["torchrun"]}}}) == ""
    assert "numNodes is fixed" in patch({"spec": {"trainer": {"numNodes": 4}}})
    assert "numNodes is fixed" in patch({"spec": {"trainer": {"numNodes": None}}}), "it is 1 then"
    assert patch({"spec": {"trainer": {"image": "other"}}}) == ""
    assert "set the label" in patch({"metadata": {"labels": None}})


def test_deletion_of_several_config_maps_is_judged_for_each(applied: Server) -> None:
    """Send the request, which has no name, with the right that Kubernetes' own `edit` gives."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    applied.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "editors", "namespace": "training"},
            "roleRef": role,
            "subjects": [{"kind": "Group", "name": "editors", "apiGroup": role["apiGroup"]}],
        }
    )
    editor, maps = applied.be("ada", "editors"), "/api/v1/namespaces/training/configmaps"
    with pytest.raises(ApiError, match="jobs depend on this ConfigMap"):
        editor.request("DELETE", maps, query={"dryRun": "All"})
    labels = {"labels": {"app": "ada"}}
    own = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ada", **labels}}
    editor.request("POST", maps, body=own)
    editor.request("DELETE", maps, query={"labelSelector": "app=ada"})


def allowed(server: Server, verb: str, resource: str, *more: str, groups: tuple[str, ...]) -> bool:
    """Return whether a user of these groups may, with the API server's own words."""
    flags = [f"--as-group={group}" for group in groups]
    result = server.run("auth", "can-i", verb, resource, "--as=ada", *flags, *more)
    return result.stdout.strip() == "yes"


RESEARCHER = ("railhead:researchers", "system:authenticated")


def test_everyone_may_read_the_contract_and_nothing_beside_it(applied: Server) -> None:
    def may(verb: str, name: str, namespace: str = "railhead-system") -> bool:
        resource = f"configmap/{name}" if name else "configmaps"
        return allowed(applied, verb, resource, "-n", namespace, groups=("system:authenticated",))

    assert may("get", "railhead-contract")
    assert not may("get", "other")
    assert not may("list", "")
    assert not may("update", "railhead-contract")
    assert not may("get", "railhead-contract", "default")
    result = applied.run(
        "get", "configmap", "railhead-contract", "-n", "railhead-system", "-o", "json",
        "--as=ada", "--as-group=system:authenticated",
    )  # fmt: skip
    assert json.loads(json.loads(result.stdout)["data"]["contract.json"])["cluster"] == "lab"


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("create", "trainjobs.trainer.kubeflow.org"),
        ("delete", "trainjobs.trainer.kubeflow.org"),
        ("watch", "trainjobs.trainer.kubeflow.org"),
        ("list", "pods"),
        ("get", "pods/log"),
        ("list", "workloads.kueue.x-k8s.io"),
        ("list", "events"),
    ],
)
def test_researchers_may(applied: Server, verb: str, resource: str) -> None:
    parts = resource.split("/")
    more = [f"--subresource={parts[1]}"] if len(parts) > 1 else []
    assert allowed(applied, verb, parts[0], *more, "-n", "training", groups=RESEARCHER)
    assert not allowed(applied, verb, parts[0], *more, "-n", "default", groups=RESEARCHER)
    others = ("system:authenticated",)
    assert not allowed(applied, verb, parts[0], *more, "-n", "training", groups=others)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        ("create", "pods"),
        ("get", "secrets"),
        ("create", "jobs.batch"),
        ("update", "workloads.kueue.x-k8s.io"),
        ("update", "localqueues.kueue.x-k8s.io"),
        ("delete", "persistentvolumeclaims"),
        ("update", "clustertrainingruntimes.trainer.kubeflow.org"),
    ],
)
def test_researchers_may_not(applied: Server, verb: str, resource: str) -> None:
    parts = resource.split("/")
    more = [f"--subresource={parts[1]}"] if len(parts) > 1 else []
    assert not allowed(applied, verb, parts[0], *more, "-n", "training", groups=RESEARCHER)


# The older pair: a job must ask for exactly what its runtime's template says. These come last, and
# their fixture puts back what the tests above rely on.


def unpublished() -> dict[str, Any]:
    body = train_job()
    body["spec"]["runtimeRef"] = {"name": "torch", "kind": "TrainingRuntime"}
    return body


@pytest.fixture(scope="module")
def older(
    applied: Server, recording: Recording, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    cluster = lab_cluster() | {"versions": "kueue-0.15"}
    runtime = cluster["runtimes"][0]
    cluster["pools"][0]["nodes"] = 4
    cluster["runtimes"] = [
        runtime | {"name": "torch", "nodes": 2},
        runtime | {"name": "torch-4", "nodes": 4},
    ]
    cache = tmp_path_factory.mktemp("older")
    fake_lab(cache)
    wanted = ("ClusterTrainingRuntime", "ValidatingAdmissionPolicy")
    bodies = [b for b in manifests(run_program(cluster, cache)) if b["kind"].startswith(wanted)]
    for body in bodies:
        applied.apply(body)
    applied.eventually_refuses(train_job(numNodes=3))
    applied.eventually_refuses(unpublished())
    yield applied
    for name in ("railhead-gang-charge", "railhead-published-runtime"):
        applied.run("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", name)
    for body in manifests(recording):
        if body["kind"].startswith(wanted):
            applied.apply(body)


def test_by_template_the_template_says_the_gang(older: Server) -> None:
    listed = older.run("get", "clustertrainingruntimes", "-o", "json")
    sizes = {}
    for item in json.loads(listed.stdout)["items"]:
        *_, job = item["spec"]["template"]["spec"]["replicatedJobs"]
        spec = job["template"]["spec"]
        assert spec["parallelism"] == spec["completions"]
        sizes[item["metadata"]["name"]] = spec["parallelism"]
    assert sizes == {"torch": 2, "torch-4": 4}


def test_by_template_the_charged_count_passes(older: Server) -> None:
    assert older.verdict(train_job(numNodes=2)) == ""
    four = train_job(numNodes=4)
    four["spec"]["runtimeRef"]["name"] = "torch-4"
    assert older.verdict(four) == ""


@pytest.mark.parametrize("nodes", [1, 3, 4])
def test_by_template_any_other_count_is_refused(older: Server, nodes: int) -> None:
    verdict = older.verdict(train_job(numNodes=nodes))
    assert f"spec.trainer.numNodes is {nodes}, but Kueue charges every job of runtime" in verdict
    assert "torch 2 nodes" in verdict


def test_by_template_a_runtime_of_ones_own_is_refused(older: Server) -> None:
    body = unpublished()
    assert "railhead-published-runtime" in older.verdict(body)
    body["spec"]["runtimeRef"] = {"name": "other"}
    assert "set spec.runtimeRef to a ClusterTrainingRuntime of: torch" in older.verdict(body)


def test_edited_runtime_is_checked_against_its_new_template(older: Server) -> None:
    path = "/spec/template/spec/replicatedJobs/0/template/spec/parallelism"
    patch = json.dumps([{"op": "replace", "path": path, "value": 3}])
    arguments = ("patch", "clustertrainingruntime", "torch", "--type=json", "-p")
    assert older.run(*arguments, patch).returncode == 0
    try:
        assert older.eventually_refuses(train_job(numNodes=2))
        assert older.verdict(train_job(numNodes=3)) == ""
    finally:
        older.run(*arguments, patch.replace("3}", "2}"))
