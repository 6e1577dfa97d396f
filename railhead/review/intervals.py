"""Compares how often programs and jobs save; at a fault a run loses all since its last save."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from railhead.review.jobs import FUNCTIONS, NEXT, NO_JOBS, file_call, savers, training
from railhead.review.judged import Judged, locate, quoted
from railhead.review.model import Finding, Loss
from railhead.review.reading import (
    Names,
    beginning,
    called,
    name_of,
    nodes,
    options,
    single_values,
    snake,
    value_of,
    written,
)
from railhead.review.sources import Sources
from railhead.review.values import Amount, amount, named_values, of_program

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
# Numbers of checkpoints that stay, and folders for what a run keeps.
_KEPT = re.compile(
    rf"(?:^|_)(?:(?:{_SAVE})_(?:total_limit|top_k)|(?:keep_last|keep_latest|max_to_keep)(?:_\w+)?)$"
)
_FOLDER = re.compile(
    rf"(?:^|_)(?:(?:{_SAVE}|output|out)_(?:\w+_)?(?:dir|directory|path|folder|root|uri)"
    r"|default_root_dir|dirpath)$"
)
_GOES = re.compile(r"(?:/tmp|/var/tmp|/dev/shm)(?:/|$)")
_SWITCH = re.compile(r"(?:^|_)(?:enable_checkpoint(?:s|ing)?|save_strategy|save_checkpoints?)$")
_BARE = re.compile(r"(?:^|_)save_(?:only_model|weights_only)$")
_STRICT = re.compile(r"(?:^|_)load_\w*_?strict$|(?:^|_)strict_loading$")
_OFF = frozenset({"0", "false", "no", "none", "off"})
# Settings of how long collectives wait for each other.
_WAIT = re.compile(r"(?:^|_)(?:ddp|dist|distributed|nccl|process_group)_(?:\w+_)?timeout(?:_|$)")

_RARER = "saves less often ({old} -> {new}): a run that starts again has lost more steps"
_LATER = "notices a rank that hangs later ({old} -> {new}): its gang's GPUs stand idle until then"


def _is_interval(plain_name: str) -> bool:
    return bool(_INTERVAL.search(plain_name) and not _OTHER.search(plain_name))


def _often(value: Any, names: Names) -> Amount | None:
    """Return how rarely something is saved; 0 or less is never."""
    period = amount(value, names)
    return period and ((period[0] if period[0] > 0 else math.inf), period[1])


def _few(value: Any, names: Names) -> Amount | None:
    """Return how few checkpoints stay, as a negative number; 0 or less is all of them."""
    number = amount(value, names)
    return number and (-number[0] if number[0] > 0 else -math.inf, number[1])


def _is(value: Any, names: Names) -> Amount | None:
    """Return a switch as 1 or 0; None of code that says neither."""
    if isinstance(value, ast.expr):
        value = value_of(value, names)
        if not isinstance(value, ast.Constant | ast.Attribute):
            return None
        value = value.value if isinstance(value, ast.Constant) else value.attr
    return (0.0 if str(value).lower() in _OFF else 1.0), ""


def _is_not(value: Any, names: Names) -> Amount | None:
    state = _is(value, names)
    return state and (1 - state[0], "")


def _goes(value: Any, names: Names) -> Amount | None:
    """Return 1 of a folder that goes with its pod, else 0; None of what is no text."""
    text = beginning(value, names) if isinstance(value, ast.expr) else value
    return (float(bool(_GOES.match(text))), "") if isinstance(text, str) and text else None


# What takes elsewhere what was written in the pod.
_CARRIES = re.compile(r"(?:^|_)(?:copy(?:2|file|tree)?|move|put|rsync|sync)$|(?:^|_)upload")


def _carries(text: str) -> bool:
    """Return whether a program takes files elsewhere."""
    calls = (node for node in nodes(text) if isinstance(node, ast.Call))
    return any(_CARRIES.search(snake(called(call))) for call in calls)


@dataclass(frozen=True)
class _Kind:
    """Settings by their names, the number that is worse the more it is, and what is lost.

    ``default`` is the number of one that is not there; without it both sides must have it.
    """

    names: Callable[[str], object]
    reads: Callable[[Any, Names], Amount | None]
    says: str
    loss: Loss = "data"
    default: float | None = None


_INTERVALS = _Kind(_is_interval, _often, _RARER)
_KINDS = (
    _INTERVALS,
    _Kind(_WAIT.search, _often, _LATER, "jobs"),
    _Kind(
        _SWITCH.search,
        _is_not,
        "is switched off: a run that starts again begins at its first step",
        default=0.0,
    ),
    _Kind(
        _BARE.search,
        _is,
        "saves without optimizer and step: a run that starts again begins without them",
        default=0.0,
    ),
    _Kind(
        _STRICT.search,
        _is_not,
        "loads what fits: weights that a checkpoint lacks, or has by another name, stay as they "
        "were initialized, without an error",
        default=0.0,
    ),
    _Kind(
        _KEPT.search,
        _few,
        "keeps fewer checkpoints ({old} -> {new}): a run that went wrong has fewer to go back to",
    ),
    _Kind(
        _FOLDER.search,
        _goes,
        "keeps in the pod what a run saves: it is gone with the pod, and the run begins at step 0",
    ),
)


def intervals(source: Sources) -> Iterator[Finding]:
    """Yield each setting and each loop by which a job or a program keeps less of a run."""
    for name in source.changed:
        if name.startswith(NO_JOBS) or PurePath(name).name.startswith("Pulumi."):
            continue
        texts = source.texts(name)
        pairs = [list(named_values(name, text or "")) for text in texts]
        known = [single_values(text) if name.endswith(".py") else {} for text in texts]
        for kind in _KINDS:
            if kind.reads is _goes and name.endswith(".py") and _carries(texts[1] or ""):
                continue
            was, now = (_settings(name, *side, kind) for side in zip(pairs, known, strict=True))
            if texts[0] and kind.default is not None:
                new = {key: len(rows) for key, rows in now.items() if key not in was}
                was |= {key: [(kind.default, "")] * count for key, count in new.items()}
            yield from _worse(source, was, now, kind)
    yield from _loops(source)
    yield from _held_back(source)
    yield from _patience(source)


def _settings(
    name: str, pairs: Sequence[tuple[str, Any]], known: Names, kind: _Kind
) -> dict[str, list[Amount]]:
    """Return the amounts of a file's settings of a kind."""
    results: dict[str, list[Amount]] = {}
    # Such a name speaks for itself where it stands.
    names = {key: value for key, value in known.items() if not kind.names(snake(key).strip("_"))}
    for key, value in pairs:
        if kind.names(snake(key).strip("_")) and (period := kind.reads(value, names)) is not None:
            results.setdefault(f"{name}: {key.lstrip('-')}", []).append(period)
    return results


