"""Pydantic's errors about a file in plain words: the path, the value, what is allowed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from railhead.base import shapes
from railhead.base.errors import choices, did_you_mean

Location = tuple[int | str, ...]


def described(model: type[BaseModel], error: ErrorDetails) -> tuple[str, str]:
    """Return the path of one mistake, such as ``pools[1].name``, and what is wrong there."""
    kind, given, context = error["type"], error["input"], error.get("ctx", {})
    path = path_of(model, error["loc"])
    if kind == "railhead":
        return path, error["msg"]
    if kind == "missing":
        return path, "is missing"
    if kind == "too_short":
        return path, "is empty; it needs at least 1"
    if kind == "extra_forbidden":
        return path, f"is not a field{choices(str(error['loc'][-1]), _siblings(model, error))}"
    if kind == "union_tag_invalid":
        tag = context["tag"]
        listed = choices(tag, _words(context["expected_tags"]))
        return f"{path}.{_discriminator(context)}", f"{tag!r} is not known{listed}"
    if kind == "union_tag_not_found":
        return f"{path}.{_discriminator(context)}", "is missing"
    if kind == "literal_error":
        listed = choices(str(given), _words(context["expected"]), "allowed")
        return path, f"{given!r} is not allowed{listed}"
    message = error["msg"][:1].lower() + error["msg"][1:]
    plain = isinstance(given, (str, int, float, bool)) or given is None
    return path, f"{given if plain else type(given).__name__!r}: {message}"


def told_by_rule(
    model: type[BaseModel], error: ErrorDetails, rules: Mapping[str, str]
) -> tuple[str, str]:
    """Return the same for a short file in which every field has a rule that says what is allowed.

    Values below a field are text, unless their path has a rule too; a validator's ValueError says
    what else is allowed.
    """
    kind, given, loc = error["type"], error["input"], error["loc"]
    path, inner = path_of(model, loc), len(loc) > 1
    if kind == "extra_forbidden":
        fields = _siblings(model, error)
        near = did_you_mean(str(loc[-1]), fields)
        return path, f"no such field{near}; fields: {', '.join(fields)}"
    known = rules.get(path) or ("text" if inner else rules[str(loc[0])])
    rule = str(error.get("ctx", {}).get("error") or known)
    if kind == "missing":
        return path, f"missing; allowed: {rule}"
    if given is None:
        empty = ' (write "" for an empty text)' if inner else ""
        return path, f"no value{empty}; allowed: {rule}"
    return path, f"{shown(given)} is not allowed; allowed: {rule}"


def shown(value: object) -> str:
    """Return a value in one line of bounded length, lists and objects as YAML has them."""
    several = isinstance(value, (list, tuple, dict))
    text = json.dumps(value, ensure_ascii=False, default=str) if several else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def path_of(model: type[BaseModel], loc: Location) -> str:
    """Return a location as people write it: without the tags of unions, and ``[key]``."""
    text = ""
    for part in _without_tags(model, loc):
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _without_tags(model: type[BaseModel], loc: Location) -> Iterator[int | str]:
    at: Any = model
    for part in loc:
        if part != "[key]" and not shapes.union(shapes.bare(at)):
            yield part
        at = shapes.below(at, part)


def _siblings(model: type[BaseModel], error: ErrorDetails) -> list[str]:
    at: Any = model
    for part in error["loc"][:-1]:
        at = shapes.below(at, part)
    return list(getattr(shapes.bare(at), "model_fields", ()))


def _discriminator(context: Mapping[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")


def _words(quoted: object) -> list[str]:
    """Return the words of pydantic's ``'a', 'b' or 'c'``."""
    return [part.strip("' ") for part in str(quoted).replace(" or ", ", ").split(",")]
