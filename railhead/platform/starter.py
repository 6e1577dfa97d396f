"""First stacks: from a few answers a whole section, which its owner then edits.

A platform's folder may have a module ``starters`` with a tuple ``STARTERS``; none is listed here.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.base.errors import InputError, choices
from railhead.machines import MACHINES

Answers = Mapping[str, str]
Section = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Question:
    """One thing that nobody else can know.

    Args:
        key: its name in ``--set KEY=VALUE``.
        asks: the question, as a phrase.
        default: the answer of a person who presses Enter, from the earlier answers.
    """

    key: str
    asks: str
    default: Callable[[Answers], str]


@dataclass(frozen=True, kw_only=True)
class Starter:
    """A first stack of one kind of place.

    Args:
        name: what `railhead new --platform` calls it.
        kind: of its platform.
        extra: the extra of the package `railhead` that its program needs.
        programs: commands that its kubeconfig calls.
        questions: in the order in which they are asked.
        section: makes the value of ``railhead:cluster`` from all answers.
        notes: what the head of the file says, a line each.
        comments: field of the section -> the comment above it.
    """

    name: str
    kind: str
    extra: str
    programs: tuple[str, ...] = ()
    questions: tuple[Question, ...]
    section: Callable[[Answers], Section]
    notes: tuple[str, ...]
    comments: Mapping[str, str]


def asked(key: str, asks: str, default: str | Callable[[Answers], str]) -> Question:
    """Return a question whose default is a text, or follows from the answers before it."""
    if callable(default):
        return Question(key=key, asks=asks, default=default)
    text = default
    return Question(key=key, asks=asks, default=lambda _: text)


def starters(folders: Mapping[str, Any]) -> dict[str, Starter]:
    """Return every starter by its name.

    Args:
        folders: the platforms, by the names of their folders.
    """
    results: dict[str, Starter] = {}
    for folder in folders:
        name = f"railhead.platform.{folder}.starters"
        if importlib.util.find_spec(name) is not None:
            for starter in importlib.import_module(name).STARTERS:
                results[starter.name] = starter
    return results


def machine(answers: Answers, platform: str) -> str:
    """Return the machine of the answers.

    Raises:
        InputError: it is no machine of the platform; names those that are.
    """
    name = answers["machine"]
    known = sorted(row.name for row in MACHINES.values() if platform in row.platforms)
    if name not in known:
        raise InputError(
            f"machine: {name!r} is not in the catalogue of {platform}{choices(name, known)}",
            remedy="`railhead catalog list` shows them; a machine of your own is a row in "
            "stacks/machines.yaml",
        )
    return name


def count(answers: Answers, key: str = "nodes") -> int:
    """Return a number of the answers.

    Raises:
        InputError: it is not a number of at least 1.
    """
    if not answers[key].isdecimal() or int(answers[key]) < 1:
        raise InputError(
            f"{key}: {answers[key]!r} is not a number of at least 1", remedy=f"give --set {key}=2"
        )
    return int(answers[key])


def training(name: str, answers: Answers, image: str, storage_class: str, size: str) -> Section:
    """Return queue, claim and runtime of a pool that one namespace has for itself.

    Args:
        name: of the pool.
        answers: all of them.
        image: of the runtime.
        storage_class: of the claim of checkpoints.
        size: of that claim.
    """
    row = MACHINES[answers["machine"]]
    nodes = count(answers)
    runtime = {
        "name": "torch",
        "framework": "torch",
        "image": image,
        "pool": name,
        "nodes": min(nodes, 2),
        # A tenth of a node is for what else runs on it.
        "cpu": str(row.schedulable_vcpus * 9 // 10),
        "memory": f"{row.schedulable_memory_gib * 9 // 10}Gi",
        "shared_memory": f"{row.schedulable_memory_gib // 8}Gi",
        "checkpoint": "checkpoints",
        "grace_seconds": 120,
    }
    return {
        "queues": [
            {
                "name": "training",
                "namespace": "training",
                "cluster_queue": "training",
                "pools": [name],
            }
        ],
        "checkpoints": [
            {
                "name": "checkpoints",
                "namespace": "training",
                "storage_class": storage_class,
                "size": size,
                "mount_path": "/checkpoints",
            }
        ],
        # The second carries the frameworks that torchrun does not start.
        "runtimes": [runtime, runtime | {"name": "raw", "framework": "raw"}],
    }


#: Comments of the fields that every starter has.
COMMENTS: Mapping[str, str] = {
    "versions": "A combination of controllers that ran: `railhead catalog list` shows them all.",
    "topology": "Labels of nodes from the widest layer to the closest: gangs are placed by them.",
    "pools": "Equal machines. An edit of `nodes` is one `pulumi up` (docs/editing.md).",
    "queues": "Where researchers submit. Several teams: docs/teams.md.",
    "checkpoints": "A claim that every pod of a gang mounts; deleting the stack keeps it.",
    "runtimes": "What a job runs in: `railhead launch` wires the rest.",
}
