"""Schema of the Pulumi package, generated from the models of a stack's file.

Pulumi has no unions of objects: where a field takes one of several sections, chosen by ``kind`` or
the like, the type has the fields of all of them, and requires those that all require. The provider
checks the section as `railhead config check` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from railhead import __version__
from railhead.platform.registry import PLATFORMS

PACKAGE = "railhead"
COMPONENT = f"{PACKAGE}:index:TrainingCluster"
#: The component's one input.
INPUT = "cluster"
ANY = {"$ref": "pulumi.json#/Any"}
_SCALARS = ("string", "integer", "number", "boolean")
Spec = dict[str, Any]


def text() -> str:
    """Return the schema as the engine takes it."""
    return json.dumps(package_schema())


def package_schema() -> Spec:
    """Return the schema of the package as a JSON object."""
    types = _Types()
    for platform in PLATFORMS.values():
        made = platform.cluster.model_json_schema()
        types.add("Cluster", [made], made["$defs"])
    description = "A GPU training cluster, from fabric to launcher."
    return {
        "name": PACKAGE,
        "version": __version__,
        "displayName": "Railhead",
        "description": description,
        "license": "Apache-2.0",
        "keywords": ["category/infrastructure", "kind/component"],
        "resources": {
            COMPONENT: {
                "isComponent": True,
                "description": description,
                "inputProperties": {
                    INPUT: {
                        **_ref("Cluster"),
                        "plain": True,
                        "description": "The cluster, as docs/stack.md describes it.",
                    }
                },
                "requiredInputs": [INPUT],
                "properties": {
                    "contract": {
                        **ANY,
                        "description": "What the cluster tells its users (docs/contract.md).",
                    },
                    "details": {
                        "type": "object",
                        "additionalProperties": {"type": "string"},
                        "description": "The platform's identifiers, such as `vpc_id`.",
                    },
                    "kubeconfig": {
                        "type": "string",
                        "secret": True,
                        "description": "Of a cluster that the stack made.",
                    },
                },
                "required": ["contract", "details"],
            }
        },
        "types": {f"{PACKAGE}:index:{name}": spec for name, spec in sorted(types.made.items())},
    }


def _ref(name: str) -> Spec:
    return {"$ref": f"#/types/{PACKAGE}:index:{name}"}


class _Types:
    """Pulumi's types by name, of JSON Schemas that have some names in common."""

    def __init__(self) -> None:
        self.made: dict[str, Spec] = {}

    def add(self, name: str, branches: list[Mapping[str, Any]], known: Mapping[str, Any]) -> Spec:
        """Let a type have the fields of all branches too; return a reference to it.

        Args:
            name: the type's.
            branches: schemas of objects.
            known: schemas by the names that they refer to.
        """
        required = set.intersection(*(set(b.get("required", ())) for b in branches))
        first = name not in self.made
        made = self.made.setdefault(name, {"type": "object", "properties": {}})
        if not first:
            required &= set(made.get("required", ()))
        made["required"] = sorted(required)
        if len(branches) == 1 and branches[0].get("title") == name:
            made["description"] = branches[0].get("description", "")
        fields = dict.fromkeys(field for b in branches for field in b.get("properties", {}))
        for field in fields:
            held = [b["properties"][field] for b in branches if field in b.get("properties", {})]
            spec = self.spec(f"{name}{_camel(field)}", {"anyOf": held}, known)
            there = made["properties"].get(field)
            made["properties"][field] = spec if there in (None, spec) else _both(there, spec)
        return _ref(name)

    def spec(self, name: str, held: Any, known: Mapping[str, Any]) -> Spec:
        """Return Pulumi's words for a JSON Schema; ``name`` is for a union that it holds."""
        branches = [
            branch
            for branch in self._resolved(held, known)
            if branch.get("type") != "null" and branch.get("const", "") is not None
        ]
        if branches and all("properties" in branch for branch in branches):
            titles = {_common(branch["title"]) for branch in branches}
            return self.add(titles.pop() if len(titles) == 1 else name, branches, known)
        if branches and all(b.get("type") == "array" and "items" in b for b in branches):
            items = {"anyOf": [branch["items"] for branch in branches]}
            return {"type": "array", "items": self.spec(name, items, known)}
        specs: list[Spec] = []
        for branch in branches:
            spec = self._plain(name, branch, known)
            if spec not in specs:
                specs.append(spec)
        if len(specs) == 1:
            return specs[0]
        if specs and all(spec.get("type") in _SCALARS for spec in specs):
            return {"oneOf": specs}
        return ANY

    def _resolved(self, held: Any, known: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the branches of a schema, without references."""
        if not isinstance(held, Mapping):
            return [{}]
        if reference := held.get("$ref"):
            return self._resolved(known[reference.rsplit("/", 1)[-1]], known)
        union = held.get("anyOf") or held.get("oneOf")
        if union:
            return [row for branch in union for row in self._resolved(branch, known)]
        return [held]

    def _plain(self, name: str, held: Mapping[str, Any], known: Mapping[str, Any]) -> Spec:
        kind = held.get("type")
        if kind is None and (values := held.get("enum") or [held.get("const")]):
            kind = {str: "string", bool: "boolean", int: "integer"}.get(type(values[0]))
        if kind in _SCALARS:
            return {"type": kind}
        patterns = list(held.get("patternProperties", {}).values())
        values = held.get("additionalProperties") or ({"anyOf": patterns} if patterns else None)
        if kind == "object" and isinstance(values, Mapping):
            return {"type": "object", "additionalProperties": self.spec(name, values, known)}
        return ANY


def _both(one: Spec, other: Spec) -> Spec:
    """Return what takes the values of both."""
    specs = [*one.get("oneOf", [one])]
    specs += [spec for spec in other.get("oneOf", [other]) if spec not in specs]
    if all(spec.get("type") in _SCALARS for spec in specs):
        return specs[0] if len(specs) == 1 else {"oneOf": specs}
    return ANY


def _common(title: str) -> str:
    """Return the name of a model without its platform's: every platform has pools, say."""
    kinds = [kind.capitalize() for kind in PLATFORMS if title.startswith(kind.capitalize())]
    return title.removeprefix(kinds[0]) if kinds and title not in kinds else title


def _camel(field: str) -> str:
    return "".join(part.capitalize() for part in field.split("_"))
