"""Descriptions of models' fields, taken from their docstrings, so that each is written once.

A docstring describes a field in an ``Args:`` or ``Attributes:`` section, or in a sentence that
names the field in double backticks; a section of a stack is described by the first sentence of its
own docstring.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any, Literal, get_args, get_origin

from railhead.base import shapes


def field(model: Any, name: str) -> str:
    """Return the description of a field, from its model's docstring or its bases'; maybe empty."""
    for cls in model.__mro__:
        text = cls.__dict__.get("__doc__") or ""
        if description := _argument(text, name) or _sentences(text, name):
            return description
    annotation = model.model_fields[name].annotation
    if get_origin(annotation) is Literal and len(get_args(annotation)) == 1:
        return f"`{get_args(annotation)[0]}`: {summary(model)}"
    return ""


def summary(model: Any) -> str:
    """Return the first sentence of a model's docstring."""
    return _collapsed(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0])


def section(annotation: Any) -> str:
    """Return the summary of the model that a field holds, or holds many of; else empty."""
    at = shapes.bare(annotation)
    for inner in (at, *get_args(at)):
        model = shapes.bare(inner)
        if hasattr(model, "model_fields"):
            return summary(model)
    return ""


def _collapsed(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("``", "`").strip()


@functools.cache
def _argument(text: str, name: str) -> str:
    lines = inspect.cleandoc(text).splitlines()
    begin = next((n for n, line in enumerate(lines) if line in ("Args:", "Attributes:")), None)
    if begin is None:
        return ""
    parts: list[str] = []
    for line in lines[begin + 1 :]:
        entry = re.match(r"    (\w+): (.*)", line)
        if entry and parts:
            break
        if entry and entry[1] == name:
            parts.append(entry[2])
        elif parts and line.startswith("     "):
            parts.append(line)
        elif parts:
            break
    sentence = _collapsed(" ".join(parts))
    return f"{sentence[:1].upper()}{sentence[1:]}"


@functools.cache
def _sentences(text: str, name: str) -> str:
    prose = re.sub(r"\s+", " ", inspect.cleandoc(text).partition("\nArgs:\n")[0])
    sentences = re.split(r"(?<=\.) (?=[A-Z`~])", prose)
    mentions = [
        sentence for sentence in sentences if f"``{name}``" in sentence or f"``{name}:" in sentence
    ]
    return _collapsed(" ".join(mentions))
