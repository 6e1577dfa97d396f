"""Checks what can be checked of plain English: `python -m tests.english railhead/launch`.

CONTRIBUTING.md has the rule, with pairs of before and after.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

# A docstring opens with a verb, or with the name of a thing; never with a clause in its place.
OPENINGS = frozenset(
    "after alike also another as at because both but by else for from here how if in into it its"
    " less likewise more neither no nobody none not nothing of on only or other others out so some"
    " somebody something such than that their then there these they this those though till to"
    " until what whatever when where wherever whether which whichever who whoever whom whose why"
    " with within without".split()
)
# Functions do something: articles open the docstrings of things.
ARTICLES = frozenset("a all an any each every one several the two three".split())
TEST_NAME = 60
REPO = Path(__file__).resolve().parents[1]
# What plain texts say otherwise; the second half is what to say.
WORDS = {
    r"anew": "again, recreated, regenerated",
    r"besides": "also, beside",
    r"whoever|whosoever": "anyone who",
    r"likewise": "also, the same",
    r"lest": "so that ... not",
    r"wherever": "where",
    r"somebody": "someone",
    r"(?:is|are|was|were|be|been) told": "is reported, is passed; X tells Y",
    r"(?:is|are|was|were|be|been) given up": "is aborted, is abandoned",
    r"(?:is|are|was|were|be) held against": "is compared with",
    r"made again": "recreated",
    r"is none": "is not ..., does not exist",
    r"are none": "are not ..., do not exist",
}
_WORD = re.compile(rf"\b(?:{'|'.join(f'({words})' for words in WORDS)})\b", re.IGNORECASE)
# Locals that say nothing of what they hold.
NAMES = frozenset("found one said told".split())
# CONTRIBUTING.md's pairs of before and after.
_PAIRS = re.compile(r"^\| instead of \|.*?(?=^$)", re.MULTILINE | re.DOTALL)


def faults(text: str, *, python: bool = True) -> Iterator[tuple[int, str]]:
    """Yield (line, fault) of a source, or of a page."""
    # `value is None` is Python.
    prose = re.sub(r"\bNone\b", "", text) if python else _PAIRS.sub(_blank, text)
    for match in _WORD.finditer(prose):
        say = list(WORDS.values())[(match.lastindex or 1) - 1]
        yield prose.count("\n", 0, match.start()) + 1, f"says {match[0]!r}; say: {say}"
    if python:
        yield from _of_code(ast.parse(text))


def report(path: Path) -> list[str]:
    """Return the faults of a file, each with the file and its line."""
    if path.name == "english.py":
        return []
    rows = sorted(faults(path.read_text(encoding="utf-8"), python=path.suffix == ".py"))
    return [f"{path}:{line}: {fault}" for line, fault in rows]


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")


def _of_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    fields: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields |= {inner.target for inner in node.body if isinstance(inner, ast.AnnAssign)}
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _of_docstring(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_long_test(node.name):
            yield node.lineno, f"{node.name} has {len(node.name)} characters, {TEST_NAME} at most"
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            if node in fields:
                continue
            yield node.lineno, f"a local is called {node.id!r}; say what it holds"


def _is_long_test(name: str) -> bool:
    return name.startswith("test") and len(name) > TEST_NAME


def _of_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str]]:
    words = (ast.get_docstring(node) or "").split()
    if not words:
        return
    opening = words[0].strip("(,.:;").lower()
    line = getattr(node, "lineno", 1)
    if opening in OPENINGS:
        yield line, f"a docstring opens with {words[0]!r}; open with a verb or a noun"
    elif opening in ARTICLES and _acts(node):
        yield line, f"a function's docstring opens with {words[0]!r}; open with a verb"


def _acts(node: ast.AST) -> bool:
    """Tell functions from properties, fixtures and tests, which are things."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    named = {
        part.id if isinstance(part, ast.Name) else part.attr
        for decorator in node.decorator_list
        for part in ast.walk(decorator)
        if isinstance(part, ast.Name | ast.Attribute)
    }
    return not node.name.startswith("test") and not named & {
        "property",
        "cached_property",
        "fixture",
    }


def main() -> int:
    """Print the faults of the files and folders that are named; exit 1 if there are any."""
    count = 0
    for argument in sys.argv[1:]:
        path = Path(argument)
        files = (
            sorted(p for s in ("*.py", "*.md") for p in path.rglob(s)) if path.is_dir() else [path]
        )
        for file in files:
            for row in report(file):
                print(row)
                count += 1
    print(f"{count} faults")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
