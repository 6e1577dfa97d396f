"""Where in a stack's file a field stands, and keys that stand there twice.

YAML takes a key that is there twice by its last place (yaml.org, 1.2.2, 3.2.1.1: an error that
PyYAML does not make), so that half of what was written is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Paths below the cluster, such as ``pools[0].name``, each with its line, counted from 1.

    ``twice`` are the keys of the whole file that are there already, each with what is wrong.
    """

    at: dict[str, int] = field(default_factory=dict)
    twice: tuple[tuple[int, str, str], ...] = ()

    def of(self, path: str) -> int | None:
        """The line of a field; of what it is missing in, where it is not there."""
        while path and path not in self.at:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.at.get(path)


def lines(text: str, *keys: str) -> Lines:
    """The lines of a YAML text that loads; paths are below ``keys``.

    Raises:
        yaml.YAMLError: it does not load.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found: dict[str, int] = {}
    twice: list[tuple[int, str, str]] = []
    prefix = ".".join(keys)
    if root is not None:
        for path, node, problem in _walk(root, "", set()):
            line = node.start_mark.line + 1
            below = _below(path, prefix)
            if problem:
                twice.append((line, path if below is None else below, problem))
            elif below is not None:
                found.setdefault(below, line)
    return Lines(at=found, twice=tuple(twice))


def _below(path: str, prefix: str) -> str | None:
    if path == prefix:
        return ""
    for end in (".", "["):
        if path.startswith(f"{prefix}{end}"):
            return path[len(prefix) :].removeprefix(".")
    return None


def _walk(node: yaml.Node, path: str, seen: set[int]) -> Iterator[tuple[str, yaml.Node, str]]:
    """Each path with the node that says where it is, and what is wrong with its key."""
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
            yield where, key, ""
            yield from _walk(value, where, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield f"{path}[{index}]", value, ""
            yield from _walk(value, f"{path}[{index}]", seen)
