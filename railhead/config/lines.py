"""Finds the line of each field in a stack's file, and values that its readers read differently.

Of a key that is there twice YAML takes the last (yaml.org, 1.2.2, 3.2.1.1: an error that PyYAML
does not raise), so that half of what was written is dropped in silence. And PyYAML, which
reads the file here, follows YAML 1.1 where Pulumi's reader (gopkg.in/yaml.v3, resolve.go) does not:
`yes` is true to one and a word to the other.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from railhead.base.data import LOADER, events

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_PLAIN = ("bool", "float", "int", "map", "merge", "null", "seq", "str", "timestamp")
# LibYAML's nodes, unlike its events, end the process where a text is much deeper than this.
_DEEPEST = 1000
# An octal number, which nobody means, or a number to Pulumi's reader alone.
_NUMBER = re.compile(r"[-+]?(0o?[0-9_]+|[0-9][0-9_]*[eE][-+]?[0-9]+)")


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Paths below the cluster, such as ``pools[0].name``, each with its line, counted from 1.

    ``wrong`` are keys of the whole file that are there already, and values that are not the same to
    all readers: line, path and what is wrong.
    """

    at: dict[str, int] = field(default_factory=dict)
    wrong: tuple[tuple[int, str, str], ...] = ()

    def of(self, path: str) -> int | None:
        """Return the line of a field; of what it is missing in, where it is not there."""
        while path and path not in self.at:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.at.get(path)


def read(text: str, *keys: str) -> tuple[Any, Lines]:
    """Return the data of a YAML text and the lines of its fields; paths are below ``keys``.

    Raises:
        yaml.YAMLError: it is no YAML.
        ValueError: it has a date or a number that does not exist.
        RecursionError: it is too deep.
    """
    root = compose(text)
    # The constructor puts what is merged into the nodes, so it comes last.
    index = _index(root, ".".join(keys))
    constructor = yaml.constructor.SafeConstructor()
    return None if root is None else constructor.construct_document(root), index


def lines(text: str, *keys: str) -> Lines:
    """Return the lines of a YAML text that loads; paths are below ``keys``.

    Raises:
        yaml.YAMLError: it does not load.
    """
    return _index(compose(text), ".".join(keys))


def compose(text: str) -> yaml.Node | None:
    """Return the root of a YAML text.

    Raises:
        yaml.YAMLError: it is no YAML, in PyYAML's words, with the line and what is expected there.
        RecursionError: it is too deep.
    """
    # A level takes a bracket, or two of them a column.
    depth = text.count("[") + text.count("{") + 2 * max(map(len, text.splitlines()), default=0)
    with contextlib.suppress(yaml.YAMLError):
        if depth > _DEEPEST and any(deep > _DEEPEST for _, deep in events(text)):
            raise RecursionError(f"nested more than {_DEEPEST} levels deep")
        return yaml.compose(text, Loader=LOADER)
    return yaml.compose(text, Loader=yaml.SafeLoader)


def _index(root: yaml.Node | None, prefix: str) -> Lines:
    first_lines: dict[str, int] = {}
    wrong: list[tuple[int, str, str]] = []
    if root is not None:
        for path, node, problem in _walk(root, "", set()):
            line = node.start_mark.line + 1
            below = _below(path, prefix)
            if problem:
                wrong.append((line, path if below is None else below, problem))
            if below is not None:
                first_lines.setdefault(below, line)
    return Lines(at=first_lines, wrong=tuple(wrong))


def _below(path: str, prefix: str) -> str | None:
    if path == prefix:
        return ""
    for end in (".", "["):
        if path.startswith(f"{prefix}{end}"):
            return path[len(prefix) :].removeprefix(".")
    return None


def _walk(node: yaml.Node, path: str, seen: set[int]) -> Iterator[tuple[str, yaml.Node, str]]:
    """Yield each path with the node that says where it is, and what is wrong with its key."""
    # What an alias stands for is walked once: it may stand for itself.
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        first: dict[tuple[str, str], yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            where = f"{path}.{key.value}" if path else key.value
            other = first.setdefault((key.tag, key.value), key)
            if other is not key:
                line = other.start_mark.line + 1
                yield where, key, f"is there twice; the first is in line {line}: keep one of them"
                continue
            yield where, key, _ambiguous(value)
            yield from _walk(value, where, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield f"{path}[{index}]", value, _ambiguous(value)
            yield from _walk(value, f"{path}[{index}]", seen)


def _ambiguous(node: yaml.Node) -> str:
    """Return why Pulumi reads a value as something else, or why it is not what it looks like."""
    kind = node.tag.removeprefix(_TAG)
    if kind not in _PLAIN:
        return f"has the tag {node.tag!r}; write it as a plain value"
    # LibYAML has "" for a plain one, PyYAML None.
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return ""
    text = node.value
    if kind == "bool" and text.lower() not in ("true", "false"):
        other, fix = "a flag", "true or false"
    elif kind == "timestamp":
        other, fix = "a date", "a text"
    elif (kind in ("int", "float", "str") and _NUMBER.fullmatch(text)) or (
        kind in ("int", "float") and ":" in text
    ):
        other, fix = "another number", "a plain decimal"
    else:
        return ""
    return (
        f"{text} is {other} to some readers of YAML and not to others: write {fix}, or it in "
        f'quotes, "{text}"'
    )
