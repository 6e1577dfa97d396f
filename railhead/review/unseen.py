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
    """Return the values, options and attributes of a program, without docstrings."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    nodes = list(ast.walk(tree))
    aside = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    values = {repr(n.value) for n in nodes if isinstance(n, ast.Constant) and id(n) not in aside}
    options = {str(node.arg) for node in nodes if isinstance(node, ast.keyword)}
    return values | options | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
