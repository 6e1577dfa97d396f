"""A stack of several pools: a job gets what its own runtime's pool has, and lands there alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.config.served import unserved
from railhead.contract import LARGEST, READABLE
from railhead.launch import render
from railhead.launch.job import parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.model.cluster import Cluster
from railhead.resolve.author_guards import job_author_policy
from railhead.resolve.cluster import resolve
from railhead.resolve.pod_guards import demand
from tests.components.recording import lab_cluster

EFA = "vpc.amazonaws.com/efa"
GPU = "nvidia.com/gpu"


def pool(name: str, instance_type: str, nodes: int = 4) -> dict[str, Any]:
    return {
        "name": name,
        "instance_type": instance_type,
        "nodes": nodes,
        "node_selector": {"railhead.dev/pool": name},
    }


def runtime(name: str, of: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "framework": "torch",
        "image": "registry.example.com/train:1",
        "pool": of,
        "cpu": "32",
        "memory": "256Gi",
    } | more


def claim(name: str, namespace: str = "training", path: str = "") -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "storage_class": "nfs",
        "size": "1Ti",
        "mount_path": path or f"/{name}",
    }


#: Two machines of one fabric with unlike numbers of NICs, behind one queue.
STACK: dict[str, Any] = {
    "name": "two",
    "versions": "proven",
    "platform": {"kind": "existing", "kubeconfig": "~/.kube/two"},
    "namespaces": ["training"],
    "researchers": "researchers",
    "topology": ["kubernetes.io/hostname"],
    "pools": [pool("h100", "p5.48xlarge"), pool("h200", "p5en.48xlarge", nodes=2)],
    "fabric": {"kind": "efa", "mode": "efa"},
    "queues": [
        {
            "name": "training",
            "namespace": "training",
            "cluster_queue": "training",
            "pools": ["h100", "h200"],
        }
    ],
    "checkpoints": [claim("scratch"), claim("checkpoints")],
    "runtimes": [
        runtime("on-h100", "h100"),
        runtime("on-h200", "h200", checkpoint="checkpoints"),
        runtime("half-h100", "h100", gpus_per_node=4),
    ],
}


def parsed(**parts: Any) -> Cluster:
    return config.parse(copy.deepcopy(STACK) | parts, where="test")


def planned(cluster: Cluster, runtime: str, **sets: Any) -> Plan:
    text = f"name: a\nnodes: 1\nruntime: {runtime}\ncommand: [x, y]\n"
    job = parse_job(text, where="job", sets=[f"{k}={v}" for k, v in sets.items()])
    return make_plan(job, (), resolve(cluster).contract)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "gpus", "efa", "pages"),
    [
        ("on-h100", None, 32, 5120),
        ("on-h200", None, 16, 2560),
        ("half-h100", None, 16, 2560),
        ("on-h100", 2, 8, 1280),
        ("on-h200", 4, 8, 1280),
        ("half-h100", 8, 32, 5120),
    ],
)
def test_a_job_asks_for_its_own_pools_devices(
    runtime: str, gpus: int | None, efa: int, pages: int
) -> None:
    plan = planned(parsed(), runtime, **({} if gpus is None else {"gpus_per_node": gpus}))
    for side in ("requests", "limits"):
        assert plan.resources[side][EFA] == str(efa)
        assert plan.resources[side]["hugepages-2Mi"] == f"{pages}Mi"
        assert plan.resources[side][GPU] == str(plan.gpus_per_node)
    assert plan.resources["requests"]["cpu"] == "32"


def test_checkpoints_go_to_the_mount_of_the_runtime() -> None:
    plan = planned(parsed(), "on-h200")
    assert plan.env["CHECKPOINT_DIR"] == "/checkpoints/a"
    assert plan.checkpoint_claim == "checkpoints"


def test_runtime_without_claim_sets_no_checkpoint_directory() -> None:
    """One below no mount would be the pod's own disk, and gone with it."""
    plan = planned(parsed(), "on-h100")
    assert "CHECKPOINT_DIR" not in plan.env
    assert plan.checkpoint_claim is None


def test_pods_go_to_their_runtimes_pool_alone() -> None:
    for runtime in resolve(parsed()).runtimes:
        assert runtime.pod["spec"]["nodeSelector"] == {"railhead.dev/pool": runtime.config.pool}


def test_the_claims_of_one_name_are_mounted_in_one_place() -> None:
    """A runtime is one for all namespaces, and so is the path at which its pods mount."""
    claims = [claim("checkpoints", n) for n in ("training", "research")]
    runtimes = [runtime("on-h100", "h100", checkpoint="checkpoints")]
    parts: dict[str, Any] = {"namespaces": ["training", "research"], "runtimes": runtimes}
    assert parsed(**parts, checkpoints=claims).checkpoints[1].mount_path == "/checkpoints"
    claims[1]["mount_path"] = "/elsewhere"
    with pytest.raises(InputError, match=r"checkpoints\[1\]\.mount_path: '/elsewhere' differs"):
        parsed(**parts, checkpoints=claims)
    # Nobody mounts it: two claims that happen to share a name.
    parsed(**parts | {"runtimes": [runtime("on-h100", "h100")]}, checkpoints=claims)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "1"}, {"a": "1"}),
        ({"a": "1"}, {"a": "1", "b": "2"}),
        ({"a": "1", "b": "2"}, {"b": "2"}),
        # A node may have both labels, and newer Kueue looks at each flavor's own labels only.
        ({"a": "1"}, {"b": "1"}),
    ],
)
def test_pools_that_their_labels_do_not_tell_apart_are_refused(
    one: dict[str, str], other: dict[str, str]
) -> None:
    pools = copy.deepcopy(STACK["pools"])
    pools[0]["node_selector"], pools[1]["node_selector"] = one, other
    with pytest.raises(InputError, match=r"pools\[1\]\.node_selector: .* pool 'h100'"):
        parsed(pools=pools)


