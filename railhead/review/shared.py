"""Reads what jobs and ranks have in common: a place of checkpoints, what is whole, one order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from railhead.review.jobs import FUNCTIONS, NEXT, NO_JOBS, checkpoint, is_job, training
from railhead.review.judged import Judged, locate
from railhead.review.model import Finding
from railhead.review.reading import assigned, called, mapping, name_of, nodes, written
from railhead.review.sources import Sources

# Files that frameworks write last: PyTorch's DCP (filesystem.py, FileSystemWriter.finish), Megatron
# (checkpointing.py, get_checkpoint_tracker_filename).
_LAST = (".metadata", "latest_checkpointed_iteration.txt")
_GENERATORS = ("Generator", "Random", "RandomState", "default_rng")
_ORDERS = frozenset({"permutation", "random_split", "randperm", "shuffle", "train_test_split"})
_RANK = re.compile(r"rank|process_(?:index|id)", re.I)


def places(source: Sources) -> Iterator[Finding]:
    """Yield each job whose checkpoints come to lie where another job of its folder has its own."""
    for name in source.changed:
        was, now = (_place(name, text) for text in source.texts(name))
        if not now or was == now:
            continue
        for path in sorted((source.root / name).parent.glob("*.y*ml")):
            other = path.relative_to(source.root).as_posix()
            # Of two that are changed the first is enough.
            if other == name or _place(other, source.text(other, head=True)) != now:
                continue
            if other not in source.changed or name < other:
                what = f"writes its checkpoints to {now[1]}, as {other} does: each overwrites the "
                result = _data(f"{what}other's, or resumes from it")
                yield locate(source, name, f"{name}: checkpoint", result, now[1])


def _data(what: str) -> Judged:
    return Judged("ask", "data", what, NEXT, "job-shared")


def _place(name: str, text: str | None) -> tuple[Any, str] | None:
    """Return (namespace, directory) of a job's checkpoints; None of what is no job's file."""
    if not name.endswith((".yaml", ".yml")) or name.startswith(NO_JOBS):
        return None
    job = mapping(text)
    if not job or not is_job(job):
        return None
    return job.get("namespace"), str(checkpoint(job)["path"])


def seals(source: Sources) -> Iterator[Finding]:
    """Yield programs that no longer look for what a framework writes last of a checkpoint."""
    was, now = training(source)
    for seal in _LAST:
        before, after = ([n for n, text in of.items() if _says(text, seal)] for of in (was, now))
        for name in before if not after else ():
            if now[name]:
                what = f"no longer looks for {seal}, which is written last: a run that starts again"
                what += " takes a half checkpoint for a whole one"
                yield locate(source, name, name, _data(what), seal)


def _says(text: str, word: str) -> bool:
    texts = (node.value for node in nodes(text) if isinstance(node, ast.Constant))
    return any(isinstance(value, str) and Path(value).name == word for value in texts)


def orders(source: Sources) -> Iterator[Finding]:
    """Yield programs in which each rank newly splits or shuffles data by a seed of its own."""
    was, now = training(source)
    known = {name for text in was.values() for name in _by_rank(text)}
    for name, text in now.items():
        for function in sorted(_by_rank(text) - known):
            what = "orders the data by a seed of each rank's own: where ranks split it by that, "
            what += "some samples are learnt twice, others never, and held-out ones are learnt too"
            yield locate(source, name, f"{name}: {function}()", _data(what), "manual_seed", "seed")


def _by_rank(text: str) -> set[str]:
    """Return the functions that order data by a generator whose seed names a rank."""
    known, results = assigned(text), set()
    for function in nodes(text):
        if isinstance(function, FUNCTIONS):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            by_rank = any(_RANK.search(written(node)) and _seeds(node, known) for node in calls)
            if by_rank and not _ORDERS.isdisjoint(map(called, calls)):
                results.add(function.name)
    return results


def _seeds(call: ast.Call, known: Mapping[str, list[ast.expr]]) -> bool:
    """Return whether a call makes a generator of numbers, or gives one its seed."""
    of = getattr(call.func, "value", None) if called(call) == "manual_seed" else None
    made = [call] if of is None else [of, *known.get(name_of(of), ())]
    return any(isinstance(part, ast.Call) and called(part) in _GENERATORS for part in made)
