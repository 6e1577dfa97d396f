"""Google's discovery documents as a judge: what of a request its API would not take.

They state types, formats, enumerations, patterns, fields that only the service writes, and in prose
some limits; all of that is checked. See docs/gcp.md for what they do not state.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

_INT32 = range(-(2**31), 2**31)
_DURATION = re.compile(r"\d+(\.\d{1,9})?s")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_RANGE = re.compile(r"minimum value for this field is (\d+) and the maximum value is (\d+)")
_BETWEEN = re.compile(r"Allowed values are between (\d+) and (\d+)")
_VALUES = re.compile(r"Valid values are (\d+(?:, \d+)+)")
_LENGTHS = re.compile(r"must be (\d+)-(\d+) characters long")
_LONGEST = (
    re.compile(r"up to (\d+) characters"),
    re.compile(r"(\d+) characters or (?:less|fewer)"),
)
_EXPRESSION = re.compile(r"match the regular expression `([^`]+)`")


@functools.cache
def document(name: str) -> Mapping[str, Any]:
    """Return a discovery document of google-api-python-client, such as ``container.v1``."""
    folder = resources.files("googleapiclient") / "discovery_cache" / "documents"
    result: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return result


def violations(api: str, schema: str, value: Any, *, method: str = "") -> list[str]:
    """Return what ``api`` would refuse in ``value``, a request of ``schema``; each names its path.

    ``method``, such as ``compute.networks.insert``, adds the fields that it requires.
    """
    return list(_object(api, document(api)["schemas"][schema], value, schema, method))


def _object(
    api: str, schema: Mapping[str, Any], value: Any, path: str, method: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties")
    for name, this in value.items():
        if name in properties:
            yield from _value(api, properties[name], this, f"{path}.{name}", method)
        elif more is not None:
            yield from _value(api, more, this, f"{path}[{name}]", method)
        else:
            yield f"{path}.{name}: no such field"
    for name, field in properties.items():
        stated = method and method in field.get("annotations", {}).get("required", ())
        if name not in value and (stated or field.get("description", "").startswith("Required.")):
            yield f"{path}.{name}: is required"


def _value(api: str, field: Mapping[str, Any], value: Any, path: str, method: str) -> Iterator[str]:
    text = " ".join(field.get("description", "").split())
    if field.get("readOnly") or text.startswith(("Output only", "[Output Only]")):
        yield f"{path}: only the service writes it"
    elif "$ref" in field:
        yield from _object(api, document(api)["schemas"][field["$ref"]], value, path, method)
    elif field.get("type") == "array":
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no list"
        else:
            for index, item in enumerate(value):
                # A list's values are described with the list.
                items = {"description": text} | field["items"]
                yield from _value(api, items, item, f"{path}[{index}]", method)
    elif field.get("type") == "object":
        yield from _object(api, field, value, path, method)
    else:
        yield from _scalar(field, value, path, text)


def _scalar(field: Mapping[str, Any], value: Any, path: str, text: str) -> Iterator[str]:
    kind, form = field.get("type"), field.get("format", "")
    if kind == "boolean":
        if not isinstance(value, bool):
            yield f"{path}: {value!r} is no boolean"
        return
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool) or value not in _INT32:
            yield f"{path}: {value!r} is no integer of 32 bits"
            return
        yield from _number(value, path, text)
        return
    if kind == "string" and not isinstance(value, str):
        yield f"{path}: {value!r} is no text"
        return
    if form in ("int64", "uint64"):
        if not re.fullmatch(r"\d+", value):
            yield f"{path}: {value!r} is no integer of 64 bits as text"
        else:
            yield from _number(int(value), path, text)
    elif form == "google-duration" and not _DURATION.fullmatch(value):
        yield f"{path}: {value!r} is no duration, such as '60s'"
    elif form in ("google-datetime", "date-time") and not _DATE_TIME.fullmatch(value):
        yield f"{path}: {value!r} is no time of RFC 3339"
    elif "enum" in field:
        if value not in field["enum"] or "UNSPECIFIED" in value:
            yield f"{path}: {value!r} is not one of {field['enum']}"
    else:
        yield from _text(field, value, path, text)


def _number(value: int, path: str, text: str) -> Iterator[str]:
    for pattern in (_RANGE, _BETWEEN):
        if (match := pattern.search(text)) and not int(match[1]) <= value <= int(match[2]):
            yield f"{path}: {value} is not from {match[1]} to {match[2]}"
    if (match := _VALUES.search(text)) and str(value) not in match[1].split(", "):
        yield f"{path}: {value} is not one of {match[1]}"


def _text(field: Mapping[str, Any], value: str, path: str, text: str) -> Iterator[str]:
    pattern = field.get("pattern")
    if not pattern and (stated := _EXPRESSION.search(text)):
        pattern = stated[1]
    if pattern and not re.fullmatch(pattern, value):
        yield f"{path}: {value!r} does not match {pattern}"
    if (match := _LENGTHS.search(text)) and not int(match[1]) <= len(value) <= int(match[2]):
        yield f"{path}: {value!r} has not {match[1]} to {match[2]} characters"
    for longest in _LONGEST:
        if (match := longest.search(text)) and len(value) > int(match[1]):
            yield f"{path}: {value!r} has more than {match[1]} characters"
