"""The exporter of guards, nodes and checkpoints: what it says, and that it says nothing unseen."""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from railhead.gate.api import ApiError
from railhead.watch import exporter
from railhead.watch.metrics import METRICS

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


class Served:
    def __init__(self, lists: dict[str, list[Any] | None]) -> None:
        self.lists = lists

    def call(self, method: str, path: str) -> dict[str, Any]:
        assert method == "GET"
        if path not in self.lists:
            raise ApiError(f"{path}: 403")
        return {"items": self.lists[path]}


def policy(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def binding(name: str, *actions: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": actions}}


def bound(policies: list[Any] | None, bindings: list[Any] | None) -> dict[str, float]:
    api: Any = Served({POLICIES: policies, BINDINGS: bindings})
    return {labels["policy"]: value for _, labels, value in exporter.guards(api, ["a", "b"])}


def test_a_guard_counts_only_while_it_denies() -> None:
    both = [policy("a"), policy("b"), policy("else")]
    assert bound(both, [binding("a", "Deny"), binding("b", "Deny", "Audit")]) == {"a": 1, "b": 1}
    assert bound(both, [binding("a", "Audit"), binding("b", "Warn")]) == {"a": 0, "b": 0}
    assert bound([policy("b")], [binding("a", "Deny"), binding("b", "Deny")]) == {"a": 0, "b": 1}
    # An empty list comes as null.
    assert bound(both, None) == {"a": 0, "b": 0}
    assert bound(None, None) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("found", "replicas"), [([{"spec": {"replicas": 2}}], 2), ([{"spec": {"replicas": 0}}], 0)]
)
def test_missing_or_scaled_down_controller_has_zero_replicas(
    found: list[Any], replicas: int
) -> None:
    at = "/apis/apps/v1/namespaces/{}/deployments?fieldSelector=metadata.name%3D{}"
    api: Any = Served({at.format("a", "there"): found, at.format("b", "gone"): None})
    assert list(exporter.controllers(api, ["a/there", "b/gone"])) == [
        ("railhead_controller_replicas", {"namespace": "a", "deployment": "there"}, replicas),
        ("railhead_controller_replicas", {"namespace": "b", "deployment": "gone"}, 0),
    ]


def as_made(tmp_path: Path, *live: dict[str, Any]) -> dict[str, float]:
    """Return the series of two queues that the stack made, with these objects live."""
    queues = [
        {
            "metadata": {"name": name, "namespace": "training"},
            "spec": {"clusterQueue": "gpu", "flavors": ["a", "b"]},
        }
        for name in ("one", "two")
    ]
    (tmp_path / "made.json").write_text(
        json.dumps([{"kind": "LocalQueue", "path": "/queues", "objects": queues}])
    )
    api: Any = Served({"/queues": [*live]})
    return {
        labels["name"]: value for _, labels, value in exporter.made(api, tmp_path / "made.json")
    }


def test_object_is_as_made_while_the_stacks_fields_are(tmp_path: Path) -> None:
    def queue(name: str, namespace: str = "training", **spec: Any) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": namespace, "uid": "u"},
            "spec": {"clusterQueue": "gpu", "flavors": ["a", "b"], "stopPolicy": "None"} | spec,
            "status": {"pendingWorkloads": 3},
        }

    two = queue("two")
    # What others add beside it, defaults and status are theirs.
    assert as_made(tmp_path, queue("one"), two, queue("three")) == {"one": 1, "two": 1}
    assert as_made(tmp_path, queue("one", clusterQueue="mine"), two) == {"one": 0, "two": 1}
    assert as_made(tmp_path, queue("one", flavors=["a"]), two) == {"one": 0, "two": 1}
    assert as_made(tmp_path, queue("one", flavors=["a", "b", "c"]), two) == {"one": 0, "two": 1}
    assert as_made(tmp_path, queue("one", stopPolicy="Hold"), two) == {"one": 0, "two": 1}
    assert as_made(tmp_path, queue("one", namespace="other"), two) == {"one": 0, "two": 1}
    assert as_made(tmp_path) == {"one": 0, "two": 0}


def test_a_node_is_what_the_gate_says() -> None:
    path = "/api/v1/nodes?labelSelector=pool%3Dgpu&resourceVersion=0"
    api: Any = Served(
        {
            path: [
                {"metadata": {"name": "n0", "labels": {"railhead.dev/fabric": "ready"}}},
                {"metadata": {"name": "n1", "labels": {"railhead.dev/fabric": "failed"}}},
                {"metadata": {"name": "n2"}},
            ]
        }
    )
    results = {labels["node"]: labels["state"] for _, labels, _ in exporter.nodes(api, "pool=gpu")}
    assert results == {"n0": "ready", "n1": "failed", "n2": "none"}


