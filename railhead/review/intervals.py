"""Compares how often programs and jobs save; at a fault a run loses all since its last save."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from railhead.review.jobs import ASIDE, FUNCTIONS, of_job, training
from railhead.review.judged import quoted
from railhead.review.model import Finding, Level, Loss
from railhead.review.reading import called, computed, mapping, name_of, nodes, snake, tree
from railhead.review.sources import Sources

# A number and its unit: seconds for times, as written for others, such as Composer's ``500ba``.
_Amount = tuple[float, str]
_NUMBER = re.compile(r"(-?\d[\d_]*(?:\.\d+)?)\s*([a-zA-Z]*)")
_SECONDS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIMES = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
_SAVE = r"(?:auto)?sav(?:e|es|ing)|checkpoint(?:s|ing|er)?|ckpts?|snapshots?"
_EVERY = (
    r"every|intervals?|steps|freq|frequency|period|seconds|minutes|hours|epochs|iters|iterations"
)
_INTERVAL = re.compile(
    rf"(?:^|_)(?:{_SAVE})(?:_\w+)?_(?:{_EVERY})(?:_|$)"
    rf"|(?:^|_)(?:{_EVERY})_(?:per|between)_(?:{_SAVE})(?:_|$)"
)
# Names of other things: what is kept, waited for or computed again, and where a run is.
_OTHER = re.compile(
    r"(?:^|_)(?:activations?|after|age|alert|delay|delete|duration|first|grace|grad(?:ients?)?|keep"
    r"|kept|last|limit|load|max|min|next|older|resume|retry|retries|size|start|timeouts?|total|ttl"
    r"|wait|warmup|warn|write)(?:_|$)"
)
_CALLS = frozenset({"save", "save_checkpoint", "save_state", "save_model", "save_pretrained"})
_SHELL = (".sh", ".mk", ".env", ".sbatch")


def intervals(source: Sources) -> Iterator[Finding]:
    """Yield each setting by which a job or a program saves less often, and each loop that does."""
    for name in source.changed:
        if name.startswith(ASIDE) or PurePath(name).name.startswith("Pulumi."):
            continue
        was, now = (_settings(name, source.text(name, head=head)) for head in (False, True))
        yield from _rarer(source, was, now)
    yield from _loops(source)
    yield from _held_back(source)
    yield from _patience(source)


_RARER = "saves less often ({old} -> {new}): a run that starts again has lost more steps"
_LATER = "notices a rank that hangs later ({old} -> {new}): its gang's GPUs stand idle until then"


def _rarer(
    source: Sources,
    was: Mapping[str, Sequence[_Amount]],
    now: Mapping[str, Sequence[_Amount]],
    says: str = _RARER,
) -> Iterator[Finding]:
    """Yield a finding for each "file: name" of which an amount grew."""
    for subject, before in was.items():
        after = now.get(subject, ())
        pairs = zip(before, after, strict=True) if len(before) == len(after) else ()
        if grown := next((pair for pair in pairs if _grew(*pair)), None):
            old, new = (f"{amount:g}{unit}" for amount, unit in grown)
            text = says.format(old=old, new=new)
            name, _, word = subject.partition(": ")
            word = word.rpartition("% ")[2] or word
            at = name if name in source.changed else source.changed[0]
            yield of_job("save-interval", source, subject, at, word, ("ask", "data", text))


def _grew(was: _Amount, now: _Amount) -> bool:
    """Return whether an interval grew; none at all is written as 0 or less."""
    return was[1] == now[1] and (0 < was[0] < now[0] or now[0] <= 0 < was[0])


def _settings(name: str, text: str | None) -> dict[str, list[_Amount]]:
    """Return the amounts of each name of a file that says how often something is saved."""
    results: dict[str, list[_Amount]] = {}
    for key, value in _named(name, text or ""):
        plain = snake(key).strip("_")
        says = _INTERVAL.search(plain) and not _OTHER.search(plain)
        if says and (amount := _amount(value)) is not None:
            results.setdefault(f"{name}: {key.lstrip('-')}", []).append(amount)
    return results


def _named(name: str, text: str) -> Iterator[tuple[str, Any]]:
    """Yield names with their values: of a program as code, of other files as text or number."""
    suffix = PurePath(name).suffix
    if suffix == ".py":
        yield from _of_program(text)
    elif suffix in (".yaml", ".yml", ".json"):
        yield from _of_data((), mapping(text) or {})
    elif suffix in _SHELL:
        yield from _of_words(text.replace("\\\n", " ").split())


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
        yield from _of_words(_split(value))
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


def _of_program(text: str) -> Iterator[tuple[str, Any]]:
    for node in nodes(text):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield name_of(target), node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield name_of(node.target), node.value
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant):
                    yield str(key.value), value
        elif isinstance(node, ast.List | ast.Tuple):
            texts = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            yield from _of_words([str(item) for item in texts])
        elif isinstance(node, ast.arguments):
            for argument, default in zip(node.args[::-1], node.defaults[::-1], strict=False):
                yield argument.arg, default
            for argument, known in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if known is not None:
                    yield argument.arg, known


def _of_call(node: ast.Call) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a call by their names, those of a class by its name too."""
    function = called(node)
    for keyword in node.keywords:
        whole = f"{function}.{keyword.arg}" if function[:1].isupper() else str(keyword.arg)
        yield whole, keyword.value
    first = node.args[0] if node.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        # `add_argument("--save-every", default=500)`, `os.environ.get("SAVE_EVERY", "500")`
        rest = [k.value for k in node.keywords if k.arg == "default"] or node.args[1:2]
        yield from ((first.value, value) for value in rest)


