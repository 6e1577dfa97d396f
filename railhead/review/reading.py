"""Reads files that a stranger may have written: what cannot be read is None, and no traceback."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

_LOADER = yaml.SafeLoader  # That of libyaml ends the process where lists lie deep in lists.
_MOST = 500_000  # Nodes of a document, with what aliases repeat: rows of machines have a tenth.


def tree(text: str) -> ast.Module | None:
    """Return a Python file's syntax tree; None if it has none."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def nodes(text: str | None) -> Iterator[ast.AST]:
    """Yield every node of a Python file's syntax tree; none if it has none."""
    parsed = tree(text or "")
    return iter(()) if parsed is None else ast.walk(parsed)


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
    loader = _LOADER(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST:
            raise ValueError("aliases repeat too much")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many nodes a node is with all below it; an alias counts as what it repeats."""
    if id(node) not in known:
        known[id(node)] = _MOST + 1  # What contains itself has no end.
        inner = node.value if isinstance(node, yaml.CollectionNode) else ()
        parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
