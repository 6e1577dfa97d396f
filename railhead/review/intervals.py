"""Compares how often programs and jobs save; at a fault a run loses all since its last save."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from railhead.review.jobs import ASIDE, FUNCTIONS, of_job, savers, training
from railhead.review.judged import quoted
from railhead.review.model import Finding, Level, Loss
from railhead.review.reading import (
    assigned,
    called,
    computed,
    mapping,
    name_of,
    nodes,
    snake,
    written,
)
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
# Settings that say whether anything is saved at all, and values that say no.
_SWITCH = re.compile(r"(?:^|_)(?:enable_checkpoint(?:s|ing)?|save_strategy|save_checkpoints?)$")
_OFF = frozenset({"0", "false", "no", "none", "off"})
_ON = "on"
# Settings of how long collectives wait for each other.
_WAIT = re.compile(r"(?:^|_)(?:ddp|dist|distributed|nccl|process_group)_(?:\w+_)?timeout(?:_|$)")
_SHELL = (".sh", ".mk", ".env", ".sbatch")


def intervals(source: Sources) -> Iterator[Finding]:
    """Yield each setting by which a job or a program saves less often, and each loop that does."""
    for name in source.changed:
        if name.startswith(ASIDE) or PurePath(name).name.startswith("Pulumi."):
            continue
        texts = [source.text(name, head=head) for head in (False, True)]
        for of, says in ((_is_interval, _RARER), (_WAIT.search, _LATER)):
            was, now = (_settings(name, text, of) for text in texts)
            if texts[0]:
                # A switch that is not there yet is on.
                new = {key: _on(amounts) for key, amounts in now.items() if key not in was}
                was |= {key: amounts for key, amounts in new.items() if amounts}
            yield from _rarer(source, was, now, says)
    yield from _loops(source)
    yield from _held_back(source)
    yield from _patience(source)


_RARER = "saves less often ({old} -> {new}): a run that starts again has lost more steps"
_NEVER = "is switched off: a run that starts again begins at its first step"
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
            text = _NEVER if grown[0][1] == _ON else says.format(old=old, new=new)
            name, _, word = subject.partition(": ")
            word = word.rpartition("% ")[2] or word
            at = name if name in source.changed else source.changed[0]
            loss: Loss = "jobs" if says is _LATER else "data"
            yield of_job("save-interval", source, subject, at, word, ("ask", loss, text))


def _grew(was: _Amount, now: _Amount) -> bool:
    """Return whether an interval grew; none at all is written as 0 or less."""
    return was[1] == now[1] and (0 < was[0] < now[0] or now[0] <= 0 < was[0])


def _is_interval(plain: str) -> bool:
    """Return whether a setting says how often something is saved, or whether it is."""
    return bool(_SWITCH.search(plain) or (_INTERVAL.search(plain) and not _OTHER.search(plain)))


def _settings(name: str, text: str | None, of: Callable[[str], object]) -> dict[str, list[_Amount]]:
    """Return the amounts of a file's settings whose names are ``of`` a kind."""
    results: dict[str, list[_Amount]] = {}
    for key, value in _named(name, text or ""):
        plain = snake(key).strip("_")
        if of(plain) and (amount := _state(plain, value)) is not None:
            results.setdefault(f"{name}: {key.lstrip('-')}", []).append(amount)
    return results


def _state(plain: str, value: Any) -> _Amount | None:
    """Return the amount of a setting; of a switch 1 or 0."""
    if not _SWITCH.search(plain):
        return _amount(value)
    if isinstance(value, ast.expr):
        if not isinstance(value, ast.Constant):
            return None
        value = value.value
    return (0.0 if str(value).lower() in _OFF else 1.0), _ON


def _on(amounts: Sequence[_Amount]) -> list[_Amount]:
    """Return switches as they are by default; nothing for other settings."""
    return [(1.0, unit) for _, unit in amounts if unit == _ON]


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


def _amount(value: Any, names: Mapping[str, ast.expr] | None = None) -> _Amount | None:
    """Return the number of a value, of a text or of code; None if it has none.

    Code may say it by one of the ``names`` that have one value each.
    """
    names = names or {}
    if isinstance(value, ast.expr):
        value = names.get(name_of(value), value)
    if isinstance(value, ast.Call):
        if name_of(value.func) == "timedelta":
            given = [*zip(("days", "seconds"), value.args, strict=False)]
            given += [(str(k.arg), k.value) for k in value.keywords]
            parts = [(computed(names.get(name_of(v), v)), _TIMES.get(k)) for k, v in given]
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
_GROUPS = re.compile(
    r"^(?:init_process_group|init_distributed|InitProcessGroupKwargs|Accelerator|\w*Strategy)$"
)


# What NCCL's groups have by default, in seconds (c10d/ProcessGroupNCCL.hpp of 2.2 and later).
_PATIENCE = 600.0


def _patience(source: Sources) -> Iterator[Finding]:
    """Yield the longest time limit of collectives, where it grew."""
    texts = training(source)
    was, now = ([row for name in of for row in _limits(name, of[name])] for of in texts)
    given = [seconds for seconds, _ in was if seconds]
    seconds, subject = max(now, default=(0.0, ""))
    known = max(given, default=_PATIENCE)
    if was and seconds > known:
        old = f"{known:g}s" if given else f"{known:g}s by default"
        text = _LATER.format(old=old, new=f"{seconds:g}s")
        name = subject.partition(": ")[0]
        at = name if name in source.changed else source.changed[0]
        yield of_job("save-interval", source, subject, at, "timeout", ("ask", "jobs", text))


