"""JSON Schema of a published contract, for programs in any language.

It describes the contract as a stack exports it. A newer stack of the same ``schema_version`` may
have more fields, so none is forbidden, and an older one may lack those that have a default.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

import railhead.contract as models
from railhead.base import described
from railhead.contract import ClusterContract

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Where the schema of a checkout lies.
FILE = "docs/contract.schema.json"


def text() -> str:
    """Return the schema as its file has it."""
    return json.dumps(contract_schema(), indent=1) + "\n"


def contract_schema() -> dict[str, Any]:
    """Return the schema of a contract as a JSON object."""
    made = ClusterContract.model_json_schema(mode="serialization")
    for name, part in [(ClusterContract.__name__, made), *made["$defs"].items()]:
        model: type[BaseModel] = getattr(models, name)
        part["description"] = described.summary(model)
        part.pop("title", None)
        for field, held in part.get("properties", {}).items():
            held.pop("title", None)
            if description := described.field(model, field):
                held["description"] = description
    return {"$schema": DIALECT, "title": "A Railhead contract", **made}
