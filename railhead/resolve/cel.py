"""Parts of admission policies: values in CEL, whose escapes are JSON's, and what is matched."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from railhead.base.names import TRAINING_LABEL


def strings(values: Sequence[str]) -> str:
    """Return a CEL list of strings."""
    return json.dumps(list(values))


def string(value: str) -> str:
    """Return a CEL string."""
    return json.dumps(value)


def written_out(expression: str, variables: Sequence[Mapping[str, str]]) -> str:
    """Return an expression with the policy's variables put in, for rules on several templates."""
    known: dict[str, str] = {}
    for row in variables:
        known[row["name"]] = _put_in(row["expression"], known)
    return _put_in(expression, known)


def _put_in(expression: str, known: Mapping[str, str]) -> str:
    return re.sub(
        r"variables\.(\w+)",
        lambda found: f"({known[found[1]]})" if found[1] in known else found[0],
        expression,
    )


def validations(rules: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return validations of (expression, message): a request for which one is false gets a 403."""
    return [
        {"expression": expression, "message": message, "reason": "Forbidden"}
        for expression, message in rules
    ]


def in_training(
    groups: Mapping[str, Iterable[str]], *operations: str, version: str = "*"
) -> dict[str, Any]:
    """Return the constraints on a policy: API group -> resources, in training namespaces."""
    return {
        "namespaceSelector": {"matchLabels": {TRAINING_LABEL: "true"}},
        "resourceRules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "operations": list(operations),
                "resources": list(resources),
            }
            for group, resources in groups.items()
        ],
    }
