"""Names in a PromQL expression, from its syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import promql_parser


def nodes(expression: Any) -> Iterator[Any]:
    """Yield an expression and all within it."""
    yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(expression, name, None)
        if inner is not None and not isinstance(inner, str):
            yield from nodes(inner)
    for inner in getattr(expression, "args", None) or ():
        yield from nodes(inner)


def selectors(query: str) -> list[promql_parser.VectorSelector]:
    """Return every series that a query names."""
    results = [
        node
        for node in nodes(promql_parser.parse(query))
        if isinstance(node, promql_parser.VectorSelector)
    ]
    assert results, query
    return results


def by_labels(query: str) -> set[str]:
    """Labels that a query groups or matches by."""
    results: set[str] = set()
    for node in nodes(promql_parser.parse(query)):
        modifier = getattr(node, "modifier", None)
        for holder in (modifier, getattr(modifier, "matching", None)):
            results |= set(getattr(holder, "labels", None) or ())
    return results
