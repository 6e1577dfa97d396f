"""Finds changed code of which no stack's plan shows anything: settings that no stack here has."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from railhead.review.jobs import FUNCTIONS, said
from railhead.review.judged import Judged, few, locate, quoted
from railhead.review.judges import differs
from railhead.review.model import Finding
from railhead.review.reading import called, computed, name_of, nodes
from railhead.review.sources import ASIDE, Hunk, Sources

# Classes of the SDK that make no resource.
_OPTIONS = frozenset({"Alias", "CustomTimeouts", "InvokeOptions", "ResourceOptions"})
# Ways in which the SDK puts an output together: its value says what it is.
_BUILDS = frozenset({"all", "apply", "concat", "format", "from_input", "json_dumps", "json_loads"})


def unseen(
    source: Sources,
    names: Sequence[str],
    shown: Collection[str],
    ran: Collection[tuple[str, int]] = (),
) -> Iterator[Finding]:
    """Yield each file of ``names`` that is not ``shown`` and lost a value, an option or a call.

    A file whose values and options are all still in changed code only has other names for them.
    So has one that puts a resource's name together otherwise: a plan has the name, where its lines
    ``ran``, which are (file, line) of the base.
    """
    changed = [n for n in source.changed if n.endswith(".py")]
    code = [n for n in changed if n in names or not n.startswith((*ASIDE, "benchmarks/"))]
    was, now = ([source.text(name, head=head) or "" for name in code] for head in (False, True))
    after = {word for text in now for word in _words(text)} | _renamed(was, now)
    for name in names:
        before = source.text(name, head=False)
        if name in shown or not name.endswith(".py") or before is None:
            continue
        gone = sorted(_words(before) - after)
        hunks = source.hunks(name)
        lines_run = _whole(before, {line for file, line in ran if file == name})
        pieces = {w for w in gone if w in _pieces(before) and _ran(hunks, w, lines_run)}
        if (gone := [word for word in gone if word not in pieces]) and differs(source, name):
            hunk = _with(hunks, gone)
            lines = [line.strip() for line in (hunk.before if hunk else ()) if line.strip()]
            text = quoted(" / ".join(lines), 160)
            what = f"differs ({text}), and no change of a stack here was traced to it"
            what += _idle(source, name)
            who = "a stack that has the setting, or what a cloud answers"
            result = Judged("ask", "jobs", what, who, "code-unseen")
            yield locate(source, name, name, result, line=hunk.line if hunk else 0)


def _pieces(text: str) -> set[str]:
    """Return the texts that are in names that a program puts together, and nowhere else."""
    every = list(nodes(text))
    within = {id(p) for n in every if isinstance(n, ast.JoinedStr) for p in ast.walk(n)}
    texts = [n for n in every if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    other = {_word(n.value) for n in texts if id(n) not in within}
    return {_word(n.value) for n in texts if id(n) in within} - other


def _whole(text: str, lines: Collection[int]) -> set[int]:
    """Return all lines of the calls that begin at some lines."""
    calls = [n for n in nodes(text) if isinstance(n, ast.Call) and n.lineno in lines]
    return {n for call in calls for n in range(call.lineno, (call.end_lineno or call.lineno) + 1)}


def _ran(hunks: Sequence[Hunk], word: str, lines: Collection[int]) -> bool:
    """Return whether a plan ran each change in which a word goes."""
    bare = word.strip("'\"")
    having = [h for h in hunks if any(bare in line for line in h.before)]
    return all(any(n in lines for n in range(h.was, h.was + len(h.before))) for h in having)


def _idle(source: Sources, name: str) -> str:
    """Return which functions of a file nothing calls any more, and what they make; or nothing."""
    was, now = (source.text(name, head=head) or "" for head in (False, True))
    functions = {n.name: n for n in nodes(now) if isinstance(n, FUNCTIONS)}
    # Others may be called from another file.
    own = {other for other in functions if other.startswith("_")}
    gone = sorted(own & said([was]) - said([now]))
    if not gone:
        return ""
    inside = [part for other in gone for part in ast.walk(functions[other])]
    calls = Counter(called(part) for part in inside if isinstance(part, ast.Call))
    # A class of an SDK: one that makes a resource.
    made = [kind for kind in calls if kind[:1].isupper() and kind not in _OPTIONS]
    text = f": nothing calls {few([f'{other}()' for other in gone], 3)} any more"
    if made:
        text += f", so each {few(sorted(made), 4)} that it makes is gone"
    # What their class is, and what they call, says more of it.
    classes = [n for n in nodes(now) if isinstance(n, ast.ClassDef)]
    around = [n for n in classes if any(functions[other] in n.body for other in gone)]
    says = [ast.get_docstring(n) for n in around]
    says += [ast.get_docstring(functions[n]) for n in (*gone, *calls) if n in functions]
    words = [doc.partition("\n")[0].rstrip(".") for doc in says if doc]
    return f"{text} (*{few(words, 3, '; ')}*)" if words else text


def _with(hunks: Sequence[Hunk], words: Sequence[str]) -> Hunk | None:
    """Return the first hunk whose lines have one of the words that are gone, else the first."""
    bare = "|".join(re.escape(word.strip("'\"")) for word in words)
    pattern = re.compile(rf"(?<!\w)({bare})(?!\w)")
    having = (hunk for hunk in hunks if pattern.search("\n".join(hunk.before)))
    return next(having, next(iter(hunks), None))


def _renamed(was: Sequence[str], now: Sequence[str]) -> set[str]:
    """Return the names that programs no longer define, if they say others newly, as often."""
    before, after = ({name for text in of for name in _defined(text)} for of in (was, now))
    gone, new = before - after, after - before
    old, young = _uses(was), _uses(now)
    more = Counter(old[name] for name in gone) - Counter(young[name] for name in new)
    return set() if more else gone


def _uses(texts: Sequence[str]) -> Counter[str]:
    """Return how often programs say each name."""
    every = [node for text in texts for node in nodes(text)]
    words = [getattr(node, key, None) for node in every for key in ("name", "arg", "attr", "id")]
    return Counter(word for word in words if isinstance(word, str))


def _defined(text: str) -> Iterator[str]:
    """Yield the names of a program's functions and parameters, and of its classes' attributes."""
    for node in nodes(text):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            targets = [getattr(part, "target", None) for part in node.body]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _words(text: str) -> set[str]:
    """Return the values, options and attributes of a program, without its words for people."""
    every = list(nodes(text))
    waits = [node for node in every if isinstance(node, ast.Call) and _is_wait(node)]
    aside = {id(part) for node in waits for part in ast.walk(node)}
    aside |= {id(node.value) for node in every if isinstance(node, ast.Expr)}
    made = ((n, computed(n)) for n in every if isinstance(n, ast.BinOp))
    sums = {node: value for node, value in made if value is not None}
    aside |= {id(part) for node in sums for part in ast.walk(node) if part is not node}
    values = {repr(value) for node, value in sums.items() if id(node) not in aside} | {
        _word(node.value)
        for node in every
        if isinstance(node, ast.Constant) and id(node) not in aside and not _is_prose(node.value)
    }
    options = {str(n.arg) for n in every if isinstance(n, ast.keyword) and id(n) not in aside}
    attributes = {node.attr for node in every if isinstance(node, ast.Attribute)}
    return values | options | attributes - _BUILDS


def _word(value: object) -> str:
    """Return a value as code; a key as the option that it may be too: `a(b=1)`, `{"b": 1}`."""
    return value if isinstance(value, str) and value.isidentifier() else repr(value)


def _is_wait(node: ast.Call) -> bool:
    """Return whether a call only says for how long Pulumi waits."""
    return name_of(node.func) == "CustomTimeouts"


def _is_prose(value: object) -> bool:
    """Return whether a value is a message or a docstring: words for people."""
    return isinstance(value, str) and any(character.isspace() for character in value.strip())