def _worse(
    source: Sources,
    was: Mapping[str, Sequence[Amount]],
    now: Mapping[str, Sequence[Amount]],
    kind: _Kind,
) -> Iterator[Finding]:
    """Yield a finding for each "file: name" of which an amount grew."""
    for subject, before in was.items():
        after = now.get(subject, ())
        pairs = zip(before, after, strict=True) if len(before) == len(after) else ()
        grown = next((p for p in pairs if p[0][1] == p[1][1] and p[0][0] < p[1][0]), None)
        if grown:
            old, new = map(_shown, grown)
            yield _finding(source, subject, kind.loss, kind.says.format(old=old, new=new))


def _shown(period: Amount) -> str:
    number, unit = period
    return {math.inf: "0", -math.inf: "all"}.get(number, f"{abs(number):g}{unit}")


def _finding(source: Sources, subject: str, loss: Loss, what: str) -> Finding:
    result = Judged("ask", loss, what, NEXT, "save-interval")
    return locate(source, subject.partition(": ")[0], subject, result)


# What starts the processes of a job as one group.
_GROUPS = re.compile(
    r"^(?:init_process_group|init_distributed|InitProcessGroupKwargs|Accelerator|\w*Strategy)$"
)
# What NCCL's groups have by default, in seconds (c10d/ProcessGroupNCCL.hpp of 2.2 and later).
_PATIENCE = 600.0


