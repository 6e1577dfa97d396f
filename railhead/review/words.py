"""The words of a stack's models on a field, for a change that no row of rules knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from railhead.config.schema import stack_schema

_ELEMENT = re.compile(r"\[[^]]*\]")


def words(platform: str, path: str) -> str:
    """Return the first sentence on a field of a stack on a kind of platform, or nothing.

    >>> words("aws", "runtimes[raw].grace_seconds")
    '`grace_seconds` is how long a pod that must end has to save its work'
    """
    nodes = [stack_schema()["$defs"].get(platform, {})]
    for key in _ELEMENT.sub("", path).split("."):
        nodes = [below for node in nodes for below in _below(node, key)]
    texts = {text for node in nodes if (text := str(node.get("description", "")))}
    return texts.pop().partition(". ")[0].rstrip(".") if len(texts) == 1 else ""


def _below(node: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """Yield a field of each kind of section that a node may be."""
    if key in node.get("properties", {}):
        yield node["properties"][key]
    if "$ref" in node:
        target: Any = stack_schema()
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        yield from _below(target, key)
    every = [inner for several in ("anyOf", "oneOf", "allOf") for inner in node.get(several, ())]
    for inner in (*every, node.get("then"), node.get("items")):
        if isinstance(inner, Mapping):
            yield from _below(inner, key)