def wrote(path: Path, at: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    os.utime(path, (at, at))


def test_the_newest_file_of_each_directory_counts(tmp_path: Path) -> None:
    wrote(tmp_path / "run" / "step-1" / "model.pt", 100)
    wrote(tmp_path / "run" / "step-2" / "rank-0" / "model.pt", 300)
    wrote(tmp_path / "run" / "log", 200)
    wrote(tmp_path / "other" / "deep" / "deeper" / "model.pt", 50)
    wrote(tmp_path / "a-file-of-nobody's", 999)
    # A job that prints and saves nothing has no new checkpoint.
    wrote(tmp_path / ".railhead" / "logs" / "training" / "job" / "run" / "0-pod-0.log", 999)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    results = {
        labels.get("directory"): value
        for name, labels, value in exporter.checkpoints(tmp_path, "training", "c")
        if name == "railhead_checkpoint_newest_timestamp_seconds"
    }
    assert results == {"run": 300, "other": 50}


def test_a_claim_that_nobody_saved_to_is_as_old_as_it_is(tmp_path: Path) -> None:
    """A job that never saves would otherwise never be reported."""
    wrote(tmp_path / ".railhead" / "logs" / "training" / "job" / "run" / "0-pod-0.log", 999)
    (tmp_path / "empty").mkdir()
    os.utime(tmp_path, (70, 70))
    (_, labels, value), _ = exporter.checkpoints(tmp_path, "training", "c")
    assert (labels["directory"], value) == (".", 70)


INSPECTED = """\
nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="unknown",node="demo-node-0-1",gpu="GPU0",\
comm_name="unknown",n_nodes="2",nranks="16",collective="AllReduce",message_size="64-128MB",\
algo_proto="RING_SIMPLE"} 151.2
nccl_p2p_bus_bandwidth_gbs{node="demo-node-0-1"} 12
nccl_bus_bandwidth_gbs{namespace="other",claim="theirs",node="x"} 1e+01
nccl_bus_bandwidth_gbs{node="x"} nan
railhead_guard_bound{policy="mine"} 1
"""


def test_inspector_series_are_passed_on(tmp_path: Path) -> None:
    """The series count as the claim's own, and nothing else that a job wrote there is passed on."""
    folder = tmp_path / exporter.NCCL
    folder.mkdir(parents=True)
    (folder / "nccl_inspector_metrics_GPU-1.prom").write_text(INSPECTED)
    wrote(folder / "nccl_inspector_metrics_GPU-2.prom", 100)
    (folder / "link.prom").symlink_to(folder / "nccl_inspector_metrics_GPU-1.prom")
    os.mkfifo(folder / "pipe.prom")
    item, other = exporter.collectives(tmp_path, "training", "c")
    assert item == (
        "nccl_bus_bandwidth_gbs",
        {
            "namespace": "training",
            "claim": "c",
            "node": "demo-node-0-1",
            "gpu": "GPU0",
            "comm_name": "unknown",
            "n_nodes": "2",
            "nranks": "16",
            "collective": "AllReduce",
            "message_size": "64-128MB",
            "algo_proto": "RING_SIMPLE",
        },
        151.2,
    )
    assert other[1:] == ({"namespace": "training", "claim": "c", "node": "x"}, 10.0)
    assert list(exporter.collectives(tmp_path / "empty", "training", "c")) == []


def test_deep_files_count_by_the_age_of_their_directory(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("run", *"abcdefg")
    wrote(deep / "model.pt", 100)
    at = tmp_path.joinpath("run", *"abcde")
    os.utime(at, (70, 70))
    (_, _, value), _ = exporter.checkpoints(tmp_path, "training", "c")
    assert value == 70


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_unreadable_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    _, (name, _, value) = exporter.checkpoints(tmp_path, "training", "c")
    assert (name, value) == ("railhead_checkpoint_unreadable", 1)


def test_metrics_are_dropped_if_the_cluster_does_not_answer(tmp_path: Path) -> None:
    held = exporter.Held()
    options = exporter._options().parse_args(["--guard=a"])
    there: Any = Served({POLICIES: [policy("a")], BINDINGS: [binding("a", "Deny")]})
    exporter.turn(options, there, held)
    assert 'railhead_guard_bound{policy="a"} 1\n' in held.text
    exporter.turn(options, Served({}), held)  # type: ignore[arg-type]
    assert held.text == ""
    # Of Kueue's definitions are gone, guards are still told.
    (tmp_path / "made.json").write_text('[{"kind": "K", "path": "/gone", "objects": []}]')
    both = ["--guard=a", f"--made={tmp_path / 'made.json'}", "--nodes=pool=gpu"]
    exporter.turn(exporter._options().parse_args(both), there, held)
    assert [line for line in held.text.splitlines() if not line.startswith("#")] == [
        'railhead_guard_bound{policy="a"} 1'
    ]
    gone = exporter._options().parse_args([f"--checkpoints={tmp_path / 'not-mounted'}"])
    exporter.turn(gone, None, held)
    assert held.text == ""


def test_its_metrics_are_the_tables() -> None:
    assert {m.name for m in METRICS.values() if m.exporter == "railhead"} == set(exporter._TYPES)


def test_it_answers_in_prometheus_format(tmp_path: Path) -> None:
    held = exporter.Held()
    server = ThreadingHTTPServer(("127.0.0.1", 0), exporter.handler(held))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{base}/ready")
        held.put([("railhead_guard_bound", {"policy": 'a"\\\n'}, 1.0)])
        assert urllib.request.urlopen(f"{base}/ready").status == 200
        text = urllib.request.urlopen(f"{base}/metrics").read().decode()
        assert 'railhead_guard_bound{policy="a\\"\\\\\\n"} 1\n' in text
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{base}/etc/passwd")
    finally:
        server.shutdown()
