"""Rows of truth: each has its source, each is used, and nodes are what the rows say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from railhead.base.errors import InputError
from railhead.config import parse
from railhead.twin import gke, gke_pools, jobs, machines, node_groups, provisioning, refusals, twin
from railhead.twin.players import PLAYERS
from railhead.twin.truth import FOLDER, Node, Taint, Truth, filled, truth
from tests import shipped

LAYER = "topology.k8s.aws/network-node-layer-"


def on_aws(
    machine: str, *, interfaces: int = 32, number: int = 0, image: str = "AL2023_x86_64_NVIDIA"
) -> Node:
    return machines.on_aws(
        group="gpu",
        machine=machine,
        zone="us-east-2a",
        number=number,
        labels={"railhead.dev/pool": "gpu"},
        taints=[Taint(key="nvidia.com/gpu", value="true", effect="NoSchedule")],
        capacity="ON_DEMAND",
        efa=interfaces,
        image=image,
    )


def standing(repo: Path, stack: str) -> dict[str, Node]:
    cluster = parse(shipped.stack(stack), where=stack)
    return {node.name: node for node in machines.standing(cluster)}


def test_no_two_rows_have_one_id() -> None:
    ids = [
        row["id"]
        for path in FOLDER.glob("*.yaml")
        for part in yaml.safe_load(path.read_text()).values()
        for row in part
    ]
    assert sorted(ids) == sorted(truth().rows())


def test_a_row_without_a_source_is_refused() -> None:
    row = {"id": "x", "plays": "y", "rule": "z", "sure": "read", "source": ""}
    with pytest.raises(ValidationError, match="source"):
        Truth.model_validate({"rules": [row]})


def test_what_players_and_refusals_follow_are_rows() -> None:
    followed = {row for player in PLAYERS for row in player.rows}
    followed |= {*jobs.ROWS, *node_groups.ROWS, *refusals.rows()}
    followed |= {*gke.ROWS, *gke_pools.ROWS, *provisioning.ROWS, *twin.ROWS}
    known = truth()
    assert followed == {row.id for row in (*known.rules, *known.refusals)}


def test_a_machine_without_a_row_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no row of a p9.48xlarge on aws.*p5.48xlarge"):
        truth().machine("aws", "p9.48xlarge")


def test_labels_are_filled_with_the_nodes_own() -> None:
    assert filled({"a": "{zone}", "b": "x"}, zone="z") == {"a": "z", "b": "x"}


def test_an_eks_node_offers_no_device_by_itself() -> None:
    node = on_aws("p5.48xlarge")
    assert not {"nvidia.com/gpu", "vpc.amazonaws.com/efa"} & set(node.allocatable)
    assert node.labels["eks.amazonaws.com/nodegroup"] == "gpu"
    assert node.labels["railhead.dev/pool"] == "gpu"
    assert [t.key for t in node.taints] == ["nvidia.com/gpu"]
    assert (node.gpus, node.efa) == (8, 32)


@pytest.mark.parametrize(
    ("machine", "layers"),
    [("p5.48xlarge", 3), ("p6-b200.48xlarge", 4), ("p5.4xlarge", 0), ("m7i.2xlarge", 0)],
)
def test_layers_of_the_network_are_the_types_own(machine: str, layers: int) -> None:
    labels = on_aws(machine).labels
    assert sorted(k for k in labels if k.startswith(LAYER)) == [
        f"{LAYER}{number}" for number in range(1, layers + 1)
    ]


def test_a_rack_shares_the_closest_layer() -> None:
    first, same, other = (on_aws("p5.48xlarge", number=n).labels for n in (0, 7, 8))
    assert first[f"{LAYER}3"] == same[f"{LAYER}3"] != other[f"{LAYER}3"]
    assert first[f"{LAYER}2"] == other[f"{LAYER}2"]


def test_attached_interfaces_are_what_efa_counts() -> None:
    assert on_aws("p5.48xlarge", interfaces=4).efa == 4


@pytest.mark.parametrize(
    ("image", "driver"),
    [
        ("AL2023_x86_64_NVIDIA", True),
        ("BOTTLEROCKET_ARM_64_NVIDIA", True),
        ("CUSTOM", True),
        ("AL2023_x86_64_STANDARD", False),
        ("", False),
    ],
)
def test_images_for_nvidia_alone_have_its_driver(image: str, driver: bool) -> None:
    assert ("gpu-driver" in on_aws("p5.48xlarge", image=image).host) == driver


def test_kubeadm_labels_no_worker(repo: Path) -> None:
    for node in standing(repo, "onprem-ib-sriov").values():
        assert "node-role.kubernetes.io/worker" not in node.labels
        assert "node.kubernetes.io/instance-type" not in node.labels


def test_a_site_has_its_pools_nodes_and_two_more(repo: Path) -> None:
    nodes = standing(repo, "onprem-roce-shared")
    assert len(nodes) == 16 + 2
    first = nodes["h200-00"]
    assert first.labels["railhead.dev/pool"] == "h200"
    assert first.interfaces[0] == "ens1f0np0"
    assert not first.host, "the operators load the drivers of this stack"
    assert "nvidia.com/gpu" not in first.allocatable


def test_a_site_taints_what_its_pool_tolerates(repo: Path) -> None:
    node = standing(repo, "onprem-ib-sriov")["h100-00"]
    assert [(t.key, t.effect) for t in node.taints] == [("nvidia.com/gpu", "NoSchedule")]
    assert "gpu-driver" in node.host


def test_a_node_registers_ready_with_its_taints() -> None:
    body = on_aws("p5.48xlarge").body("10.64.0.1")
    assert body["spec"]["taints"][0]["effect"] == "NoSchedule"
    assert body["status"]["addresses"][0] == {"type": "InternalIP", "address": "10.64.0.1"}
    assert body["status"]["conditions"][0] == {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
    }
