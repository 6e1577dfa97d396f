"""A report as the JSON document that is sealed, and the one way in which it is written for that."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from railhead.accept.model import Report


def body(report: Report) -> dict[str, Any]:
    """Return the sealed document: the report as JSON, ``accepted`` first."""
    return {"accepted": report.accepted, **report.model_dump(mode="json")}


def canonical(value: Any) -> bytes:
    """Return a JSON value with its keys sorted, no blanks, in ASCII.

    Raises:
        ValueError: a number is infinite or none.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def sha256(value: Any) -> str:
    """Return the digest of a JSON value, in hexadecimal."""
    return hashlib.sha256(canonical(value)).hexdigest()


def digest(report: Report) -> str:
    """Return the digest of all that a report says, in hexadecimal."""
    return sha256(body(report))


def read(text: str) -> dict[str, Any]:
    """Return a JSON object, each key in it once: of two, readers take different ones.

    Raises:
        ValueError: it is not such a document.
    """
    try:
        result = json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(result, dict):
        raise ValueError("it is not an object")
    return result


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    results = dict(pairs)
    if len(results) != len(pairs):
        raise ValueError("a key is in it twice")
    return results
