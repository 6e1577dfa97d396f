"""All that a stack makes, as one readable text: what the snapshots in ``made`` hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import yaml

from tests.components.recording import Recording, Registered

MADE = Path(__file__).with_name("made")
#: What is longer as JSON (a program, a pod's template, a policy's rules) stands as its digest.
LONGEST = 240
#: Held by examples of its own, and changes with all else (tests/unit/contract/examples), but for
#: what the platform says of what it made.
CONTRACT = ("contract", "contract.json")


def made(recording: Recording, beside: Recording | None = None) -> str:
    """Return each resource with its inputs and options, in the order of their URNs.

    ``beside``: only what is otherwise than there.
    """
    there = _parts(beside) if beside is not None else {}
    results = {urn: part for urn, part in _parts(recording).items() if there.get(urn) != part}
    return "".join(results[urn] for urn in sorted(results))


def _parts(recording: Recording) -> dict[str, str]:
    return {
        urn: yaml.dump(
            {_heading(resource): _short(_said(recording, resource), recording.folder)},
            Dumper=yaml.CSafeDumper,
            default_flow_style=None,
            width=160,
        )
        for urn, resource in recording.resources.items()
    }


def _heading(resource: Registered) -> str:
    return f"{resource.name} ({resource.type.rpartition(':')[2]})"


def _said(recording: Recording, resource: Registered) -> dict[str, Any]:
    options = {
        "after": sorted(map(_name, _nearest(recording, resource.dependencies))),
        "dependencies": len(resource.dependencies),
        "ignored": sorted(resource.ignore_changes),
        "gone with": _name(resource.deleted_with),
        "protected": resource.protect,
        "retained": resource.retain,
        **resource.manner,
        "inputs": dict(resource.inputs),
        "outputs": recording.outputs.get(resource.urn),
    }
    return {name: value for name, value in options.items() if value}


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _nearest(recording: Recording, dependencies: Set[str]) -> Set[str]:
    """Return the dependencies that no other one waits for: the rest follows from them."""
    further = {urn for dependency in dependencies for urn in recording.before(dependency)}
    return dependencies - further


def _short(said: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Options and inputs as they are, down to the fields of a ``spec``; what is long, digested."""
    results = {key: _plain(value, folder) for key, value in said.items()}
    for section in ("inputs", "outputs"):
        if section in results:
            results[section] = _digested(results[section], depth=2)
    return results


def _plain(value: Any, folder: str) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, folder) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, folder) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.replace(folder, "FOLDER") if isinstance(value, str) else value


def _digested(values: Mapping[str, Any], depth: int) -> dict[str, Any]:
    return {key: _digest(key, value, depth) for key, value in values.items()}


def _digest(key: str, value: Any, depth: int) -> Any:
    if key in CONTRACT:
        message = value if isinstance(value, dict) else {}
        own = {part: message[part] for part in ("details", "made") if message.get(part)}
        return {**own, "all else": "as its examples"} if own else "as its examples"
    text = json.dumps(value, sort_keys=True)
    if len(text) <= LONGEST:
        return value
    if depth > 1 and isinstance(value, dict):
        return _digested(value, depth - 1)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]}, {len(text)} characters"
