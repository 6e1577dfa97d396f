"""Compares statements of rights in code; no plan has one that names what is not made yet."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from railhead.review.judged import Judged, locate, quoted
from railhead.review.model import Finding, Level
from railhead.review.reading import nodes
from railhead.review.rights import narrower, reads
from railhead.review.sources import ASIDE, Hunk, Sources

_KEYS = ("Action", "NotAction", "Resource", "NotResource", "Principal", "Condition")
_STATEMENT = re.compile(rf"""['"]({"|".join(_KEYS)})['"]""")
_STATEMENT_LINES = 8  # Further up is another statement.
_EVERYONE = re.compile(
    r"""['"]Principal['"]\s*:\s*(['"]\*['"]|\{\s*['"]AWS['"]\s*:\s*\[?\s*['"]\*['"])"""
)
_QUOTED = re.compile(r"""(['"])((?:(?!\1).)+)\1""")


def statements(source: Sources) -> Iterator[Finding]:
    """Yield each statement of rights that differs in code; one that was only moved does not."""
    earlier = set(source.renamed.values())
    code = [n for n in source.changed if n.endswith(".py") and n not in earlier]
    names = [n for n in code if not n.startswith((*ASIDE, "railhead/review/"))]
    before, after = ({n: _written(source.texts(n)[side]) for n in names} for side in (0, 1))
    counts = [Counter(s.text for rows in of.values() for s in rows) for of in (before, after)]
    gone, new = counts[0] - counts[1], counts[1] - counts[0]
    added = {word for n in names for h in source.hunks(n) for word in _words("\n".join(h.after))}
    for name in names:
        less = _narrowed(before[name], after[name], gone, new)
        rest = Counter({text: n for text, n in gone.items() if text not in less})
        more = Counter({text: n for text, n in new.items() if text not in less.values()})
        for hunk in source.hunks(name):
            was, now = ("\n".join(lines) for lines in (hunk.before, hunk.after))
            everyone = None if _EVERYONE.search(was) else _EVERYONE.search(now)
            if everyone and not _moved(after[name], hunk.line, hunk.after, new):
                what = "lets everyone on the internet"
                yield _statement(source, name, "refuse", what, everyone.group(), hunk.line)
            allows = next(_newly(after[name], hunk, more), None)
            keys = [set(_STATEMENT.findall(text)) for text in (was, now)]
            level: Level = "ask"
            what = "differs"
            if not _differs(before[name], hunk, gone):
                if allows is None:
                    continue
                actions = ", ".join(allows.actions or ["what code names"])
                allow = f"Allow {actions}"
                yield _statement(source, name, level, "is new", allow, allows.first)
                continue
            if allows is None and not _differs(before[name], hunk, rest):
                level, what = "note", "holds under more conditions"
            elif "Condition" in keys[0] - keys[1] and not _words(was) <= added:
                level, what = "refuse", "holds without the condition that it had"
            text = " ".join((was or now).split())
            what += _allowed(source, name, hunk)
            yield _statement(source, name, level, what, text, hunk.line)
        for row in _elsewhere(after[name], source.hunks(name), more):
            words = row.actions or ()
            allow = f"Allow {', '.join(words)}"
            yield _statement(source, name, "ask", "differs by a name", allow, 0, *words)


@dataclass(frozen=True, kw_only=True)
class _Written:
    """A statement of rights that a program has from one line to another.

    Args:
        first: its first line, from 1.
        last: its last line.
        text: all of it, without its places, with the texts that names stand for.
        allows: the same without its condition, of one that allows something; else empty.
        condition: test -> key -> values, each as its text or as code; None of one without.
        actions: the actions that it names by their texts; None where code names some.
    """

    first: int
    last: int
    text: str
    allows: str = ""
    condition: Mapping[str, Mapping[str, Sequence[str]]] | None = None
    actions: Sequence[str] | None = None


def _written(text: str | None) -> list[_Written]:
    """Return the statements of rights of a program."""
    given = _given(text)
    return [
        _read(node, given)
        for node in nodes(text)
        if isinstance(node, ast.Dict)
        and any(isinstance(key, ast.Constant) and key.value in _KEYS for key in node.keys)
    ]


def _read(node: ast.Dict, given: Mapping[str, ast.expr]) -> _Written:
    first, last = node.lineno, node.end_lineno or node.lineno
    try:
        return _filled(_Written(first=first, last=last, text=""), node, given)
    except RecursionError:
        return _Written(first=first, last=last, text=repr(node))  # Like no other.


def _filled(row: _Written, node: ast.Dict, given: Mapping[str, ast.expr]) -> _Written:
    filled = _Filled(given).visit(copy.deepcopy(node))
    row = replace(row, text=ast.dump(filled))
    parts = {getattr(key, "value", None): value for key, value in _pairs(filled)}
    if "Action" not in parts or _plain(parts.get("Effect")) != "Allow" or None in filled.keys:
        return row
    condition = _tests(parts["Condition"]) if "Condition" in parts else None
    bare = [f"{ast.dump(k)}: {ast.dump(v)}" for k, v in _pairs(filled) if _plain(k) != "Condition"]
    actions = [_plain(item) for item in _items(parts["Action"])]
    return replace(
        row,
        # A condition that is no literal is compared with nothing.
        allows="" if condition == {} else ", ".join(bare),
        condition=condition,
        actions=None if None in actions else [str(action) for action in actions],
    )


