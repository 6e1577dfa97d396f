"""Reads which values programs, settings, jobs and scripts give to which names."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from railhead.review.commands import SCRIPTS
from railhead.review.reading import (
    Names,
    called,
    computed,
    documents,
    name_of,
    nodes,
    plain,
    single_values,
    value_of,
)

# A number and its unit: seconds for times, as written for others, such as Composer's ``500ba``.
Amount = tuple[float, str]
_NUMBER = re.compile(r"(-?\d[\d_]*(?:\.\d+)?)\s*([a-zA-Z]*)")
_DEFAULT = re.compile(r"\$\{\w+:?[-=](.*)\}")
_SECONDS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIMES = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "weeks": 604800.0}
_COMMANDS = ("args", "cmd", "command", "entrypoint", "script")
_TELLS = frozenset({"print", "debug", "error", "info", "warning", "ArgumentParser"})


def named_values(name: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield names with their values: of a program as code, of other files as text or number."""
    suffix = PurePath(name).suffix or PurePath(name).name
    if suffix == ".py":
        yield from of_program(text)
    elif suffix in (".yaml", ".yml", ".json"):
        yield from _of_data((), documents(text))
    elif suffix == ".toml":
        yield from _of_data((), _toml(text))
    elif suffix in SCRIPTS:
        for line in text.replace("\\\n", " ").splitlines():
            yield from _of_words(_split(line))


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _of_data(path: tuple[str, ...], value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if {"name", "value"} <= value.keys():
            yield str(value["name"]), value["value"]
        for key, inner in value.items():
            yield from _of_data((*path, str(key)), inner)
    elif isinstance(value, list):
        yield from _of_words([str(item) for item in value if not isinstance(item, Mapping | list)])
        for item in value:
            yield from _of_data(path, item)
    elif isinstance(value, str) and " " in value.strip():
        for line in value.replace("\\\n", " ").splitlines():
            yield from _of_words(_split(line))
    elif path:
        yield ".".join(path[-2:]), value


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _of_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command, and what it sets: ``--a 1``, ``--a=1``, ``a=1``."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        head, sets, value = word.partition("=")
        if sets or word.startswith("-"):
            yield head, value if sets else following


def of_program(text: str) -> Iterator[tuple[str, Any]]:
    """Yield names with their values: variables, options, keys, defaults, and words of commands."""
    names = single_values(text)
    for node in nodes(text):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
            parts = [k.value for k in node.keywords if k.arg in _COMMANDS]
            parts += [] if called(node) in _TELLS else node.args
            for part in parts:
                yield from _of_text(part, names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                key = target.slice if isinstance(target, ast.Subscript) else None
                yield str(getattr(key, "value", "")) or name_of(target), node.value
            yield from _of_text(node.value, names)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value
        elif isinstance(node, ast.BoolOp):
            yield from _of_choice(node)
        elif isinstance(node, ast.List | ast.Tuple):
            yield from _of_list(node.elts)
        elif isinstance(node, ast.arguments):
            yield from zip(_arguments(node.args[::-1]), node.defaults[::-1], strict=False)
            pairs = zip(_arguments(node.kwonlyargs), node.kw_defaults, strict=True)
            yield from ((argument, default) for argument, default in pairs if default is not None)


def _arguments(parts: Sequence[ast.arg]) -> list[str]:
    return [part.arg for part in parts]


def _of_choice(node: ast.BoolOp) -> Iterator[tuple[str, Any]]:
    """Yield what stands in for a variable that is not set: ``environ.get("SAVE_EVERY") or 500``."""
    reads = [part for part in node.values[:-1] if isinstance(part, ast.Call)]
    keys = filter(None, (plain(next(iter(part.args), None)) for part in reads))
    yield from ((key, node.values[-1]) for key in keys if isinstance(node.op, ast.Or))


def _of_list(items: Sequence[ast.expr]) -> Iterator[tuple[str, Any]]:
    """Yield what the words of a command set, of which code may put some together."""
    for item, following in zip(items, [*items[1:], None], strict=False):
        word = item.value if isinstance(item, ast.Constant) else None
        if isinstance(word, str):
            for name, value in _of_words([word]):
                yield name, value or following


def _of_text(node: ast.expr, names: Names) -> Iterator[tuple[str, str]]:
    """Yield what a command in one text sets, also by numbers and names in an f-string."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    if not all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
        return
    inner = [part.value if isinstance(part, ast.FormattedValue) else part for part in parts]
    numbers = [computed(part, names) for part in inner]
    texts = [
        plain(p, names) if n is None else f"{n:g}" for p, n in zip(inner, numbers, strict=True)
    ]
    text = "".join("?" if part is None else part for part in texts)
    if " " in text and ("-" in text or "=" in text):
        yield from _of_words(_split(text))


def _of_call(node: ast.Call) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a call by their names, those of a class or a load by its name too."""
    function = called(node)
    for keyword in node.keywords:
        of = function if function[:1].isupper() or function.startswith("load") else ""
        yield f"{of}.{keyword.arg}" if of else str(keyword.arg), keyword.value
    if function.startswith(("save", "async_save")):
        yield from ((f"{function}.path", part) for part in node.args)
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        # `add_argument("--save-every", default=500)`, `os.environ.get("SAVE_EVERY", "500")`
        rest = [k.value for k in node.keywords if k.arg == "default"] or node.args[1:2]
        yield from ((first.value, value) for value in rest)


def amount(value: Any, names: Names | None = None) -> Amount | None:
    """Return the number of a value, of a text or of code; None if it has none."""
    names = names or {}
    if isinstance(value, ast.expr):
        value = value_of(value, names)
        if isinstance(value, ast.Call) and name_of(value.func) == "timedelta":
            return _time(value, names)
        number = computed(value, names)
        if number is not None:
            return number, ""
        value = getattr(value, "value", None) if isinstance(value, ast.Constant) else None
    if isinstance(value, bool) or value is None:
        return None
    match = _NUMBER.fullmatch(_DEFAULT.sub(r"\1", str(value).strip()))
    if match is None:
        return None
    number, unit = float(match.group(1).replace("_", "")), match.group(2)
    scale = _SECONDS.get(unit.lower())
    return (number, unit) if scale is None else (number * scale, "s")


def _time(call: ast.Call, names: Names) -> Amount | None:
    """Return the seconds of a `timedelta`; None where one of its parts is not known."""
    rows = [*zip(("days", "seconds"), call.args, strict=False)]
    rows += [(str(k.arg), k.value) for k in call.keywords]
    parts = [(computed(value, names), _TIMES.get(key)) for key, value in rows]
    if any(None in part for part in parts):
        return None
    return sum((number or 0) * (unit or 0) for number, unit in parts), "s"
