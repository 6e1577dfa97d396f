"""Reads which stack, cluster or account a program of Pulumi takes where nobody says one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from railhead.review.jobs import imported
from railhead.review.judged import Judged, locate
from railhead.review.model import Finding
from railhead.review.reading import (
    NO_NAMES,
    Names,
    assigned,
    called,
    name_of,
    nodes,
    plain,
    single_values,
    snake,
)
from railhead.review.sources import ASIDE, Sources

_REFERENCES = frozenset({"StackReference", "from_stack"})
_NAMED = ("stack_name", "stack")
# Settings that say where a program acts.
_WHERE = re.compile(
    r"(?:^|_)(stack|kubeconfig|context|cluster|identity|account|project|region|zone|bucket"
    r"|environment|env)(?:_|$)"
)
_WHO = "who runs it from another stack, such as one for tests"


def references(source: Sources) -> Iterator[Finding]:
    """Yield each place for which a program no longer asks, and each other stack that it reads."""
    for name in source.changed:
        if not name.endswith(".py") or name.startswith((*ASIDE, "railhead/")):
            continue
        was, now = (text or "" for text in source.texts(name))
        if not any(package.startswith("pulumi") for package in imported(was)):
            continue
        for word, what in dict.fromkeys((*_defaults(was, now), *_others(was, now))):
            result = Judged("ask", "access", what, _WHO, "reference")
            yield locate(source, name, f"{name}: {word}", result, word)


def _defaults(was: str, now: str) -> Iterator[tuple[str, str]]:
    """Yield (setting, what happens) of each that had to be given, and has a value of its own."""
    asked, known = set(_required(was)) - set(_required(now)), dict(_given(was))
    for key, value in _given(now):
        if key in asked and key not in known and _WHERE.search(snake(key)):
            what = f"takes {value} where nothing says another: a stack that forgets the setting "
            yield key, f"{what}reads there, and writes there what it makes"


def _required(text: str) -> Iterator[str]:
    """Yield the settings that a program ends without; not those that it tries to read."""
    tries = [node for node in nodes(text) if isinstance(node, ast.Try) and node.handlers]
    tried = {id(part) for node in tries for inner in node.body for part in ast.walk(inner)}
    for node in nodes(text):
        if id(node) in tried:
            continue
        if isinstance(node, ast.Call) and called(node).startswith("require"):
            yield from _texts(node.args[:1])
        elif isinstance(node, ast.Subscript) and name_of(node.value) == "environ":
            yield from _texts([node.slice])


def _given(text: str) -> Iterator[tuple[str, str]]:
    """Yield settings with the text that a program takes in their place.

    The text is beside the reading in an `or` or an `if`, a default of the call, or another value of
    the name that the reading is given to.
    """
    names = single_values(text)
    choices = [(values, values) for values in assigned(text).values() if len(values) > 1]
    for node in nodes(text):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            choices.append((node.values, node.values))
        elif isinstance(node, ast.IfExp):
            choices.append(([node.test, node.body, node.orelse], [node.body, node.orelse]))
        elif isinstance(node, ast.Call) and called(node) in ("get", "getenv", "setdefault"):
            default = [k.value for k in node.keywords if k.arg == "default"] or node.args[1:2]
            choices.append(([node], default))
    for among, values in choices:
        read = [part for part in among if isinstance(part, ast.Call) and part.args]
        for key in _texts([part.args[0] for part in read]):
            yield from ((key, value) for value in _texts(values, names))


def _texts(parts: Sequence[ast.expr], names: Names = NO_NAMES) -> list[str]:
    """Return the texts among expressions, without empty ones, also put together of names."""
    literal = [part for part in parts if not isinstance(part, ast.Call | ast.BoolOp)]
    return list(filter(None, (plain(part, names) for part in literal)))


def _others(was: str, now: str) -> Iterator[tuple[str, str]]:
    """Yield (stack, what happens) of each that a program names in another one's place."""
    before, after = Counter(_stacks(was)), Counter(_stacks(now))
    gone, came = list((before - after).elements()), list((after - before).elements())
    for old, new in zip(gone, came, strict=True) if len(gone) == len(came) else ():
        if new:
            instead = f"not {old}" if old else "whichever stack it is a part of"
            yield new, f"reads the stack {new}, {instead}: what it makes goes by that one"


def _stacks(text: str) -> list[str]:
    """Return the stacks that a program reads, in its order; empty where it puts a name together."""
    every = (node for node in nodes(text) if isinstance(node, ast.Call))
    calls = [node for node in every if called(node) in _REFERENCES]
    names = single_values(text)
    results = []
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        options = {k.arg: k.value for k in call.keywords}
        named = next((options[key] for key in _NAMED if key in options), None)
        first = named or next(iter(call.args), None)
        results.append(next(iter(_texts([first] if first else [], names)), ""))
    return results
