"""Reads YAML by LibYAML: data that ships beside its reader, and texts of users."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

#: LibYAML is ten times as fast; a wheel without it reads the same.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(file: Path) -> Any:
    """Return the data of a file."""
    return yaml.load(file.read_text(encoding="utf-8"), LOADER)  # noqa: S506


def events(text: str, loader: Any = LOADER) -> Iterator[tuple[yaml.Event, int]]:
    """Yield the events of a text, each with how many collections are open after it.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        yield event, depth
