"""Observations of the objects around a job, from both sides; nothing is written."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.diagnose.knowledge import OBSERVATIONS
from railhead.diagnose.objects import ClusterObjects
from railhead.diagnose.observations import observe
from railhead.evidence import objects as gathering
from railhead.kube.client import Cluster, choose_target
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, publish
from tests.unit.launch.fake_api import Api, serve

Object = dict[str, Any]
RDMA = "rdma/rdma_shared_device_a"


def pod(index: int = 0) -> Object:
    """Return a pod as Railhead renders it, healthy and running."""
    return {
        "metadata": {
            "name": f"demo-node-0-{index}-abcde",
            "labels": {
                "app": "demo",
                "jobset.sigs.k8s.io/jobset-name": "demo",
                "jobset.sigs.k8s.io/replicatedjob-name": "node",
            },
            "annotations": {"k8s.v1.cni.cncf.io/networks": '[{"name": "rail-0"}]'},
        },
        "spec": {
            "nodeName": f"gpu-{index}",
            "containers": [
                {
                    "name": "node",
                    "resources": {"limits": {"nvidia.com/gpu": "8", RDMA: "1"}},
                    "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                    "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                }
            ],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [{"name": "node", "state": {"running": {}}}],
        },
    }


def node(index: int = 0) -> Object:
    amounts = {"nvidia.com/gpu": "8", RDMA: "63", "cpu": "2"}
    return {
        "metadata": {"name": f"gpu-{index}"},
        "spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
        "status": {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "IBLinkFlapping", "status": "False"},
                {"type": "RdmaLinksHealthy", "status": "True"},
            ],
        },
    }


def healthy() -> ClusterObjects:
    job = {"metadata": {"name": "demo"}, "spec": {"trainer": {"numNodes": 2}}}
    return ClusterObjects(
        namespace="training",
        job=job,
        pods=[pod(0), pod(1)],
        nodes=[node(0), node(1)],
        contract=json.loads(CONTRACT.to_json()),
        devices=list(CONTRACT.device_resources),
        networks=[network.name for network in CONTRACT.fabric.networks],
        workloads=[
            {
                "metadata": {"name": "w"},
                "status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]},
            }
        ],
        policies=[
            policy("own", ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "demo"}}}]}])
        ],
        events=[
            event("Normal", "Pulled", "image pulled"),
            event("Normal", "Scheduled", "assigned"),
        ],
        counters={"gpu-0": ['node_infiniband_symbol_error_total{device="mlx5_0",port="1"} 0']},
    )


def event(kind: str, reason: str, message: str) -> Object:
    return {
        "metadata": {"name": reason.lower()},
        "type": kind,
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "name": "demo-node-0-0-abcde"},
    }


def policy(name: str, **rules: Any) -> Object:
    kinds = [kind for kind, key in (("Ingress", "ingress"), ("Egress", "egress")) if key in rules]
    return {"metadata": {"name": name}, "spec": {"podSelector": {}, "policyTypes": kinds, **rules}}


def container(held: Object) -> Object:
    result: Object = held["spec"]["containers"][0]
    return result


def status(held: Object, state: Object, last: Object | None = None) -> None:
    held["status"]["containerStatuses"] = [
        {"name": "node", "state": state, "lastState": last or {}}
    ]


def ended(code: int, at: str, reason: str = "Error") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}


def no_rdma(found: ClusterObjects) -> None:
    del container(found.pods[0])["resources"]["limits"][RDMA]


def no_efa(found: ClusterObjects) -> None:
    found.devices = ["vpc.amazonaws.com/efa"]


def host_path(found: ClusterObjects) -> None:
    found.pods[0]["spec"]["volumes"].append({"name": "ib", "hostPath": {"path": "/dev/infiniband"}})


def no_shm(found: ClusterObjects) -> None:
    container(found.pods[0])["volumeMounts"] = []


def small_shm(found: ClusterObjects) -> None:
    found.pods[0]["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = "64Mi"


def no_lock(found: ClusterObjects) -> None:
    container(found.pods[0])["securityContext"] = {}


def host_network(found: ClusterObjects) -> None:
    found.pods[0]["spec"]["hostNetwork"] = True


def no_rails(found: ClusterObjects) -> None:
    found.pods[0]["metadata"]["annotations"] = {}


def sidecar(found: ClusterObjects) -> None:
    found.pods[0]["spec"]["containers"].append({"name": "istio-proxy"})


def oom(found: ClusterObjects) -> None:
    status(found.pods[1], {"running": {}}, ended(137, "2026-01-01T00:00:00Z", "OOMKilled"))


def early(found: ClusterObjects) -> None:
    status(found.pods[1], ended(1, "2026-01-01T00:00:00Z"))


def early_of_two(found: ClusterObjects) -> None:
    status(found.pods[0], ended(1, "2026-01-01T00:01:00Z"))
    status(found.pods[1], ended(1, "2026-01-01T00:00:00Z"))


def daemon(found: ClusterObjects) -> None:
    found.pods[0]["status"]["containerStatuses"].append(
        {"name": "tcpxo-daemon", "state": ended(0, "2026-01-01T00:00:00Z", "Completed")}
    )


def crash(found: ClusterObjects) -> None:
    status(found.pods[0], {"waiting": {"reason": "CrashLoopBackOff"}})


def pull(found: ClusterObjects) -> None:
    status(found.pods[0], {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})


def warn(reason: str, message: str = "no") -> Callable[[ClusterObjects], None]:
    def change(found: ClusterObjects) -> None:
        found.events.append(event("Warning", reason, message))

    return change


def condition(kind: str, value: str) -> Callable[[ClusterObjects], None]:
    def change(found: ClusterObjects) -> None:
        conditions = found.nodes[0]["status"]["conditions"]
        conditions[:] = [c for c in conditions if c["type"] != kind]
        conditions.append({"type": kind, "status": value, "reason": "r", "message": "m"})

    return change


def taint(found: ClusterObjects) -> None:
    found.nodes[0]["spec"]["taints"] = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    ]


def no_devices(found: ClusterObjects) -> None:
    found.nodes[0]["status"]["allocatable"][RDMA] = "0"


def sick_gpu(found: ClusterObjects) -> None:
    found.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] = "7"


def no_quota(found: ClusterObjects) -> None:
    found.workloads[0]["status"]["conditions"] = [
        {"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}
    ]


def one_pod(found: ClusterObjects) -> None:
    found.pods[1]["status"]["phase"] = "Pending"


def policies(*more: Object) -> Callable[[ClusterObjects], None]:
    def change(found: ClusterObjects) -> None:
        found.policies[:] = more

    return change


def counters(line: str) -> Callable[[ClusterObjects], None]:
    def change(found: ClusterObjects) -> None:
        found.counters["gpu-0"].append(line)

    return change


PORTS = [{"port": 29500, "protocol": "TCP"}]
SHOWS: tuple[tuple[str, Callable[[ClusterObjects], None]], ...] = (
    ("pod-no-rdma-request", no_rdma),
    ("pod-no-efa-request", no_efa),
    ("pod-dev-infiniband-host-path", host_path),
    ("pod-no-shm", no_shm),
    ("pod-small-shm", small_shm),
    ("pod-no-ipc-lock", no_lock),
    ("pod-host-network", host_network),
    ("pod-no-rail-networks", no_rails),
    ("pod-mesh-sidecar", sidecar),
    ("pod-oom-killed", oom),
    ("pod-oom-killed", warn("OOMKilling", "Memory cgroup out of memory")),
    ("pod-ended-early", early),
    ("pod-ended-early", early_of_two),
    ("daemon-ended", daemon),
    ("event-crash-loop", crash),
    ("event-crash-loop", warn("BackOff", "Back-off restarting failed container node in pod x")),
    ("event-image-pull", pull),
    ("event-image-pull", warn("Failed", 'Failed to pull image "x"')),
    ("event-failed-scheduling", warn("FailedScheduling")),
    ("event-failed-mount", warn("FailedMount")),
    ("event-network", warn("NetworkNotReady")),
    ("event-network", warn("FailedCreatePodSandBox")),
    ("event-evicted", warn("Evicted")),
    ("node-not-ready", condition("Ready", "Unknown")),
    ("node-link-condition", condition("IBLinkFlapping", "True")),
    ("node-link-condition", condition("RdmaLinksHealthy", "False")),
    ("node-tainted", taint),
    ("node-rdma-zero", no_devices),
    ("node-gpu-unhealthy", sick_gpu),
    ("kueue-not-admitted", no_quota),
    ("pods-missing", one_pod),
    ("netpol-blocks-peers", policies(policy("deny", ingress=[]))),
    ("netpol-blocks-peers", policies(policy("out", egress=[]))),
    ("netpol-blocks-peers", policies(policy("port", ingress=[{"ports": PORTS}]))),
    (
        "netpol-blocks-peers",
        policies(
            policy("other", ingress=[{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}])
        ),
    ),
    (
        "link-counters",
        counters('node_infiniband_symbol_error_total{device="mlx5_0",port="1"} 42'),
    ),
    ("node-xid", counters('DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79')),
)
# Variations of a healthy job that must stay silent.
STILL_HEALTHY: dict[str, Callable[[ClusterObjects], None]] = {
    "every port by range": policies(
        policy("range", ingress=[{"ports": [{"port": 1, "endPort": 65535}]}])
    ),
    "all of the namespace": policies(
        policy(
            "ns",
            ingress=[
                {
                    "from": [
                        {
                            "namespaceSelector": {
                                "matchLabels": {"kubernetes.io/metadata.name": "training"}
                            }
                        }
                    ]
                }
            ],
        )
    ),
    "from anywhere": policies(policy("any", ingress=[{}], egress=[{}])),
    "a policy for others": policies(
        {
            "metadata": {"name": "db"},
            "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "ingress": []},
        }
    ),
    "a normal event": lambda item: item.events.append(event("Normal", "FailedScheduling", "x")),
    "no contract": lambda entry: vars(entry).update(contract=None, devices=[], networks=[]),
}


@pytest.mark.parametrize(
    ("kind", "change"), SHOWS, ids=[f"{k}-{i}" for i, (k, _) in enumerate(SHOWS)]
)
def test_each_fault_is_observed(kind: str, change: Callable[[ClusterObjects], None]) -> None:
    result = healthy()
    change(result)
    seen = observe(result)
    assert kind in seen, seen
    assert all(proof.where and proof.text for proof in seen[kind])


def test_a_healthy_job_shows_nothing() -> None:
    assert observe(healthy()) == {}


@pytest.mark.parametrize("change", STILL_HEALTHY.values(), ids=STILL_HEALTHY)
def test_variations_of_a_healthy_job_show_nothing(change: Callable[[ClusterObjects], None]) -> None:
    result = healthy()
    change(result)
    assert observe(result) == {}


def test_every_observation_of_the_cluster_is_exercised() -> None:
    of_dumps = {
        observation
        for observation in OBSERVATIONS
        if observation.startswith(("fr-", "ras-", "inspector-"))
    }
    assert set(OBSERVATIONS) - of_dumps <= {kind for kind, _ in SHOWS}


def test_pods_that_end_together_blame_none() -> None:
    result = healthy()
    for item in result.pods:
        status(item, ended(1, "2026-01-01T00:00:00Z"))
    assert "pod-ended-early" not in observe(result)


def test_objects_of_any_shape_are_survived() -> None:
    junk: list[Any] = [{}, {"metadata": {}}, {"spec": None, "status": None, "metadata": None}]
    for kind in ("pods", "nodes", "events", "policies", "workloads"):
        result = healthy()
        setattr(result, kind, copy.deepcopy(junk) + getattr(result, kind))
        observe(result)


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as served:
        publish(served, CONTRACT)
        yield served


def test_live_mode_reads_and_never_writes(api: Api, tmp_path: Path) -> None:
    job = world.job(api, "demo")
    world.admit(api, job)
    api.put("/api/v1/nodes", {"metadata": {"name": "lab-node-0"}, "status": {}})
    api.put(
        "/api/v1/namespaces/training/events",
        event("Warning", "FailedScheduling", "0/2 nodes")
        | {"involvedObject": {"kind": "Pod", "name": "demo-node-0-0-abcde", "uid": "u"}},
    )
    api.put(
        "/api/v1/namespaces/training/events",
        event("Warning", "FailedMount", "other")
        | {
            "metadata": {"name": "other"},
            "involvedObject": {"kind": "Pod", "name": "someone-elses", "uid": "u"},
        },
    )
    api.refusals["GET", "/apis/networking.k8s.io/v1/namespaces/training/networkpolicies"] = (
        403,
        'networkpolicies is forbidden: User "me" cannot list',
    )
    cluster = Cluster(choose_target(kubeconfig=api.kubeconfig(tmp_path)))
    result = gathering.of_job(cluster, ("training",), "demo")
    cluster.close()
    assert [item["metadata"]["name"] for item in result.nodes] == ["lab-node-0"]
    assert len(result.pods) == 2
    assert len(result.workloads) == 1
    assert [item["reason"] for item in result.events] == ["FailedScheduling"]
    assert result.contract
    assert result.contract["cluster"] == "lab"
    assert result.devices == list(CONTRACT.device_resources) == [RDMA]
    assert result.networks == [network.name for network in CONTRACT.fabric.networks]
    assert any("networkpolicies" in reason for reason in result.unreadable)
    assert {method for method, _, _ in api.asked} == {"GET"}
    assert "event-failed-scheduling" in observe(result)
