"""Published CRDs as strict JSON schemas: what the API server would refuse, they refuse."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml


def strict(schema: Any) -> Any:
    """A structural schema in which an unknown field is an error, as in strict validation."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    result = {
        key: {name: strict(value) for name, value in inner.items()}
        if key == "properties"
        else strict(inner)
        for key, inner in schema.items()
        if key not in ("description", "default", "format") and not key.startswith("x-kubernetes")
    }
    known = "properties" in schema and "additionalProperties" not in schema
    if known and not schema.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    return result


def schema_of(path: Path, version: str) -> Any:
    """The strict schema of one version in a CRD's file; metadata is free, as in the API server."""
    crd = yaml.safe_load(path.read_text())
    for entry in crd["spec"]["versions"]:
        if entry["name"] == version:
            schema = strict(entry["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            return schema
    raise AssertionError(f"{path} has no version {version}")


def module_file(module: str, name: str) -> Path:
    """A file of a Go module in this machine's module cache; skips where it is not there."""
    cache = Path(
        os.environ.get("GOMODCACHE")
        or Path(os.environ.get("GOPATH") or Path.home() / "go") / "pkg/mod"
    )
    path = cache / module / name
    if not path.is_file():
        pytest.skip(f"{module} is not in this machine's Go module cache")
    return path


def check(schema: Any, value: Any) -> list[str]:
    """What is wrong with an object; empty when nothing is."""
    validator = jsonschema.Draft202012Validator(schema)
    return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(value)]
