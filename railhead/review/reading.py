"""Reads files that a stranger may have written: what cannot be read is None, and no traceback."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import yaml

from railhead.config.lines import compose

_UNREADABLE = (yaml.YAMLError, ValueError, OverflowError, RecursionError, TypeError)
_COMMENT = re.compile(r"(?:^|\s+)#")
_BETWEEN = re.compile(r"^---(?=\s|$)", re.M)
_MOST = 500_000  # Nodes of a document, with what aliases repeat: rows of machines have a tenth.


def tree(text: str) -> ast.Module | None:
    """Return a Python file's syntax tree; None if it has none."""
    try:
        return ast.parse(text.removeprefix("\ufeff"))
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
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
_LARGE = 10**12
_HIGH = 20  # Powers above that are no number of steps.
#: Values by the names that a program gives them.
Names = Mapping[str, ast.expr]
#: No name has a value that is known.
NO_NAMES: Names = MappingProxyType({})
# Calls whose value is an argument of theirs, by its place or as `default`: `int(text)`,
# `environ.get(name, default)`, `field(default=1)`, Typer's `Option(1)`.
_PASSED = {
    **dict.fromkeys(("int", "float", "str", "Path", "Option", "Field", "field"), 0),
    **dict.fromkeys(("get", "getenv", "setdefault", "pop"), 1),
    "getattr": 2,
}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|\W+")
# Functions that reach an attribute by its name, and which argument that is.
_BY_TEXT = {"getattr": 1, "methodcaller": 0, "attrgetter": 0}


def value_of(node: ast.expr, names: Names = NO_NAMES, depth: int = 5) -> ast.expr:
    """Return the value that code stands for: what a name has, or what it is where none is given."""
    inner = names.get(name_of(node))
    if inner is None and isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        inner = node.values[-1]
    if inner is None and isinstance(node, ast.Call):
        place = _PASSED.get(name_of(node.func), len(node.args))
        default = [k.value for k in node.keywords if k.arg == "default"]
        inner = next(iter((*node.args[place : place + 1], *default)), None)
    return node if inner is None or not depth else value_of(inner, names, depth - 1)


def computed(node: ast.expr, names: Names = NO_NAMES, depth: int = 5) -> float | None:
    """Return what a few numbers make together, as ``24 * 60 * 60`` does; None for another value."""
    node = value_of(node, names)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and depth:
        number = computed(node.operand, names, depth - 1)
        return None if number is None else -number
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return value if abs(value) < _LARGE else None
    if not isinstance(node, ast.BinOp) or type(node.op) not in _SUMS or not depth:
        return None
    left, right = (computed(side, names, depth - 1) for side in (node.left, node.right))
    if left is None or right is None or (isinstance(node.op, ast.Pow) and abs(right) > _HIGH):
        return None
    try:
        value = _SUMS[type(node.op)](left, right)
    except ArithmeticError:
        return None
    # A negative number's root is complex.
    return None if isinstance(value, complex) or abs(value) >= _LARGE else value


def plain(node: ast.AST | None, names: Names = NO_NAMES, depth: int = 5) -> str | None:
    """Return the text that code stands for, also put together of such; None for anything else."""
    if not isinstance(node, ast.expr) or not depth:
        return None
    node = value_of(node, names)
    if isinstance(node, ast.FormattedValue):
        return plain(node.value, names, depth - 1)
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        of_sum = [node.left, node.right] if isinstance(node, ast.BinOp) else node.values
        texts = [plain(part, names, depth - 1) for part in of_sum]
        joins = isinstance(node, ast.JoinedStr) or isinstance(node.op, ast.Add | ast.Div)
        between = "/" if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else ""
        return None if None in texts or not joins else between.join(map(str, texts))
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


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


def beginning(node: ast.expr | None, names: Names = NO_NAMES, depth: int = 8) -> str:
    """Return the text that the text of code begins with; empty where it is not known."""
    if node is None or not depth:
        return ""
    node = value_of(node, names)
    first: ast.expr | None = None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        first = next(iter(node.values), None)
    elif isinstance(node, ast.BinOp):
        first = node.left
    elif isinstance(node, ast.FormattedValue):
        first = node.value
    elif isinstance(node, ast.Call) and name_of(node.func) in ("join", "Path", "format"):
        owner = getattr(node.func, "value", None)  # Such as `"/{}/a".format(run)`.
        first = owner if plain(owner, names) is not None else next(iter(node.args), None)
    return beginning(first, names, depth - 1)


def single_values(text: str | None) -> dict[str, ast.expr]:
    """Return the values of names to which a program gives one value each."""
    return {name: values[0] for name, values in assigned(text).items() if len(values) == 1}


def options(call: ast.Call, names: Names) -> Iterator[tuple[str, ast.expr]]:
    """Yield the named arguments of a call, also of a mapping that is spread into it."""
    for keyword in call.keywords:
        value = value_of(keyword.value, names)
        if keyword.arg is not None:
            yield keyword.arg, value
        elif isinstance(value, ast.Dict):
            pairs = zip(value.keys, value.values, strict=True)
            yield from ((text, inner) for key, inner in pairs if (text := plain(key)))
        elif isinstance(value, ast.Call) and called(value) == "dict":
            yield from options(value, names)


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


def strip_comment(line: str) -> str:
    """Return a line of YAML or of a shell without its comment."""
    for mark in _COMMENT.finditer(line):
        before = line[: mark.start()]
        if not any(before.count(quote) % 2 for quote in "\"'"):
            return before
    return line


def mapping(text: str | None) -> Mapping[Any, Any] | None:
    """Return a YAML file's mapping, an empty one of no text; None if it is something else."""
    try:
        content = _document(text or "")
    except _UNREADABLE:
        return None
    if content is None:
        return {}
    return content if isinstance(content, Mapping) else None


def documents(text: str) -> list[Any]:
    """Return all documents of a YAML file; none where one cannot be read."""
    try:
        return [_document(part) for part in _BETWEEN.split(text)]
    except _UNREADABLE:
        return []


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
