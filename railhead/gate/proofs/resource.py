"""The extended resources that the node offers."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, number

ORDER = 50


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Return one finding per resource."""
    return [_resource(node, name, count) for name, count in expected.resources.items()]


def _resource(node: Node, name: str, count: int) -> Finding:
    subject = f"resource {name}"
    offered = node.allocatable.get(name, "")
    if int(number(offered)) >= count:
        return Finding(name=subject, passed=True, text=f"{offered} offered")
    return Finding(
        name=subject,
        passed=False,
        text=f"the node offers {offered or 'none'}, {count} expected",
        remedy="look at the device plugin's pod on this node, and at the driver below it",
    )
