"""Nodes of EKS' groups come, go and change as their group does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from railhead.twin.joining import Joining, addon
from railhead.twin.truth import Node
from railhead.twin.world import PLAYER, Body, World


class Recorded(World):
    """A world that records what is changed of nodes."""

    def __init__(self) -> None:
        super().__init__(client=None)  # type: ignore[arg-type]
        self.patched: list[Body] = []

    def patch(self, body: Mapping[str, Any], change: Body, *, status: bool = False) -> None:
        self.patched.append(change)


class Cloud:
    """Requests of a provider, and the nodes that there are."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        self.nodes: dict[str, Node] = {}
        self.began: list[str] = []
        self.world = Recorded()
        self.joining = Joining(folder, self.world, self._add, self.nodes.__delitem__)

    def _add(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.began.append(node.name)

    def ask(self, **request: Any) -> None:
        self.count += 1
        (self.folder / f"{self.count}.json").write_text(json.dumps(request))
        self.joining.turn()

    def group(self, **more: Any) -> None:
        self.ask(**({"do": "group", **GROUP} | more))


GROUP = {
    "group": "g",
    "machine": "p5.48xlarge",
    "zone": "us-east-2a",
    "labels": {"team": "a"},
    "taints": [],
    "capacity": "ON_DEMAND",
    "efa": 32,
    "image": "AL2023_x86_64_NVIDIA",
    "cloud": "aws",
    "nodes": 2,
    "rolled": False,
}


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(tmp_path)


def test_a_group_has_its_nodes_once(cloud: Cloud) -> None:
    cloud.group()
    cloud.group()
    assert len(cloud.nodes) == len(cloud.began) == 2
    assert not list(cloud.folder.iterdir())


def test_a_group_that_is_scaled_keeps_what_its_nodes_are(cloud: Cloud) -> None:
    cloud.group(nodes=0)
    cloud.ask(do="scale", group="g", nodes=3)
    assert [node.labels["team"] for node in cloud.nodes.values()] == ["a"] * 3
    cloud.ask(do="scale", group="g", nodes=1)
    assert list(cloud.nodes) == cloud.began[:1]


def test_labels_change_in_place(cloud: Cloud) -> None:
    cloud.group()
    cloud.group(labels={"team": "b"})
    assert len(cloud.began) == 2
    assert {change["metadata"]["labels"]["team"] for change in cloud.world.patched} == {"b"}


def test_a_new_template_replaces_every_node(cloud: Cloud) -> None:
    cloud.group()
    cloud.group(rolled=True)
    assert len(cloud.began) == 4
    # Once, not at each size from then on.
    cloud.ask(do="scale", group="g", nodes=3)
    assert len(cloud.began) == 5


def test_a_csi_driver_has_a_provisioner_and_mounters() -> None:
    roles = [
        b["spec"]["template"]["metadata"]["labels"][PLAYER] for b in addon("aws-efs-csi-driver")
    ]
    assert roles == ["provisioner", "mounter"]


def test_coredns_tolerates_no_gpu_pool() -> None:
    (body,) = addon("coredns")
    keys = [t["key"] for t in body["spec"]["template"]["spec"]["tolerations"]]
    assert keys == ["CriticalAddonsOnly"]
