"""A stack's typed configuration, read with or without Pulumi.

>>> from pathlib import Path
>>> from railhead.config import load
>>> load(Path("stacks/Pulumi.lab.yaml")).name  # doctest: +SKIP
'lab'
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from railhead.base.errors import InputError, did_you_mean
from railhead.base.sections import read
from railhead.config import site
from railhead.config.checks import problems
from railhead.model.cluster import Cluster
from railhead.platform.registry import PLATFORMS

PROJECT = "railhead"
KEY = "cluster"

__all__ = ["KEY", "PROJECT", "Cluster", "load", "parse"]


def load(path: Path) -> Cluster:
    """Read the cluster of a stack's file, ``Pulumi.<stack>.yaml``.

    Raises:
        InputError: the file cannot be read, or one line for each mistake in it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read: {error.strerror}",
            remedy="name a stack's file, such as stacks/Pulumi.lab.yaml",
        ) from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: not UTF-8 text: {error.reason}", remedy="save it as UTF-8"
        ) from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}: " if mark else ""
        reason = getattr(error, "problem", None) or "no YAML"
        raise InputError(f"{path}:{line} {reason}", remedy="correct the YAML") from None
    settings = data.get("config") if isinstance(data, dict) else None
    raw = settings.get(f"{PROJECT}:{KEY}") if isinstance(settings, dict) else None
    return parse(raw, where=str(path))


def parse(raw: Any, *, where: str) -> Cluster:
    """Check the value of ``railhead:cluster``; ``where`` names its file in messages.

    Raises:
        InputError: one line ``<where>: <path>: <what is wrong>`` for each mistake, all at once.
    """
    if raw is None:
        raise InputError(
            f"{where}: {PROJECT}:{KEY} is missing",
            remedy="describe the cluster under `config:`, as stacks/Pulumi.lab.yaml does",
        )
    model, found = _model(raw)
    cluster = None
    try:
        cluster = model.model_validate(raw)
    except ValidationError as error:
        found.extend(
            _described(model, details)
            for details in error.errors(include_url=False)
            # A list whose every element is malformed is called too short as well; it is not.
            if (details["type"] != "too_short" or not details["input"])
            # Which fields a platform and its pools have cannot be told while its kind is not known.
            and not (model is Cluster and _of_platform(details["loc"]))
        )
    known = read(model, raw) if cluster is None else cluster
    found.extend(problems(known))
    found.extend(site.problems(known))
    if cluster is None or found:
        lines = dict.fromkeys(
            f"{where}: {path}: {text}" if path else f"{where}: {text}" for path, text in found
        )
        raise InputError("\n".join(lines), remedy=f"edit {where}; nothing was changed")
    return cluster


def _of_platform(loc: tuple[int | str, ...]) -> bool:
    return len(loc) > 1 and loc[0] in ("platform", "pools")


def _model(raw: Any) -> tuple[type[Cluster], list[tuple[str, str]]]:
    """The model of the platform's clusters; what all share, and a mistake, where none is known."""
    platform = raw.get("platform") if isinstance(raw, dict) else None
    kind = platform.get("kind") if isinstance(platform, dict) else None
    if isinstance(kind, str) and kind in PLATFORMS:
        return PLATFORMS[kind].cluster, []
    if kind is None:
        return Cluster, [("platform.kind", "is missing")] if isinstance(platform, dict) else []
    listed = did_you_mean(str(kind), PLATFORMS) or f"; there are: {', '.join(PLATFORMS)}"
    return Cluster, [("platform.kind", f"{kind!r} is not known{listed}")]


def _described(model: type[Cluster], error: ErrorDetails) -> tuple[str, str]:
    kind, given = error["type"], error["input"]
    context = error.get("ctx", {})
    path = _path(model, error["loc"])
    if kind == "railhead":
        return path, error["msg"]
    if kind == "missing":
        return path, "is missing"
    if kind == "too_short":
        return path, "is empty; it needs at least 1"
    if kind == "extra_forbidden":
        fields = _fields(model, error["loc"][:-1])
        listed = did_you_mean(str(error["loc"][-1]), fields) or f"; there are: {', '.join(fields)}"
        return path, f"is not a field{listed}"
    if kind == "union_tag_invalid":
        tags = [tag.strip("' ") for tag in str(context["expected_tags"]).split(",")]
        given = context["tag"]
        listed = did_you_mean(given, tags) or f"; there are: {', '.join(tags)}"
        return f"{path}.{_discriminator(context)}", f"{given!r} is not known{listed}"
    if kind == "union_tag_not_found":
        return f"{path}.{_discriminator(context)}", "is missing"
    if kind == "literal_error":
        allowed = [
            part.strip("' ") for part in str(context["expected"]).replace(" or ", ", ").split(",")
        ]
        listed = did_you_mean(str(given), allowed) or f"; allowed: {', '.join(allowed)}"
        return path, f"{given!r} is not allowed{listed}"
    message = error["msg"][:1].lower() + error["msg"][1:]
    shown = (
        given
        if isinstance(given, (str, int, float, bool)) or given is None
        else type(given).__name__
    )
    return path, f"{shown!r}: {message}"


def _discriminator(context: dict[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")


def _path(model: type[Cluster], loc: tuple[int | str, ...]) -> str:
    text = ""
    for part in _without_tags(model, loc):
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _without_tags(model: type[Cluster], loc: tuple[int | str, ...]) -> Iterator[int | str]:
    """The location without the tags that pydantic adds for a discriminated union, and `[key]`."""
    at: Any = model
    for part in loc:
        nexts = _step(at, part)
        if nexts is not _TAG and part != "[key]":
            yield part
        at = _member(at, part) if nexts is _TAG else nexts


_TAG = object()


def _bare(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        arguments = [a for a in get_args(annotation) if a is not types.NoneType]
        if len(arguments) == 1:
            return _bare(arguments[0])
    return annotation


def _step(at: Any, part: int | str) -> Any:
    at = _bare(at)
    if get_origin(at) in (Union, types.UnionType):
        return _TAG
    if isinstance(part, int) and get_origin(at) is tuple:
        return get_args(at)[0]
    if isinstance(at, type) and issubclass(at, BaseModel) and part in at.model_fields:
        return at.model_fields[str(part)].annotation
    return None


def _member(union: Any, tag: int | str) -> Any:
    for member in get_args(_bare(union)):
        for field in getattr(member, "model_fields", {}).values():
            if get_origin(field.annotation) is Literal and tag in get_args(field.annotation):
                return member
    return None


def _fields(model: type[Cluster], loc: tuple[int | str, ...]) -> list[str]:
    at: Any = model
    for part in loc:
        following = _step(at, part)
        at = _member(at, part) if following is _TAG else following
    at = _bare(at)
    return list(at.model_fields) if isinstance(at, type) and issubclass(at, BaseModel) else []