def test_one_differing_label_separates_two_pools() -> None:
    pools = copy.deepcopy(STACK["pools"])
    pools[0]["node_selector"] = {"zone": "z", "kind": "a"}
    pools[1]["node_selector"] = {"zone": "z", "kind": "b", "more": "c"}
    assert len(parsed(pools=pools).pools) == 2


QUEUES = [
    {"name": q, "namespace": "training", "cluster_queue": q, "pools": [q]} for q in ("h100", "h200")
]


def test_a_job_takes_a_queue_that_covers_its_pool() -> None:
    assert planned(parsed(queues=QUEUES), "on-h200").queue == "h200"
    with pytest.raises(InputError, match=r"queue: 'h100' does not cover pool 'h200'.*: h200"):
        planned(parsed(queues=QUEUES), "on-h200", queue="h100")


def test_nics_by_claim_stay_with_the_pod() -> None:
    """Trainer rebuilds the container's resources from a job's, without their claims."""
    cluster = parsed(fabric={"kind": "efa", "mode": "efa", "allocation": "dra"})
    trainer = render.train_job(planned(cluster, "on-h200"))["spec"]["trainer"]
    assert "resourcesPerNode" not in trainer
    with pytest.raises(InputError, match=r"gpus_per_node: 4 .* 'on-h200'; allowed: 8\n"):
        planned(cluster, "on-h200", gpus_per_node=4)


@pytest.mark.parametrize("gpus", [1, 2, 8])
def test_where_nics_come_by_claim_there_is_one_number_of_gpus(gpus: int) -> None:
    """Two GPUs of a p4d have the NIC that one has: the same claim, which Trainer drops as well."""
    cluster = parsed(
        pools=[pool("a100", "p4d.24xlarge")],
        queues=[STACK["queues"][0] | {"pools": ["a100"]}],
        fabric={"kind": "efa", "mode": "efa", "allocation": "dra"},
        runtimes=[runtime("part", "a100", gpus_per_node=gpus)],
    )
    (only,) = resolve(cluster).runtimes
    assert list(only.shares) == [gpus]
    with pytest.raises(InputError, match=f"gpus_per_node: 3 .*; allowed: {gpus}"):
        planned(cluster, "part", gpus_per_node=3)


def test_pods_of_whole_nodes_join_the_nvlink_domain() -> None:
    """A node has one channel, which a second pod on it would wait for without end."""
    parts: dict[str, Any] = {
        "pools": [pool("gb200", "dgx-gb200")],
        "queues": [STACK["queues"][0] | {"pools": ["gb200"]}],
        "fabric": {"kind": "infiniband", "mode": "rdma-shared", "network_operator": {}},
        "runtimes": [runtime("whole", "gb200"), runtime("part", "gb200", gpus_per_node=2)],
    }
    cluster = parsed(**parts, gpu_operator={"compute_domains": True})
    stack = resolve(cluster)
    whole, part = stack.runtimes
    joins = {"name": "nvlink", "resourceClaimTemplateName": "railhead-nvlink"}
    assert whole.pod["spec"]["resourceClaims"] == [joins]
    assert whole.pod["spec"]["containers"][0]["resources"]["claims"] == [{"name": "nvlink"}]
    assert (list(whole.shares), list(part.shares)) == ([4], [1, 2, 3])
    assert "resourceClaims" not in part.pod["spec"]
    (namespace,) = stack.namespaces
    channel = {"resourceClaimTemplate": {"name": joins["resourceClaimTemplateName"]}}
    assert namespace.nvlink_domains == {"railhead-nvlink": {"numNodes": 1, "channel": channel}}
    assert "railhead-nvlink" in str(job_author_policy(cluster, demand(cluster)))
    assert "does not serve resource.k8s.io/v1" in unserved(cluster, "1.33")
    without = resolve(parsed(**parts, gpu_operator={}))
    assert "resourceClaims" not in without.runtimes[0].pod["spec"]
    assert not without.namespaces[0].nvlink_domains


def _wide(pools: int, runtimes: int) -> Cluster:
    """Return the lab's stack with so many pools, and so many runtimes on each."""
    cluster = copy.deepcopy(lab_cluster())
    (pool,), runtime = cluster["pools"], cluster["runtimes"][0]
    cluster["pools"] = [
        pool | {"name": f"p{n}", "nodes": 1, "node_selector": {"railhead.dev/pool": f"p{n}"}}
        for n in range(pools)
    ]
    cluster["queues"][0]["pools"] = [f"p{n}" for n in range(pools)]
    cluster["runtimes"] = [
        runtime | {"name": f"r{n}-{m}", "pool": f"p{n}"}
        for n in range(pools)
        for m in range(runtimes)
    ]
    return config.parse(cluster, where="test")


def test_a_long_contract_is_written_without_spaces() -> None:
    text = resolve(_wide(40, 4)).contract.to_json()
    assert READABLE < len(text) <= LARGEST
    assert "\n" not in text
    assert "\n" in resolve(_wide(2, 1)).contract.to_json()


def test_a_contract_that_no_config_map_holds_is_refused() -> None:
    with pytest.raises(InputError, match=r"40 pools, 320 runtimes and 1 queues has \d+ bytes"):
        resolve(_wide(40, 8))
