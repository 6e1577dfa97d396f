"""The pod that leads, with pods that are made up: one of them goes in the middle."""

from __future__ import annotations

import json
import socket
import sys
import threading
from typing import Any

import pytest

from railhead.accept import search
from railhead.accept.programs import slow_nodes as program
from railhead.nccl.ranks import DEBUG

REPEATS = 3
MEBIBYTES = 64
WORDS = [
    "--backend=gloo",
    f"--mebibytes={MEBIBYTES}",
    f"--repeats={REPEATS}",
    "--limit=20",
    "--seed=20",
    "--floor=0.1",
]


def pod(port: int, index: int, gone: bool) -> None:
    """Says hello, and reports what it is asked; ``gone`` hangs up at its first test."""
    timing = {"seconds": [0.1] * REPEATS, "wall": [0.1] * REPEATS}
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        wire = program.Wire(connection)
        wire.send(node=index, address="127.0.0.1", port=port + 1)
        while (order := wire.receive(60)) is not None and order["do"] != "end":
            if gone and order["do"] == "group":
                connection.shutdown(socket.SHUT_RDWR)
                return
            wire.send(**order, node=index, processes=[{"exchange": timing, "compute": timing}])


def led(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], gone: set[int]
) -> list[dict[str, Any]]:
    """Return the lines of the leader of nine pods."""
    monkeypatch.setitem(sys.modules, "search", search)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threads = [
            threading.Thread(target=pod, args=(port, index, index in gone)) for index in range(9)
        ]
        for thread in threads:
            thread.start()
        program.lead(program.read_arguments(WORDS), listener, 9, MEBIBYTES << 20)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    lines = [line.removeprefix(program.MARK) for line in capsys.readouterr().out.splitlines()]
    return [json.loads(line) for line in lines]


def test_nodes_of_one_rack_are_measured_over_their_nics() -> None:
    for settings in (program.SETTINGS, DEBUG):
        assert settings["NCCL_MNNVL_ENABLE"] == "0"


def test_it_asks_what_the_search_asks_and_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = led(monkeypatch, capsys, set())
    assert [row["do"] for row in text] == ["round", "round", "searched"]
    assert text[-1]["tests"] == 6
    want = search.Search([str(index) for index in range(9)], seed=20, floor=0.1).ask()
    assert text[0]["groups"] == [list(group) for group in want]


def test_a_pod_that_goes_takes_only_its_groups_along(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = led(monkeypatch, capsys, {4})
    rounds = [row["groups"] for row in text if row["do"] == "round"]
    # It is tested with two partners that are known to be good, and is not there.
    alone = [group for groups in rounds[2:] for group in groups if "4" in group]
    assert len(alone) == 2
    assert all(len(group) == 2 for group in alone)
    assert text[-1]["do"] == "searched"


def test_a_pod_that_cannot_join_says_so_and_ends_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "PATIENCE", 0.0)
    for name, value in {
        "PET_NODE_RANK": "1",
        "PET_NNODES": "2",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(program.free_port()),
    }.items():
        monkeypatch.setenv(name, value)
    program.main(WORDS)
    lines = [line.removeprefix(program.MARK) for line in capsys.readouterr().out.splitlines()]
    unmet, end = map(json.loads, lines)
    assert (unmet["do"], unmet["node"], end["said"]) == ("unmet", 1, 0)
    assert "127.0.0.1:" in unmet["to"]
    assert unmet["why"]
