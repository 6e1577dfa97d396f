"""Reads rows of machines: facts that plans, acceptance and alerts are computed from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railhead.base.data import load
from railhead.review.judged import Judged, locate
from railhead.review.model import Finding, Level, Loss
from railhead.review.reading import mapping
from railhead.review.rows import less, lost, parts, several, short, told
from railhead.review.sources import Sources

_ROWS = ("railhead/machines/rows/", "stacks/machines.yaml")
_TRUTH = "railhead/twin/truth"
# Fields that are figures, by another name, or that nothing is computed from.
_ASIDE = ("nics", "sources", "readings")


@dataclass(frozen=True)
class _Fact:
    """A figure of a machine, and what follows where it is less or more than the machine has."""

    loss: Loss
    less: str
    more: str


_NICS, _RATE = "NICs of the fabric", "Gbit/s of the fabric"
_WAITS = "gangs are admitted to nodes that have less, and never start"
_IDLE = "quotas leave out what nodes have: it stays idle"
_FACTS: Mapping[str, _Fact] = {
    "gpus": _Fact("quota", _IDLE, _WAITS),
    "schedulable_vcpus": _Fact("quota", _IDLE, _WAITS),
    "schedulable_memory_gib": _Fact("quota", _IDLE, _WAITS),
    "nvlink_domain": _Fact(
        "network",
        "ranks that share NVLink are measured and placed as if they did not",
        "ranks are taken to share NVLink that do not",
    ),
    _NICS: _Fact(
        "network",
        "nodes start, and pods ask for, fewer of them: NCCL loses the others' bandwidth",
        "nodes are asked for interfaces that they lack: they do not start, or pods wait",
    ),
    _RATE: _Fact(
        "network",
        "acceptance and alerts measure against less: a fabric at a part of its rate passes",
        "acceptance and alerts measure against more: healthy nodes fail",
    ),
}


def machines(source: Sources) -> Iterator[Finding]:
    """Yield each fact of a machine that differs from the base's, and each machine that is gone."""
    names = [name for name in source.changed if name.startswith(_ROWS) and name.endswith(".yaml")]
    was: dict[str, tuple[str, Mapping[str, Any]]] = {}
    now: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name in names:
        before, after = (_rows(source.text(name, head=head)) for head in (False, True))
        if before is None or after is None or name in source.large:
            text = "cannot be read: none of its machines was compared"
            yield _finding(source, name, f"of {name}", Judged("ask", "jobs", text))
            continue
        was |= {machine: (name, row) for machine, row in before.items()}
        now |= {machine: (name, row) for machine, row in after.items()}
    for machine in sorted(was.keys() & now.keys()):
        name, row = now[machine]
        for level, loss, text in _differing(was[machine][1], row, source.base):
            yield _finding(source, name, machine, Judged(level, loss, text))
    for machine in sorted(was.keys() - now.keys()):
        stacks = _stacks_with(source, machine)
        text = f"is removed, and {', '.join(stacks)} has it: that stack cannot be planned"
        if not stacks:
            text = "is removed: no stack here names it, and one that does cannot be planned"
        result = Judged("refuse" if stacks else "ask", "jobs", text)
        yield _finding(source, was[machine][0], machine, result)


def _stacks_with(source: Sources, machine: str) -> list[str]:
    """Return the files of stacks that name a machine."""
    named = re.compile(rf"(?<![\w.-]){re.escape(machine)}(?![\w.-])")
    return [n for n in source.stacks if named.search(source.text(n, head=True) or "")]


def _rows(text: str | None) -> dict[str, Mapping[str, Any]] | None:
    """Return a file's machines by their names; None if it cannot be read."""
    content = mapping(text)
    if content is None:
        return None
    named = [row for row in several(content.get("machines")) if isinstance(row, Mapping)]
    return {str(row["name"]): row for row in named if "name" in row}


def _differing(
    was: Mapping[str, Any], now: Mapping[str, Any], base: Path
) -> Iterator[tuple[Level, Loss, str]]:
    before, after = _figures(was), _figures(now)
    for key, fact in _FACTS.items():
        if before[key] == after[key]:
            continue
        text = f"has {short(after[key])} {key} in place of {short(before[key])}: "
        text += fact.less if less(before[key], after[key]) else fact.more
        field = key if key in was else "nics"
        named = [row.get("sources") for row in (was, now)]
        sources = [of.get(field) if isinstance(of, Mapping) else None for of in named]
        if sources[0] and sources[0] == sources[1]:
            text += f". Its source is the same as before: {short(sources[0])}"
        known, by = _known(str(was["name"]), key, base)
        if known is not None:
            text += f". {_TRUTH} has {short(known)}, by {short(by)}"
        level: Level = "ask" if known is None else "note" if known == after[key] else "refuse"
        yield level, fact.loss, text
    aside = {*_FACTS, *(_ASIDE if before != after else _ASIDE[1:])}
    old, new = ({k: v for k, v in row.items() if k not in aside} for row in (was, now))
    for path, before_it, after_it in parts("", old, new):
        text = f"differs: {told([(path.lstrip('.'), *_apart(before_it, after_it))])}"
        yield "ask" if lost(before_it, after_it) else "note", "jobs", text


def _apart(was: Any, now: Any) -> tuple[Any, Any]:
    """Return the elements that only one of two lists has; other values as they are."""
    if not (isinstance(was, list) and isinstance(now, list)):
        return was, now
    return [i for i in was if i not in now], [i for i in now if i not in was]


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    nics = [nic for nic in several(row.get("nics")) if isinstance(nic, Mapping)]
    rates = [nic.get("rate_gbps") for nic in nics]
    rate = sum(each for each in rates if isinstance(each, int | float))
    return {key: row.get(key) for key in _FACTS} | {_NICS: len(nics), _RATE: rate}


def _known(machine: str, key: str, base: Path) -> tuple[Any, Any]:
    """Return what the twin, whose rows are its makers' alone, says of a figure, and by what."""
    field = {_NICS: "efa", "gpus": "gpus"}.get(key, "")
    if not field:
        return None, None
    for path in sorted((base / _TRUTH).glob("*.yaml")):
        rows = load(path).get("machines") or ()
        row = next((r for r in rows if r.get("machine") == machine), None)
        if row is not None and row.get(field):
            return row[field], row.get("source")
    return None, None


def _finding(source: Sources, name: str, machine: str, result: Judged, *words: str) -> Finding:
    who = "every stack with it, and its acceptance"
    result = replace(result, rule=f"machine-{result.loss}", who=who)
    return locate(source, name, f"machine {machine}", result, *words)
