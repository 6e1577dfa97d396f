"""All of nothing is true, and is no pass: each proof by a list says when it is empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.base.errors import RefusedError
from railhead.catalog.versions import unrun
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.gate.dcb import Dcb
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node
from railhead.gate.prove import evaluate
from railhead.gate.state import FAILED, Gate
from railhead.kube import nodes
from railhead.nccl.expect import proven
from tests.components.recording import STACKS, stack_cluster
from tests.policies.planning import judge

PROCESS = "node-0:100:101 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>"


def test_a_gate_that_looked_at_nothing_is_closed() -> None:
    assert Gate().decide((), None) == FAILED
    assert Gate().decide((), "ready") == FAILED


def test_a_node_of_which_nothing_is_expected_is_not_proven(tmp_path: Path) -> None:
    node = Node(
        sys=tmp_path,
        dev=tmp_path,
        proc=tmp_path,
        kernel="6.8.0-45-generic",
        allocatable={},
        dcb=lambda _: Dcb(pfc=frozenset(), dscp={}),
    )
    result = evaluate(node, Expectation(fabric="new"))
    assert result
    assert not any(finding.passed for finding in result)


def test_a_log_is_proven_by_nothing_where_nothing_is_to_be_shown() -> None:
    assert [finding.passed for finding in proven([PROCESS], ())] == [None]
    assert [finding.passed for finding in proven([], ("via NET/IB",))] == [None]
    assert [finding.passed for finding in proven([PROCESS], ("NET/Socket",))] == [True]


def test_a_cluster_of_no_pools_has_not_what_its_stack_promises() -> None:
    assert nodes.verify((), [{"metadata": {"name": "a"}}]) == ()
    with pytest.raises(RefusedError, match="no pool is promised"):
        nodes.require("x", ())


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_every_fabric_has_what_proves_it(fabric: object) -> None:
    assert getattr(fabric, "proofs")  # noqa: B009


def test_modes_and_stacks_are_not_empty() -> None:
    assert len(MODES) >= 12
    assert len(STACKS) >= 7
    assert all(stack_cluster(stack)["pools"] for stack in STACKS)


def test_versions_that_nobody_names_did_not_run() -> None:
    assert unrun(["", "", ""])


def test_a_resource_that_shows_nothing_is_a_violation() -> None:
    """A rule that reads a body and is shown none would pass it."""
    kind = "kubernetes:core/v1:Pod"
    assert judge("plan-is-seen", {}, types={0: kind})
