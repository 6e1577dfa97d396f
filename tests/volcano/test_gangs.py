"""Volcano's own scheduler and controllers, with the configuration that a stack gives them.

Two gangs that cannot both fit: one is bound whole and the other waits whole, until the first has
ended. Nodes are objects without a kubelet, and what a kubelet would say of a pod this test says;
with kubelets it is tests/lab/test_volcano.py.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from railhead.catalog.versions import ADDONS
from railhead.config import parse
from railhead.lab.artifacts import volcano
from railhead.lab.artifacts.golang import module_dir
from railhead.resolve.cluster import resolve
from railhead.resolve.schedulers.volcano import Volcano, VolcanoQueues
from railhead.twin.plane import free_port
from tests import crds
from tests.api_server import Server
from tests.components.recording import lab_cluster
from tests.engine.controlplane import ControlPlane, running

pytestmark = [pytest.mark.controlplane, pytest.mark.volcano]

API = "scheduling.volcano.sh/v1beta1"
SPACE = "gangs"
SYSTEM = "volcano-system"
LEVELS = ("topology.railhead.dev/block", "topology.railhead.dev/rack")
NODES = {f"node-{n}": f"rack-{n // 2}" for n in range(4)}
LIMIT_S = 120.0
_T = TypeVar("_T")


def eventually(what: Callable[[], _T]) -> _T:
    deadline = time.monotonic() + LIMIT_S
    while not (result := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)
    return result


def queues() -> VolcanoQueues:
    """VolcanoQueues of two teams that own half of the nodes each, and one that borrows."""
    raw = lab_cluster() | {"queueing": {"scheduler": "volcano"}, "namespaces": [], "queues": []}
    raw["pools"][0]["nodes"] = len(NODES)
    raw["checkpoints"] = []
    for runtime in raw["runtimes"]:
        runtime.pop("checkpoint", None)
    promised = {"training": 0, "one": 2, "other": 2}
    raw["teams"] = [
        {
            "name": name,
            "namespaces": [name],
            "researchers": [name],
            "shares": [{"pool": raw["pools"][0]["name"], "nodes": nodes}],
        }
        for name, nodes in promised.items()
    ]
    result = resolve(parse(raw, where="lab")).queues
    assert isinstance(result, VolcanoQueues)
    return result


def definitions() -> list[dict[str, Any]]:
    """Return the CRDs of the pinned release, and those of its programs that no stack uses."""
    bases = module_dir("volcano.sh/volcano", volcano.SOURCES) / "config" / "crd"
    others = [yaml.safe_load(path.read_text()) for path in bases.glob("*/bases/*.yaml")]
    held = list(crds.of(ADDONS["volcano"]))
    names = {body["metadata"]["name"] for body in held}
    return [*held, *(crds.bare(body) for body in others if body["metadata"]["name"] not in names)]


@contextlib.contextmanager
def started(name: str, folder: Path, *arguments: str) -> Iterator[None]:
    program = volcano.programs() / f"vc-{name}"
    if not program.is_file():
        pytest.skip("not built here; run `make volcano`")
    settings = {"HELM_RELEASE_NAME": "volcano", "KUBE_POD_NAMESPACE": SYSTEM}
    with running([str(program), *arguments], folder / f"{name}.log", settings):
        yield


def node(name: str, rack: str) -> dict[str, Any]:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = dict(zip(LEVELS, ("block-0", rack), strict=True))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def group(name: str, members: int, highest: int, queue: str, priority: str = "") -> dict[str, Any]:
    """Return the PodGroup that Trainer v2.1.0 makes for a TrainJob (plugins/volcano, Build)."""
    return {
        "apiVersion": API,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "minMember": members,
            "minResources": {"nvidia.com/gpu": str(8 * members), "cpu": str(members)},
            "queue": queue,
            "priorityClassName": priority,
            "networkTopology": {"mode": "soft", "highestTierAllowed": highest},
        },
    }


def pods(name: str, members: int) -> list[dict[str, Any]]:
    amounts = {"nvidia.com/gpu": "8", "cpu": "1"}
    container = {"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{index}",
                "namespace": SPACE,
                "labels": {"gang": name},
                "annotations": {"scheduling.k8s.io/group-name": name},
            },
            "spec": {"schedulerName": "volcano", "containers": [container]},
        }
        for index in range(members)
    ]


class World:
    """A control plane with Volcano's definitions, nodes, and the stack's queues."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def submit(self, name: str, members: int, queue: str = "training", priority: str = "") -> None:
        for body in (group(name, members, len(LEVELS), queue, priority), *pods(name, members)):
            self.server.apply(body)

    def running(self, name: str, members: int, queue: str = "training", priority: str = "") -> None:
        """Submit a gang, and wait until it runs."""
        self.submit(name, members, queue, priority)
        eventually(lambda: len(self.bound(name)) == members)
        self.phase(name, "Running")

    def clear(self) -> None:
        """Take all gangs away, as a kubelet and Trainer would."""
        self.server.run("delete", "podgroups.scheduling.volcano.sh", "--all", "-n", SPACE)
        self.server.run("delete", "pods", "--all", "-n", SPACE, "--grace-period=0", "--force")

    def stopped(self, name: str) -> int:
        """Return how many pods of a gang are being deleted."""
        path = f"/api/v1/namespaces/{SPACE}/pods"
        result = self.server.client.request("GET", path, query={"labelSelector": f"gang={name}"})
        return sum("deletionTimestamp" in pod["metadata"] for pod in result.body["items"])

    def bound(self, name: str) -> list[str]:
        path = f"/api/v1/namespaces/{SPACE}/pods"
        result = self.server.client.request("GET", path, query={"labelSelector": f"gang={name}"})
        return [node for pod in result.body["items"] if (node := pod["spec"].get("nodeName"))]

    def phase(self, name: str, phase: str) -> None:
        """Report a phase of all pods of a gang, as their kubelets do."""
        for index in range(len(self.bound(name))):
            self.server.client.request(
                "PATCH",
                f"/api/v1/namespaces/{SPACE}/pods/{name}-{index}/status",
                body={"status": {"phase": phase}},
                content_type="application/merge-patch+json",
            )

    def read(self, name: str) -> dict[str, Any]:
        path = f"/apis/{API}/namespaces/{SPACE}/podgroups/{name}"
        result: dict[str, Any] = self.server.client.request("GET", path).body
        return result


