"""JSON Schema of a job file, for editors: completion, types and patterns.

It lets through whatever `railhead launch` reads, and says what each field is. What only a cluster
can say (its runtimes, its queues) it cannot.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from railhead.base import described
from railhead.launch.job import CheckpointFile, JobFile, RoleFile, SizingFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TITLE = "A Railhead job"
#: The schema's own name beside job files, which name it in their first line.
NAME = "job.schema.json"
#: Where the one of a checkout lies.
FILE = f"examples/{NAME}"
SECTIONS: dict[str, type[BaseModel]] = {"checkpoint": CheckpointFile, "sizing": SizingFile}
# yaml-language-server takes a path relative to the file that names it.
MODELINE = f"# yaml-language-server: $schema={NAME}"


def text() -> str:
    """Return the schema as its file has it."""
    return json.dumps(job_schema(), indent=1) + "\n"


def job_schema() -> dict[str, Any]:
    """Return the schema of a job file as a JSON object."""
    made = JobFile.model_json_schema()
    defined = made.pop("$defs")
    optional = tuple(n for n, field in JobFile.model_fields.items() if not field.is_required())
    job = _of(JobFile, made, nullable=optional)
    for name, section in SECTIONS.items():
        empty = tuple(n for n, field in section.model_fields.items() if field.default is None)
        job["properties"][name] = _of(section, defined[section.__name__], nullable=empty) | {
            "type": ["object", "null"],
            "description": described.field(JobFile, name),
        }
    roles = job["properties"]["roles"]["patternProperties"]
    for pattern in roles:
        roles[pattern] = _of(RoleFile, defined["RoleFile"], nullable=_UNSET)
    return {"$schema": DIALECT, "title": TITLE} | {
        key: value for key, value in job.items() if key != "title"
    }


_UNSET = tuple(name for name, field in RoleFile.model_fields.items() if field.default is None)


def _of(model: type[BaseModel], made: dict[str, Any], nullable: tuple[str, ...]) -> dict[str, Any]:
    """Return a model's schema with what its docstring says of each field."""
    properties = {}
    for name, held in made["properties"].items():
        plain = _plain(held, null=name in nullable)
        properties[name] = {"description": described.field(model, name)} | plain
    return made | {"description": described.summary(model), "properties": properties}


def _plain(held: dict[str, Any], *, null: bool) -> dict[str, Any]:
    """Return one branch in place of one or null, so that an editor names the one broken rule."""
    results = {
        key: value for key, value in held.items() if key not in ("title", "default", "anyOf")
    }
    for branch in held.get("anyOf", ()):
        if branch.get("type") != "null":
            results |= branch
    kinds = results.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    # A field without a value was left out.
    if null and kinds:
        results["type"] = [*kinds, "null"]
        if "enum" in results:
            results["enum"] = [*(item for item in results["enum"] if item is not None), None]
    if "patternProperties" in results:
        # Names that fit no pattern are not names of variables or paths.
        results["additionalProperties"] = False
    return results
