"""What a field of a model is, in the words of the docstrings: written once, for both readers.

A docstring says it in an ``Args:`` or ``Attributes:`` section, or in a sentence that names the
field in double backticks; a type says what it may be; a section is what its own docstring begins
with.
"""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any, Literal, get_args, get_origin

from railhead.base import shapes


def field(model: Any, name: str) -> str:
    """What the docstrings of a model and of those below it say of a field; empty for nothing."""
    for one in model.__mro__:
        text = one.__dict__.get("__doc__") or ""
        if found := _argument(text, name) or _sentences(text, name):
            return found
    annotation = model.model_fields[name].annotation
    if get_origin(annotation) is Literal and len(get_args(annotation)) == 1:
        return f"`{get_args(annotation)[0]}`: {summary(model)}"
    return ""


def summary(model: Any) -> str:
    """The first sentence of a model's docstring."""
    return _collapsed(inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0])


def section(annotation: Any) -> str:
    """What a section is that a field holds, or holds many of; empty for anything else."""
    at = shapes.bare(annotation)
    for inner in (at, *get_args(at)):
        one = shapes.bare(inner)
        if hasattr(one, "model_fields"):
            return summary(one)
    return ""


def _collapsed(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("``", "`").strip()


@functools.cache
def _argument(text: str, name: str) -> str:
    lines = inspect.cleandoc(text).splitlines()
    begin = next((n for n, line in enumerate(lines) if line in ("Args:", "Attributes:")), None)
    if begin is None:
        return ""
    found: list[str] = []
    for line in lines[begin + 1 :]:
        entry = re.match(r"    (\w+): (.*)", line)
        if entry and found:
            break
        if entry and entry[1] == name:
            found.append(entry[2])
        elif found and line.startswith("     "):
            found.append(line)
        elif found:
            break
    said = _collapsed(" ".join(found))
    return f"{said[:1].upper()}{said[1:]}"


@functools.cache
def _sentences(text: str, name: str) -> str:
    prose = re.sub(r"\s+", " ", inspect.cleandoc(text).partition("\nArgs:\n")[0])
    sentences = re.split(r"(?<=\.) (?=[A-Z`~])", prose)
    said = [one for one in sentences if f"``{name}``" in one or f"``{name}:" in one]
    return _collapsed(" ".join(said))