@contextlib.contextmanager
def beating(server: Server) -> Iterator[None]:
    """Nodes whose kubelet would be heard: those that are silent for a while are tainted."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(5):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
            for name in NODES:
                server.client.request(
                    "PATCH",
                    f"/api/v1/nodes/{name}/status",
                    body={"status": {"conditions": [ready]}},
                    content_type="application/merge-patch+json",
                )

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture(scope="module")
def world(own_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, made = tmp_path_factory.mktemp("volcano"), queues()
    # The scheduler reads it again whenever anything in its folder changes, such as a log.
    config = tmp_path_factory.mktemp("configuration") / "scheduler.conf"
    config.write_text(made.scheduler)
    kubeconfig = f"--kubeconfig={own_plane.kubeconfig}"
    with Server(own_plane) as server:
        server.define(definitions())
        for name in (SPACE, SYSTEM):
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            server.apply(space)
        server.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "volcano-controller-configmap", "namespace": SYSTEM},
                "data": {"volcano-controller.conf": yaml.safe_dump(dict(made.controller))},
            }
        )
        for name, rack in NODES.items():
            body = node(name, rack)
            server.apply({key: body[key] for key in ("apiVersion", "kind", "metadata")})
            server.client.request(
                "PATCH",
                f"/api/v1/nodes/{name}/status",
                body={"status": body["status"]},
                content_type="application/merge-patch+json",
            )
            server.run("taint", "node", name, "node.kubernetes.io/not-ready-")
        for kind, body in made.objects():
            api = Volcano.kinds[kind][0]
            server.apply({"apiVersion": api, "kind": kind, **body})
        ports = [f"--listen-address=127.0.0.1:{free_port()}" for _ in range(2)]
        healthy = [f"--healthz-address=127.0.0.1:{free_port()}" for _ in range(2)]
        common = (kubeconfig, "--leader-elect=false")
        with (
            beating(server),
            started("controller-manager", folder, *common, ports[0], healthy[0]),
            started(
                "scheduler",
                folder,
                *common,
                ports[1],
                healthy[1],
                f"--scheduler-conf={config}",
                "--scheduler-name=volcano",
                "--schedule-period=200ms",
            ),
        ):
            yield World(server)


def test_hyper_nodes_are_made_of_the_levels_labels(world: World) -> None:
    def found() -> set[tuple[int, str, str, int]]:
        path = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
        listed = world.server.client.request("GET", path).body
        # It may make two of one value when nodes come while it looks.
        return {
            (spec["tier"], level, item["metadata"]["labels"][level], len(spec["members"]))
            for item in listed["items"]
            if (spec := item["spec"]) and (level := spec["tierName"])
        }

    block, rack = LEVELS
    made = {(1, rack, "rack-0", 2), (1, rack, "rack-1", 2), (2, block, "block-0", 2)}
    eventually(lambda: found() == made)


def test_one_gang_runs_whole_and_the_other_waits_whole(world: World) -> None:
    """Three nodes each, of four: halves of both would fit."""
    world.running("first", 3)
    world.submit("second", 3)

    def why() -> str:
        conditions = world.read("second").get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "Unschedulable"), "")

    assert "unschedulable" in eventually(why)
    # One node is free all this time, and a gang by halves would have it by now.
    for _ in range(25):
        assert world.bound("second") == []
        time.sleep(0.2)
    world.phase("first", "Succeeded")
    eventually(lambda: len(world.bound("second")) == 3)


def test_a_gang_lies_within_one_rack_where_that_is_free(world: World) -> None:
    world.phase("second", "Succeeded")
    world.submit("close", 2)
    eventually(lambda: len(world.bound("close")) == 2)
    assert len({NODES[name] for name in world.bound("close")}) == 1


def test_borrower_does_not_preempt_a_team_within_its_share(world: World) -> None:
    """The team that asks has CPUs of its share left, which lets it ask."""
    world.clear()
    world.running("promised", 2, "one")
    world.running("mine", 2, "other")
    world.submit("more", 2, "other")
    for _ in range(25):
        assert world.bound("more") == []
        assert world.stopped("promised") == 0
        time.sleep(0.2)
    world.phase("promised", "Succeeded")
    eventually(lambda: len(world.bound("more")) == 2)
    world.phase("more", "Running")


def test_what_a_team_borrowed_is_taken_back_as_whole_gangs(world: World) -> None:
    world.submit("again", 2, "one")
    eventually(lambda: world.stopped("mine") + world.stopped("more") == 2)
    # One of the two gangs, and not half of each.
    assert {world.stopped("mine"), world.stopped("more")} == {0, 2}
    for _ in range(10):
        assert world.stopped("mine") + world.stopped("more") == 2
        time.sleep(0.2)


def test_only_the_borrowed_part_of_a_gang_is_preempted(
    world: World,
) -> None:
    """The share is two nodes of its three; JobSet recreates a job that lost a pod."""
    world.clear()
    world.running("both", 3, "one")
    world.submit("asks", 2, "other")
    eventually(lambda: world.stopped("both") == 1)
    for _ in range(10):
        assert world.stopped("both") == 1
        time.sleep(0.2)


def test_higher_priority_preempts_a_whole_gang_of_its_team(world: World) -> None:
    world.clear()
    world.running("kept", 1, "one", "research")
    world.running("lower", 3, "one", "spare")
    world.submit("higher", 2, "one", "production")
    eventually(lambda: world.stopped("lower") == 3)
    assert world.stopped("kept") == 0
