"""Finds the line that a finding is about, and the lines that would do what was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.review.compare import Change
from railhead.review.model import Place
from railhead.review.sources import Hunk, Sources

# Kind of resource -> words of the stack's file that it comes from.
_WORDS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("PersistentVolume",), ("checkpoints", "claim", "datasets", "size", "storage")),
    (("FileSystem", "filestore", "lustre", "Bucket", "StorageClass", "backup"), ("storage",)),
    (("NodeGroup", "NodePool", "LaunchTemplate", "placement"), ("pools", "nodes", "pool")),
    (("Queue", "Flavor", "Priority"), ("queue", "queues", "teams", "pools", "priorities")),
    (("Role", "Binding", "access", "IAM", "iam"), ("researchers", "administrators", "teams")),
    (("NetworkPolicy",), ("network_policy", "egress", "cidr")),
    (("Runtime",), ("runtimes", "image")),
    (("Release",), ("versions", "gpu_operator", "operator")),
    (("ec2", "compute", "eks/cluster"), ("network", "endpoint", "cidr", "nat")),
)


# Values that a stack's file may have as they are: numbers, names of devices, networks, times.
_VALUES = re.compile(r"[\w./:-]*\d[\w./:-]+|[\w./:-]+\d")


class Guess(Place):
    """A place of a change that was traced to no changed file: the first one that may cause it."""


def of_stack(source: Sources, file: str, words: Sequence[str]) -> tuple[Place | None, Hunk | None]:
    """Return the change of the stack's file that names most of the words."""
    hunks = source.hunks(file)
    if not hunks:
        return None, None

    def score(hunk: Hunk) -> tuple[int, bool]:
        lines = (*hunk.before, *hunk.after)
        # A comment alone causes nothing.
        causes = any(line.split("#")[0].strip() for line in lines)
        return sum(word in "\n".join(lines) for word in words if word), causes

    best = max(hunks, key=score)
    return Place(file=file, line=best.line), best


def of_output(source: Sources, name: str) -> Place | None:
    """Return the changed line of a program that names most of an output's words."""
    words = [word for word in re.split(r"\W+|_", name) if word]
    places = [
        (sum(word in "\n".join((*hunk.before, *hunk.after)) for word in words), file, hunk.line)
        for file in source.changed
        if file.endswith(".py")
        for hunk in source.hunks(file)
    ]
    if not places:
        return None
    score, file, line = max(places, key=lambda row: row[0])
    return Place(file=file, line=line) if score else Guess(file=file, line=line)


def of_change(
    source: Sources, file: str, change: Change, what: str
) -> tuple[Place | None, Hunk | None]:
    """Return the changed line that a resource's change comes from: of the stack, else of code.

    ``what`` is said of the change, with its values.
    """
    resource = change.either
    if file in source.changed:
        words = [w for keys, ws in _WORDS if any(k in resource.type for k in keys) for w in ws]
        words += _VALUES.findall(what)
        return of_stack(source, file, [*resource.label.replace("/", " ").split(), *words])
    for planned in (change.after, change.before):
        for name, line in planned.frames if planned else ():
            if name in source.changed and (hunks := source.hunks(name)):
                base = planned is change.before
                near = min(hunks, key=lambda h: _distance(h, line, base=base))
                return Place(file=name, line=near.line), near
    # What it is made from was resolved elsewhere.
    for name in source.changed:
        if name.endswith((".py", ".yaml")) and (hunks := source.hunks(name)):
            return Guess(file=name, line=hunks[0].line), hunks[0]
    return None, None


def _distance(hunk: Hunk, line: int, *, base: bool) -> tuple[bool, int]:
    """Return how far a hunk is from a call that begins at a line: its arguments follow it."""
    first, lines = (hunk.was, hunk.before) if base else (hunk.line, hunk.after)
    return first + max(len(lines), 1) <= line, abs(first - line)


def restored(hunk: Hunk | None) -> str:
    """Return the base's lines for a suggestion; empty where there were none, or too many."""
    return "\n".join(hunk.before) if hunk and 0 < len(hunk.before) <= 12 else ""
