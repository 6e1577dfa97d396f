"""Nodes asked in pairs: the program itself, with processes that print what perftest prints.

Two threads are two nodes; servers and clients are processes that connect as perftest's do, and
count on a port of a tree laid out as the kernel lays it out.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from railhead.accept.programs import verbs
from tests.unit.accept import perftests

RAILS = 2
#: A server answers one client and ends; a client counts what it has sent. As perftest does.
PLAY = """#!{python} -SE
import pathlib, socket, sys
words = sys.argv[1:]
value = dict(zip(words, words[1:]))
device, port = value["-d"], int(value["-p"])
if "127.0.0.1" not in words:
    with socket.create_server(("", port)) as listener, listener.accept()[0] as one:
        one.recv(1)
    sys.exit()
with socket.create_connection(("127.0.0.1", port)):
    counter = pathlib.Path({root!r}, device, "ports/1/counters/port_xmit_data")
    counter.write_text(str(int(counter.read_text()) + (320000 << 16) // 4))
    sys.stdout.write(pathlib.Path({root!r}, device, {tool!r}).read_text())
"""


def device(root: Path, nodes: Path, name: str, *, net: str = "", **port: str) -> None:
    """Create a device as the kernel and the pod show it."""
    number = len(list(nodes.glob("*")))
    place = root / name / "ports/1"
    (place / "counters").mkdir(parents=True)
    for file, text in ({"state": "4: ACTIVE", "link_layer": "Ethernet"} | port).items():
        (place / file).write_text(f"{text}\n")
    (place / "counters/port_xmit_data").write_text("0")
    (root / name / "device/infiniband_verbs" / f"uverbs{number}").mkdir(parents=True)
    if net:
        (root / name / "device/net" / net).mkdir(parents=True)
    (nodes / f"uverbs{number}").touch()
    (root / name / "ib_write_bw").write_text(perftests.bandwidth(name, link="Ethernet"))
    (root / name / "ib_read_lat").write_text(perftests.latency(name, link="Ethernet"))


class Cluster:
    """Two nodes with a tree of devices and tools of their own."""

    def __init__(self, folder: Path, rails: int = 1) -> None:
        self.folder = folder
        self.said: list[dict[str, Any]] = []
        self._all = threading.Barrier(2)
        self._given: list[Any] = [None, None]
        for node in range(2):
            for name in ("dev", "bin", "sys"):
                (self.at(node) / name).mkdir(parents=True)
            for rail in range(rails):
                # Of virtual functions each pod has others.
                device(self.at(node) / "sys", self.at(node) / "dev", f"mlx5_{rail + 7 * node}")
            for tool in verbs.TOOLS:
                self.play(node, tool)

    def at(self, node: int) -> Path:
        return self.folder / str(node)

    def play(self, node: int, tool: str, text: str = PLAY) -> None:
        path = self.at(node) / "bin" / tool
        path.write_text(
            text.format(python=sys.executable, root=str(self.at(node) / "sys"), tool=tool)
        )
        path.chmod(0o755)

    def share(self, node: int, one: Any) -> list[Any]:
        self._given[node] = one
        self._all.wait(60)
        results = list(self._given)
        self._all.wait(60)
        return results

    def sent(self, node: int) -> dict[str, int]:
        return {
            f"{port.parents[1].name}/1": int((port / "counters/port_xmit_data").read_text()) * 4
            for port in (self.at(node) / "sys").glob("*/ports/1")
        }

    def run(self, **environment: str) -> None:
        def one(node: int) -> None:
            verbs.measure(
                node=node,
                share=lambda given: self.share(node, given),
                sent=lambda: self.sent(node),
                say=lambda kind, **fields: self.said.append({"kind": kind, **fields}),
                root=self.at(node) / "sys",
                nodes=self.at(node) / "dev",
                environment={
                    "MASTER_ADDR": "127.0.0.1",
                    "PATH": str(self.at(node) / "bin"),
                    **environment,
                },
            )

        threads = [threading.Thread(target=one, args=(node,)) for node in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Use ports of this process: others may run the same tests beside it."""
    monkeypatch.setattr(verbs, "_FIRST_PORT", 20000 + os.getpid() % 2500 * 4)
    return Cluster(tmp_path)


@pytest.mark.slow
def test_every_rail_is_asked_by_both_tools_from_node_to_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster = Cluster(tmp_path / "rails", RAILS)
    cluster.run()
    pairs = [item for item in cluster.said if item["kind"] == "pair"]
    assert {(item["node"], item["to"], item["rail"], item["tool"]) for item in pairs} == {
        (node, 1 - node, rail, tool)
        for node in range(2)
        for rail in range(RAILS)
        for tool in verbs.TOOLS
    }
    for pair in pairs:
        assert (pair["status"], pair["served"]) == (0, 0), pair
        assert pair["device"] == f"mlx5_{pair['rail'] + 7 * pair['node']}"
        # The other rail's port has been idle meanwhile.
        others = {name for name, sent in pair["sent"].items() if sent}
        assert others == {f"{pair['device']}/1"}
        assert pair["device"] in pair["output"]


@pytest.mark.slow
def test_server_that_ends_before_listening_is_reported(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verbs, "_GRACE", 0.3)
    cluster.play(1, "ib_write_bw", "#!{python} -SE\nraise SystemExit('no memory to lock')\n")
    cluster.run()
    asked = [item for item in cluster.said if item.get("tool") == "ib_write_bw"]
    assert len(asked) == 2
    assert all((item["status"], item["served"]) != (0, 0) for item in asked)


def test_tool_missing_on_one_node_runs_on_none(cluster: Cluster) -> None:
    (cluster.at(1) / "bin/ib_read_lat").unlink()
    cluster.run()
    assert {item["tool"] for item in cluster.said if item["kind"] == "pair"} == {"ib_write_bw"}
    reported = {item["node"]: item["tools"] for item in cluster.said if item["kind"] == "verbs"}
    assert reported == {0: ["ib_write_bw", "ib_read_lat"], 1: ["ib_write_bw"]}


def test_nodes_that_see_different_ports_are_not_asked(cluster: Cluster) -> None:
    device(cluster.at(1) / "sys", cluster.at(1) / "dev", "mlx5_99")
    cluster.run()
    assert {item["kind"] for item in cluster.said} == {"verbs"}


def test_ports_that_the_pod_may_not_use_are_left_out(tmp_path: Path) -> None:
    root, nodes = tmp_path / "sys", tmp_path / "dev"
    nodes.mkdir()
    device(root, nodes, "mlx5_10", net="net2")
    device(root, nodes, "mlx5_2", net="net10")
    device(root, nodes, "mlx5_30", net="net1")
    device(root, nodes, "mlx5_4", state="1: DOWN")
    device(root, nodes, "rdmap0s6", link_layer="Unspecified")
    device(root, nodes, "mlx5_5")
    (nodes / "uverbs5").unlink()
    results = [item.name for item in verbs.devices(root, nodes, {})]
    # By the rail's interface, as numbers.
    assert results == ["mlx5_30", "mlx5_10", "mlx5_2"]
    only = verbs.devices(root, nodes, {"NCCL_IB_HCA": "=mlx5_10,mlx5_2:1"})
    assert [item.name for item in only] == ["mlx5_10", "mlx5_2"]


@pytest.mark.parametrize(
    ("words", "name", "port", "wanted"),
    [
        ("", "mlx5_1", 1, True),
        ("mlx5", "mlx5_1", 1, True),
        ("mlx5_1", "mlx5_10", 1, True),
        ("=mlx5_1", "mlx5_10", 1, False),
        ("=mlx5_1:2", "mlx5_1", 1, False),
        ("=mlx5_0,mlx5_1:2", "mlx5_1", 2, True),
        ("^mlx5_1", "mlx5_10", 1, False),
        ("^=mlx5_1", "mlx5_10", 1, True),
        ("^=mlx5_1", "mlx5_1", 1, False),
    ],
)
def test_names_are_taken_as_nccl_takes_them(words: str, name: str, port: int, wanted: bool) -> None:
    assert verbs.wanted(words, name, port) is wanted
