"""JSON Schema of a stack's file, for editors: completion, types and names of the catalogue.

It says what each field may be. What spans several fields (`railhead config check`) it cannot say.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from railhead.config import KEY, PROJECT
from railhead.platform.registry import PLATFORMS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def stack_schema() -> dict[str, Any]:
    """The schema of a file ``Pulumi.<stack>.yaml`` as a JSON object.

    Other keys of Pulumi's own are let through; other configuration keys as well.
    """
    references, defined = models_json_schema(
        [(platform.cluster, "validation") for platform in PLATFORMS.values()],
        title="A Railhead stack",
        ref_template="#/$defs/{model}",
    )
    kinds = list(PLATFORMS)
    # One branch a platform, chosen by its kind: an editor then complains of the field that is
    # wrong, not of every platform that the file is not.
    branches = [
        {
            "if": _platform({"const": kind}),
            "then": references[platform.cluster, "validation"],
        }
        for kind, platform in PLATFORMS.items()
    ]
    return {
        "$schema": DIALECT,
        "title": "A Railhead stack",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [f"{PROJECT}:{KEY}"],
                "properties": {
                    f"{PROJECT}:{KEY}": _platform({"enum": kinds}) | {"allOf": branches}
                },
            },
            "encryptionsalt": {"type": "string"},
            "secretsprovider": {"type": "string"},
            "encryptedkey": {"type": "string"},
        },
        "$defs": defined["$defs"],
    }


def _platform(kind: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["platform"],
        "properties": {
            "platform": {"type": "object", "required": ["kind"], "properties": {"kind": kind}}
        },
    }
