"""Live nodes against what was promised of them: every lack is named, with its node."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import cli
from railhead.base.errors import ExitCode, RefusedError
from railhead.config import load, parse
from railhead.config.live import before_up, described
from railhead.contract import ClusterContract, NodePool, Toleration
from railhead.kube import nodes
from railhead.platform.existing.model import ExistingCluster
from railhead.resolve.cluster import resolve
from tests.conftest import REPO
from tests.shipped import stack
from tests.unit.launch.conftest import CONTRACT as LAUNCH_CONTRACT
from tests.unit.launch.conftest import node, publish
from tests.unit.launch.fake_api import Api, serve

_LAUNCH = LAUNCH_CONTRACT.node_pools[0]
POOL = _LAUNCH.model_copy(update={"capacity": {**_LAUNCH.capacity, "memory": "4Gi"}})
CONTRACT = LAUNCH_CONTRACT.model_copy(update={"node_pools": (POOL,)})
RDMA = "rdma/rdma_shared_device_a"

# As the stack of these tests would publish it.
OWN = CONTRACT.model_copy(update={"platform": "existing"})

Node = dict[str, Any]


def pool_nodes(pool: NodePool = POOL) -> list[Node]:
    return [node(CONTRACT, pool, f"gpu-{index}") for index in range(pool.nodes)]


def lines(live: list[Node], contract: ClusterContract = CONTRACT) -> list[str]:
    return [line for v in nodes.verify(nodes.promised(contract), live) for line in v.lines()]


def test_nodes_that_have_everything_are_good() -> None:
    [verdict] = nodes.verify(nodes.promised(CONTRACT), pool_nodes())
    assert verdict.lines() == []
    assert verdict.good == ("gpu-0", "gpu-1")


def _set(live: Node, *path: str, value: Any) -> None:
    holder = live
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
    if value is None:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = value


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("status", "allocatable", "nvidia.com/gpu"), "7", "nvidia.com/gpu is 7, 8 promised"),
        (("status", "allocatable", "nvidia.com/gpu"), None, "has no nvidia.com/gpu, 8 promised"),
        (("status", "allocatable", RDMA), "0", f"{RDMA} is 0, 63 promised"),
        (("status", "allocatable", RDMA), None, f"has no {RDMA}, 63 promised"),
        (("status", "allocatable", "memory"), "1024Ki", "memory is 0Gi, "),
        (("status", "allocatable", "memory"), "garbage", "memory is 0Gi, "),
        (("spec", "unschedulable"), True, "is cordoned"),
        (
            ("status", "conditions"),
            [{"type": "Ready", "status": "False", "message": "kubelet stopped"}],
            "is not ready: kubelet stopped",
        ),
        (("status", "conditions"), [], "is not ready"),
        (
            ("spec", "taints"),
            [{"key": "team", "value": "other", "effect": "NoSchedule"}],
            "has the taint team=other:NoSchedule, which no toleration of pool 'gpu' takes",
        ),
    ],
    ids=str,
)
def test_each_lack_is_named_with_its_node(path: tuple[str, ...], value: Any, said: str) -> None:
    live = pool_nodes()
    _set(live[1], *path, value=value)
    [line] = lines(live)
    assert line.startswith("node gpu-1: ")
    assert said in line


def test_everything_that_a_node_lacks_is_in_its_line() -> None:
    live = pool_nodes()
    live[0]["status"]["allocatable"] = {}
    live[0]["spec"]["unschedulable"] = True
    del live[0]["metadata"]["labels"][CONTRACT.topology_levels[0]]
    [line] = lines(live)
    assert "is cordoned" in line
    assert f"has no label {CONTRACT.topology_levels[0]}" in line
    assert all(f"has no {resource}, " in line for resource in POOL.capacity)


def test_nodes_of_a_queued_pool_need_no_place() -> None:
    live = pool_nodes()
    del live[0]["metadata"]["labels"][CONTRACT.topology_levels[0]]
    assert lines(live)
    queued = POOL.model_copy(update={"queued": True})
    assert not lines(live, CONTRACT.model_copy(update={"node_pools": (queued,)}))


def test_described_nodes_of_a_queued_pool_need_no_place() -> None:
    mega = load(REPO / "stacks/Pulumi.gcp-a3-mega.yaml")
    needed = {promise.pool: promise.labels for promise in described(mega)}
    assert needed == {"h100-mega": mega.topology, "h100-burst": ()}
    contract = resolve(mega).contract
    assert [pool.queued for pool in contract.node_pools] == [False, True]
    assert contract.runtime("torch-burst").topology_level is None


def test_too_few_nodes_lists_matching_and_near_nodes() -> None:
    live = pool_nodes()
    key = next(iter(POOL.node_selector))
    live[1]["metadata"]["labels"][key] = "gpus"
    [line] = lines(live)
    assert line == (
        f"pool 'gpu': 2 nodes promised, 1 carry {key}={POOL.node_selector[key]}: gpu-0 "
        f"(gpu-1 has {key}=gpus)"
    )
    [line] = lines([])
    assert line.endswith(": none")


def test_more_nodes_than_promised_are_welcome() -> None:
    more = node(CONTRACT, POOL, "gpu-9")
    assert lines([*pool_nodes(), more]) == []


@pytest.mark.parametrize(
    ("toleration", "taint", "stays"),
    [
        ({"key": "gpu"}, {"key": "gpu", "value": "x", "effect": "NoSchedule"}, True),
        ({"key": "gpu"}, {"key": "cpu", "effect": "NoSchedule"}, False),
        ({}, {"key": "anything", "effect": "NoExecute"}, True),
        (
            {"key": "gpu", "operator": "Equal", "value": "x"},
            {"key": "gpu", "value": "x", "effect": "NoSchedule"},
            True,
        ),
        (
            {"key": "gpu", "operator": "Equal", "value": "x"},
            {"key": "gpu", "value": "y", "effect": "NoSchedule"},
            False,
        ),
        ({"key": "gpu", "effect": "NoExecute"}, {"key": "gpu", "effect": "NoSchedule"}, False),
        (None, {"key": "gpu", "effect": "PreferNoSchedule"}, True),
        (None, {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}, True),
        (None, {"key": "gpu", "effect": "NoSchedule"}, False),
    ],
)
def test_taints_and_tolerations(
    toleration: dict[str, str] | None, taint: dict[str, str], stays: bool
) -> None:
    tolerations = () if toleration is None else (Toleration.model_validate(toleration),)
    pool = POOL.model_copy(update={"tolerations": tolerations})
    contract = CONTRACT.model_copy(update={"node_pools": (pool,)})
    live = pool_nodes()
    live[0]["spec"]["taints"] = [taint]
    assert (lines(live, contract) == []) is stays


def test_another_machine_or_architecture_is_named() -> None:
    pool = POOL.model_copy(update={"instance_type": "Standard_ND96isr_H100_v5"})
    contract = CONTRACT.model_copy(update={"node_pools": (pool,)})
    live = pool_nodes()
    live[0]["metadata"]["labels"][nodes.INSTANCE_TYPE_LABEL] = "Standard_ND96isr_H200_v5"
    live[1]["metadata"]["labels"][nodes.ARCHITECTURE_LABEL] = "arm64"
    first, second = lines(live, contract)
    assert "is a Standard_ND96isr_H200_v5, the pool is of Standard_ND96isr_H100_v5" in first
    assert "is arm64, the pool is amd64" in second


def existing(kubeconfig: Path, **platform: Any) -> ExistingCluster:
    """Return the lab's stack on a cluster that was there before."""
    cluster = stack("lab")
    cluster["platform"] = {"kind": "existing", "kubeconfig": str(kubeconfig), **platform}
    cluster["fabric"]["cluster_ranges"] = ["10.0.0.0/8"]
    parsed = parse(cluster, where="stacks/Pulumi.x.yaml")
    assert isinstance(parsed, ExistingCluster)
    return parsed


