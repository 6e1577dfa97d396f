"""A node is taken away by a command, and what becomes of it is seen by the API server alone."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.accept.losing import OUT_OF_SERVICE, Losing

Node = dict[str, Any]
TAINTED = {"taints": [{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]}


def node(ready: str, spec: Node | None = None) -> Node:
    return {"spec": spec or {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


class Cluster:
    """One node, as it is at the moment."""

    def __init__(self) -> None:
        self.node: Node | None = node("True")

    def find(self, path: str) -> Node | None:
        assert path == "/api/v1/nodes/n2"
        return self.node


def losing(cluster: Cluster, *command: str) -> Losing:
    times = iter(range(1, 100))
    return Losing(
        cluster,  # type: ignore[arg-type]
        allowed=("n2", "n3"),
        command=command,
        now=lambda: float(next(times)),
    )


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (None, "its object was deleted"),
        (node("True"), "it came back"),
        (node("Unknown", TAINTED), f"it was tainted {OUT_OF_SERVICE}"),
        (node("Unknown"), "its pods were ended by force"),
    ],
)
def test_outcome_of_a_lost_node(after: Node | None, told: str) -> None:
    cluster = Cluster()
    item = losing(cluster, "true")
    item.look(back=False)
    item.take(["n1", "n2"])
    item.look(back=False)
    cluster.node = node("Unknown")
    item.look(back=False)
    cluster.node = after
    item.look(back=True)
    cluster.node = node("True")
    item.look(back=True)
    assert item.lost is not None
    assert (item.lost.node, item.lost.status, item.lost.unready, item.lost.after) == (
        "n2",
        0,
        1,
        told,
    )


def test_a_node_that_stays_ready_was_not_lost() -> None:
    item = losing(Cluster(), "true")
    item.take(["n1", "n2"])
    item.look(back=True)
    assert item.lost is not None
    assert item.lost.unready is None


def test_only_an_allowed_node_is_lost() -> None:
    item = losing(Cluster(), "false")
    item.take(["n1", "n4"])
    assert item.lost is None


@pytest.mark.parametrize(
    ("command", "status", "output"),
    [(("sh", "-c", "echo no $0 >&2; exit 3"), 3, "no n2"), (("/no/such/command",), -1, "No such")],
)
def test_failed_command_is_reported(command: tuple[str, ...], status: int, output: str) -> None:
    item = losing(Cluster(), *command)
    item.take(["n2"])
    assert item.lost is not None
    assert item.lost.status == status
    assert output in item.lost.output