def _limits(name: str, text: str) -> Iterator[tuple[float, str]]:
    """Yield (seconds, subject) of each call that starts groups; 0 where it says no limit."""
    names = {key: values[0] for key, values in assigned(text).items() if len(values) == 1}
    for node in nodes(text):
        if isinstance(node, ast.Call) and _GROUPS.search(call := called(node)):
            given = [_amount(k.value, names) for k in node.keywords if k.arg == "timeout"]
            seconds = [amount for amount, unit in filter(None, given) if unit == "s"]
            yield next(iter(seconds), 0.0), f"{name}: {call}.timeout"


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _loops(source: Sources) -> Iterator[Finding]:
    """Yield each save of a program that trains which more steps of its loop pass by."""
    was, now = map(_guarded, training(source))
    yield from _rarer(source, was, now)


def _guarded(texts: Mapping[str, str]) -> dict[str, list[_Amount]]:
    """Return "file: save() % name" -> numbers, of saves that a remainder holds back."""
    results: dict[str, list[_Amount]] = {}
    saving = savers(texts.values())
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


# Which of a job's processes it is, and whether its numbers are any: nothing of how often.
_RANK = re.compile(
    r"(?:^|_)(?:rank|is_main|main_process|process_(?:zero|index|id)|master|primary|leader"
    r"|isnan|isinf|isfinite)(?:_|$)"
)
_FIRST = re.compile(r"([\w.]+)(?: (?:>|!=) 0| >= 1)")  # Not before the first step.
# Tests that a save stands under, and how many loops it is in.
_Where = tuple[frozenset[str], int]


def _held_back(source: Sources) -> Iterator[Finding]:
    """Yield each save that a condition newly holds back, or that its loop no longer does."""
    texts = training(source)
    saving = savers([*texts[0].values(), *texts[1].values()])
    before, after = ({n: _saves(text, saving) for n, text in of.items()} for of in texts)
    known = {test for rows in before.values() for _, (tests, _) in rows for test in tests}
    shallow = _depth(after) < _depth(before) and _loop_count(texts[1]) >= _loop_count(texts[0])
    for name in texts[0]:
        stay, were_here = set(after[name]), set(before[name])
        left = [row for row in before[name] if row not in stay]
        for call, (tests, depth) in after[name]:
            were = [where for other, where in left if other == call and where[0] <= tests]
            if not were or (call, (tests, depth)) in were_here:
                continue
            added, once = tests - were[0][0], shallow and depth < were[0][1]
            if not (added or once) or added & known:
                continue
            when = "once for each round of an outer loop" if depth else "once"
            if added:
                when = f"only where {quoted(' and '.join(sorted(added)), 80)}"
            text = f"saves {when}: a run that starts again has lost all steps since the last time"
            at = name if name in source.changed else source.changed[0]
            row: tuple[Level, Loss, str] = ("ask", "data", text)
            yield of_job("save-interval", source, f"{name}: {call}()", at, call, row)


def _depth(saves: Mapping[str, Sequence[tuple[str, _Where]]]) -> int:
    """Return how many loops are around a save, with those around calls of what saves."""
    deepest: dict[str, int] = {}
    for call, (_, depth) in (row for rows in saves.values() for row in rows):
        deepest[call] = max(depth, deepest.get(call, 0))
    return sum(deepest.values())


def _loop_count(texts: Mapping[str, str]) -> int:
    every = (node for text in texts.values() for node in nodes(text))
    return sum(isinstance(node, _LOOPS) for node in every)


def _saves(text: str, saving: Collection[str]) -> list[tuple[str, _Where]]:
    """Return the calls that save, and where in the program they are."""
    results: list[tuple[str, _Where]] = []
    module = next(nodes(text), None)
    todo: list[tuple[ast.AST, frozenset[str], int]] = []
    todo += [(module, frozenset(), 0)] if module else []
    while todo:
        node, tests, depth = todo.pop()
        if isinstance(node, ast.Call) and (name := called(node)) in saving:
            results.append((name, (_without_first(tests), depth)))
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            tests, depth = frozenset(), 0
        if isinstance(node, _LOOPS):
            # What holds back a whole loop says nothing of how often it saves.
            tests, depth = tests if depth else frozenset(), depth + 1
        for field, value in ast.iter_fields(node):
            under = tests
            if isinstance(node, ast.If | ast.IfExp) and field != "test":
                under |= _tests(node.test, holds=field == "body")
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    todo.append((part, under, depth))
                if isinstance(part, ast.If) and _passes(part, depth):
                    under |= _tests(part.test, holds=False)
    return results


def _passes(node: ast.If, depth: int) -> bool:
    """Return whether a branch passes by what follows; one that ends a loop ends the run."""
    return isinstance(node.body[-1], ast.Continue if depth else ast.Return)


def _tests(test: ast.expr, *, holds: bool) -> frozenset[str]:
    """Return the parts of a test that all hold, as text; none that asks which process this is."""
    both = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or)
    texts = map(written, test.values if isinstance(test, ast.BoolOp) and both else [test])
    return frozenset(
        text if holds else f"not ({text})"
        for text in texts
        if text and not _RANK.search(snake(text))
    )


def _without_first(tests: frozenset[str]) -> frozenset[str]:
    """Return tests without those that only pass by the first step, as in ``n and n % 5 == 0``."""
    parts = {test for test in tests if any(other.startswith(f"{test} %") for other in tests)}
    return frozenset(test for test in tests - parts if not _FIRST.fullmatch(test))


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