@pytest.fixture
def api() -> Iterator[Api]:
    with serve() as api:
        api.objects["/version"] = {"major": "1", "minor": "35+"}
        yield api


@pytest.fixture
def kubeconfig(api: Api, tmp_path: Path) -> Path:
    return api.kubeconfig(tmp_path)


def described_nodes(cluster: ExistingCluster) -> list[Node]:
    [promise] = described(cluster)
    labels = dict.fromkeys(promise.labels, "a") | dict(promise.selector)
    return [
        {
            "metadata": {"name": f"gpu-{index}", "labels": dict(labels)},
            "spec": {},
            "status": {
                "allocatable": dict(promise.capacity),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for index in range(promise.nodes)
    ]


def test_before_up_devices_are_not_asked_for(api: Api, kubeconfig: Path) -> None:
    cluster = existing(kubeconfig)
    for live in described_nodes(cluster):
        api.put(nodes.NODES, live)
    assert before_up(cluster) == ""


def test_before_up_a_lack_stops_it_and_names_the_node(api: Api, kubeconfig: Path) -> None:
    cluster = existing(kubeconfig)
    live = described_nodes(cluster)
    live[1]["status"]["allocatable"]["cpu"] = "1"
    for each in live:
        api.put(nodes.NODES, each)
    with pytest.raises(RefusedError) as caught:
        before_up(cluster)
    assert "node gpu-1: cpu is 1, 2 promised" in caught.value.problem
    assert "pools" in caught.value.remedy


def test_one_node_down_does_not_stop_up(api: Api, kubeconfig: Path) -> None:
    cluster = existing(kubeconfig)
    live = described_nodes(cluster)
    live[0]["spec"]["unschedulable"] = True
    live[0]["status"]["allocatable"] = {}
    for each in live:
        api.put(nodes.NODES, each)
    assert before_up(cluster) == "nodes that are not ready or cordoned, and get no jobs: gpu-0"
    for each in live:
        each["spec"]["unschedulable"] = True
        api.put(nodes.NODES, each)
    with pytest.raises(RefusedError, match="is cordoned"):
        before_up(cluster)


def test_before_up_a_kubernetes_that_the_versions_do_not_serve(api: Api, kubeconfig: Path) -> None:
    cluster = existing(kubeconfig)
    for live in described_nodes(cluster):
        api.put(nodes.NODES, live)
    api.objects["/version"] = {"major": "1", "minor": "29"}
    with pytest.raises(RefusedError) as caught:
        before_up(cluster)
    assert (
        "Kubernetes 1.29 is not served by versions 'lab': it is for 1.33 to 1.35"
        in caught.value.problem
    )


UIDS = ("0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002")


@pytest.mark.parametrize(
    ("live", "said"), [(UIDS[0], ""), (UIDS[1], UIDS[1]), (None, "one that may not be read")]
)
def test_uid_distinguishes_a_copy_of_the_stacks_cluster(
    api: Api,
    kubeconfig: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    live: str | None,
    said: str,
) -> None:
    """Same names, same pools, same contract: by `up` and by `railhead config verify`."""
    cluster = existing(kubeconfig, uid=UIDS[0])
    publish(api, OWN)
    for each in described_nodes(cluster):
        each["status"]["allocatable"] |= OWN.node_pools[0].capacity
        each["metadata"]["labels"] |= OWN.node_pools[0].node_selector
        api.put(nodes.NODES, each)
    if live is not None:
        api.put("/api/v1/namespaces", {"metadata": {"name": "kube-system", "uid": live}})
    stack = tmp_path / "Pulumi.metal.yaml"
    file = cluster.model_dump(mode="json", exclude_none=True)
    stack.write_text(yaml.safe_dump({"config": {"railhead:cluster": file}}))
    code = cli.run(["config", "verify", str(stack)])
    if not said:
        assert before_up(cluster) == ""
        assert code == ExitCode.OK
        return
    with pytest.raises(RefusedError, match=r"is another cluster: platform\.uid is") as caught:
        before_up(cluster)
    assert said in caught.value.problem
    assert code == ExitCode.REFUSED
    assert said in capsys.readouterr().err


def test_before_up_can_be_turned_off(kubeconfig: Path) -> None:
    assert before_up(existing(kubeconfig, verify_nodes=False)) == ""


def test_silent_cluster_is_reported_before_up(tmp_path: Path) -> None:
    dead = tmp_path / "kubeconfig"
    dead.write_text("apiVersion: v1\nkind: Config\n")
    text = before_up(existing(dead))
    assert text.startswith("the nodes were not checked: ")
    assert str(dead) in text


def test_schedulable_of_a_pool_replaces_the_catalogues_figure(kubeconfig: Path) -> None:
    cluster = existing(kubeconfig)
    raw = cluster.model_dump(mode="json", exclude_none=True)
    raw["pools"][0]["schedulable"] = {"cpu": 1, "memory_gib": 3}
    smaller = parse(raw, where="x")
    [promise] = described(smaller)
    assert promise.capacity == {"cpu": "1", "memory": "3Gi"}


class TestCommand:
    """`railhead config verify`."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"cluster": "other"}, "name is 'lab', and the contract that is published there says"),
            ({"platform": "aws"}, "platform is 'existing'"),
            ({"node_pools": ()}, "pools are gpu, the published contract's"),
            (
                {"node_pools": (CONTRACT.node_pools[0].model_copy(update={"nodes": 16}),)},
                "pool 'gpu' is 2 x lab.8gpu in the file, 16 x lab.8gpu",
            ),
        ],
    )
    def test_another_cluster_is_refused(
        self,
        api: Api,
        stack: Path,
        capsys: pytest.CaptureFixture[str],
        change: dict[str, Any],
        said: str,
    ) -> None:
        publish(api, OWN.model_copy(update=change))
        code, _, err = self.run(capsys, str(stack))
        assert code == ExitCode.REFUSED
        assert said in err

    @pytest.fixture
    def stack(self, tmp_path: Path, kubeconfig: Path) -> Path:
        data = {
            "config": {
                "railhead:cluster": existing(kubeconfig).model_dump(mode="json", exclude_none=True)
            }
        }
        path = tmp_path / "Pulumi.metal.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
        code = cli.run(["config", "verify", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    def test_against_the_contract_in_the_cluster(
        self, api: Api, stack: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        publish(api, OWN)
        code, out, _ = self.run(capsys, str(stack))
        assert code == ExitCode.OK
        assert "against the contract in the cluster" in out
        assert "pool gpu: 2 of 2 nodes have what is promised" in out

    def test_a_lack_is_named_and_refused(
        self, api: Api, stack: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        publish(api, OWN)
        bad = copy.deepcopy(api.objects["/api/v1/nodes/gpu-1"])
        bad["status"]["allocatable"].pop(RDMA)
        api.put(nodes.NODES, bad)
        code, out, err = self.run(capsys, str(stack))
        assert code == ExitCode.REFUSED
        assert "pool gpu: 1 of 2 nodes" in out
        assert f"node gpu-1: has no {RDMA}, 63 promised" in err
        code, out, _ = self.run(capsys, str(stack), "--json")
        assert code == ExitCode.REFUSED
        result = json.loads(out)["pools"]["gpu"]
        assert result["good"] == ["gpu-0"]
        assert result["lacks"] == {"gpu-1": [f"has no {RDMA}, 63 promised"]}

    def test_before_the_first_up_the_file_is_what_counts(
        self,
        api: Api,
        stack: Path,
        kubeconfig: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        for live in described_nodes(existing(kubeconfig)):
            api.put(nodes.NODES, live)
        code, out, _ = self.run(capsys, str(stack))
        assert code == ExitCode.OK
        assert "no contract is published yet" in out

    def test_nodes_that_may_not_be_listed(
        self, api: Api, stack: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        publish(api, OWN)
        api.refusals["GET", nodes.NODES] = (403, "no nodes for you")
        code, _, err = self.run(capsys, str(stack))
        assert code == ExitCode.REFUSED
        assert "no nodes for you" in err