def _patience(source: Sources) -> Iterator[Finding]:
    """Yield the longest time limit of collectives, where it grew."""
    was, now = ([row for name in of for row in _limits(name, of[name])] for of in training(source))
    limits = [seconds for seconds, _ in was if seconds]
    seconds, subject = max(now, default=(0.0, ""))
    known = max(limits, default=_PATIENCE)
    if was and seconds > known:
        old = f"{known:g}s" if limits else f"{known:g}s by default"
        yield _finding(source, subject, "jobs", _LATER.format(old=old, new=f"{seconds:g}s"))


def _limits(name: str, text: str) -> Iterator[tuple[float, str]]:
    """Yield (seconds, subject) of each call that starts groups; 0 where it says no limit."""
    names = single_values(text)
    for node in nodes(text):
        if isinstance(node, ast.Call) and _GROUPS.search(call := called(node)):
            values = [
                amount(value, names) for key, value in options(node, names) if key == "timeout"
            ]
            seconds = [number for number, unit in filter(None, values) if unit == "s"]
            yield next(iter(seconds), 0.0), f"{name}: {call}.timeout"


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def _loops(source: Sources) -> Iterator[Finding]:
    """Yield each save of a program that trains which more steps of its loop pass by."""
    was, now = map(_guarded, training(source))
    yield from _worse(source, was, now, _INTERVALS)


def _guarded(texts: Mapping[str, str]) -> dict[str, list[Amount]]:
    """Return "file: save() by name" -> numbers, of saves that a remainder or a clock holds back."""
    results: dict[str, list[Amount]] = {}
    saving = savers(texts.values())
    known: dict[str, set[Amount]] = {}
    for text in texts.values():
        for name, value in of_program(text):
            if name and (period := amount(value)) is not None:
                known.setdefault(name.lstrip("-").replace("-", "_"), set()).add(period)
    only = {name: next(iter(amounts)) for name, amounts in known.items() if len(amounts) == 1}
    for name, text in texts.items():
        for test, scope in _branches(text):
            calls = sorted(_of_scope(scope, saving))
            for node in _periods(test) if calls else ():
                word = name_of(node)
                period = amount(node) or only.get(word)
                if period and not _INTERVAL.search(snake(word)):
                    key = f"{name}: {', '.join(calls)}(){f' by {word}' if word else ''}"
                    results.setdefault(key, []).append(period)
    return results


# Which of a job's processes it is, and whether its numbers are any: nothing of how often.
_RANK = re.compile(
    r"(?:^|_)(?:rank|is_main|main_process|process_(?:zero|index|id)|master|primary|leader"
    r"|isnan|isinf|isfinite)(?:_|$)"
)
_CLOCK = re.compile(r"(?:^|_)(?:time|monotonic|perf_counter|elapsed|since)(?:_|$)")
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
            yield _finding(source, f"{name}: {call}()", "data", text)


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
        if isinstance(node, ast.Call) and (name := file_call(node)) in saving:
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
            elif isinstance(node, ast.match_case) and field == "body":
                under |= {f"match {written(node.pattern)}"}
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    todo.append((part, under, depth))
                if isinstance(part, ast.If) and _passes(part, depth):
                    under |= _tests(part.test, holds=False)
                elif isinstance(node, ast.BoolOp) and isinstance(part, ast.expr):
                    under |= _tests(part, holds=isinstance(node.op, ast.And))
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
                if isinstance(part, ast.If) and any(_periods(part.test)):
                    leaves = isinstance(part.body[0], ast.Continue | ast.Return)
                    yield part.test, parts[index + 1 :] if leaves else part.body


def _periods(test: ast.expr) -> Iterator[ast.expr]:
    """Yield what a test divides by, and the time that must have passed."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            yield node.right
        elif (
            isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.Gt | ast.GtE)
            and _CLOCK.search(snake(written(node.left)))
        ):
            yield node.comparators[0]


def _of_scope(scope: Sequence[ast.stmt], saving: Collection[str]) -> set[str]:
    """Return the saves of statements, without those that a remainder within them holds back."""
    results: set[str] = set()
    todo: list[ast.AST] = list(scope)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and any(_periods(node.test)):
            continue
        if isinstance(node, ast.Call) and (name := file_call(node)) in saving:
            results.add(name)
        todo += ast.iter_child_nodes(node)
    return results