class _Filled(ast.NodeTransformer):
    """A visitor that puts texts in the place of names and f-strings that stand for them."""

    def __init__(self, given: Mapping[str, ast.expr]) -> None:
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.given.get(node.id, node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        texts = [
            part.value
            if isinstance(part, ast.FormattedValue)
            and part.conversion == -1
            and part.format_spec is None
            else part
            for part in node.values
        ]
        plain = [_plain(part) for part in texts]
        return node if None in plain else ast.Constant("".join(map(str, plain)))


def _given(text: str | None) -> dict[str, ast.expr]:
    """Return name -> its text or texts, of names that a program gives those and nothing else."""
    stored: Counter[str] = Counter()
    texts: dict[str, ast.expr] = {}
    for node in nodes(text):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] += 1
        elif isinstance(node, ast.arg):
            stored[node.arg] += 1
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            texts |= {target.id: node.value for target in targets if isinstance(target, ast.Name)}
    return {
        name: node
        for name, node in texts.items()
        if stored[name] == 1 and all(map(_plain, _items(node)))
    }


def _pairs(node: ast.Dict) -> list[tuple[ast.expr, ast.expr]]:
    """Return the keys and values of a dict; without what is spread into it."""
    return [(key, value) for key, value in zip(node.keys, node.values, strict=True) if key]


def _plain(node: ast.AST | None) -> str | None:
    """Return the text that a constant is; None for anything else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None


def _items(node: ast.expr) -> list[ast.expr]:
    """Return the elements of a list, or the one value."""
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple | ast.Set) else [node]


def _tests(node: ast.expr) -> dict[str, dict[str, list[str]]]:
    """Return a condition as test -> key -> values; empty if it is no literal of such."""
    tests = {}
    for test, keys in _pairs(node) if isinstance(node, ast.Dict) else ():
        if not isinstance(keys, ast.Dict) or None in keys.keys:
            return {}
        tests[_said(test)] = {
            _said(key): [_said(item) for item in _items(value)] for key, value in _pairs(keys)
        }
    return {} if isinstance(node, ast.Dict) and None in node.keys else tests


def _said(node: ast.expr) -> str:
    """Return a text as it is, and other code between backticks, which no text of IAM has."""
    text = _plain(node)
    return f"`{ast.unparse(node)}`" if text is None else text


def _narrowed(
    before: Sequence[_Written],
    after: Sequence[_Written],
    gone: Collection[str],
    new: Collection[str],
) -> dict[str, str]:
    """Return the statements that allow the same as others from now on, under more conditions."""
    return {
        old.text: row.text
        for old in before
        for row in after
        if old.text in gone and row.text in new and old.allows and old.allows == row.allows
        if row.condition and (old.condition is None or narrower(old.condition, row.condition))
    }


def _newly(rows: Sequence[_Written], hunk: Hunk, more: Collection[str]) -> Iterator[_Written]:
    """Yield the statements that a hunk brings and that allow more than to read."""
    end = hunk.line + len(hunk.after)
    for row in rows:
        looks = row.actions is not None and all(map(_looks, row.actions))
        if (
            row.allows
            and row.text in more
            and row.first < end
            and hunk.line <= row.last
            and not looks
        ):
            yield row


def _elsewhere(
    rows: Sequence[_Written], hunks: Sequence[Hunk], more: Collection[str]
) -> Iterator[_Written]:
    """Yield the statements that allow something else by what a name stands for elsewhere."""
    lines = {n for hunk in hunks for n in range(hunk.line, hunk.line + max(len(hunk.after), 1))}
    for row in rows:
        differs = row.allows and row.actions and row.text in more
        if differs and lines.isdisjoint(range(row.first, row.last + 1)):
            yield row


def _looks(action: str) -> bool:
    """Return whether an action shows no more than what there is; others hand out secrets."""
    return reads(action) and not action.startswith(("secretsmanager:", "ssm:"))


def _differs(rows: Sequence[_Written], hunk: Hunk, gone: Counter[str]) -> bool:
    """Return whether the head lacks a statement of the base that a hunk changes."""
    if _STATEMENT.search("\n".join(hunk.before)):
        return not _moved(rows, hunk.was, hunk.before, gone)
    end = hunk.was + len(hunk.before)
    return any(row.text in gone for row in rows if row.first < end and hunk.was <= row.last)


def _moved(
    rows: Sequence[_Written], first: int, lines: Sequence[str], differ: Counter[str]
) -> bool:
    """Return whether the other side has all statements that a hunk's lines belong to, too."""
    for number, line in enumerate(lines, start=first):
        if _STATEMENT.search(line):
            around = [row.text for row in rows if row.first <= number <= row.last]
            if not around or any(text in differ for text in around):
                return False
    return True


def _allowed(source: Sources, name: str, hunk: Hunk) -> str:
    """Return the action of a statement of which other lines change, for a sentence."""
    lines = (source.texts(name)[0] or "").splitlines()
    for line in reversed(lines[max(hunk.was - _STATEMENT_LINES, 0) : hunk.was - 1]):
        if "Action" in line:
            return f" for {' '.join(line.split()).rstrip(',')[:80]}"
    return ""


def _statement(
    source: Sources, name: str, level: Level, what: str, text: str, line: int, *words: str
) -> Finding:
    who = "nobody, until someone uses it"
    result = Judged(level, "rights", f"{what}: {quoted(text, 160)}", who, "rights-in-code")
    return locate(source, name, f"{name}: a statement of rights", result, *words, line=line)


def _words(text: str) -> set[str]:
    return {words for _, words in _QUOTED.findall(text)}
