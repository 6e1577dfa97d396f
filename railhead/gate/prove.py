"""Every proof of a node, one after the other."""

from __future__ import annotations

from dataclasses import replace

from railhead.base.finding import Finding, checks_in
from railhead.gate import proofs
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, named


def evaluate(node: Node, expected: Expectation) -> tuple[Finding, ...]:
    """Return all findings, in the order in which one would look for a fault; never empty."""
    expected = replace(expected, interfaces=named(node, expected))
    findings = tuple(f for proof in checks_in(proofs) for f in proof.prove(node, expected))
    return findings or (
        Finding(
            name="expectation",
            passed=False,
            text=f"nothing is expected of a node with {expected.fabric}, so nothing is proven",
            remedy="look for a newer Railhead that knows what this fabric's nodes must prove; "
            "gate.enabled: false in the stack's file places jobs on nodes that nobody looked at",
        ),
    )
