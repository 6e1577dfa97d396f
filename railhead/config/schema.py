"""JSON Schema of a stack's file, for editors: completion, types and names of the catalogue.

It says what each field may be on the platform that the file says, a team's own machines included.
What spans several fields (`railhead config check`) it cannot say.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from railhead.catalog.versions import COMBINATIONS, ModuleChart
from railhead.config import KEY, PROJECT
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.machines import MACHINES
from railhead.platform.base import Platform
from railhead.platform.registry import PLATFORMS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Where the schema of a checkout lies; stacks name it in their first line.
FILE = "stacks/stack.schema.json"
MODELINE = "# yaml-language-server: $schema=stack.schema.json"


@functools.cache
def text() -> str:
    """Return the schema as its file has it."""
    return json.dumps(stack_schema(), indent=1) + "\n"


@functools.cache
def stack_schema() -> dict[str, Any]:
    """Return the schema of a file ``Pulumi.<stack>.yaml`` as a JSON object.

    Other keys of Pulumi's own are let through; other configuration keys as well.
    """
    # One branch a platform, chosen by its kind: an editor then complains of the field that is
    # wrong, not of every platform that the file is not, and completes what the platform has.
    branches = [
        {"if": _platform({"const": kind}), "then": {"$ref": f"#/$defs/{kind}"}}
        for kind in PLATFORMS
    ]
    kinds = {"enum": list(PLATFORMS), "description": "Where the cluster lives."}
    return {
        "$schema": DIALECT,
        "title": "A Railhead stack",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "description": "The stack's configuration.",
                "type": "object",
                "required": [f"{PROJECT}:{KEY}"],
                "properties": {
                    f"{PROJECT}:{KEY}": _platform(kinds)
                    | {"description": "The cluster.", "allOf": branches}
                },
            },
            "encryptionsalt": {"type": "string", "description": "Pulumi's own."},
            "secretsprovider": {"type": "string", "description": "Pulumi's own."},
            "encryptedkey": {"type": "string", "description": "Pulumi's own."},
        },
        "$defs": {kind: _of(platform) for kind, platform in PLATFORMS.items()},
    }


def _of(platform: Platform[Any]) -> dict[str, Any]:
    """Return the schema of a platform's clusters, with what fits the platform and nothing else."""
    made = platform.cluster.model_json_schema(
        ref_template=f"#/$defs/{platform.kind}/$defs/{{model}}"
    )
    fits = {
        frozenset(names): [name for name in names if allowed(name)]
        for names, allowed in _choices(platform)
    }
    modes = [name for name, mode in MODES.items() if mode.on(platform.offers)]
    schema: dict[str, Any] = _fitted(made, fits, modes)
    defined = schema.pop("$defs")
    used: set[str] = set()
    _reached(schema, defined, used)
    return schema | {"$defs": {name: defined[name] for name in sorted(used)}}


def _reached(value: Any, defined: Mapping[str, Any], used: set[str]) -> None:
    """Add the names of definitions that a value refers to, and theirs."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            _reached(inner, defined, used)
        elif isinstance(inner, str) and inner.startswith("#/$defs/"):
            name = inner.rpartition("/")[2]
            if name not in used:
                used.add(name)
                _reached(defined[name], defined, used)


def _choices(platform: Platform[Any]) -> list[tuple[list[str], Callable[[str], bool]]]:
    """Return names of the catalogue, and which of them a platform can have."""
    on = [mode for mode in MODES.values() if mode.on(platform.offers)]

    def versions(name: str) -> bool:
        made_here = isinstance(COMBINATIONS[name].kueue.chart, ModuleChart)
        return platform.standing or not made_here

    return [
        (sorted(MACHINES), lambda name: platform.kind in MACHINES[name].platforms),
        (sorted(FABRICS), lambda name: any(name in mode.fabrics for mode in on)),
        (sorted(COMBINATIONS), versions),
    ]


def _fitted(value: Any, fits: Mapping[frozenset[str], list[str]], modes: list[str]) -> Any:
    if isinstance(value, list):
        return [_fitted(inner, fits, modes) for inner in value]
    if not isinstance(value, dict):
        return value
    made = {key: _fitted(inner, fits, modes) for key, inner in value.items()}
    names = made.get("enum")
    if isinstance(names, list) and (chosen := fits.get(frozenset(map(str, names)))) is not None:
        made["enum"] = chosen
    if isinstance(made.get("discriminator"), dict):
        return _chosen(made, modes)
    return made


def _chosen(union: dict[str, Any], modes: list[str]) -> dict[str, Any]:
    """Return a union whose members a field tells apart, in the words of the dialect.

    ``discriminator`` is OpenAPI's; by ``oneOf`` alone an editor complains of every member.
    """
    tag, members = union.pop("discriminator"), union.pop("oneOf")
    name, mapping = tag["propertyName"], tag["mapping"]
    known = {m["$ref"] for m in members}
    values = [v for v in mapping if mapping[v] in known and (name != "mode" or v in modes)]
    return union | {
        "type": "object",
        "required": [name],
        "properties": {name: {"enum": values, "description": f"Which {name} it is."}},
        "allOf": [
            {
                "if": {"required": [name], "properties": {name: {"const": value}}},
                "then": {"$ref": mapping[value]},
            }
            for value in values
        ],
    }


def _platform(kind: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["platform"],
        "properties": {
            "platform": {
                "description": "Where the cluster lives.",
                "type": "object",
                "required": ["kind"],
                "properties": {"kind": kind},
            }
        },
    }