def _amount(value: Any) -> _Amount | None:
    """Return the number of a value, of a text or of code; None if it has none."""
    if isinstance(value, ast.Call):
        if name_of(value.func) == "timedelta" and value.keywords:
            parts = [(computed(k.value), _TIMES.get(str(k.arg))) for k in value.keywords]
            if any(None in part for part in parts):
                return None
            return sum((number or 0) * (unit or 0) for number, unit in parts), "s"
        # `int(text)`, `os.environ.get(name, default)`
        place = 0 if name_of(value.func) in ("int", "float") else 1
        known = name_of(value.func) in ("int", "float", "get", "getenv", "setdefault")
        return _amount(value.args[place]) if known and len(value.args) > place else None
    if isinstance(value, ast.expr):
        number = computed(value)
        if number is not None:
            return number, ""
        value = getattr(value, "value", None) if isinstance(value, ast.Constant) else None
    if isinstance(value, bool) or value is None:
        return None
    match = _NUMBER.fullmatch(str(value).strip())
    if match is None:
        return None
    amount, unit = float(match.group(1).replace("_", "")), match.group(2)
    scale = _SECONDS.get(unit.lower())
    return (amount, unit) if scale is None else (amount * scale, "s")


# What starts the processes of a job as one group.
_GROUPS = frozenset({"init_process_group", "init_distributed", "InitProcessGroupKwargs"})


def _patience(source: Sources) -> Iterator[Finding]:
    """Yield each time limit of collectives that grew."""
    was: dict[str, list[_Amount]] = {}
    now: dict[str, list[_Amount]] = {}
    for name in training(source):
        for side, head in ((was, False), (now, True)):
            for node in nodes(source.text(name, head=head)):
                if isinstance(node, ast.Call) and (call := called(node)) in _GROUPS:
                    given = [_amount(k.value) for k in node.keywords if k.arg == "timeout"]
                    side[f"{name}: {call}.timeout"] = [a for a in given if a is not None]
    yield from _rarer(source, was, now, _LATER)


def _loops(source: Sources) -> Iterator[Finding]:
    """Yield each save of a program that trains which more steps of its loop pass by."""
    code = training(source)
    texts = [{name: source.text(name, head=head) or "" for name in code} for head in (False, True)]
    was, now = map(_guarded, texts)
    yield from _rarer(source, was, now)


def _guarded(texts: Mapping[str, str]) -> dict[str, list[_Amount]]:
    """Return "file: save() % name" -> numbers, of saves that a remainder holds back."""
    results: dict[str, list[_Amount]] = {}
    saving = _savers(texts.values())
    known: dict[str, set[_Amount]] = {}
    for text in texts.values():
        for name, value in _of_program(text):
            if name and (amount := _amount(value)) is not None:
                known.setdefault(name.lstrip("-").replace("-", "_"), set()).add(amount)
    only = {name: next(iter(amounts)) for name, amounts in known.items() if len(amounts) == 1}

    def number(node: ast.expr) -> _Amount | None:
        return _amount(node) or only.get(name_of(node))

    for name, text in texts.items():
        for test, scope in _branches(text):
            calls = sorted(_of_scope(scope, saving))
            for node in _remainders(test) if calls else ():
                named = name_of(node)
                plain = snake(named)
                if (amount := number(node)) and not _INTERVAL.search(plain):
                    by = f" % {named}" if named else ""
                    key = f"{name}: {', '.join(calls)}(){by}"
                    results.setdefault(key, []).append(amount)
    return results


