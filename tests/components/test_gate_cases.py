"""The gate of every mode and shipped stack stays closed on a node without hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.config import Cluster, load, parse
from railhead.fabric.kinds import FABRICS
from railhead.gate.prove import evaluate
from railhead.gate.state import FAILED, Gate
from railhead.resolve.gate import expectation, gated
from tests.components.fabrics import Case, cases, cluster
from tests.components.recording import REPO
from tests.unit.gate.trees import Tree

STACKS = sorted((REPO / "stacks").glob("Pulumi.*.yaml"))


def stays_shut(stack: Cluster, root: Path) -> None:
    assert gated(stack)
    for pool in stack.pools:
        findings = evaluate(Tree(root).node(), expectation(stack, pool))
        assert Gate().decide(findings, None) == FAILED, pool.name
        named = [finding.name for finding in findings]
        assert "expectation" not in named, f"nothing is expected of pool {pool.name}"


# Where there is no fabric beside the pod network there is nothing to prove, and no gate.
CASES = [case for case in cases() if not FABRICS[case.fabric].universal]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_gate_stays_shut_in_every_mode(case: Case, tmp_path: Path) -> None:
    stays_shut(parse(cluster(case), where="a case"), tmp_path)


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_gate_stays_shut_in_every_stack(path: Path, tmp_path: Path) -> None:
    stays_shut(load(path), tmp_path)
