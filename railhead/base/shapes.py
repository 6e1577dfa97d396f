"""Models' annotations: which member of a union, and what is below a field."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def bare(annotation: Any) -> Any:
    """An annotation without what is said beside the type, and without None."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = union(annotation)
    return bare(members[0]) if len(members) == 1 else annotation


def union(annotation: Any) -> tuple[Any, ...]:
    """The members of a union but None; none of anything else."""
    if get_origin(annotation) not in (Union, types.UnionType):
        return ()
    return tuple(a for a in get_args(annotation) if a is not types.NoneType)


def tags(model: Any) -> dict[str, tuple[Any, ...]]:
    """The fields of a model that tell it from others of its union, each with its values."""
    return {
        name: get_args(field.annotation)
        for name, field in getattr(model, "model_fields", {}).items()
        if field.is_required() and get_origin(field.annotation) is Literal
    }


def member(members: Iterable[Any], raw: Mapping[str, Any]) -> Any:
    """The member of a discriminated union that ``raw`` says it is; None where it says none."""
    listed = list(members)
    shared = set.intersection(*(set(tags(m)) for m in listed))
    for one in listed:
        if any(raw.get(tag) in tags(one)[tag] for tag in shared):
            return one
    return None


def below(annotation: Any, part: int | str) -> Any:
    """What a part of a location leads to: a field's, an element's, a value's or a tag's."""
    at = bare(annotation)
    origin, arguments = get_origin(at), get_args(at)
    if origin in (tuple, list) and isinstance(part, int):
        return arguments[0]
    if origin is dict:
        return arguments[1]
    if hasattr(at, "model_fields") and part in at.model_fields:
        return at.model_fields[str(part)].annotation
    for one in union(at):
        if any(part in values for values in tags(one).values()):
            return one
    return None
