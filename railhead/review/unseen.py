"""Finds changed code of which no stack's plan shows anything: settings that no stack here has."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from railhead.review.judges import differs
from railhead.review.model import Finding, Place
from railhead.review.sources import Sources


def unseen(source: Sources, names: Sequence[str], shown: Collection[str]) -> Iterator[Finding]:
    """Yield each file of ``names`` that is not ``shown`` and lost a value, an option or a call.

    A file whose values and options are all still in changed code only has other names for them.
    """
    there = [source.text(name, head=True) for name in source.changed if name.endswith(".py")]
    after = {word for text in there if text is not None for word in _words(text)}
    for name in names:
        before = source.text(name, head=False)
        if name in shown or not name.endswith(".py") or before is None:
            continue
        gone = sorted(_words(before) - after)
        if gone and differs(source, name):
            hunk = next(iter(source.hunks(name)), None)
            was = " / ".join(line.strip() for line in (hunk.before if hunk else ()) if line.strip())
            yield Finding(
                rule="code-unseen",
                level="ask",
                loss="jobs",
                subject=name,
                what=f"does otherwise (`{was[:160]}`), and no stack here shows what that changes",
                who="a stack that has the setting, or what a cloud answers",
                place=Place(file=name, line=hunk.line) if hunk else None,
            )


def _words(text: str) -> set[str]:
    """Return the values, options and attributes of a program, without its words for people."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    nodes = list(ast.walk(tree))
    waits = [node for node in nodes if isinstance(node, ast.Call) and _is_wait(node)]
    aside = {id(part) for node in waits for part in ast.walk(node)}
    aside |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    values = {
        repr(node.value)
        for node in nodes
        if isinstance(node, ast.Constant) and id(node) not in aside and not _is_prose(node.value)
    }
    options = {str(n.arg) for n in nodes if isinstance(n, ast.keyword) and id(n) not in aside}
    return values | options | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _is_wait(node: ast.Call) -> bool:
    """Return whether a call only says for how long Pulumi waits."""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name == "CustomTimeouts"


def _is_prose(value: object) -> bool:
    """Return whether a value is a message or a docstring: words for people."""
    return isinstance(value, str) and any(character.isspace() for character in value.strip())
