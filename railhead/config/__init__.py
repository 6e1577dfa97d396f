"""A stack's typed configuration, read with or without Pulumi.

>>> from pathlib import Path
>>> from railhead.config import load
>>> load(Path("stacks/Pulumi.lab.yaml")).name  # doctest: +SKIP
'lab'
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from railhead.base.errors import InputError, choices
from railhead.base.mistakes import described
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
            described(model, details)
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
    return Cluster, [("platform.kind", f"{kind!r} is not known{choices(str(kind), PLATFORMS)}")]
