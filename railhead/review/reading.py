"""Reads files that a stranger may have written: what cannot be read is None, and no traceback."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
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


_SUMS: Mapping[type[ast.operator], Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}
_LARGE = 10**12
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|\W+")
# Functions that reach an attribute by its name, and which argument that is.
_BY_TEXT = {"getattr": 1, "methodcaller": 0, "attrgetter": 0}


def computed(node: ast.AST, depth: int = 5) -> float | None:
    """Return what a few numbers make together, as ``24 * 60 * 60`` does; None for another value."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if abs(value) < _LARGE else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SUMS or not depth:
        return None
    left, right = (computed(side, depth - 1) for side in (node.left, node.right))
    return None if left is None or right is None else _SUMS[type(node.op)](left, right)


def snake(name: str) -> str:
    """Return a name in small letters, with an underscore between its words.

    >>> snake("saveEvery.Steps")
    'save_every_steps'
    """
    return _HUMP.sub("_", name).lower()


def name_of(node: ast.AST) -> str:
    """Return the last name of a name or an attribute; empty for other code."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def written(node: ast.AST) -> str:
    """Return code as one line of text; empty where it is too deep."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return ""


def assigned(text: str | None) -> dict[str, list[ast.expr]]:
    """Return the values that a program gives each of its names."""
    results: dict[str, list[ast.expr]] = {}
    for node in nodes(text):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if name := name_of(target):
                    results.setdefault(name, []).append(node.value)
    return results


def called(call: ast.Call) -> str:
    """Return the last name of what is called, also by its text; empty where it has none."""
    inner = call.func if isinstance(call.func, ast.Call) else call
    return name_of(call.func) or reached(inner)


def reached(call: ast.Call) -> str:
    """Return the name that a call gives as a text: ``getattr(a, "b")``, ``a["b"]()``; or none."""
    place = _BY_TEXT.get(name_of(call.func), len(call.args))
    part = call.func.slice if isinstance(call.func, ast.Subscript) else None
    if part is None and place < len(call.args):
        part = call.args[place]
    value = getattr(part, "value", None)
    return value if isinstance(value, str) else ""


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
