"""Reads files that a stranger may have written: what cannot be read is None, and no traceback."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import yaml

from railhead.config.lines import compose

_MOST = 500_000  # Nodes of a document, with what aliases repeat: rows of machines have a tenth.


def tree(text: str) -> ast.Module | None:
    """Return a Python file's syntax tree; None if it has none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def nodes(text: str | None) -> Iterator[ast.AST]:
    """Yield every node of a Python file's syntax tree, for reading alone; none if it has none."""
    return iter(_walked(text or ""))


@lru_cache(maxsize=64)
def _walked(text: str) -> tuple[ast.AST, ...]:
    """Return the nodes of a text, which several of the rules read."""
    parsed = tree(text)
    return () if parsed is None else tuple(ast.walk(parsed))


def mapping(text: str | None) -> Mapping[Any, Any] | None:
    """Return a YAML file's mapping, an empty one of no text; None if it is something else."""
    try:
        content = _document(text or "")
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError, TypeError):
        return None
    if content is None:
        return {}
    return content if isinstance(content, Mapping) else None


def _document(text: str) -> Any:
    node = compose(text)
    if node is None:
        return None
    if _size(node, {}) > _MOST:
        raise ValueError("aliases repeat too much")
    return yaml.constructor.SafeConstructor().construct_document(node)


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many nodes a node is with all below it; an alias counts as what it repeats."""
    if id(node) not in known:
        known[id(node)] = _MOST + 1  # What contains itself has no end.
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
