"""IAM documents as JSON text: what they allow, and whom."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

# Who may do one of these on anything can grant himself the rest (AWS, IAM user guide, "Permissions
# required to administer IAM"; Service Authorization Reference, "Permissions management").
_GIVES_THE_REST = (
    "iam:attachgrouppolicy",
    "iam:attachrolepolicy",
    "iam:attachuserpolicy",
    "iam:createaccesskey",
    "iam:createpolicyversion",
    "iam:passrole",
    "iam:putgrouppolicy",
    "iam:putrolepolicy",
    "iam:putuserpolicy",
    "iam:setdefaultpolicyversion",
    "iam:updateassumerolepolicy",
)


def rows(text: Any, key: str) -> list[Mapping[str, Any]]:
    """Return the objects below a key of a JSON text; IAM accepts an object as a list of one."""
    try:
        result = json.loads(text).get(key, []) if isinstance(text, str) else []
    except (ValueError, AttributeError):
        return []
    return [item for item in _several(result) if isinstance(item, Mapping)]


def allowed(text: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield each statement that allows something, with its place."""
    for index, row in enumerate(rows(text, "Statement")):
        if row.get("Effect") == "Allow":
            yield index, row


def everything(statement: Mapping[str, Any]) -> bool:
    """Return whether it allows everything on everything, directly or by rights it can grant."""
    if not (star(statement.get("Resource")) or "NotResource" in statement):
        return False
    if "NotAction" in statement or star(statement.get("Action")):
        return True
    patterns = [str(item).lower() for item in _several(statement.get("Action"))]
    return not statement.get("Condition") and any(
        fnmatchcase(name, pattern) for name in _GIVES_THE_REST for pattern in patterns
    )


def service(statement: Mapping[str, Any]) -> str:
    """Return the first action that is all of a service, such as ``s3:*``; empty without."""
    actions = (str(item) for item in _several(statement.get("Action")))
    # A key's own policy begins with the account's right to it (AWS, KMS, "Default key policy").
    return next((a for a in actions if a.endswith(":*") and not a.startswith("kms:")), "")


def anybody(statement: Mapping[str, Any]) -> bool:
    """Return whether it holds for everyone, without a condition."""
    who = statement.get("Principal")
    named = who.values() if isinstance(who, Mapping) else [who]
    everyone = "NotPrincipal" in statement or any(map(star, named))
    return everyone and not _narrows(statement.get("Condition"))


def _narrows(condition: Any) -> bool:
    """Return whether a condition keeps anyone out: everyone can use TLS."""
    tests = condition.values() if isinstance(condition, Mapping) else ()
    keys = [str(key).lower() for test in tests if isinstance(test, Mapping) for key in test]
    return any(key != "aws:securetransport" for key in keys)


def star(value: Any) -> bool:
    """Return whether a value, or one of a list, stands for everything."""
    return any(isinstance(item, str) and item and not item.strip("*:/") for item in _several(value))


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
