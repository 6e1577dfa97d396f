"""Nodes that no gate looks at any more lose their label, and no others do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from railhead.gate import keeper
from railhead.gate.api import Api, ApiError
from railhead.gate.state import ANNOTATION, LABEL, READY, label_before

OPTIONS = argparse.Namespace(namespace="gates", selector="app=gate", period=60.0, grace=300.0)


class Cluster(Api):
    """An API server of ready nodes and their gates' pods."""

    pods: dict[str, bool]
    patched: dict[str, Any]

    def __init__(self, pods: dict[str, bool], nodes: set[str]) -> None:
        super().__init__(server="https://none")
        object.__setattr__(self, "pods", pods)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "patched", {})

    def call(
        self, method: str, path: str, body: Any = None, accept: str = "application/json"
    ) -> Mapping[str, Any]:
        if method == "PATCH":
            self.patched[path.rpartition("/")[2]] = body
            return {}
        if path.startswith("/api/v1/nodes?"):
            assert "PartialObjectMetadataList" in accept
            # As API servers write it: null for none.
            return {"items": [{"metadata": {"name": name}} for name in self.nodes] or None}
        assert path.startswith("/api/v1/namespaces/gates/pods?labelSelector=app%3Dgate")
        conditions = {True: "True", False: "False"}
        return {
            "items": [
                {
                    "spec": {"nodeName": node},
                    "status": {"conditions": [{"type": "Ready", "status": conditions[ready]}]},
                }
                for node, ready in self.pods.items()
            ]
            + [{"spec": {}, "status": {}}]
        }

    nodes: set[str]


def test_a_node_without_a_gate_loses_its_label_after_the_grace() -> None:
    cluster = Cluster({"a": True, "b": False}, {"a", "b", "c"})
    unwatched: dict[str, float] = {}
    assert keeper.turn(cluster, OPTIONS, unwatched, 0.0) == []
    assert keeper.turn(cluster, OPTIONS, unwatched, 300.0) == []
    assert keeper.turn(cluster, OPTIONS, unwatched, 301.0) == ["b", "c"]
    assert set(cluster.patched) == {"b", "c"}
    metadata = cluster.patched["b"]["metadata"]
    assert metadata["labels"] == {LABEL: None}
    assert (
        "no gate looked at it for 300 s" in json.loads(metadata["annotations"][ANNOTATION])["note"]
    )
    # The gate that comes back knows what the node was.
    assert label_before({}, metadata["annotations"]) == READY


def test_before_any_node_is_proven_there_is_nothing_to_keep() -> None:
    assert keeper.turn(Cluster({"a": False}, set()), OPTIONS, {}, 0.0) == []


def test_a_rollout_withdraws_nothing() -> None:
    cluster, unwatched = Cluster({"a": False}, {"a"}), dict[str, float]()
    assert keeper.turn(cluster, OPTIONS, unwatched, 0.0) == []
    cluster.pods["a"] = True
    assert keeper.turn(cluster, OPTIONS, unwatched, 290.0) == []
    cluster.pods["a"] = False
    # The grace begins again.
    assert keeper.turn(cluster, OPTIONS, unwatched, 310.0) == []
    assert keeper.turn(cluster, OPTIONS, unwatched, 600.0) == []
    assert keeper.turn(cluster, OPTIONS, unwatched, 611.0) == ["a"]


def test_a_node_that_failed_or_went_is_forgotten() -> None:
    cluster, unwatched = Cluster({}, {"a"}), dict[str, float]()
    keeper.turn(cluster, OPTIONS, unwatched, 0.0)
    cluster.nodes.clear()
    keeper.turn(cluster, OPTIONS, unwatched, 100.0)
    assert unwatched == {}


def test_an_api_server_that_is_away_withdraws_nothing() -> None:
    class Away(Cluster):
        def call(self, *_: Any, **__: Any) -> Mapping[str, Any]:
            raise ApiError("away")

    class Once:
        looks = 0

        def is_set(self) -> bool:
            self.looks += 1
            return self.looks > 2

        def wait(self, _: float) -> None:
            pass

    away, stop = Away({}, {"a"}), Once()
    keeper.run(away, OPTIONS, stop)  # type: ignore[arg-type]
    assert away.patched == {}
