"""Shapes of models' annotations: the member of a union, the types below a field."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def bare(annotation: Any) -> Any:
    """Return an annotation's type, without its metadata and without None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = union(annotation)
    return bare(members[0]) if len(members) == 1 else annotation


def union(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union except None; empty for any other annotation."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return ()
    return tuple(a for a in get_args(annotation) if a is not types.NoneType)


def tags(model: Any) -> dict[str, tuple[Any, ...]]:
    """Return the fields that tag a model in its union, each with its values."""
    return {
        name: get_args(field.annotation)
        for name, field in getattr(model, "model_fields", {}).items()
        if field.is_required() and get_origin(field.annotation) is Literal
    }


def member(members: Iterable[Any], raw: Mapping[str, Any]) -> Any:
    """Return the member of a discriminated union that ``raw`` names, or None."""
    listed = list(members)
    shared = set.intersection(*(set(tags(m)) for m in listed))
    for candidate in listed:
        if any(raw.get(tag) in tags(candidate)[tag] for tag in shared):
            return candidate
    return None


def below(annotation: Any, part: int | str) -> Any:
    """Return the type that one part of a location leads to: of a field, element, value or tag."""
    at = bare(annotation)
    origin, arguments = get_origin(at), get_args(at)
    if origin in (tuple, list) and isinstance(part, int):
        return arguments[0]
    if origin is dict:
        return arguments[1]
    if hasattr(at, "model_fields") and part in at.model_fields:
        return at.model_fields[str(part)].annotation
    for candidate in union(at):
        if any(part in values for values in tags(candidate).values()):
            return candidate
    return None
