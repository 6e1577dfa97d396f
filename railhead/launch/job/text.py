"""The text of a job file: YAML, read strictly into plain values with the line of each.

Text fields take the text that was written: ``lr: 0.10`` reaches the process as ``0.10``, ``yes`` as
``yes``. Only the fields of ``NUMBER_FIELDS`` are numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from railhead.base.data import LOADER, events
from railhead.base.errors import InputError

MAX_DEPTH = 20
# Fields of named values, and fields that one value cannot say.
INNER = ("env", "secrets", "mounts", "checkpoint", "sizing")
WHOLE = ("command", "files", "datasets", "avoid", "roles", "matrix")
NUMBER_FIELDS = frozenset({"nodes", "min_nodes", "gpus_per_node", "processes_per_node", "restarts"})


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One thing wrong with a job file; ``line`` is 0 when it is not about a line."""

    line: int
    text: str


def _field(keys: Sequence[str]) -> str:
    """Return the field of a job, or of one of its roles, that a value belongs to."""
    return keys[2 if keys[0] == "roles" and len(keys) > 2 else 0]


class Reader:
    """Turns YAML nodes into plain values, and notes lines and mistakes on the way."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.mistakes: list[Mistake] = []

    def _mistake(self, node: yaml.Node, text: str) -> None:
        self.mistakes.append(Mistake(line=node.start_mark.line + 1, text=text))

    def scalar(self, node: yaml.ScalarNode, path: str, field: str) -> str | int | None:
        """Return the text as written, except for numbers where numbers belong."""
        if node.tag == "tag:yaml.org,2002:null":
            return None
        text = str(node.value)
        if any("\ud800" <= c <= "\udfff" for c in text):
            self._mistake(node, f"{path}: half of a surrogate pair is not text")
            return "x"
        if field in NUMBER_FIELDS and not node.style and re.fullmatch(r"[-+]?[0-9]{1,9}", text):
            return int(text)
        return text

    def value(self, node: yaml.Node, path: str, keys: tuple[str, ...] = ()) -> Any:
        """Return a node as text, number, list or mapping."""
        self.lines[path] = node.start_mark.line + 1
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, path, _field(keys))
        if isinstance(node, yaml.SequenceNode):
            return tuple(
                self.value(child, f"{path}[{index}]", keys)
                for index, child in enumerate(node.value)
            )
        result: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._mistake(key, f"{path or 'the file'}: a key must be text")
                continue
            name = str(key.value)
            inner = f"{path}.{name}" if path else name
            if any("\ud800" <= c <= "\udfff" for c in name):
                self._mistake(key, f"{path or 'the file'}: half of a surrogate pair is not text")
            elif name in result:
                self._mistake(key, f"{inner}: given twice")
            else:
                result[name] = self.value(child, inner, (*keys, name))
        return result


def _root(text: str, where: str) -> yaml.Node | None:
    try:
        _check_events(text, where, LOADER)
        return yaml.compose(text, Loader=LOADER)
    except (yaml.YAMLError, ValueError, OverflowError):
        # Once more, for PyYAML's words of the mistake.
        _check_events(text, where, yaml.SafeLoader)
        return yaml.compose(text, Loader=yaml.SafeLoader)


def _check_events(text: str, where: str, loader: Any) -> None:
    """Refuse what lets a small file grow without bound or asks for objects."""
    for event, depth in events(text, loader):
        mark = event.start_mark
        line = f"{where}:{mark.line + 1}" if mark else where
        if getattr(event, "anchor", None):
            raise InputError(
                f"{line}: anchors and aliases are not used in a job file",
                remedy="write the value out",
            )
        if getattr(event, "tag", None):
            raise InputError(
                f"{line}: tags such as !!x are not used in a job file",
                remedy="write the plain value",
            )
        if depth > MAX_DEPTH:
            raise InputError(
                f"{line}: nested more than {MAX_DEPTH} levels deep",
                remedy="a job file is four levels deep at most",
            )


def compose(text: str, where: str) -> yaml.Node:
    """Return a job file's YAML as one mapping.

    Raises:
        InputError: it is no YAML, no mapping, or more than a job file may hold.
    """
    try:
        node = _root(text, where)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise InputError(
            f"{where}{line}: not YAML: {problem}",
            remedy="mend that line; `railhead launch --help` shows a complete job file",
        ) from None
    # Of \U00110000 the one, of \UFFFFFFFF the other.
    except (ValueError, OverflowError):
        raise InputError(
            f"{where}: not YAML: an escape that is no character",
            remedy="write the character itself",
        ) from None
    if not isinstance(node, yaml.MappingNode):
        raise InputError(
            f"{where}: a job file is a list of `field: value` lines",
            remedy="`railhead launch --help` shows a complete job file",
        )
    return node


def override(values: dict[str, Any], sets: Iterable[str], lines: dict[str, int]) -> list[Mistake]:
    """Apply ``field=value``, ``env.NAME=value`` and their like; returns what is wrong with them.

    What is overridden is no longer about a line of the file, and leaves ``lines``.
    """
    mistakes = []
    for item in sets:
        key, equals, text = item.partition("=")
        field, dot, name = key.partition(".")
        lines.pop(key, None)
        if not equals or (dot and (field not in INNER or not name)) or field in WHOLE:
            mistakes.append(
                Mistake(
                    line=0,
                    text=f"--set {item!r}: allowed: FIELD=VALUE of a single value, "
                    + ", ".join(f"{inner}.NAME=VALUE" for inner in INNER),
                )
            )
        elif dot:
            inner = values.get(field) or {}
            if isinstance(inner, dict):
                values[field] = inner | {name: text}
        elif field in NUMBER_FIELDS and re.fullmatch(r"[-+]?[0-9]{1,9}", text):
            values[field] = int(text)
        else:
            values[field] = text
    return mistakes


def override_values(values: dict[str, Any], sets: Iterable[str]) -> list[str]:
    """Return the same for values that come from no file, in place; what is wrong, in words."""
    return [mistake.text for mistake in override(values, sets, {})]
