"""Reader of typed sections: the well-formed parts of a stack's file, as the models' own types.

The models report malformed values. Checks that span several fields read models made of all that is
well-formed (:func:`read`), so that one run reports mistakes of both kinds. To read a malformed
value raises :class:`MalformedError`; :func:`told` then ends that one check with what it has
reported so far, so that no check ever judges an unknown value.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import (
    Annotated,
    Any,
    NoReturn,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
)

from pydantic import BaseModel, TypeAdapter, ValidationError

from railhead.base import shapes
from railhead.base.fields import MalformedError

Problem = tuple[str, str]
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
K = TypeVar("K")
P = ParamSpec("P")


class _Malformed:
    """The placeholder of a malformed value in a list or mapping; every use of it raises."""

    def _raise(self, *_: object) -> NoReturn:
        raise MalformedError("it is malformed")

    __getattr__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = _raise
    __str__ = __repr__ = __format__ = __lt__ = __le__ = __gt__ = __ge__ = _raise
    # For isinstance().
    __class__ = property(_raise)


def told(check: Callable[P, Iterator[T]], *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
    """Yield a check's problems, up to the point where it reads something malformed."""
    with contextlib.suppress(MalformedError):
        yield from check(*args, **kwargs)


def known(value: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return the value, or None when it is malformed."""
    try:
        return value(*args, **kwargs)
    except MalformedError:
        return None


def each(rows: Iterable[T], path: str) -> Iterator[tuple[str, T]]:
    """Yield the rows of a list, each with its path, such as ``pools[1]``."""
    return ((f"{path}[{index}]", row) for index, row in enumerate(rows))


def knowing(rows: Iterable[T], path: str, value: Callable[[T], K]) -> Iterator[tuple[str, T, K]]:
    """Yield the rows whose ``value`` can be read, each with its path and that value."""
    for where, row in each(rows, path):
        with contextlib.suppress(MalformedError):
            yield where, row, value(row)


def told_each(
    checks: Iterable[Callable[[str, T], Iterator[Problem]]], rows: Iterable[T], path: str
) -> Iterator[Problem]:
    """Yield the problems of each row of a list; each check also receives the row's path."""
    for where, row in each(rows, path):
        for check in checks:
            yield from told(check, where, row)


def taken(rows: Iterable[T], path: str, name: Callable[[T], tuple[str, ...]]) -> Iterator[Problem]:
    """Yield a problem for each row whose name, with its scope, an earlier row has."""
    seen: dict[tuple[str, ...], str] = {}
    for where, _, this in knowing(rows, path, name):
        if seen.setdefault(this, where) != where:
            yield f"{where}.name", f"{this[-1]!r} is taken by {seen[this]}"


def twice(given: Iterable[str], path: str) -> Iterator[Problem]:
    """Yield a problem for each text that a list repeats."""
    seen: dict[str, str] = {}
    for where, _, text in knowing(given, path, str):
        if seen.setdefault(text, where) != where:
            yield where, f"{text!r} is there twice"


def read(model: type[M], raw: Any) -> M:
    """Return a section's model made of the well-formed parts of ``raw``, which may be anything."""
    try:
        return model.model_validate(raw)
    except ValidationError:
        return _section(model, raw if isinstance(raw, Mapping) else None)


def _section(model: type[M], raw: Mapping[str, Any] | None) -> M:
    known, malformed = {}, set(model.model_fields if raw is None else ())
    for name in model.model_fields:
        if raw is not None and name in raw:
            annotation, adapter = _field(model, name)
            value = _value(annotation, adapter, raw[name])
            if isinstance(value, _Malformed):
                malformed.add(name)
            else:
                known[name] = value
    section = model.model_construct(**known)
    for name in malformed:
        # The default does not count either: the file says something else.
        section.__dict__.pop(name, None)
    return section


@functools.cache
def _field(model: type[BaseModel], name: str) -> tuple[Any, TypeAdapter[Any]]:
    field = model.model_fields[name]
    annotation = Annotated[field.annotation, field]  # type: ignore[name-defined]
    return annotation, TypeAdapter(annotation)


def _value(annotation: Any, adapter: TypeAdapter[Any] | None, raw: Any) -> Any:
    try:
        return (adapter or TypeAdapter(annotation)).validate_python(raw)
    except ValidationError:
        return _parts(shapes.bare(annotation), raw)


def _parts(annotation: Any, raw: Any) -> Any:
    """Return the well-formed parts of a value that as a whole is malformed."""
    if members := shapes.union(annotation):
        annotation = shapes.member(members, raw) if isinstance(raw, Mapping) else None
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(raw, Mapping) and isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            return _section(annotation, raw)
    elif isinstance(raw, Mapping) and origin is dict and all(isinstance(key, str) for key in raw):
        return {key: _value(arguments[1], None, value) for key, value in raw.items()}
    elif isinstance(raw, list) and origin is tuple:
        return tuple(_value(arguments[0], None, value) for value in raw)
    return _Malformed()