# Which of a job's processes it is, which says nothing of how often.
_RANK = re.compile(
    r"(?:^|_)(?:rank|is_main|main_process|process_(?:zero|index|id)|master|primary|leader)(?:_|$)"
)
# Tests that a save stands under, and whether it is in a loop.
_Where = tuple[frozenset[str], bool]


def _held_back(source: Sources) -> Iterator[Finding]:
    """Yield each save that a condition newly holds back, or that its loop no longer does."""
    code = training(source)
    texts = [{name: source.text(name, head=head) or "" for name in code} for head in (False, True)]
    saving = _savers(texts[0].values()) | _savers(texts[1].values())
    before, after = ({n: _saves(text, saving) for n, text in of.items()} for of in texts)
    known = {test for rows in before.values() for _, (tests, _) in rows for test in tests}
    loops = any(looped for rows in after.values() for _, (_, looped) in rows)
    for name in code:
        left = [row for row in before[name] if row not in after[name]]
        for call, (tests, looped) in after[name]:
            were = [where for other, where in left if other == call and where[0] <= tests]
            if not were or (call, (tests, looped)) in before[name]:
                continue
            added, once = tests - were[0][0], were[0][1] and not loops
            if not (added or once) or added & known:
                continue
            when = f"only where {quoted(' and '.join(sorted(added)), 80)}" if added else "once"
            text = f"saves {when}: a run that starts again has lost all steps since the last time"
            at = name if name in source.changed else source.changed[0]
            row: tuple[Level, Loss, str] = ("ask", "data", text)
            yield of_job("save-interval", source, f"{name}: {call}()", at, call, row)


def _saves(text: str, saving: Collection[str]) -> list[tuple[str, _Where]]:
    """Return the calls that save, and where in the program they are."""
    results: list[tuple[str, _Where]] = []
    module = tree(text)
    todo: list[tuple[ast.AST, frozenset[str], bool]] = []
    todo += [(module, frozenset(), False)] if module else []
    while todo:
        node, tests, looped = todo.pop()
        if isinstance(node, ast.Call) and (name := called(node)) in saving:
            results.append((name, (tests, looped)))
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            tests, looped = frozenset(), False
        looped = looped or isinstance(node, ast.For | ast.AsyncFor | ast.While)
        for field, value in ast.iter_fields(node):
            under = tests
            if isinstance(node, ast.If) and field != "test":
                under |= _tests(node.test, holds=field == "body")
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    todo.append((part, under, looped))
                if isinstance(part, ast.If) and _leaves(part):
                    under |= _tests(part.test, holds=False)
    return results


def _leaves(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Continue | ast.Return | ast.Break)


def _tests(test: ast.expr, *, holds: bool) -> frozenset[str]:
    """Return a test as text; nothing of one that asks which process this is."""
    if any(_RANK.search(snake(name_of(node))) for node in ast.walk(test)):
        return frozenset()
    try:
        text = ast.unparse(test)
    except RecursionError:
        return frozenset()
    return frozenset((text if holds else f"not ({text})",))


def _savers(texts: Collection[str]) -> set[str]:
    """Return the names of functions that save, themselves or by others."""
    functions = [
        (node.name, {called(part) for part in ast.walk(node) if isinstance(part, ast.Call)})
        for text in texts
        for node in nodes(text)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    results = set(_CALLS)
    while more := {name for name, calls in functions if calls & results} - results:
        results |= more
    return results


def _branches(text: str) -> Iterator[tuple[ast.expr, Sequence[ast.stmt]]]:
    """Yield the test of each branch on a remainder, and the statements that it holds back."""
    for node in nodes(text):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            parts = body if isinstance(body, list) else []
            for index, part in enumerate(parts):
                if isinstance(part, ast.If) and any(_remainders(part.test)):
                    leaves = isinstance(part.body[0], ast.Continue | ast.Return)
                    yield part.test, parts[index + 1 :] if leaves else part.body


def _remainders(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a test divides by."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            yield node.right


def _of_scope(scope: Sequence[ast.stmt], saving: Collection[str]) -> set[str]:
    """Return the saves of statements, without those that a remainder within them holds back."""
    results: set[str] = set()
    todo: list[ast.AST] = list(scope)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and any(_remainders(node.test)):
            continue
        if isinstance(node, ast.Call) and (name := called(node)) in saving:
            results.add(name)
        todo += ast.iter_child_nodes(node)
    return results
